// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Cleaning: dirty quarters are written back to the disk, in the disk's order.
 *
 * Invariants:
 *   K1  Only quarters that are durably recorded dirty are written to the disk. Such
 *       a write needs no intent mark: after a crash the quarter is still recorded
 *       dirty, so the SSD's copy counts.
 *   K2  A cleaning's slots are BUSY, so they keep their frames. Quarters that are
 *       written meanwhile leave the masks of its parts (writeback.c, B6). The
 *       cleaning begins to read its slots when no request has them pinned.
 *   K3  Its quarters become clean by a record that follows a flush of the disk
 *       that follows the write (ledger.c, L4).
 *   K4  Cleanings, and discards that drop dirty data, never share a quarter. These
 *       requests stand in front of their bucket's ring, in the order of the disk. So
 *       the requests of one frame (four at most) are neighbours there, and ledger.c
 *       records them together (L7). Such a discard came before all writes that wait
 *       for it, so it still stands before them.
 *
 * One request moves one piece of the disk without a gap, inside a run.
 * Threads: the engine's lock.
 * Why in order of regions and not a tree of dirty frames: each region counts its
 * dirty quarters and knows its dirty places. So finding the next dirty frame costs
 * no memory, only looks at counts and at the frames of such a place. A region of a
 * large disk has thousands of frames: so the caller limits the number of looks.
 */
#include "index.h"
#include "ledger_int.h"

/* Quarters of @frame that requests in flight write or move. */
static unsigned int quarters_in_use(const struct td_bucket *b, u64 frame)
{
	unsigned int mask = 0;

	for (struct td_link *l = b->reqs.next; l != &b->reqs; l = l->next) {
		const struct td_req *q = td_req_of(l);
		u64 end = q->sector + q->count;

		/* A request that waits has touched nothing yet. */
		if (q->kind == TD_READ || q->phase == TD_PHASE_WAITING ||
		    q->phase == TD_PHASE_GATED)
			continue;
		if (td_frame_of(q->sector) <= frame && frame <= td_frame_of(end - 1))
			mask |= td_quarters_touched(frame, q->sector, end);
	}
	return mask;
}

/* Quarters of @frame that may be cleaned now; *slot is set if there are any. */
static unsigned int cleanable_quarters(const struct td_engine *e,
				       const struct td_bucket *b, u64 frame, u32 *slot)
{
	unsigned int mask;
	u64 v;

	*slot = td_index_find(e, frame);
	if (*slot == TD_NO_SLOT)
		return 0;
	v = td_word_load(&e->words[*slot]);
	mask = td_word_dirty(v);
	if (!mask || v & (TD_W_PENDING | TD_W_HELD))
		return 0;
	return mask & ~quarters_in_use(b, frame);
}

/* End of the disk's part in @frame, in sectors of the frame. */
static u32 frame_end(const struct td_engine *e, u64 frame)
{
	u64 left = e->layout.cached_sectors - (frame << TD_FRAME_SHIFT);

	return left < TD_FRAME_SECTORS ? (u32)left : TD_FRAME_SECTORS;
}

/*
 * Take the quarters of @frame from @first on that are in @wanted, can be cleaned
 * and have no gap. Returns the quarter after the last; @first: none.
 */
static u32 take_quarters(struct td_engine *e, struct td_bucket *b,
			 struct td_req *r, u64 frame, u32 first,
			 unsigned int wanted)
{
	u32 slot, end = first;
	unsigned int mask = cleanable_quarters(e, b, frame, &slot) & wanted;
	struct td_part *p;

	while (end < 4 && mask & 1u << end)
		end++;
	if (end == first)
		return first;
	if (!r->nr_parts)
		r->sector = (frame << TD_FRAME_SHIFT) +
			    (first << TD_QUARTER_SHIFT);
	p = td_store_add(r, frame, slot, td_quarters(first, end - 1));
	p->from = (u8)(first << TD_QUARTER_SHIFT);
	p->to = (u8)(end << TD_QUARTER_SHIFT);
	if (p->to > frame_end(e, frame))
		p->to = (u8)frame_end(e, frame);
	r->count += p->to - p->from;
	/* A write in place may have pinned the slot (write.h). */
	p->held = td_index_own(e, slot, 0, true) & TD_W_HELD;
	r->holds += p->held;
	return end;
}

