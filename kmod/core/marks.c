// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Intent marks: the durable note that writes to a region of the disk may be
 * under way, so that its clean copies are not believed after a crash.
 *
 * Invariants:
 *   M1  A request that writes to the disk, or in place over a quarter that is
 *       recorded clean, is carried out only while the mark of its region is SET.
 *   M2  A mark leaves SET only when no request is in flight to its region, and
 *       a flush of the disk that began after the last of them ended has
 *       succeeded, and a sweep that began after it is done.
 *   M3  The image holds a 1 for every mark that is not CLEAR (or CLEARING). One
 *       block of it is written at a time.
 *   M4  A mark that is SETTING has a request that waits for it, or lies in the range of
 *       marks to be set ahead, which lies in one block. The range stays until all its
 *       marks are set.
 *   M5  More marks than that of its own region are set for a write-back write over a
 *       clean quarter only if ENV_LONE_SWEEPS such writes had to wait since the last
 *       flush of a user began, within a second. Each further wait that such a mark does
 *       not spare has twice as many regions around it marked, of one block.
 *   M6  A block is filled, and its write is applied to memory, in steps. The image is
 *       copied when the last mark is SETTING, so the write has all of them. No block is
 *       filled while one is written: requests that come then are looked at behind it.
 *   M7  A block is cleared in steps, and written once, behind the last of them. A region
 *       whose mark is CLEARING gets no write before a new mark is durable, so it does not
 *       matter when that is. Flushes that wait for marks to be cleared wait for it, too.
 *
 * A region stays CLEARING when its block has been written: from then on CLEARING
 * means CLEAR. So no code has to look for such regions.
 * Threads: the engine's lock.
 * Why ahead: a stream of writes, or a large discard, would wait at the begin of each
 * region. A mark that was set in vain costs a write to clear it, and after a crash the
 * clean copies there.
 * Why around (M5): a write alone that nobody flushes costs a sweep of 340 us on an SSD that
 * takes 58 us for the write, and a mark of its region alone 140 us. What lies around costs
 * no more, until a power cut: then clean copies there are read anew. So it grows with
 * what it saves, ends with the flush that shows that somebody waits, and marks that no
 * write used are the first to go.
 * Why not cleared as soon as possible: a region that is written to is mostly
 * written to again, and each change costs a write of the SSD.
 */
#include "index.h"
#include "ledger_int.h"

#define OLD_TICKS	8	/* a mark without writes for so long may go */
#define BUSY_TICKS	64	/* so long old marks stay at most while the disk is written to */
#define AROUND_SHIFT_MAX 9	/* log2 of the most regions around a lone write */
#define AHEAD_MAX	(1u << AROUND_SHIFT_MAX)	/* regions: one step sets them */

_Static_assert(TD_BLOCK_MARKS % AHEAD_MAX == 0, "marks around lie in two blocks");

static u32 region_of(const struct td_engine *e, const struct td_req *r)
{
	return (u32)(r->sector >> e->ledger.mark_shift);
}

static u32 nr_blocks(const struct td_ledger *l)
{
	return (l->nr_marks + TD_BLOCK_MARKS - 1) / TD_BLOCK_MARKS;
}

void td_marks_init(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;

	l->mark_shift = td_mark_shift(l->super.origin_sectors);
	l->nr_marks = td_mark_count(l->super.origin_sectors);
	l->place_shift = TD_PLACE_SHIFT_MIN;
	if (l->place_shift + TD_PLACES_SHIFT < l->mark_shift)
		l->place_shift = l->mark_shift - TD_PLACES_SHIFT;
	l->clear_at = l->nr_marks;
}

/* Flushes that wait for marks to be cleared are answered (F5). */
static void wake_clear_waiters(struct td_engine *e, struct td_list *woken)
{
	struct td_link *head = &e->ledger.clear_waiters;

	while (head->next != head) {
		struct td_req *r = td_req_of_gate(head->next);

		td_link_del(&r->gate);
		td_flush_gate(e, r, TD_GATE_CLEAR, woken);
	}
}

