// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Writes that go to the SSD alone, and when they may.
 *
 * Invariants:
 *   B1  A durable record, or one under way, may say "clean" of a quarter: of a
 *       quarter that is valid and not dirty, that lies in a stale slot, or whose
 *       cleaning is being recorded. A write-back write changes such a quarter on
 *       the SSD only while the region's mark is SET, or after a sweep that records
 *       the quarter dirty, or free, in advance. (Until the write the disk has the
 *       same data, so either record is true.)
 *   B2  A slot that was taken from another frame is written only after the sweep
 *       that records the slot free (td_index_take()). That holds also for a write
 *       that joins the slot's owner.
 *   B3  A write-back write makes whole quarters dirty: it covers them, they were
 *       valid, or what it has not of them was read from the disk (edge.c).
 *   B4  A valid quarter stays valid while it is written, and is dirty from the
 *       start: all reads of it come from the SSD, which is as linearizable as any
 *       disk.
 *   B5  A quarter that is not valid is written only when no read has the slot
 *       pinned. An old pin may be of a time when the quarter was valid: its reader
 *       could read the new data by that pin, and then older data from the disk.
 *   B6  A cleaning that moves a quarter meanwhile no longer makes it clean.
 *   B7  If the SSD fails, quarters that only unanswered writes made dirty (fresh)
 *       do not make the state STRANDED: the disk has all acknowledged data. These
 *       writes go to the disk, and no read of their quarters is answered before
 *       that (read.c), since an earlier read may have seen the new data on the SSD.
 *   B8  While the limit is 0 all writes go to the disk, as in the other modes, and a
 *       write of dirty quarters waits until they are clean. (Each write in place
 *       takes its quarter out of the cleaning, B6, so a quarter that is written
 *       often would never become clean.) Exception: if the cleaning that a write
 *       waits for fails, the write goes to the SSD if it can, whatever the limits
 *       say, with the clean quarters that it touches. That heals a block that the
 *       SSD cannot read. Each such write has waited for a failure of its own.
 *   B9  A lent write has no copy, so the user's data goes to one device at a time. If
 *       the SSD alone may not take it, the write ends and begins again with a copy.
 *   B10 A write in one frame for which a sweep of its own (M5) records all its quarters as
 *       dirty is itself durable when it ends. So the flush behind it, or its own FUA, finds
 *       nothing left to do.
 *
 * Threads: the engine's lock.
 * Why B1 does not use another slot: the frame's other quarters would have to be
 * moved. Why a mark: one write of it serves all writes to the region. Why not always
 * a mark: the next flush has to clear it, and to record the dirty quarters. A lone
 * write with a flush after it costs one write of the journal instead of three. When such
 * writes go on without a flush, marks it is, also around them (marks.c, M5).
 */
#include "discard.h"
#include "edge.h"
#include "index.h"
#include "ledger_int.h"
#include "retire.h"

static unsigned int touched_of(const struct td_req *r, u64 frame)
{
	return td_quarters_touched(frame, r->sector, r->sector + r->count);
}

/* B5. If another request owns the slot, that request must end first. */
static bool waits_for_pins(u64 v, unsigned int touched)
{
	return touched & ~td_word_valid(v) && v & TD_W_PINS;
}

/* Is a cleaning that moves one of @mask of @slot being recorded? */
static bool is_being_recorded(const struct td_bucket *b, u32 slot, unsigned int mask)
{
	for (struct td_link *l = b->reqs.next; l != &b->reqs; l = l->next) {
		const struct td_req *q = td_req_of(l);

		if (!td_recording(q))
			continue;
		for (u32 i = 0; i < q->nr_parts; i++)
			if (q->parts[i].slot == slot && q->parts[i].mask & mask)
				return true;
	}
	return false;
}

/*
 * A rest is lacking of @quarters of @frame: may it be read? Then its edges are added to
 * *asks. While promotion is off, no quarter more is stored that costs a read.
 */
static bool may_ask(const struct td_engine *e, const struct td_req *r, u64 frame,
		    unsigned int quarters, u32 *asks)
{
	u32 edges = quarters ? td_edges_in(e, r, frame, quarters) : 0;

	*asks |= edges;
	return !quarters || (edges && !r->no_rest && td_promotes(e));
}

/* Has each of these frames a slot, or could one be taken for it? */
static bool have_slots(const struct td_engine *e, u64 first, u64 last)
{
	for (u64 f = first; f <= last; f++)
		if (td_index_find(e, f) == TD_NO_SLOT && !td_index_has_way(e, f))
			return false;
	return true;
}

