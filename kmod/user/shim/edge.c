// SPDX-License-Identifier: GPL-2.0-or-later
/* The rest of quarters of which a write has a part. */
#include "edge.h"
#include "user_int.h"

bool tdu_next_rest(struct tdu_engine *s, const struct tdu_request *q, u32 *cursor,
		   u64 *sector, u32 *count)
{
	return td_next_rest(&s->e, &q->r, cursor, sector, count);
}

u32 tdu_rest_read(struct tdu_engine *s, struct tdu_request *q, bool ok,
		  struct tdu_list *list)
{
	struct td_list woken;
	u32 actions;

	td_list_init(&woken);
	actions = td_rest_read(&s->e, &q->r, ok, &woken);
	tdu_report_woken(&woken, list);
	return actions;
}