void td_marks_enter(struct td_engine *e, struct td_req *r, struct td_list *woken)
{
	e->ledger.marks[region_of(e, r)].inflight++;
	e->ledger.inflight++;
	r->counted = true;
	wake_clear_waiters(e, woken);
}

void td_marks_leave(struct td_engine *e, struct td_req *r, bool wrote_disk)
{
	struct td_ledger *l = &e->ledger;
	struct td_mark *m = &l->marks[region_of(e, r)];

	if (!r->counted)
		return;
	r->counted = false;
	m->inflight--;
	l->inflight--;
	/* The slots may have been forgotten while @r was in flight (checkpoint.c, P4). */
	td_index_note_free(e, td_frame_of(r->sector),
			   td_frame_of(r->sector + r->count - 1));
	/* The index changes of @r are pending, or in the sweep under way. */
	if (l->changed || l->ssd_unflushed)
		m->sweep = (u32)(l->sweep_begun + 1);
	else
		m->sweep = (u32)l->sweep_begun;
	if (wrote_disk)
		/* The disk may have been flushed since it wrote. */
		td_marks_unflushed(e, r);
	m->tick = l->tick;
}

void td_marks_unflushed(struct td_engine *e, const struct td_req *r)
{
	struct td_ledger *l = &e->ledger;

	l->marks[region_of(e, r)].flush = (u32)(l->flush_begun + l->disk_unflushed);
}

void td_marks_loaded(struct td_ledger *l, u32 region)
{
	l->marks[region].state = TD_MARK_SET;
	td_image_set(l, region);
}

/* Does @region need a write of its block to be marked? None is under way (M6). */
static bool is_clear(const struct td_ledger *l, u32 region)
{
	u8 state = l->marks[region].state;

	return state == TD_MARK_CLEAR || state == TD_MARK_CLEARING;
}

bool td_marks_is_set(const struct td_engine *e, const struct td_req *r)
{
	return e->ledger.marks[region_of(e, r)].state == TD_MARK_SET;
}

bool td_marks_alone(const struct td_engine *e, const struct td_req *r)
{
	const struct td_ledger *l = &e->ledger;
	const struct td_mark *m = &l->marks[region_of(e, r)];

	return l->lone < ENV_LONE_SWEEPS && m->inflight == 1 &&
	       (s32)((u32)l->sweep_done - m->sweep) >= 0;
}

u64 td_marks_lone_sweep(struct td_engine *e)
{
	/* Writes that share a sweep are one wait. */
	e->ledger.lone += !e->ledger.sweep_wanted;
	return td_ledger_want_sweep(e);
}

void td_marks_wait(struct td_engine *e, struct td_req *r)
{
	struct td_ledger *l = &e->ledger;

	td_link_add_tail(&l->mark_waiters[region_of(e, r) / TD_BLOCK_MARKS], &r->gate);
	td_ledger_due(e);
}

/*
 * Have the marks of the regions from @from to @end, which lie in one block, set (M4), as
 * if their last write had ended at @tick.
 */
static void want_ahead(struct td_engine *e, u32 from, u32 end, u8 tick)
{
	struct td_ledger *l = &e->ledger;

	l->ahead = from;
	l->ahead_end = end;
	l->ahead_tick = tick;
	td_ledger_due(e);
}

void td_marks_around(struct td_engine *e, const struct td_req *r)
{
	struct td_ledger *l = &e->ledger;
	u32 region = region_of(e, r);
	u32 first, end, shift;

	if (l->lone < ENV_LONE_SWEEPS || l->ahead_end)
		return;
	shift = ++l->lone - ENV_LONE_SWEEPS;
	if (shift > AROUND_SHIFT_MAX)
		shift = AROUND_SHIFT_MAX;
	/* They lie in one block. */
	first = region >> shift << shift;
	end = first + (1u << shift);
	if (end > l->nr_marks)
		end = l->nr_marks;
	/* Marks that no write uses count as old: they may go at once. */
	want_ahead(e, first, end, (u8)(l->tick - OLD_TICKS));
}

