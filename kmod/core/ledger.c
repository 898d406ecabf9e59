// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sweeps: changes of the index become durable.
 *
 * Invariants:
 *   L1  Groups are written one at a time, each by one request with PREFLUSH, so
 *       the data of a quarter that is recorded valid was flushed before.
 *   L2  Sweep n is done when every slot that was pending when it began has been
 *       recorded by a group that is durable, and the SSD was flushed since.
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
	td_link_init(&l->to_record);
	td_link_init(&l->recording);
	td_link_init(&l->flush_waiters);
	td_link_init(&l->mark_waiters);
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
	l->nr_pending_words = (e->layout.slots + 4095) / 4096;
	l->group = 1;
	l->checkpoint = 1;
	l->dirty_limit = (u64)-1;
	l->places_limit = (u32)-1;
	l->disk_unflushed = true;
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
	if (r->sweep > l->sweep_begun)
		td_ledger_want_sweep(e);
	r->then = (u8)then;
	td_link_add_tail(&l->sweep_waiters, &r->gate);
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

/* Record cleanings and discards, as many as the group has room for. */
static void put_requests(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;

	while (l->to_record.next != &l->to_record) {
		struct td_req *r = td_req_of_gate(l->to_record.next);

		if (td_frame_of(r->sector + r->count - 1) -
		    td_frame_of(r->sector) >= group_room(l))
			return;
		td_link_del(&r->gate);
		td_link_add_tail(&l->recording, &r->gate);
		r->phase = TD_PHASE_RECORDING;
		put_request(e, r);
	}
}

/* Pending slots from the cursor on. */
static void put_pending(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;
	u32 words = (e->layout.slots + 63) / 64;

	for (u32 at = l->sweep_cursor; at < words; at++) {
		u64 *summary = &l->pending_words[at / 64];

		if (at % 64 == 0 && !*summary) {
			at += 63;
			continue;
		}
		if (group_room(l) < 64) {
			l->sweep_cursor = at;
			return;
		}
		*summary &= ~(1ull << at % 64);
		for (u64 left = l->pending[at]; left; left &= left - 1) {
			u32 slot = at * 64 + env_first_bit(left);
			u64 v = td_word_snapshot(&e->words[slot]);

			l->nr_pending--;
			if (v & TD_W_PENDING)
				put_record(l, slot, td_record_of(v));
		}
		l->pending[at] = 0;
	}
	l->sweep_cursor = words;
}

static bool begin_sweep(struct td_ledger *l)
{
	if (l->sweep_on)
		return true;
	if (!l->sweep_wanted)
		return false;
	l->sweep_begun++;
	l->sweep_on = true;
	l->sweep_wanted = false;
	l->changed = false;
	l->ssd_unflushed = false;
	l->sweep_cursor = 0;
	return true;
}

bool td_group_next(struct td_engine *e, struct td_work *w)
{
	struct td_ledger *l = &e->ledger;
	u32 at = l->head, skip = 0, blocks;

	if (l->group_on || (!l->sweep_on && !l->sweep_wanted))
		return false;
	/* The largest group must fit, wherever it comes to lie. */
	if (l->head + TD_GROUP_BLOCKS_MAX > l->ring_blocks)
		skip = l->ring_blocks - l->head;
	if (l->used + skip + TD_GROUP_BLOCKS_MAX > l->ring_blocks) {
		td_checkpoint_want(e);
		return false;
	}
	if (skip || l->head == l->ring_blocks)
		at = 0;
	l->group_entries = 0;
	l->group_on = true;
	w->sector = l->super.journal.start + at * TD_BLOCK_SECTORS;
	w->buffer = l->group_buffer;
	if (l->scrub) {
		l->scrub_on = true;
		memset(l->group_buffer, 0, TD_GROUP_BYTES);
		w->kind = TD_WORK_GROUP;
		w->sectors = TD_GROUP_BYTES / 512;
		return true;
	}
	begin_sweep(l);
	put_requests(e);
	put_pending(e);
	if (!l->group_entries) {
		w->kind = TD_WORK_FLUSH_SSD;
		w->sectors = 0;
		env_count(e->counters, TD_C_FLUSHES_SSD, 1);
		return true;
	}
	blocks = td_group_blocks(l->group_entries);
	td_group_seal(l->group_buffer, l->super.uuid, l->group,
		      l->group_entries);
	w->kind = TD_WORK_GROUP;
	w->sectors = blocks * TD_BLOCK_SECTORS;
	l->group++;
	l->head = at + blocks;
	l->used += skip + blocks;
	if (l->used > l->ring_blocks / 2)
		td_checkpoint_want(e);
	env_count(e->counters, TD_C_GROUPS, 1);
	return true;
}

static void wake_sweep_waiters(struct td_engine *e, struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;
	struct td_link *next;

	for (struct td_link *k = l->sweep_waiters.next; k != &l->sweep_waiters;
	     k = next) {
		struct td_req *r = td_req_of_gate(k);

		next = k->next;
		if (r->sweep > l->sweep_done)
			continue;
		td_link_del(k);
		if (r->kind == TD_FLUSH)
			td_flush_gate(e, r, TD_GATE_SWEEP, woken);
		else
			td_wake(woken, r, r->then);
	}
}

/* A group is done; was it the sweep's last? */
static void end_sweep(struct td_engine *e, struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;

	l->group_on = false;
	if (l->sweep_cursor < (e->layout.slots + 63) / 64)
		return;
	l->sweep_on = false;
	l->sweep_done = l->sweep_begun;
	env_count(e->counters, TD_C_SWEEPS, 1);
	if (l->to_record.next != &l->to_record)
		l->sweep_wanted = true;
	wake_sweep_waiters(e, woken);
}

void td_group_done(struct td_engine *e, struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;

	if (l->scrub_on) {
		l->scrub_on = false;
		l->scrub = false;
		l->group_on = false;
		return;
	}
	for (u32 i = 0; i < l->group_entries; i++) {
		u64 record;
		u32 slot;

		td_group_get(l->group_buffer +
			     i / TD_BLOCK_ENTRIES * TD_BLOCK_BYTES,
			     i % TD_BLOCK_ENTRIES, &slot, &record);
		td_word_recorded(&e->words[slot]);
	}
	while (l->recording.next != &l->recording) {
		struct td_req *r = td_req_of_gate(l->recording.next);

		td_link_del(&r->gate);
		for (u32 i = 0; i < r->nr_parts; i++)
			td_index_clean(e, r->parts[i].slot, r->parts[i].mask);
		if (r->drops)
			td_discard_recorded(e, r);
		td_end(e, r, woken);
		td_wake(woken, r, r->drops ? TD_DO_ANSWER | TD_DO_END : TD_DO_END);
	}
	end_sweep(e, woken);
}
