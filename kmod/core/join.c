// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A read that misses where a fill is in flight is answered from the fill's memory.
 *
 * Invariant: no write of a quarter that the read asks for started between the fill's
 * td_begin() and td_join_fill(): it would have cancelled the fill's part (E3), or wait for
 * it. (A write that goes past a failed SSD cancels nothing. But the read missed before the
 * failure, so the write is under way beside the read.) And the part's mask has no quarter
 * that was on the SSD at td_begin(), so none that only the SSD had. So the fill's data is
 * what the disk held when the read came, or what a write beside the read brought.
 * Threads: the engine's lock, but td_may_join().
 * Why: a miss of a quarter reads the whole frame. Requests for its other quarters follow at
 * once, when a program reads in order with some requests at a time. Each would move the
 * head back to what the disk is reading already.
 * Why a part of a read is enough: a read in order often begins in the frame where the one
 * before ended. Without that frame it goes on where the head is; with it the disk turns
 * once more.
 */
#include "index.h"
#include "store.h"

bool td_may_join(const struct td_engine *e, u64 sector)
{
	u32 slot = td_index_find(e, td_frame_of(sector));

	return slot != TD_NO_SLOT &&
	       (td_word_load(&e->words[slot]) & TD_W_STATE) == TD_W_BUSY;
}

static const struct td_part *part_of(const struct td_req *r, u64 frame)
{
	for (u32 i = 0; i < r->nr_parts; i++)
		if (td_frame_of(r->sector) + r->parts[i].frame == frame)
			return &r->parts[i];
	return NULL;
}

/* Up to where the fill @r brings [sector, end), as it is now, frame by frame; @sector: nothing. */
static u64 brings_until(const struct td_req *r, u64 sector, u64 end)
{
	for (u64 f = td_frame_of(sector); f <= td_frame_of(end - 1); f++) {
		const struct td_part *p = part_of(r, f);

		if (!p || p->cancelled || td_quarters_touched(f, sector, end) & ~p->mask)
			return f == td_frame_of(sector) ? sector : f << TD_FRAME_SHIFT;
	}
	return end;
}

struct td_req *td_join_fill(struct td_engine *e, u64 sector, u32 *count)
{
	struct td_link *head = &e->buckets[td_bucket_of(e, sector)].reqs;

	for (struct td_link *l = head->next; l != head; l = l->next) {
		u64 until;

		if (td_req_of(l)->kind != TD_READ)
			continue;
		until = brings_until(td_req_of(l), sector, sector + *count);
		if (until == sector)
			continue;
		*count = (u32)(until - sector);
		return td_req_of(l);
	}
	return NULL;
}
