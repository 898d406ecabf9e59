// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which data a request stores on the SSD, frame by frame.
 *
 * Invariant: every part's slot is BUSY and owned by the part's request, from
 * planning to td_store_finish(); its mask was not valid when its SSD write was
 * allowed to start.
 * Threads: all under the engine's lock, but td_next_extent(), which reads what does
 * not change, and the two questions that map asks, whose answers are hints.
 * Why a write takes free slots only: written data is seldom read back soon, and the
 * page cache has it then; so a write evicts nothing.
 * Why a long stream of writes goes past the SSD: the disk takes it at its full speed,
 * and the copy would cost as much again. If data of it became dirty after the question,
 * td_start() has that cleaned first, as for each write without a copy.
 */
#include "index.h"
#include "retire.h"
#include "store.h"

struct td_part *td_store_add(struct td_req *r, u64 frame, u32 slot,
			     unsigned int mask)
{
	struct td_part *p = &r->parts[r->nr_parts++];

	p->slot = slot;
	p->frame = (u8)(frame - td_frame_of(r->sector));
	p->mask = (u8)mask;
	p->from = 0;
	p->to = TD_FRAME_SECTORS;
	p->held = false;
	p->cancelled = false;
	return p;
}

struct td_span td_span_of(const struct td_engine *e, enum td_kind kind,
			  u64 sector, u32 count)
{
	u64 first = td_frame_of(sector);
	u64 end = sector + count;
	u64 last = td_frame_of(end - 1);
	struct td_span s = { .frames = (u32)(last - first + 1) };

	if (kind == TD_READ) {
		u64 whole = (last + 1) << TD_FRAME_SHIFT;

		if (whole > e->layout.cached_sectors)
			whole = e->layout.cached_sectors;
		if (end < whole)
			end = whole;
		s.sector = first << TD_FRAME_SHIFT;
	} else {
		s.sector = sector & ~(u64)(TD_QUARTER_SECTORS - 1);
	}
	s.quarters = (u32)((end - s.sector + TD_QUARTER_SECTORS - 1) >>
			   TD_QUARTER_SHIFT);
	return s;
}

/* Does a request in the ring touch @frame? */
static bool in_flight(const struct td_bucket *b, u64 frame)
{
	for (struct td_link *l = b->reqs.next; l != &b->reqs; l = l->next) {
		const struct td_req *q = td_req_of(l);

		if (td_frame_of(q->sector) <= frame &&
		    frame <= td_frame_of(q->sector + q->count - 1))
			return true;
	}
	return false;
}

bool td_store_plan_fill(struct td_engine *e, const struct td_bucket *b,
			struct td_req *r, bool stream)
{
	const struct td_layout *l = &e->layout;
	u64 first = td_frame_of(r->sector);
	u64 last = td_frame_of(r->sector + r->count - 1);
	u64 end = (last + 1) << TD_FRAME_SHIFT;
	u32 near = TD_NO_SLOT;
	bool full = false;

	td_retired_leave(e, first, last);
	/* The frame before, if it is in the same run, shows the run's way. */
	if (first & l->run_mask)
		near = td_index_find(e, first - 1);
	for (u64 frame = first; frame <= last; frame++) {
		unsigned int mask = td_quarters_cached(l, frame);
		u32 slot = td_index_find(e, frame);
		struct td_part *p;

		if (!mask)
			break;
		/* Readahead often begins in the frame where it ended before. */
		if (in_flight(b, frame)) {
			near = slot;
			continue;
		}
		if (slot != TD_NO_SLOT && td_retired(e, slot))
			continue;
		if (slot != TD_NO_SLOT) {
			u64 v = td_word_load(&e->words[slot]);

			near = slot;
			mask &= ~td_word_valid(v);
			/* A write in place may have begun before these quarters were dropped. */
			if (!mask || v & TD_W_PINS)
				continue;
			td_index_own(e, slot, 0, false);
		} else {
			slot = td_index_take(e, frame, near, stream ?
					     TD_TAKE_COLD : TD_TAKE_ANY,
					     &r->sweep);
			if (slot == TD_NO_SLOT) {
				full = true;
				continue;
			}
			near = slot;
		}
		p = td_store_add(r, frame, slot, mask);
		if (frame == td_frame_of(l->cached_sectors))
			p->to = (u8)(l->cached_sectors &
				     (TD_FRAME_SECTORS - 1));
	}
	if (end > l->cached_sectors)
		end = l->cached_sectors;
	if (end < r->sector + r->count)
		end = r->sector + r->count;
	r->span_sector = first << TD_FRAME_SHIFT;
	r->span_count = (u32)(end - r->span_sector);
	return full;
}

