// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The engine chooses the lanes that are trimmed, one range of neighbours at a time.
 *
 * Invariants:
 *   T1  A lane is trimmed only when each of its slots is FREE, and no record, durable or
 *       under way, names anything there. So whatever the SSD shows there afterwards, and
 *       after a cut, nobody reads.
 *   T2  From when a lane joins the range until the trim has ended, no frame gets a slot of
 *       the range (td_index_take()). So nothing is written there meanwhile, and the slots
 *       stay as T1 says; the lock may be released between two lanes.
 *   T3  The range has at most half of the ways of a group, if there is more than one way.
 *   T4  nr_freed is the number of bits set in freed. A lane without a bit was trimmed, or
 *       has a slot in use. Its bit is set when a slot of the lane becomes FREE.
 *
 * Threads: the engine's lock.
 * Why only whole lanes: an SSD hardly gains by less than a MiB, and many small trims cost
 * more than they bring.
 * Why the caller says when: core has no clock, and what a trim costs differs by a thousand
 * between two SSDs.
 * Why a failed trim changes nothing: it only was a hint.
 */
#include "index.h"
#include "ledger_int.h"
#include "trim.h"

#define LANES_LOOKED	128u	/* lanes with a bit that are looked at for one permission */
#define WORDS_SKIPPED	1024u	/* 64 lanes without a bit each, before the lock is released */

static u32 nr_lanes(const struct td_engine *e)
{
	return e->layout.slots >> e->layout.run_shift;
}

static size_t bytes_of_bits(const struct td_engine *e)
{
	return (nr_lanes(e) + 63) / 64 * sizeof(*e->trim.freed);
}

void td_trim_all(struct td_engine *e)
{
	memset(e->trim.freed, 0xff, bytes_of_bits(e));
	e->trim.nr_freed = nr_lanes(e);
}

void td_trim_none(struct td_engine *e)
{
	memset(e->trim.freed, 0, bytes_of_bits(e));
	e->trim.nr_freed = 0;
}

void td_trim_allow(struct td_engine *e, u32 lanes)
{
	struct td_trim *t = &e->trim;
	u32 most = td_ways(&e->layout) / 2;

	if (!t->nr_freed || t->slots || !td_active(e))
		return;
	t->most = (lanes < most ? lanes : most) << e->layout.run_shift;
	t->looks = LANES_LOOKED;
	td_ledger_due(e);
}

void td_trim_stop(struct td_engine *e)
{
	for (u32 i = 0; i < e->trim.slots; i += e->layout.run_mask + 1)
		td_trim_note(e, e->trim.first + i);
	e->trim.slots = 0;
	e->trim.looks = 0;
}

bool td_trim_wants(const struct td_engine *e)
{
	return e->trim.nr_freed && td_active(e);
}

static void forget_bit(struct td_trim *t, u32 lane)
{
	t->freed[lane / 64] &= ~(1ull << lane % 64);
	t->nr_freed--;
}

enum use {
	USED,		/* has a slot that is in use, or is being written or read */
	UNRECORDED,	/* is free, but not durably */
	FREE,		/* T1 */
};

static enum use use_of(struct td_engine *e, u32 lane)
{
	u32 first = lane << e->layout.run_shift;
	enum use use = FREE;

	for (u32 slot = first; slot <= (first | e->layout.run_mask); slot++) {
		u64 v = td_word_load(&e->words[slot]);

		if (v & (TD_W_VALID | TD_W_BUSY))
			return USED;
		/* A reader keeps the slot from becoming FREE, or has kept it. */
		if (v & TD_W_STATE)
			td_index_forget(e, slot, TD_QUARTERS);
		if (!td_index_names_nothing(e, slot))
			use = UNRECORDED;
	}
	return use;
}

static bool has_bit(const struct td_trim *t, u32 lane)
{
	return t->freed[lane / 64] >> lane % 64 & 1;
}

/* Move t->next to the next lane that has a bit, or as far as one look goes. */
static void skip_others(struct td_trim *t, u32 lanes)
{
	for (u32 i = 0; i < WORDS_SKIPPED && t->next < lanes; i++) {
		u64 left = t->freed[t->next / 64] >> t->next % 64;

		if (left) {
			t->next += env_first_bit(left);
			break;
		}
		t->next = (t->next | 63) + 1;
	}
}

/* Look at the next lane, which may join the range. False: the search has ended. */
static bool look(struct td_engine *e)
{
	struct td_trim *t = &e->trim;
	u32 lanes = nr_lanes(e), lane_slots = e->layout.run_mask + 1;
	enum use use;

	if (!t->slots)
		skip_others(t, lanes);
	if (t->next >= lanes) {
		t->next = 0;
		return false;
	}
	if (!has_bit(t, t->next))
		return !t->slots;
	if (t->slots && t->slots + lane_slots > t->most)
		return false;
	t->looks--;
	use = use_of(e, t->next);
	if (use != UNRECORDED)
		forget_bit(t, t->next);
	if (use == FREE) {
		if (!t->slots)
			t->first = t->next << e->layout.run_shift;
		t->slots += lane_slots;
	} else if (t->slots) {
		return false;
	}
	t->next++;
	return true;
}

bool td_trim_next(struct td_engine *e, struct td_work *w)
{
	struct td_trim *t = &e->trim;

	if (!t->looks)
		return false;
	w->kind = TD_WORK_STEP;
	if (look(e) && t->looks)
		return true;
	t->looks = 0;
	if (!t->slots)
		return false;
	w->kind = TD_WORK_TRIM;
	w->sector = td_slot_sector(&e->layout, t->first);
	w->sectors = t->slots << TD_FRAME_SHIFT;
	return true;
}

void td_trim_done(struct td_engine *e, bool ok)
{
	struct td_trim *t = &e->trim;

	if (ok)
		env_count(e->counters, TD_C_TRIMMED, (u64)t->slots << TD_FRAME_SHIFT);
	t->slots = 0;
}