void td_clean_enter_ring(struct td_bucket *b, struct td_req *r)
{
	struct td_link *l = b->reqs.next;

	while (l != &b->reqs && td_req_undirties(td_req_of(l)) &&
	       td_req_of(l)->sector < r->sector)
		l = l->next;
	td_link_add_tail(l, &r->link);
}

u32 td_clean_begin(struct td_engine *e, struct td_bucket *b, struct td_req *r)
{
	struct td_ledger *l = &e->ledger;
	u64 frame = td_frame_of(r->sector);
	u64 end = (frame | e->layout.run_mask) + 1;
	u64 from = r->sector;
	u64 to = end << TD_FRAME_SHIFT;
	u32 slot;

	if (r->count && r->count < to - from) {
		to = from + r->count;
		end = td_frame_of(to - 1) + 1;
	}

	r->count = 0;
	r->nr_parts = 0;
	r->holds = 0;
	/* Find the first quarter that can be cleaned. */
	for (; frame < end && !r->nr_parts; frame++) {
		unsigned int wanted = td_quarters_touched(frame, from, to);
		unsigned int mask = cleanable_quarters(e, b, frame, &slot) & wanted;
		u32 first = 0, next;

		if (!mask)
			continue;
		while (!(mask & 1u << first))
			first++;
		next = take_quarters(e, b, r, frame, first, wanted);
		while (next == 4 && frame + 1 < end &&
		       r->nr_parts < r->max_parts) {
			frame++;
			wanted = td_quarters_touched(frame, from, to);
			next = take_quarters(e, b, r, frame, 0, wanted);
		}
	}
	if (!r->nr_parts)
		return TD_DO_PASS;
	td_clean_enter_ring(b, r);
	r->phase = TD_PHASE_ACTIVE;
	r->span_sector = r->sector;
	r->span_count = r->count;
	/* K1: the records may be under way. */
	r->sweep = l->sweep_on ? l->sweep_begun : 0;
	r->pending = TD_DO_FETCH;
	l->cleanings++;
	return r->holds ? 0 : TD_DO_FETCH;
}

/*
 * Can a quarter of @frame between sectors @from and @to be cleaned now?
 * *unrecorded: one has to be recorded first.
 */
static bool is_cleanable(const struct td_engine *e, u64 frame, u64 from, u64 to,
			 bool *unrecorded)
{
	unsigned int wanted = td_quarters_touched(frame, from, to);
	const struct td_bucket *b =
		&e->buckets[td_bucket_of(e, frame << TD_FRAME_SHIFT)];
	u32 slot = td_index_find(e, frame);
	u64 v;

	if (slot == TD_NO_SLOT)
		return false;
	v = td_word_load(&e->words[slot]);
	if (td_word_dirty(v) & wanted && v & TD_W_PENDING)
		*unrecorded = true;
	return cleanable_quarters(e, b, frame, &slot) & wanted;
}

/*
 * Writes that wait for a cleaning come first: each touches the frames of one run,
 * and the cleaning moves nothing but what the write touches, so that a bad block
 * of the SSD beside that fails no write. A write that was looked at in vain goes to
 * the end of the ring and is noted with the round; a new write comes behind them
 * all, so that no write waits for later ones, and begins another round (td_start()).
 * So when the first write in the ring is noted with this round, all of them are.
 */