/*
 * Could @frame's part of @r be stored now? *adds: that would make a clean or free
 * quarter dirty. *slot holds the frame. *asks: the edges whose rest is needed first.
 */
static enum td_writeback frame_verdict(const struct td_engine *e,
				       const struct td_bucket *b, const struct td_req *r,
				       u64 frame, u32 *slot, bool *adds, u32 *asks)
{
	u64 start = td_edge_start(r), end = td_edge_end(e, r);
	unsigned int touched = touched_of(r, frame);
	unsigned int part = touched & ~td_quarters_covered(&e->layout, frame,
							   start, end);
	unsigned int clean;
	u64 v;

	*slot = td_index_find(e, frame);
	if (touched & ~td_quarters_cached(&e->layout, frame))
		return TD_WB_NO;
	if (*slot == TD_NO_SLOT) {
		*adds = true;
		if (!td_promotes(e) && !r->uncleaned)
			return TD_WB_NO;
		return may_ask(e, r, frame, part, asks) ? TD_WB_GO : TD_WB_NO;
	}
	v = td_word_load(&e->words[*slot]);
	if (td_store_filler(b, *slot) ||
	    ((v & TD_W_STATE) == TD_W_BUSY && waits_for_pins(v, touched)))
		return TD_WB_WAIT;
	if (!may_ask(e, r, frame, part & ~td_word_valid(v), asks) ||
	    (part && (start | end) & e->layout.block_mask))
		return TD_WB_NO;
	clean = touched & ~td_word_dirty(v);
	if (clean && !r->uncleaned && td_retired(e, *slot))
		return TD_WB_NO;
	*adds |= clean;
	if ((clean && (clean & td_word_valid(v) || v & TD_W_STALE)) ||
	    is_being_recorded(b, *slot, touched))
		return TD_WB_MARK;
	return TD_WB_GO;
}

/*
 * Cleanings of these quarters of @slot no longer make them clean. If the record that says
 * "clean" is under way, one that says "dirty" has to follow it.
 */
static void keep_dirty(struct td_engine *e, struct td_bucket *b, u32 slot,
		       unsigned int mask)
{
	for (struct td_link *l = b->reqs.next; l != &b->reqs; l = l->next) {
		struct td_req *q = td_req_of(l);

		if (q->kind != TD_CLEAN)
			continue;
		for (u32 i = 0; i < q->nr_parts; i++) {
			struct td_part *p = &q->parts[i];

			if (p->slot != slot || !(p->mask & mask))
				continue;
			p->mask &= (u8)~mask;
			if (td_recording(q)) {
				td_word_pend(&e->words[slot]);
				td_ledger_pend(&e->ledger, slot);
			}
		}
	}
}

static void release_slots(struct td_engine *e, const struct td_bucket *b,
			  struct td_req *r)
{
	r->ssd_failed = true;
	td_store_finish(e, b, r);
	r->ssd_failed = false;
	r->writeback = false;
	r->nr_parts = 0;
	r->holds = 0;
	r->sweep = 0;
}

static bool may_write_back(const struct td_engine *e, const struct td_req *r)
{
	return env_load(&e->mode) == TD_WRITEBACK && r->kind == TD_WRITE &&
	       r->parts && !r->no_writeback;
}

bool td_writeback_uncleaned(const struct td_engine *e, struct td_req *r)
{
	if (r->uncleaned || !may_write_back(e, r))
		return false;
	r->uncleaned = true;
	return true;
}

enum td_writeback td_writeback_plan(struct td_engine *e, struct td_bucket *b,
				    struct td_req *r, bool marked)
{
	u64 first = td_frame_of(r->sector);
	u64 last = td_frame_of(r->sector + r->count - 1);
	struct td_ledger *l = &e->ledger;
	bool adds = false, needs_mark = false, all_valid = true, in_advance;
	u32 near = TD_NO_SLOT, found, asks = 0;
	u64 dirty;