void td_marks_ahead(struct td_engine *e, const struct td_req *r, u64 last)
{
	struct td_ledger *l = &e->ledger;
	u64 behind = (last >> l->mark_shift) + 1;
	u32 first = region_of(e, r) + 1;
	u32 end = (first / TD_BLOCK_MARKS + 1) * TD_BLOCK_MARKS;
	u32 middle;

	if (end > first + AHEAD_MAX)
		end = first + AHEAD_MAX;
	if (end > behind)
		end = (u32)behind;
	if (end > l->nr_marks)
		end = l->nr_marks;
	if (l->ahead_end || first >= end || !td_active(e))
		return;
	/* While half of them are set a write of the block is not worth it. */
	middle = first + (end - first) / 2;
	if (l->marks[middle].state == TD_MARK_SET)
		return;
	want_ahead(e, first, end, l->tick);
}

/* Does block @block have marks that are to be set ahead? */
static bool is_ahead(const struct td_ledger *l, u32 block)
{
	return l->ahead_end && l->ahead / TD_BLOCK_MARKS == block;
}

static void begin_setting(struct td_ledger *l, u32 region)
{
	l->marks[region].state = TD_MARK_SETTING;
	td_image_set(l, region);
}

static void end_setting(struct td_engine *e, struct td_mark *m)
{
	m->state = TD_MARK_SET;
	env_count(e->counters, TD_C_MARKS_SET, 1);
}

/* Block @block is about to be written, with all marks to be set ahead. False: none. */
static bool set_ahead(struct td_ledger *l, u32 block)
{
	bool any = false;

	if (!is_ahead(l, block))
		return false;
	for (u32 i = l->ahead; i < l->ahead_end; i++) {
		if (!is_clear(l, i))
			continue;
		begin_setting(l, i);
		l->marks[i].tick = l->ahead_tick;
		any = true;
	}
	l->ahead_on = any;
	if (!any)
		l->ahead_end = 0;
	return any;
}

/* The marks that were set ahead are durable. */
static void ahead_done(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;

	for (u32 i = l->ahead; i < l->ahead_end; i++)
		if (l->marks[i].state == TD_MARK_SETTING)
			end_setting(e, &l->marks[i]);
	l->ahead_end = 0;
	l->ahead_on = false;
}

/* Copy block @block of the image to where it is written from. */
static void write_block(struct td_engine *e, u32 block, struct td_work *w)
{
	struct td_ledger *l = &e->ledger;

	td_image_copy(l, block);
	l->marks_block = block;
	l->marks_on = true;
	w->kind = TD_WORK_MARKS;
	w->sector = l->super.intent.start + (u64)block * TD_BLOCK_SECTORS;
	w->sectors = TD_BLOCK_SECTORS;
	w->buffer = l->marks_buffer;
}

/* Look at some of the requests that wait for marks of block @block. True: at all. */
static bool fill_block(struct td_engine *e, u32 block, struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;
	struct td_link *waiters = &l->mark_waiters[block];

	for (u32 i = 0; i < TD_STEP_SLOTS && waiters->next != waiters; i++) {
		struct td_req *r = td_req_of_gate(waiters->next);
		u32 region = region_of(e, r);

		td_link_del(&r->gate);
		if (l->marks[region].state == TD_MARK_SET) {
			td_wake(woken, r, TD_DO_START);
			continue;
		}
		if (is_clear(l, region))
			begin_setting(l, region);
		td_link_add_tail(&l->mark_writing, &r->gate);
	}
	return waiters->next == waiters;
}

/* The block to be filled: the one begun, else the next one that is wanted; or -1. */
static u32 wanted_block(const struct td_ledger *l)
{
	u32 blocks = nr_blocks(l);

	if (l->mark_writing.next != &l->mark_writing)
		return l->marks_block;
	for (u32 i = 1; i <= blocks; i++) {
		u32 block = (l->marks_block + i) % blocks;

		if (l->mark_waiters[block].next != &l->mark_waiters[block] ||
		    is_ahead(l, block))
			return block;
	}
	return (u32)-1;
}

/*
 * Write a block for the requests that wait for marks of it, and for the marks to be set
 * ahead. False: nothing is to be set.
 */