static bool owns_slot(const struct td_req *r, u32 slot)
{
	for (u32 i = 0; i < r->nr_parts; i++)
		if (r->parts[i].slot == slot)
			return true;
	return false;
}

struct td_req *td_store_filler(const struct td_bucket *b, u32 slot)
{
	for (struct td_link *l = b->reqs.next; l != &b->reqs; l = l->next) {
		struct td_req *q = td_req_of(l);

		if (q->kind == TD_READ && owns_slot(q, slot))
			return q;
	}
	return NULL;
}

/* If a fill owns @slot, cancel the fill's part in it. True: a fill did. */
static bool cancel_fill(struct td_engine *e, struct td_bucket *b, u32 slot)
{
	struct td_req *q = td_store_filler(b, slot);

	if (q)
		td_store_cancel(e, q, slot, slot);
	return q;
}

/* Does a request in the ring, other than @r, own @slot, which is @r's too? */
static bool is_slot_shared(const struct td_bucket *b, const struct td_req *r, u32 slot)
{
	for (struct td_link *l = b->reqs.next; l != &b->reqs; l = l->next)
		if (td_req_of(l) != r && td_req_overlap(td_req_of(l), r) &&
		    owns_slot(td_req_of(l), slot))
			return true;
	return false;
}

/*
 * Quarters of @slot that a write may update in place: the quarters that it covers
 * whole; and valid quarters of which it changes a part, if the SSD can write so small
 * a part.
 */
static unsigned int updatable_quarters(const struct td_engine *e, const struct td_req *r,
				       u64 frame, u32 slot, unsigned int touched)
{
	u64 end = r->sector + r->count;
	unsigned int mask = td_quarters_covered(&e->layout, frame, r->sector,
						end);

	if (!((r->sector | end) & e->layout.block_mask))
		mask |= touched & td_word_valid(td_word_load(&e->words[slot]));
	return mask;
}

u32 td_store_add_write(struct td_req *r, u64 frame, u32 slot, unsigned int mask,
		       u64 sector, u64 end)
{
	u64 start = frame << TD_FRAME_SHIFT;
	struct td_part *p = td_store_add(r, frame, slot, mask);
	u32 first = 0, last = 3;

	while (!(mask & 1u << first))
		first++;
	while (!(mask & 1u << last))
		last--;
	p->from = (u8)(first << TD_QUARTER_SHIFT);
	p->to = (u8)((last + 1) << TD_QUARTER_SHIFT);
	if (sector > start + p->from)
		p->from = (u8)(sector - start);
	if (end < start + p->to)
		p->to = (u8)(end - start);
	return p->to - p->from;
}

/* One frame of a write. Returns the sectors of it that will be stored. */
static u32 plan_frame(struct td_engine *e, struct td_bucket *b,
		      struct td_req *r, u64 frame, bool store)
{
	u64 end = r->sector + r->count;
	unsigned int touched = td_quarters_touched(frame, r->sector, end);
	u32 slot = td_index_find(e, frame);
	bool joins, may_hold, held = false;
	unsigned int mask;
	u32 stored;
	u64 v;

	if (slot == TD_NO_SLOT) {
		mask = store && td_promotes(e) ?
		       td_quarters_covered(&e->layout, frame, r->sector, end) : 0;
		if (mask)
			slot = td_index_take(e, frame, TD_NO_SLOT,
					     TD_TAKE_FREE, &r->sweep);
		return slot == TD_NO_SLOT ? 0 :
			td_store_add_write(r, frame, slot, mask, r->sector, end);
	}
	v = td_word_load(&e->words[slot]);
	joins = v & TD_W_BUSY;
	/* A slot with dirty quarters is not held: reads of those need the SSD. */
	may_hold = !joins && !(v & TD_W_DIRTY);
	mask = store ? updatable_quarters(e, r, frame, slot, touched) : 0;
	if (td_retired(e, slot))
		mask = 0;
	/*
	 * Store nothing beside a fill, nor where a read may have pinned these quarters,
	 * nor where the record may still name another frame.
	 */
	if (joins && (cancel_fill(e, b, slot) ||
		      v & (TD_W_HELD | TD_W_STALE)))
		mask = 0;
	if (mask) {
		u64 own = td_index_own(e, slot, touched, may_hold);

		held = own & TD_W_HELD;
		if (!may_hold && own & TD_W_PINS) {
			mask = 0;
			if (!joins)
				td_index_disown(e, slot, 0, 0);
		}
	} else {
		td_index_forget(e, slot, touched);
	}
	if (td_word_valid(v) & touched & ~mask)
		env_count(e->counters, TD_C_INVALIDATED, 1);
	if (!mask)
		return 0;
	r->holds += held;
	stored = td_store_add_write(r, frame, slot, mask, r->sector, end);
	r->parts[r->nr_parts - 1].held = held;
	return stored;
}