	if (!may_write_back(e, r))
		return TD_WB_NO;
	/* B8 */
	if (!l->dirty_limit && !r->uncleaned)
		return TD_WB_NO;
	td_retired_leave(e, first, last);
	for (u64 f = first; f <= last; f++) {
		enum td_writeback w = frame_verdict(e, b, r, f, &found, &adds,
						    &asks);

		if (w == TD_WB_MARK)
			needs_mark = true;
		else if (w != TD_WB_GO)
			return w;
	}
	if (adds && !r->uncleaned &&
	    (l->dirty >= l->dirty_limit ||
	     (l->places >= l->places_limit &&
	      !td_ledger_place_dirty(l, r->sector))))
		return TD_WB_NO;
	if (asks) {
		/* Else the rest would be read for nothing. */
		if (!have_slots(e, first, last))
			return TD_WB_NO;
		/* The request has touched nothing yet, as in a gate (clean.c). */
		r->phase = TD_PHASE_GATED;
		r->asks = (u8)asks;
		/* The write may ask again, for the other edge, if a slot was lost meanwhile. */
		if (!r->rests)
			env_count(e->counters, TD_C_MERGES, 1);
		return TD_WB_MERGE;
	}
	in_advance = needs_mark && !marked;
	if (in_advance && !td_marks_alone(e, r)) {
		td_marks_around(e, r);
		return TD_WB_MARK;
	}
	r->nr_parts = 0;
	r->sweep = 0;
	for (u64 f = first; f <= last; f++) {
		unsigned int touched = touched_of(r, f);
		/* A slot that is taken for a frame may have been that of a later one. */
		u32 slot = first == last ? found : td_index_find(e, f);
		bool held = false;

		if (slot != TD_NO_SLOT) {
			u64 sweep = td_index_join_sweep(e, slot);
			u64 v = td_word_load(&e->words[slot]);
			bool hold = (v & TD_W_STATE) != TD_W_BUSY &&
				    touched & ~td_word_valid(v);

			if (sweep > r->sweep)
				r->sweep = sweep;
			v = td_index_own(e, slot, 0, hold);
			held = hold && v & TD_W_HELD;
			keep_dirty(e, b, slot, touched);
		} else {
			if (f == first && first & e->layout.run_mask)
				near = td_index_find(e, first - 1);
			slot = td_index_take(e, f, near, TD_TAKE_ANY, &r->sweep);
			if (slot == TD_NO_SLOT) {
				release_slots(e, b, r);
				return TD_WB_NO;
			}
		}
		near = slot;
		td_store_add_write(r, f, slot, touched, td_edge_start(r),
				   td_edge_end(e, r));
		r->parts[r->nr_parts - 1].held = held;
		r->holds += held;
	}
	dirty = l->dirty;
	for (u32 i = 0; i < r->nr_parts; i++) {
		const struct td_part *p = &r->parts[i];
		u64 v = td_word_load(&e->words[p->slot]);
		unsigned int clean = p->mask & td_word_valid(v) &
				     ~td_word_dirty(v);

		all_valid &= !(p->mask & ~td_word_valid(v));
		if (clean)
			td_index_publish(e, p->slot, 0, clean);
	}
	if (in_advance)
		r->sweep = td_marks_lone_sweep(e);
	/* B10 */
	r->durable = in_advance && r->nr_parts == 1 && all_valid;
	r->fresh = (u32)(l->dirty - dirty);
	l->fresh += r->fresh;
	r->writeback = true;
	return TD_WB_GO;
}

void td_writeback_end_fresh(struct td_engine *e, struct td_req *r)
{
	e->ledger.fresh -= r->fresh;
	r->fresh = 0;
}

void td_writeback_undo(struct td_engine *e, struct td_req *r)
{
	for (u32 i = 0; i < r->nr_parts; i++)
		td_index_give_up(e, r->parts[i].slot, r->parts[i].mask);
	td_writeback_end_fresh(e, r);
	r->writeback = false;
}

bool td_writeback_dirty(const struct td_engine *e, const struct td_bucket *b,
			const struct td_req *r)
{
	u64 last = td_frame_of(r->sector + r->count - 1);
	u32 cursor = 0, slot;
	bool drops;

	if (!td_ledger_region_dirty(&e->ledger, r->sector))
		return false;
	drops = r->kind == TD_DISCARD && td_discard_may_drop(e, b, r);
	while ((slot = td_index_next(e, td_frame_of(r->sector), last, &cursor)) !=
	       TD_NO_SLOT) {
		u64 v = td_word_load(&e->words[slot]);
		unsigned int mask = touched_of(r, td_word_tag(v));

		if (drops)
			mask &= ~td_quarters_covered(&e->layout, td_word_tag(v),
						     r->sector, r->sector + r->count);
		if (td_word_dirty(v) & mask)
			return true;
	}
	return false;
}
