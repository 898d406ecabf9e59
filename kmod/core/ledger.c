// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sweeps: changes of the index become durable.
 *
 * Invariants:
 *   L1  Groups are written one at a time, each by one request, with PREFLUSH unless
 *       L9 says that there is nothing to flush. So the data of a quarter that is
 *       recorded valid was flushed before.
 *   L2  Sweep n is done when every slot that was pending when it began has been
 *       recorded by a group that is durable, and all data that was written to the SSD
 *       before it began was flushed.
 *   L3  A group holds a slot's whole record, so groups may be applied again, and
 *       over a checkpoint that has newer records.
 *   L4  A quarter is recorded clean only after the disk was flushed behind its
 *       write-back, and it is dirty in memory until that record is durable. So
 *       a quarter that is recorded dirty on the SSD is dirty in memory.
 *   L5  The ring from its tail on holds every group since the checkpoint.
 *   L6  After a load the place of the first group is wiped, durably, before the
 *       group is written. Else parts of a group that was torn before the load, and
 *       parts of a new torn group, might add up to the whole old group.
 *   L7  A slot has one record. So the last record of a slot in a group tells of the
 *       quarters of all cleanings and discards that the group records.
 *   L8  A group is made, and applied to memory when it is durable, in steps; between
 *       them the lock is released. What comes in between meets a group that is under
 *       way. Pending slots come first, then cleanings and discards: a write may make a
 *       slot pending that a cleaning has just put.
 *   L9  ssd_unflushed is true from the completion of each write of data to the SSD without
 *       FUA, before a word or an answer shows that, until a sweep begins; group_flush is from
 *       then on, until a group is submitted with PREFLUSH. So if both are false, all data
 *       was flushed, for the group before is durable. What the ledger itself writes
 *       has FUA, or (pages) a PREFLUSH behind it.
 *
 * Threads: the engine's lock.
 * Why a bit for each slot and not a queue: a slot that changes a hundred times
 * between two sweeps is recorded once, and no burst of changes needs memory.
 */
#include "discard.h"
#include "index.h"
#include "ledger_int.h"

void td_wake(struct td_list *woken, struct td_req *r, u32 actions)
{
	r->woken = (u8)actions;
	r->next = NULL;
	*woken->tail = r;
	woken->tail = &r->next;
}

void td_ledger_empty_rings(struct td_ledger *l)
{
	td_link_init(&l->sweep_waiters);
	td_link_init(&l->next_sweep_waiters);
	td_link_init(&l->to_record);
	td_link_init(&l->recording);
	td_link_init(&l->flush_waiters);
	td_link_init(&l->next_flush_waiters);
	for (u32 i = 0; i < TD_MARK_BLOCKS_MAX; i++)
		td_link_init(&l->mark_waiters[i]);
	td_link_init(&l->mark_writing);
	td_link_init(&l->clear_waiters);
	td_link_init(&l->whole_waiters);
}

void td_ledger_init(struct td_engine *e, const struct td_super *sb)
{
	struct td_ledger *l = &e->ledger;

	/* All fields behind the pointers, which the caller has set. */
	memset((u8 *)l + offsetof(struct td_ledger, nr_marks), 0,
	       sizeof(*l) - offsetof(struct td_ledger, nr_marks));
	l->super = *sb;
	l->ring_blocks = (u32)(sb->journal.length / TD_BLOCK_SECTORS);
	l->group = 1;
	l->group_durable = 1;
	l->checkpoint = 1;
	l->dirty_limit = (u64)-1;
	l->places_limit = (u32)-1;
	l->disk_unflushed = true;
	l->ssd_unflushed = true;
	td_ledger_empty_rings(l);
	td_marks_init(e);
}

u64 td_ledger_want_sweep(struct td_engine *e)
{
	e->ledger.sweep_wanted = true;
	td_ledger_due(e);
	return e->ledger.sweep_begun + 1;
}

bool td_ledger_waits(struct td_engine *e, struct td_req *r, u32 then)
{
	struct td_ledger *l = &e->ledger;

	if (r->sweep <= l->sweep_done)
		return false;
	r->then = (u8)then;
	if (r->sweep > l->sweep_begun) {
		td_ledger_want_sweep(e);
		td_link_add_tail(&l->next_sweep_waiters, &r->gate);
	} else {
		td_link_add_tail(&l->sweep_waiters, &r->gate);
	}
	return true;
}