static void plan_discard(struct td_engine *e, struct td_bucket *b, struct td_req *r)
{
	u64 last = td_frame_of(r->sector + r->count - 1);
	u32 cursor = 0, slot;

	while ((slot = td_index_next(e, td_frame_of(r->sector), last, &cursor)) !=
	       TD_NO_SLOT)
		plan_frame(e, b, r, td_word_tag(td_word_load(&e->words[slot])), false);
	env_count(e->counters, TD_C_WRITE_BYPASSED_DISCARD, r->count);
}

void td_store_plan_write(struct td_engine *e, struct td_bucket *b,
			 struct td_req *r)
{
	u64 first = td_frame_of(r->sector);
	u64 last = td_frame_of(r->sector + r->count - 1);
	bool around = env_load(&e->mode) == TD_WRITEAROUND;
	bool store = r->parts && !around && td_active(e);
	enum td_counter why = TD_C_WRITE_MISSED;
	u32 hit = 0;

	td_retired_leave(e, first, last);
	if (r->kind == TD_DISCARD) {
		plan_discard(e, b, r);
		return;
	}
	for (u64 f = first; f <= last; f++)
		hit += plan_frame(e, b, r, f, store);
	if (around)
		why = TD_C_WRITE_BYPASSED_MODE;
	else if (r->no_memory)
		why = TD_C_WRITE_BYPASSED_MEMORY;
	else if (r->stream)
		why = TD_C_WRITE_BYPASSED_SEQUENTIAL;
	env_count(e->counters, TD_C_WRITE_HIT, hit);
	env_count(e->counters, why, r->count - hit);
}

void td_store_finish(struct td_engine *e, const struct td_bucket *b,
		     struct td_req *r)
{
	bool good = !r->failed && !r->ssd_failed && td_active(e) &&
		    r->kind != TD_CLEAN;

	for (u32 i = 0; i < r->nr_parts; i++) {
		const struct td_part *p = &r->parts[i];
		bool publish = good && !p->cancelled;
		unsigned int valid = publish ? p->mask : 0;
		unsigned int dirty = r->writeback ? valid : 0;

		/* A failed write may have left any data in its place. */
		if (r->writeback && !publish)
			td_index_forget(e, p->slot, p->mask);
		if (is_slot_shared(b, r, p->slot))
			td_index_publish(e, p->slot, valid, dirty);
		else
			td_index_disown(e, p->slot, valid, dirty);
		if (publish && r->kind == TD_READ)
			env_count(e->counters, TD_C_FILLS, 1);
	}
}

bool td_store_has_live_part(const struct td_req *r)
{
	for (u32 i = 0; i < r->nr_parts; i++)
		if (!r->parts[i].cancelled)
			return true;
	return false;
}

bool td_store_unheld(struct td_req *r, u32 slot)
{
	for (u32 i = 0; r->holds && i < r->nr_parts; i++) {
		struct td_part *p = &r->parts[i];

		if (p->slot != slot || !p->held)
			continue;
		p->held = false;
		r->holds--;
		return true;
	}
	return false;
}

void td_store_cancel(struct td_engine *e, struct td_req *r, u32 first,
		     u32 last)
{
	for (u32 i = 0; i < r->nr_parts; i++) {
		struct td_part *p = &r->parts[i];

		if (p->slot < first || p->slot > last || p->cancelled ||
		    r->writeback || r->kind == TD_CLEAN)
			continue;
		p->cancelled = true;
		if (r->kind == TD_READ)
			env_count(e->counters, TD_C_CANCELLED, 1);
	}
}

/* Is a quarter that the write touches dirty? No lock; a hint. */
static bool touches_dirty(const struct td_engine *e, u64 sector, u32 count)
{
	u64 end = sector + count;

	/* The advisor's engine, in which nothing is ever dirty, has one region alone. */
	if (!td_ledger_has_dirty(&e->ledger) ||
	    !td_ledger_region_dirty(&e->ledger, sector))
		return false;
	for (u64 f = td_frame_of(sector); f <= td_frame_of(end - 1); f++) {
		u32 slot = td_index_find(e, f);

		if (slot != TD_NO_SLOT && td_word_dirty(td_word_load(&e->words[slot])) &
					  td_quarters_touched(f, sector, end))
			return true;
	}
	return false;
}