static enum td_seek seek_urgent(struct td_engine *e, u32 *looks, bool *unrecorded,
				u64 *sector, u32 *count)
{
	u32 left = *looks;

	while (e->urgent.next != &e->urgent) {
		struct td_req *r = td_req_of_gate(e->urgent.next);
		u64 from = r->sector, to = r->sector + r->count;
		u64 f = td_frame_of(from);
		u64 end = td_frame_of(to - 1) + 1;

		if (r->round == e->urgent_round)
			break;
		/* Look at one write at least, or the search would not end. */
		if (end - f > left && left < *looks)
			return TD_SEEK_FURTHER;
		left -= end - f < left ? (u32)(end - f) : left;
		for (; f < end; f++) {
			if (is_cleanable(e, f, from, to, unrecorded)) {
				*sector = from;
				*count = (u32)(to - from);
				return TD_SEEK_FOUND;
			}
			from = (f + 1) << TD_FRAME_SHIFT;
		}
		r->round = e->urgent_round;
		td_link_del(&r->gate);
		td_link_add_tail(&e->urgent, &r->gate);
	}
	*looks = left;
	return TD_SEEK_NOWHERE;
}

/* Frames from @frame on of which the counts say that none is dirty. */
static u64 clean_ahead(const struct td_ledger *l, u64 frame)
{
	u64 sector = frame << TD_FRAME_SHIFT;
	u32 region = (u32)(sector >> l->mark_shift);
	u64 frames;

	if (!l->dirty_sums[region >> TD_SUM_SHIFT])
		frames = 1ull << (l->mark_shift + TD_SUM_SHIFT - TD_FRAME_SHIFT);
	else if (!l->marks[region].dirty)
		frames = 1ull << (l->mark_shift - TD_FRAME_SHIFT);
	else if (!td_ledger_place_dirty(l, sector))
		frames = 1ull << (l->place_shift - TD_FRAME_SHIFT);
	else
		return 0;
	return frames - (frame & (frames - 1));
}

/*
 * The search met dirty quarters that are not recorded: want a sweep that records them.
 * If a sweep is wanted already, do nothing: the work under way makes it due when it
 * ends. Else each search would make work due that cannot begin yet, and the cleaner
 * would search again at once.
 */
static void want_recorded(struct td_engine *e)
{
	if (!e->ledger.sweep_wanted)
		td_ledger_want_sweep(e);
}

enum td_seek td_clean_seek(struct td_engine *e, bool all, bool goes_on, u32 looks,
			   u64 *sector, u32 *count)
{
	struct td_ledger *l = &e->ledger;
	u64 frames = (u64)l->nr_marks << (l->mark_shift - TD_FRAME_SHIFT);
	bool unrecorded = false;
	enum td_seek urgent;

	if (!l->dirty || !td_active(e))
		return TD_SEEK_NOWHERE;
	if (!goes_on)
		e->urgent_round++;
	urgent = seek_urgent(e, &looks, &unrecorded, sector, count);
	if (unrecorded && urgent != TD_SEEK_FOUND)
		want_recorded(e);
	if (urgent != TD_SEEK_NOWHERE || !all)
		return urgent;
	/* A round: from clean_frame to the disk's end, then from its beginning. */
	if (!e->clean_left) {
		e->clean_left = frames;
		e->clean_unrecorded = false;
	}
	for (; looks && e->clean_left; looks--) {
		u64 ahead = clean_ahead(l, e->clean_frame);
		u64 start = e->clean_frame << TD_FRAME_SHIFT;

		if (!ahead && is_cleanable(e, e->clean_frame, start,
					   start + TD_FRAME_SECTORS,
					   &e->clean_unrecorded)) {
			e->clean_left = 0;
			*sector = start;
			*count = 0;
			return TD_SEEK_FOUND;
		}
		ahead += !ahead;
		if (ahead > frames - e->clean_frame)
			ahead = frames - e->clean_frame;
		e->clean_left -= ahead < e->clean_left ? ahead : e->clean_left;
		e->clean_frame += ahead;
		/* No modulo: a 32-bit kernel has no 64-bit division. */
		if (e->clean_frame >= frames)
			e->clean_frame = 0;
	}
	if (e->clean_left)
		return TD_SEEK_FURTHER;
	if (e->clean_unrecorded)
		want_recorded(e);
	return TD_SEEK_NOWHERE;
}

void td_clean_skip_to(struct td_engine *e, u64 sector)
{
	const struct td_ledger *l = &e->ledger;

	e->clean_frame = sector >> l->mark_shift < l->nr_marks ?
			 td_frame_of(sector) : 0;
	e->clean_left = 0;
}