static bool set_next(struct td_engine *e, struct td_work *w, struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;
	u32 block = wanted_block(l);

	if (block == (u32)-1)
		return false;
	l->marks_block = block;
	w->kind = TD_WORK_STEP;
	if (fill_block(e, block, woken) &&
	    (set_ahead(l, block) || l->mark_writing.next != &l->mark_writing))
		write_block(e, block, w);
	return true;
}

static bool is_clearable(const struct td_ledger *l, const struct td_mark *m)
{
	return m->state == TD_MARK_SET && !m->inflight &&
	       (s32)((u32)l->flush_done - m->flush) >= 0 &&
	       (s32)((u32)l->sweep_done - m->sweep) >= 0;
}

static bool is_old(const struct td_ledger *l, const struct td_mark *m)
{
	return (u8)(l->tick - m->tick) >= OLD_TICKS;
}

/*
 * Clear what can be cleared of the next marks, which lie in one block.
 */
static void clear_next(struct td_engine *e, struct td_work *w)
{
	struct td_ledger *l = &e->ledger;
	u32 block = l->clear_at / TD_BLOCK_MARKS;
	u32 at = l->clear_at, last = (u32)-1, cost = 0;

	for (; cost < TD_STEP_MARKS && at / TD_BLOCK_MARKS == block && at < l->nr_marks;
	     last = at, at = td_image_next(l, at + 1)) {
		struct td_mark *m = &l->marks[at];

		/* Marks that lie apart miss the processor's cache. */
		cost += at / 64 == last / 64 ? 1 : 8;
		if (!is_clearable(l, m) || (l->clear_aged && !is_old(l, m)))
			continue;
		m->state = TD_MARK_CLEARING;
		td_image_reset(l, at);
		env_count(e->counters, TD_C_MARKS_CLEARED, 1);
		l->clear_block = block;
		l->clear_unwritten = true;
	}
	l->clear_at = at;
	w->kind = TD_WORK_STEP;
}

/* Has clearing left the block whose cleared marks are to be written? */
static bool is_block_cleared(const struct td_ledger *l)
{
	return l->clear_unwritten && (l->clear_at >= l->nr_marks ||
				      l->clear_at / TD_BLOCK_MARKS != l->clear_block);
}

static void begin_clearing(struct td_engine *e, bool aged)
{
	struct td_ledger *l = &e->ledger;

	l->clear_aged = aged;
	l->clear_at = 0;
	td_ledger_due(e);
}

void td_marks_clear_all(struct td_engine *e)
{
	begin_clearing(e, false);
}

bool td_marks_next(struct td_engine *e, struct td_work *w,
		   struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;

	if (l->marks_on)
		return false;
	if (set_next(e, w, woken))
		return true;
	l->clear_at = td_image_next(l, l->clear_at);
	if (is_block_cleared(l)) {
		l->clear_unwritten = false;
		write_block(e, l->clear_block, w);
		return true;
	}
	if (l->clear_at < l->nr_marks) {
		clear_next(e, w);
		return true;
	}
	wake_clear_waiters(e, woken);
	return false;
}

bool td_marks_done(struct td_engine *e, struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;

	if (l->ahead_on)
		ahead_done(e);
	for (u32 i = 0; i < TD_STEP_SLOTS && l->mark_writing.next != &l->mark_writing; i++) {
		struct td_req *r = td_req_of_gate(l->mark_writing.next);
		struct td_mark *m = &l->marks[region_of(e, r)];

		td_link_del(&r->gate);
		if (m->state == TD_MARK_SETTING)
			end_setting(e, m);
		td_wake(woken, r, TD_DO_START);
	}
	l->marks_on = l->mark_writing.next != &l->mark_writing;
	return l->marks_on;
}

void td_marks_tick(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;

	l->tick++;
	if (!l->marks_set || l->tick % OLD_TICKS)
		return;
	/* A flush holds up the writes that the disk has, and file systems ask for flushes themselves. */
	if (l->disk_unflushed && (!l->inflight || l->tick % BUSY_TICKS == 0))
		td_flush_want(e);
	/* A pass for a flush goes on until its end. */
	if (l->clear_at == l->nr_marks || l->clear_aged)
		begin_clearing(e, true);
}