bool td_write_streams(struct td_engine *e, u64 sector, u32 count)
{
	u64 mode = env_load(&e->mode), enough = e->stream_written;

	if (mode == TD_WRITEBACK)
		enough <<= TD_STREAM_BACK_SHIFT;
	/* Write-around has no copies anyway. */
	if (!td_active(e) || mode == TD_WRITEAROUND ||
	    !td_stream_seen(e, &e->writes, enough, td_frame_of(sector),
			    td_frame_of(sector + count - 1)))
		return false;
	/* While promotion is off, what is cached is kept up to date. */
	return td_promotes(e) && !td_watch_wants_copy(e, sector, count) &&
	       !touches_dirty(e, sector, count);
}

/* May the write of [sector, end) store something of @frame? A hint. */
static bool may_store(const struct td_engine *e, u64 frame, u64 sector, u64 end)
{
	u64 v = td_word_load(&e->words[td_home_of(&e->layout, frame)]);
	bool fits = td_promotes(e) &&
		    td_quarters_covered(&e->layout, frame, sector, end);

	/* Mostly the home way says it all. */
	return td_word_has(v, frame) || (fits && td_word_is_durably_free(v)) ||
	       td_index_find(e, frame) != TD_NO_SLOT ||
	       (fits && td_index_has_room(e, frame));
}

bool td_write_wants_copy(struct td_engine *e, u64 sector, u32 count)
{
	u64 end = sector + count;

	if (!td_active(e))
		return false;
	if (td_watch_wants_copy(e, sector, count))
		return true;
	if (env_load(&e->mode) == TD_WRITEAROUND)
		return false;
	if (env_load(&e->mode) == TD_WRITEBACK && td_promotes(e))
		return true;
	for (u64 f = td_frame_of(sector); f <= td_frame_of(end - 1); f++)
		if (may_store(e, f, sector, end))
			return true;
	return false;
}

bool td_write_may_lend(const struct td_engine *e, u64 sector, u32 count)
{
	return env_load(&e->mode) == TD_WRITEBACK && td_active(e) && td_promotes(e) &&
	       td_ledger_has_room(&e->ledger, sector) &&
	       td_frame_of(sector) == td_frame_of(sector + count - 1) &&
	       !((sector | count) & (TD_QUARTER_SECTORS - 1)) &&
	       !td_watch_wants_copy(e, sector, count);
}

bool td_next_extent(const struct td_engine *e, const struct td_req *r,
		    u32 *cursor, struct td_extent *extent)
{
	u64 start = td_frame_of(r->sector);

	extent->count = 0;
	/* The cursor counts quarters through all parts. */
	for (; *cursor < r->nr_parts * 4u; ++*cursor) {
		const struct td_part *p = &r->parts[*cursor / 4];
		u32 from = *cursor % 4 << TD_QUARTER_SHIFT;
		u32 to = from + TD_QUARTER_SECTORS;
		u64 ssd, sector;

		if (from < p->from)
			from = p->from;
		if (to > p->to)
			to = p->to;
		/* A cleaning moves all from @from to @to, even quarters out of its mask. */
		if ((r->kind != TD_CLEAN && !(p->mask & 1u << (*cursor % 4))) ||
		    from >= to)
			continue;
		ssd = td_slot_sector(&e->layout, p->slot) + from;
		sector = ((start + p->frame) << TD_FRAME_SHIFT) + from;
		if (!extent->count) {
			extent->ssd_sector = ssd;
			extent->sector = sector;
		} else if (extent->ssd_sector + extent->count != ssd ||
			   extent->sector + extent->count != sector) {
			return true;
		}
		extent->count += to - from;
	}
	return extent->count != 0;
}

void td_forget_group(struct td_engine *e, u32 group)
{
	u32 size = 1u << (e->layout.way_shift + e->layout.run_shift);
	u32 first = group * size;
	struct td_link *head = &e->buckets[group & (e->nr_buckets - 1)].reqs;

	for (struct td_link *l = head->next; l != head; l = l->next)
		td_store_cancel(e, td_req_of(l), first, first + size - 1);
	for (u32 i = 0; i < size; i++)
		td_index_forget_at_once(e, first + i);
}