void td_ledger_record(struct td_engine *e, struct td_req *r)
{
	td_link_add_tail(&e->ledger.to_record, &r->gate);
	td_ledger_want_sweep(e);
}

static void put_record(struct td_ledger *l, u32 slot, u64 record)
{
	td_group_put(l->group_buffer, l->group_entries++, slot, record);
}

/* Frames that @r touches: what it costs to record it, and to apply that. */
static u64 frames_of(const struct td_req *r)
{
	return td_frame_of(r->sector + r->count - 1) + 1 - td_frame_of(r->sector);
}

static u32 group_room(const struct td_ledger *l)
{
	return TD_GROUP_ENTRIES - l->group_entries;
}

/*
 * Bits of the record of @slot, which holds @frame, that @r takes away, if the group
 * under way records it: a cleaning makes quarters clean, a discard drops them.
 */
static u64 bits_taken(const struct td_engine *e, const struct td_req *r, u32 slot,
		      u64 frame)
{
	unsigned int mask = 0;
	u32 found;

	if (!td_recording(r) || frame < td_frame_of(r->sector) ||
	    frame > td_frame_of(r->sector + r->count - 1))
		return 0;
	if (r->kind == TD_DISCARD) {
		mask = td_discard_quarters(e, r, frame, &found);
		return td_word_quarters(mask) | (u64)mask << TD_W_DIRTY_SHIFT;
	}
	for (u32 i = 0; i < r->nr_parts; i++)
		if (r->parts[i].slot == slot)
			mask |= r->parts[i].mask;
	return (u64)mask << TD_W_DIRTY_SHIFT;
}

/* L7: the bits that @r and its neighbours (clean.c, K4) take away. */
static u64 all_bits_taken(const struct td_engine *e, const struct td_req *r, u32 slot,
			  u64 frame)
{
	const struct td_link *ring =
		&e->buckets[td_bucket_of(e, r->sector)].reqs;
	u64 bits = bits_taken(e, r, slot, frame);

	for (struct td_link *l = r->link.prev; l != ring; l = l->prev) {
		const struct td_req *q = td_req_of(l);

		if (td_frame_of(q->sector + q->count - 1) < frame)
			break;
		bits |= bits_taken(e, q, slot, frame);
	}
	for (struct td_link *l = r->link.next; l != ring; l = l->next) {
		const struct td_req *q = td_req_of(l);

		if (!td_req_undirties(q) || td_frame_of(q->sector) > frame)
			break;
		bits |= bits_taken(e, q, slot, frame);
	}
	return bits;
}

static void put_undirtied(struct td_engine *e, const struct td_req *r, u32 slot)
{
	u64 v = td_word_snapshot(&e->words[slot]);

	put_record(&e->ledger, slot,
		   td_record_of(v & ~all_bits_taken(e, r, slot, td_word_tag(v))));
}

/* Record the quarters that @r undirties; there is room. */
static void put_request(struct td_engine *e, const struct td_req *r)
{
	u64 last = td_frame_of(r->sector + r->count - 1);
	u32 slot;

	for (u32 i = 0; i < r->nr_parts; i++)
		if (r->parts[i].mask)
			put_undirtied(e, r, r->parts[i].slot);
	for (u64 f = td_frame_of(r->sector); r->drops && f <= last; f++)
		if (td_discard_quarters(e, r, f, &slot))
			put_undirtied(e, r, slot);
}

/*
 * Record cleanings and discards. True: all, or the group has no room for the next one.
 * The cost of one is that of its frames, which lie in one run.
 */
static bool put_requests(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;
	u64 looked = 0;

	while (l->to_record.next != &l->to_record) {
		struct td_req *r = td_req_of_gate(l->to_record.next);

		if (frames_of(r) > group_room(l))
			return true;
		if (looked >= TD_STEP_SLOTS)
			return false;
		looked += frames_of(r);
		td_link_del(&r->gate);
		td_link_add_tail(&l->recording, &r->gate);
		r->phase = TD_PHASE_RECORDING;
		put_request(e, r);
	}
	return true;
}

