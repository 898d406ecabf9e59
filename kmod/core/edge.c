// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A write-back write of a part of a quarter: the rest is read from the disk first.
 *
 * Invariants:
 *   H1  A rest is read only of a quarter that is not valid, by a write that no earlier write
 *       in its ring collides with. So the disk has what a reader of the rest would see.
 *   H2  From then until its end the write stands in its ring. So no write or discard of the
 *       quarter starts (E2) and no fill takes its frame (E3): what was read stays
 *       right, however long the write waits for a mark or a slot afterwards.
 *   H3  A rest goes to the SSD alone, with the write's own data, and is dirty with it. If
 *       the write goes to the disk after all, the user's range does, and no more.
 *
 * Threads: the engine's lock; td_next_rest() reads what does not change.
 * Why not write such a quarter through: all of a write would have to wait for the disk
 * because of one edge, each time, and the next flush for a flush of the disk. A rest is read
 * once; as long as the quarter stays on the SSD, later writes of parts of it go there.
 * Why no slot is taken before: the disk may take long, and meanwhile the slot would be lost
 * to others. What td_start() finds afterwards is what counts.
 */
#include "edge.h"

#define PART	((u64)TD_QUARTER_SECTORS - 1)

/* Where the quarter ends that ends at or behind @end. The disk's last may be short. */
static u64 whole_end(const struct td_engine *e, u64 end)
{
	u64 whole = (end + PART) & ~PART;

	return whole < e->layout.origin_sectors ? whole : e->layout.origin_sectors;
}

u64 td_edge_end(const struct td_engine *e, const struct td_req *r)
{
	u64 end = r->sector + r->count;

	return r->rests & TD_EDGE_TAIL ? whole_end(e, end) : end;
}

u32 td_edges_in(const struct td_engine *e, const struct td_req *r, u64 frame,
		unsigned int quarters)
{
	u64 start = td_edge_start(r), end = td_edge_end(e, r);
	u32 edges = 0;

	if (start & PART && td_frame_of(start) == frame &&
	    quarters & td_quarters_touched(frame, start, start + 1))
		edges |= TD_EDGE_HEAD;
	if (end != whole_end(e, end) && td_frame_of(end) == frame &&
	    quarters & td_quarters_touched(frame, end, end + 1))
		edges |= TD_EDGE_TAIL;
	return edges;
}

bool td_next_rest(const struct td_engine *e, const struct td_req *r, u32 *cursor,
		  u64 *sector, u32 *count)
{
	u64 end = r->sector + r->count;

	while (*cursor < 2) {
		u32 edge = 1u << (*cursor)++;

		if (!(r->asks & edge))
			continue;
		*sector = edge == TD_EDGE_HEAD ? r->sector & ~PART : end;
		*count = (u32)((edge == TD_EDGE_HEAD ? r->sector : whole_end(e, end)) -
			       *sector);
		return true;
	}
	return false;
}

u32 td_rest_read(struct td_engine *e, struct td_req *r, bool ok, struct td_list *woken)
{
	/* No disk error counts yet: no user misses anything if the disk takes the write. */
	r->no_rest = !ok;
	if (ok)
		r->rests |= r->asks;
	r->asks = 0;
	return td_start(e, r, woken);
}
