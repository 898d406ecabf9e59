// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The last part of a load: what the slots say together.
 *
 * Two slots may name one frame: a page of the checkpoint is as new as its writing,
 * and a cut may fall between two groups of one sweep. If one of the two is dirty, it
 * is the newer (a frame leaves a slot only when the slot is recorded clean). If both
 * are clean, either may be the older, so both are dropped.
 *
 * Invariant: when all slots are checked, no two slots name one frame, no clean copy
 * lies in a marked region, and the counts of dirty quarters, of used slots and of the
 * slots of each region are right.
 * Threads: one, before the engine is in use.
 */
#include "index.h"
#include "load_int.h"

#define GROUPS_AT_ONCE	64u	/* of slots, checked by one call */

/* The clean quarters of @slot are no longer valid. */
static void drop_clean(struct td_load *l, u32 slot)
{
	u64 was, now;

	was = td_word_forget(&l->e->words[slot], TD_QUARTERS, &now);
	if (now != was)
		td_ledger_pend(&l->e->ledger, slot);
}

/* Compare @slot with the slots behind it that may hold the same frame. */
static void drop_older_twins(struct td_load *l, u32 slot, u32 end)
{
	u64 v = td_word_load(&l->e->words[slot]);
	bool twin = false;

	if (!(v & TD_W_STATE))
		return;
	for (u32 other = slot + l->e->layout.run_mask + 1; other < end;
	     other += l->e->layout.run_mask + 1) {
		u64 u = td_word_load(&l->e->words[other]);

		if (!td_word_has(u, td_word_tag(v)))
			continue;
		if (u & TD_W_DIRTY && v & TD_W_DIRTY)
			td_load_fail(l, TD_LOAD_IMPOSSIBLE);
		twin = true;
		if (!(u & TD_W_DIRTY))
			drop_clean(l, other);
	}
	if (twin && !(v & TD_W_DIRTY))
		drop_clean(l, slot);
}

/* What the slots of a set, one in each way of a group, have in common. */
struct set {
	u64 any;	/* their words, or'ed */
	u32 used;	/* slots with a valid quarter */
	bool twins;	/* do two of them hold the same frame? */
};

/* Does a slot of the set from @first to before @end hold frame @tag? */
static bool is_held(const struct td_layout *layout, const struct td_word *words,
		    u64 tag, u32 first, u32 end)
{
	for (u32 slot = first; slot < end; slot += layout->run_mask + 1)
		if (td_word_has(td_word_load(&words[slot]), tag))
			return true;
	return false;
}

/*
 * Look at the set that begins with @first. The last bits of a frame's run choose an
 * entry of l->seen; only a frame whose entry is taken is compared with each slot
 * before it.
 */
static inline struct set survey_set(struct td_load *l, const struct td_layout *layout,
				    const struct td_word *words, u32 first, u32 end)
{
	struct set set = { 0 };
	u8 now;

	if (!++l->seen_in) {
		memset(l->seen, 0, sizeof(l->seen));
		l->seen_in = 1;
	}
	now = l->seen_in;
	for (u32 slot = first; slot < end; slot += layout->run_mask + 1) {
		u64 v = td_word_load(&words[slot]);
		u8 *seen = &l->seen[td_word_tag(v) >> layout->run_shift &
				    (TD_LOAD_SEEN - 1)];

		if (!(v & TD_W_STATE))
			continue;
		set.any |= v;
		set.used += !!(v & TD_W_VALID);
		if (*seen == now && !set.twins)
			set.twins = is_held(layout, words, td_word_tag(v),
					    first, slot);
		*seen = now;
	}
	return set;
}

/* Count @slot, whose word is @v; drop clean copies of a marked region. True: in use. */
static bool count_slot(struct td_load *l, u32 slot, u64 v)
{
	struct td_ledger *ledger = &l->e->ledger;
	u64 sector = td_word_tag(v) << TD_FRAME_SHIFT;

	if (ledger->marks_set &&
	    ledger->marks[sector >> ledger->mark_shift].state == TD_MARK_SET) {
		drop_clean(l, slot);
		v = td_word_load(&l->e->words[slot]);
	}
	for (unsigned int dirty = td_word_dirty(v); dirty; dirty &= dirty - 1)
		td_ledger_count_dirty(ledger, sector, 1);
	return v & TD_W_VALID;
}

static u32 count_set(struct td_load *l, const struct set *set, u32 first,
		      u32 end)
{
	u32 step = l->e->layout.run_mask + 1;
	u32 used = 0;

	for (u32 slot = first; set->twins && slot < end; slot += step)
		drop_older_twins(l, slot, end);
	for (u32 slot = first; slot < end; slot += step) {
		u64 v = td_word_load(&l->e->words[slot]);

		if (v & TD_W_STATE)
			used += count_slot(l, slot, v);
	}
	return used;
}

/* Count the slots of the group from @first to before @end in the regions of their frames. */
static void count_regions(struct td_load *l, u32 first, u32 end)
{
	struct td_ledger *ledger = &l->e->ledger;
	u32 shift = ledger->mark_shift - TD_FRAME_SHIFT;

	for (u32 slot = first; slot < end; slot++) {
		u64 v = td_word_load(&l->e->words[slot]);

		if (v & TD_W_STATE)
			ledger->marks[td_word_tag(v) >> shift].slots++;
	}
}

void td_load_check_slots(struct td_load *l)
{
	/* A local copy: the compiler knows that stores to words do not change it. */
	const struct td_layout layout = l->e->layout;
	u32 shift = layout.run_shift + layout.way_shift;
	bool marked = l->e->ledger.marks_set;
	u64 used = 0;

	for (u32 n = 0; n < GROUPS_AT_ONCE && l->at < l->end; n++, l->at++) {
		u32 first = l->at << shift;
		u32 end = first + (1u << shift);

		for (u32 at = first; at <= first + layout.run_mask; at++) {
			struct set set = survey_set(l, &layout, l->e->words, at, end);

			if (set.twins || set.any & TD_W_DIRTY || marked)
				set.used = count_set(l, &set, at, end);
			used += set.used;
		}
		count_regions(l, first, end);
	}
	env_count(l->e->counters, TD_C_USED, used);
}

/* In a retired slot only dirty quarters count. */
void td_load_drop_retired(struct td_load *l, u32 slot)
{
	if (td_word_load(&l->e->words[slot]) & TD_W_VALID)
		td_index_forget(l->e, slot, TD_QUARTERS);
}
