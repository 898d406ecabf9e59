// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Watched places for callers whose sectors are numbers, not bytes: such a caller says
 * which places a file system has, and makes the checksums.
 */
#include "user_int.h"

u64 tdu_summing(const struct tdu_request *q)
{
	return q->r.summing;
}

u32 tdu_summed(struct tdu_engine *s, struct tdu_request *q, u32 mask,
	       const u32 *sums, struct tdu_list *list)
{
	struct td_sums given;
	struct td_list woken;
	u32 actions;

	td_list_init(&woken);
	td_sums_begin(&s->e, &q->r, &given);
	given.mask = mask;
	memcpy(given.sum, sums, sizeof(given.sum));
	actions = td_summed(&s->e, &q->r, &given, &woken);
	tdu_report_woken(&woken, list);
	return actions;
}

void tdu_watch_resume(struct tdu_engine *s, const struct td_samples *samples,
		      bool same)
{
	td_watch_resume(&s->e, samples, same);
}

bool tdu_watch_asks(struct tdu_engine *s)
{
	return td_watch_asks(&s->e);
}

bool tdu_look_begin(struct tdu_engine *s)
{
	return td_look_begin(&s->e);
}

bool tdu_look_end(struct tdu_engine *s, const u64 *quarters, u32 count)
{
	struct td_places p = { .format = TD_FORMAT_EXT, .mark = 1 };

	for (u32 i = 0; i < count && i < TD_PLACES_MAX; i++) {
		p.quarter[p.count++] = quarters[i];
		p.mark += (u32)quarters[i] << 1;
	}
	if (!count)
		p.format = TD_FORMAT_UNKNOWN;
	return td_look_end(&s->e, &p);
}

bool tdu_learn_begin(struct tdu_engine *s, u64 *quarter)
{
	return td_learn_begin(&s->e, quarter);
}

void tdu_learn_end(struct tdu_engine *s, u64 quarter, const u32 *sums)
{
	td_learn_end(&s->e, quarter, sums);
}
