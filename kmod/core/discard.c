// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Discards and zero-outs of dirty data: the quarters that they cover whole are dropped,
 * not written back first.
 *
 * Invariants:
 *   Q1  A dropped quarter stays dirty and valid in memory until the record that takes
 *       it out of the index is durable. So its frame keeps its slot (W3), and reads
 *       see the old data until then, as they would after a cut.
 *   Q2  That record follows a flush of the disk that follows the discard. If the
 *       discard or the flush fails, the quarters stay dirty, and the discard fails.
 *   Q3  The discard is answered and leaves its ring when the record is durable. Until
 *       then later writes of these quarters wait: after a cut the dirty record would
 *       hide what they brought to the disk.
 *   Q4  No cleaning moves a quarter that is being dropped: the discard waits for those
 *       under way, and none begins beside it (clean.c, quarters_in_use()).
 *   Q5  When a quarter begins to be dropped, no read is under way that may see the disk
 *       there, or that began on the SSD before the quarter became dirty and would be
 *       sent to the disk by an error. Such a read could show the discard, and a later
 *       read the data before it. Reads that begin later find the quarter dirty.
 *
 * Threads: the engine's lock; but disk_reads is counted by readers without it, before
 * they look at the index.
 * Why Q5 does not wait for such reads: then each later one would have to wait for the
 * discard. Cleaning is what always works.
 * Why the slots are found anew each time: a discard has no memory for parts.
 */
#include "discard.h"
#include "index.h"
#include "store.h"

#define TRIMS_MAX	9	/* log2 of the most regions marked ahead of a row */

/*
 * fstrim discards each free extent, in disk order. A discard is the next of a row if it begins
 * where marks were set ahead of the last one, or in the region behind that. Each next one of
 * another region has twice as many regions marked ahead, so that a long row waits for few
 * marks, and a discard alone has none set in vain.
 */
u64 td_discard_ahead(struct td_engine *e, const struct td_req *r)
{
	u64 region = 1ull << e->ledger.mark_shift;
	u64 end = r->reach ? r->reach : r->sector + r->count;

	/* A later run of the same discard. */
	if (r->reach && r->sector > e->trim_sector && end == e->trim_end)
		return e->trim_ahead;
	if (r->sector < e->trim_end || r->sector > e->trim_ahead + region)
		e->trims = 0;
	else if (e->trims < TRIMS_MAX && r->sector >> e->ledger.mark_shift !=
					 e->trim_sector >> e->ledger.mark_shift)
		e->trims++;
	/* Once for all runs of a discard, as this looks at all counts. */
	td_heat_discarded(&e->heat, r->sector, (u32)(end - r->sector));
	td_heat_discarded(&e->read_heat, r->sector, (u32)(end - r->sector));
	e->trim_sector = r->sector;
	e->trim_end = end;
	e->trim_ahead = end + region * ((1u << e->trims) - 1);
	return e->trim_ahead;
}

/* Dirty quarters of @slot that @r covers whole. */
static unsigned int quarters_of(const struct td_engine *e, const struct td_req *r, u32 slot)
{
	u64 v = td_word_load(&e->words[slot]);

	return td_word_dirty(v) &
	       td_quarters_covered(&e->layout, td_word_tag(v), r->sector,
				   r->sector + r->count);
}

unsigned int td_discard_quarters(const struct td_engine *e, const struct td_req *r,
				 u64 frame, u32 *slot)
{
	*slot = td_index_find(e, frame);
	return *slot == TD_NO_SLOT ? 0 : quarters_of(e, r, *slot);
}

/* The next slot with dirty quarters that @r covers whole, as td_index_next(). */
static u32 next_dirty(const struct td_engine *e, const struct td_req *r, u32 *cursor)
{
	u64 last = td_frame_of(r->sector + r->count - 1);
	u32 slot;

	do {
		slot = td_index_next(e, td_frame_of(r->sector), last, cursor);
	} while (slot != TD_NO_SLOT && !quarters_of(e, r, slot));
	return slot;
}

/* Does a request in the ring read the disk for a frame that @r touches? */
static bool is_being_filled(const struct td_bucket *b, const struct td_req *r)
{
	for (struct td_link *l = b->reqs.next; l != &b->reqs; l = l->next)
		if (td_req_of(l)->kind == TD_READ &&
		    td_req_overlap(td_req_of(l), r))
			return true;
	return false;
}

bool td_discard_may_drop(const struct td_engine *e, const struct td_bucket *b,
			 const struct td_req *r)
{
	u32 cursor = 0, slot;

	if (env_load(&e->disk_reads) || is_being_filled(b, r))
		return false;
	while ((slot = next_dirty(e, r, &cursor)) != TD_NO_SLOT)
		if (td_word_load(&e->words[slot]) & TD_W_PINS)
			return false;
	return true;
}

bool td_discard_drops(const struct td_engine *e, struct td_req *r)
{
	u32 cursor = 0;

	if (!e->ledger.dirty)
		return false;
	r->drops = next_dirty(e, r, &cursor) != TD_NO_SLOT;
	return r->drops;
}

bool td_discard_must_wait(const struct td_bucket *b, const struct td_req *r)
{
	for (struct td_link *l = b->reqs.next; l != &b->reqs; l = l->next)
		if (td_req_of(l)->kind == TD_CLEAN &&
		    td_req_collide(td_req_of(l), r))
			return true;
	return false;
}

void td_discard_recorded(struct td_engine *e, const struct td_req *r)
{
	u32 cursor = 0, slot;

	while ((slot = next_dirty(e, r, &cursor)) != TD_NO_SLOT)
		td_index_drop(e, slot, quarters_of(e, r, slot));
}
