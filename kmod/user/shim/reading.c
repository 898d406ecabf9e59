// SPDX-License-Identifier: GPL-2.0-or-later
/* Where a read goes. */
#include "read.h"
#include "user_int.h"

u32 tdu_read_look(struct tdu_engine *s, u64 sector, u32 count, struct td_look *look)
{
	u64 dirty;
	u32 slot;

	/* As linux/map.c asks. */
	if (!td_read_home(&s->e, sector, count, &slot, &dirty))
		return td_read_look(&s->e, sector, count, look);
	*look = (struct td_look) {
		.count = count, .slot = slot, .slots = 1,
		.ssd_sector = td_sector_in(&s->e.layout, slot, sector),
		.dirty = dirty,
	};
	return TD_HIT;
}

void tdu_disk_read_ends(struct tdu_engine *s)
{
	td_disk_read_ends(&s->e);
}

bool tdu_may_join(struct tdu_engine *s, u64 sector)
{
	return td_may_join(&s->e, sector);
}

bool tdu_join_fill(struct tdu_engine *s, u64 sector, u32 *count, u64 *id, bool *answered)
{
	struct td_req *r = td_join_fill(&s->e, sector, count);

	if (!r)
		return false;
	td_pass(&s->e, TD_READ, *count, TD_C_READ_MISSED);
	*id = tdu_request_of(r)->id;
	*answered = td_disk_answered(r);
	return true;
}