/* The first u64 of pending[] from @at on, which exists, that is not 0; else their number. */
static u32 next_pending(const struct td_engine *e, u32 at)
{
	const struct td_ledger *l = &e->ledger;
	u32 end = (e->layout.slots + 63) / 64;
	u32 tops = (end + 4095) / 4096;
	u32 word = at / 64;
	u64 left;

	left = l->pending_words[word] >> at % 64 << at % 64;
	if (!left) {
		u32 top = ++word / 64;
		u64 some = top < tops ?
			   l->pending_tops[top] >> word % 64 << word % 64 : 0;

		while (!some) {
			if (++top >= tops)
				return end;
			some = l->pending_tops[top];
		}
		word = top * 64 + env_first_bit(some);
		left = l->pending_words[word];
	}
	return word * 64 + env_first_bit(left);
}

/* Record the first pending slot of pending[@at]. */
static void put_slot(struct td_engine *e, u32 at)
{
	struct td_ledger *l = &e->ledger;
	u64 *pending = &l->pending[at], *summary = &l->pending_words[at / 64];
	u32 slot = at * 64 + env_first_bit(*pending);
	u64 v = td_word_snapshot(&e->words[slot]);

	l->nr_pending--;
	if (v & TD_W_PENDING)
		put_record(l, slot, td_record_of(v));
	*pending &= *pending - 1;
	if (!*pending)
		*summary &= ~(1ull << at % 64);
	if (!*summary)
		l->pending_tops[at / 4096] &= ~(1ull << at / 64 % 64);
}

/*
 * Record pending slots from the cursor on. True: all, or the group has no room for more;
 * half of it is left to cleanings and discards that wait.
 */
static bool put_pending(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;
	u32 end = (e->layout.slots + 63) / 64;

	for (u32 i = 0; i < TD_STEP_SLOTS; i++) {
		bool others = l->to_record.next != &l->to_record;

		l->sweep_cursor = next_pending(e, l->sweep_cursor);
		if (l->sweep_cursor == end ||
		    group_room(l) <= (others ? TD_GROUP_ENTRIES / 2 : 0))
			return true;
		put_slot(e, l->sweep_cursor);
	}
	return false;
}

static void begin_sweep(struct td_ledger *l)
{
	if (l->sweep_on)
		return;
	l->sweep_begun++;
	td_link_move_all(&l->sweep_waiters, &l->next_sweep_waiters);
	l->sweep_on = true;
	l->sweep_wanted = false;
	l->changed = false;
	/* A write without the lock may set it at any time (write.h): only what is seen is taken. */
	if (env_peek(l->ssd_unflushed)) {
		env_poke(l->ssd_unflushed, false);
		l->group_flush = true;
	}
	l->sweep_cursor = 0;
}

/* Blocks at the ring's end that stay empty, for the largest group must fit behind the head. */
static u32 blocks_skipped(const struct td_ledger *l)
{
	return l->head + TD_GROUP_BLOCKS_MAX > l->ring_blocks ?
	       l->ring_blocks - l->head : 0;
}

/* The group has its records, or is the wiping of its place. */
static void write_group(struct td_engine *e, struct td_work *w)
{
	struct td_ledger *l = &e->ledger;
	u32 skip = blocks_skipped(l), blocks;
	u32 at = skip || l->head == l->ring_blocks ? 0 : l->head;

	l->group_phase = TD_GROUP_WRITTEN;
	l->group_applied = 0;
	w->kind = TD_WORK_GROUP;
	w->sector = l->super.journal.start + at * TD_BLOCK_SECTORS;
	w->buffer = l->group_buffer;
	w->flush = l->group_flush || env_peek(l->ssd_unflushed);
	if (l->scrub) {
		l->scrub_on = true;
		memset(l->group_buffer, 0, TD_GROUP_BYTES);
		w->sectors = TD_GROUP_BYTES / 512;
		return;
	}
	l->group_flush = false;
	if (!l->group_entries) {
		w->kind = TD_WORK_FLUSH_SSD;
		env_count(e->counters, TD_C_FLUSHES_SSD, 1);
		return;
	}
	blocks = td_group_blocks(l->group_entries);
	w->sectors = blocks * TD_BLOCK_SECTORS;
	w->number = l->group++;
	l->head = at + blocks;
	l->used += skip + blocks;
	if (l->used > l->ring_blocks / 2)
		td_checkpoint_want(e);
	env_count(e->counters, TD_C_GROUPS, 1);
}

