// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which slot holds a frame, and which slot it may get.
 *
 * Invariant: at most one word has a given tag. (Only td_index_take() sets one,
 * under the lock of the frame's bucket, after td_index_find() found none.)
 * Threads: finding needs no lock but then is a hint; taking and giving up need
 * the bucket's lock. Readers pin and unpin at any time.
 * Why so: first choice is the way that the run already uses, since a run that
 * lies together is read by one request; then its home way, where readers look
 * first; then any free one; then what the policy gives up (policy.c).
 */
#include "policy.h"

static u32 ways(const struct td_engine *e)
{
	return 1u << e->layout.way_shift;
}

static struct td_place place_of(const struct td_engine *e, u64 frame)
{
	return td_place_of(&e->layout, frame);
}

/* @i'th slot to look at for @frame: the home way is the first. */
static u32 nth_slot(const struct td_engine *e, struct td_place p, u64 frame,
		    u32 i)
{
	return td_slot_at(&e->layout, p.base, (p.home + i) & (ways(e) - 1),
			  frame);
}

u32 td_index_find(const struct td_engine *e, u64 frame)
{
	struct td_place p = place_of(e, frame);

	for (u32 i = 0; i < ways(e); i++) {
		u32 slot = nth_slot(e, p, frame, i);

		if (td_word_has(td_word_load(&e->words[slot]), frame))
			return slot;
	}
	return TD_NO_SLOT;
}

bool td_index_readable(const struct td_engine *e, u64 frame, unsigned int want)
{
	u32 slot = td_index_find(e, frame);
	u64 v;

	if (slot == TD_NO_SLOT)
		return false;
	v = td_word_load(&e->words[slot]);
	return td_word_has(v, frame) && !(v & TD_W_HELD) &&
	       !(want & ~td_word_valid(v));
}

/* Free, or holding nothing that can be read. */
static bool is_free(u64 v)
{
	return !(v & (TD_W_VALID | TD_W_PINS | TD_W_BUSY));
}

bool td_index_has_room(const struct td_engine *e, u64 frame)
{
	struct td_place p = place_of(e, frame);

	for (u32 i = 0; i < ways(e); i++)
		if (is_free(td_word_load(&e->words[nth_slot(e, p, frame, i)])))
			return true;
	return false;
}

/* Take this one; false if a reader was faster. */
static bool take(struct td_engine *e, u64 frame, u32 slot)
{
	u64 was;

	if (!td_word_take(&e->words[slot], frame, &was))
		return false;
	if (!(was & TD_W_STATE))
		env_count(e->counters, TD_C_USED, 1);
	else if (was & TD_W_VALID)
		env_count(e->counters, TD_C_EVICTIONS, 1);
	return true;
}

/* Give up what the policy chooses, if anything. */
static u32 evict(struct td_engine *e, struct td_place p, u64 frame, u32 near_way,
		 enum td_greed greed)
{
	bool known = td_policy_known(e, frame);

	/* A reader may pin just then what was chosen. */
	for (u32 tries = 0; tries < ways(e); tries++) {
		u32 way = td_policy_victim(e, frame, near_way, known, greed);
		u32 slot;
		u64 gone;

		if (way == TD_NO_WAY)
			break;
		slot = td_slot_at(&e->layout, p.base, way, frame);
		gone = td_word_tag(td_word_load(&e->words[slot]));
		if (!take(e, frame, slot))
			continue;
		td_policy_gone(e, gone);
		if (known)
			td_word_settle(&e->words[slot]);
		return slot;
	}
	td_policy_gone(e, frame);
	return TD_NO_SLOT;
}

u32 td_index_take(struct td_engine *e, u64 frame, u32 near, enum td_greed greed)
{
	struct td_place p = place_of(e, frame);
	u32 near_way = TD_NO_SLOT;
	u32 slot;

	if (near != TD_NO_SLOT) {
		near_way = (near - p.base) >> e->layout.run_shift;
		slot = td_slot_at(&e->layout, p.base, near_way, frame);
		if (is_free(td_word_load(&e->words[slot])) &&
		    take(e, frame, slot))
			return slot;
	}
	for (u32 i = 0; i < ways(e); i++) {
		slot = nth_slot(e, p, frame, i);
		if (is_free(td_word_load(&e->words[slot])) &&
		    take(e, frame, slot))
			return slot;
	}
	return greed == TD_TAKE_FREE ? TD_NO_SLOT :
		evict(e, p, frame, near_way, greed);
}

void td_index_disown(struct td_engine *e, u32 slot, unsigned int publish)
{
	if (td_word_disown(&e->words[slot], publish))
		env_count(e->counters, TD_C_USED, (u64)-1);
}

u64 td_index_forget(struct td_engine *e, u32 slot, unsigned int mask)
{
	bool freed;
	u64 was = td_word_forget(&e->words[slot], mask, &freed);

	if (freed)
		env_count(e->counters, TD_C_USED, (u64)-1);
	return was;
}
