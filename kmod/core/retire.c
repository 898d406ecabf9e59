// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One unreadable block of the SSD costs one slot.
 *
 * Invariants:
 *   X1  A retired slot takes data only over quarters that are dirty there (their
 *       frame cannot have two slots), and the writes that heal a quarter which
 *       cannot be cleaned (writeback.c, B8). No other frame gets the slot.
 *   X2  A failed read makes the state BYPASS at most, never STRANDED: only a failed
 *       write does that. The lock is held while the dirty count is looked at.
 *   X3  After a failed read there is a record to write, so the next tick wants a sweep.
 *       If the SSD is gone, that write fails, so the loss is known within a second,
 *       even without writes. (The kernel answers a flush by itself if the SSD has no
 *       volatile cache.) No sweep at once: the read may fail after the snapshot of a
 *       hibernation, and then nothing may change the SSD.
 *
 * Threads: the engine's lock; readers look at suspects without it.
 * Why suspects: a failed read of several slots does not say which slot is bad. Later
 * hits read one suspect slot at a time, so the next failure names the bad slot.
 * Why a list of retired slots and no state of the word: the list is short, it must
 * be on the SSD in any case (FORMAT.md, superblock), and only code that stores data
 * has to look at it.
 */
#include "index.h"
#include "discard.h"
#include "ledger_int.h"
#include "retire.h"

/* A suspect: first slot and count, or 0. */
#define SUSPECT_SHIFT	32

bool td_suspect_listed(const struct td_engine *e, u32 slot)
{
	for (u32 i = 0; i < TD_SUSPECTS; i++) {
		u64 v = env_load(&e->suspects[i]);

		if (slot - (u32)v < (u32)(v >> SUSPECT_SHIFT))
			return true;
	}
	return false;
}

static void add_suspect(struct td_engine *e, u32 slot, u32 count)
{
	if (td_suspect_listed(e, slot) && td_suspect_listed(e, slot + count - 1))
		return;
	env_store(&e->suspects[e->suspect_next], (u64)count << SUSPECT_SHIFT | slot);
	env_store(&e->suspected, 1);
	e->suspect_next = (e->suspect_next + 1) % TD_SUSPECTS;
}

/* Where in the list @slot is, or would be. */
static u32 list_position(const struct td_retired *r, u32 slot)
{
	u32 at = 0;

	while (at < r->count && r->slots[at] < slot)
		at++;
	return at;
}

bool td_retired_listed(const struct td_engine *e, u32 slot)
{
	const struct td_retired *r = &e->retired;
	u32 at = list_position(r, slot);

	return at < r->count && r->slots[at] == slot;
}

static void add_to_list(struct td_retired *r, u32 slot)
{
	u32 at = list_position(r, slot);

	if (r->count == TD_RETIRED_MAX)
		return;
	for (u32 i = r->count++; i > at; i--)
		r->slots[i] = r->slots[i - 1];
	r->slots[at] = slot;
}

void td_retired_leave(struct td_engine *e, u64 first, u64 last)
{
	if (likely(!e->retired.count))
		return;
	for (u64 f = first; f <= last; f++) {
		u32 slot = td_index_find(e, f);

		if (slot != TD_NO_SLOT && td_retired(e, slot))
			td_index_forget(e, slot, TD_QUARTERS);
	}
}

/* @slot, whose bucket is @b, cannot be read. */
static void retire_slot(struct td_engine *e, struct td_bucket *b, u32 slot,
			struct td_list *woken)
{
	for (struct td_link *l = b->reqs.next; l != &b->reqs; l = l->next)
		td_store_cancel(e, td_req_of(l), slot, slot);
	td_index_forget(e, slot, TD_QUARTERS);
	if (!td_retired(e, slot)) {
		e->retired_life++;
		add_to_list(&e->retired, slot);
	}
	/* X2 */
	if (e->retired_life > TD_RETIRED_LIFE &&
	    e->ledger.dirty <= e->ledger.fresh)
		td_fail(e, woken);
}

/*
 * If @dirty is 0, quarters that are dirty now became dirty after the pin. The disk
 * has their data as it was when the read began, or newer, so the disk may answer.
 */
static bool disk_may_answer(const struct td_engine *e, u64 sector, u32 count, u32 slot,
			    u64 dirty)
{
	u64 end = sector + count;
	u64 first = td_frame_of(sector), last = td_frame_of(end - 1);

	for (u64 f = first; dirty && f <= last; f++)
		if (td_word_dirty(td_word_load(&e->words[slot + (f - first)])) &
		    td_quarters_touched(f, sector, end))
			return false;
	return true;
}

bool td_hit_refused(struct td_engine *e, u64 sector, u32 count, u32 slot, u64 dirty)
{
	env_count(e->counters, TD_C_READ_HIT, -(u64)count);
	env_count(e->counters, TD_C_READ_BYPASSED_UNALIGNED, count);
	if (!disk_may_answer(e, sector, count, slot, dirty))
		return false;
	td_disk_read_begins(e);
	return true;
}

bool td_hit_failed(struct td_engine *e, u64 sector, u32 count, u32 slot,
		   u64 dirty, struct td_list *woken)
{
	u64 first = td_frame_of(sector), last = td_frame_of(sector + count - 1);
	bool again = disk_may_answer(e, sector, count, slot, dirty);

	env_count(e->counters, TD_C_SSD_ERRORS, 1);
	env_count(e->counters, TD_C_READ_HIT, -(u64)count);
	env_count(e->counters, TD_C_READ_BYPASSED_FAILED, count);
	if (td_active(e)) {
		/* X3 */
		td_word_pend(&e->words[slot]);
		td_ledger_pend(&e->ledger, slot);
		if (first != last)
			add_suspect(e, slot, (u32)(last - first) + 1);
		else if (disk_may_answer(e, sector, count, slot, ~0ull))
			retire_slot(e, &e->buckets[td_bucket_of(e, sector)], slot,
				    woken);
	}
	if (again)
		td_disk_read_begins(e);
	return again;
}