/* True: a group has begun to be made. */
static bool begin_group(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;

	if (!l->sweep_on && !l->sweep_wanted)
		return false;
	if (l->used + blocks_skipped(l) + TD_GROUP_BLOCKS_MAX > l->ring_blocks) {
		td_checkpoint_no_room(e);
		return false;
	}
	l->group_entries = 0;
	l->group_phase = TD_GROUP_SLOTS;
	if (!l->scrub)
		begin_sweep(l);
	return true;
}

bool td_group_next(struct td_engine *e, struct td_work *w)
{
	struct td_ledger *l = &e->ledger;

	if (l->group_phase == TD_GROUP_WRITTEN ||
	    (l->group_phase == TD_GROUP_NONE && !begin_group(e)))
		return false;
	w->kind = TD_WORK_STEP;
	if (l->scrub) {
		write_group(e, w);
		return true;
	}
	if (l->group_phase == TD_GROUP_SLOTS) {
		if (!put_pending(e))
			return true;
		l->group_phase = TD_GROUP_REQUESTS;
	}
	if (put_requests(e))
		write_group(e, w);
	return true;
}

void td_group_fill(const struct td_engine *e, const struct td_work *w)
{
	/* Nobody changes these fields while the group is under way. */
	td_group_seal(w->buffer, e->ledger.super.uuid, w->number,
		      e->ledger.group_entries);
}

/* Wake some of those that waited for the sweep that is done. True: all are woken. */
static bool wake_sweep_waiters(struct td_engine *e, struct td_list *woken)
{
	struct td_link *waiters = &e->ledger.sweep_waiters;

	for (u32 i = 0; i < TD_STEP_SLOTS && waiters->next != waiters; i++) {
		struct td_req *r = td_req_of_gate(waiters->next);

		td_link_del(&r->gate);
		if (r->kind == TD_FLUSH)
			td_flush_gate(e, r, TD_GATE_SWEEP, woken);
		else
			td_wake(woken, r, r->then);
	}
	return waiters->next == waiters;
}

/* A group is done; was it the sweep's last? True: nothing is left of the group. */
static bool end_sweep(struct td_engine *e, struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;

	if (l->sweep_cursor < (e->layout.slots + 63) / 64) {
		l->group_phase = TD_GROUP_NONE;
		return true;
	}
	if (l->sweep_on) {
		l->sweep_on = false;
		l->sweep_done = l->sweep_begun;
		env_count(e->counters, TD_C_SWEEPS, 1);
		if (l->to_record.next != &l->to_record)
			l->sweep_wanted = true;
	}
	if (!wake_sweep_waiters(e, woken))
		return false;
	l->group_phase = TD_GROUP_NONE;
	return true;
}

/* Apply some records of the durable group to memory. */
static void apply_records(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;
	u32 end = l->group_applied + TD_STEP_SLOTS;

	if (end > l->group_entries)
		end = l->group_entries;
	for (u32 i = l->group_applied; i < end; i++) {
		u64 record;
		u32 slot;

		td_group_get(l->group_buffer +
			     i / TD_BLOCK_ENTRIES * TD_BLOCK_BYTES,
			     i % TD_BLOCK_ENTRIES, &slot, &record);
		td_word_recorded(&e->words[slot]);
		td_ledger_page_differs(l, slot);
	}
	l->group_applied = end;
}

/* End some of the cleanings and discards that the group has recorded. True: all have ended. */
static bool end_recorded(struct td_engine *e, struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;
	u64 frames = 0;

	while (l->recording.next != &l->recording) {
		struct td_req *r = td_req_of_gate(l->recording.next);

		if (frames >= TD_STEP_SLOTS)
			return false;
		frames += frames_of(r);
		td_link_del(&r->gate);
		for (u32 i = 0; i < r->nr_parts; i++)
			td_index_clean(e, r->parts[i].slot, r->parts[i].mask);
		if (r->drops)
			td_discard_recorded(e, r);
		td_end(e, r, woken);
		td_wake(woken, r, r->drops ? TD_DO_ANSWER | TD_DO_END : TD_DO_END);
	}
	return true;
}

bool td_group_done(struct td_engine *e, struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;

	if (l->scrub_on) {
		l->scrub_on = false;
		l->scrub = false;
		l->group_phase = TD_GROUP_NONE;
		return false;
	}
	l->group_durable = l->group;
	if (l->group_applied < l->group_entries) {
		apply_records(e);
		return true;
	}
	return !end_recorded(e, woken) || !end_sweep(e, woken);
}
