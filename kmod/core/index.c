// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which slot holds a frame, and which slot it may get.
 *
 * Invariant: at most one word has a given tag. (Only td_index_take() sets one,
 * under the lock, after td_index_find() found none.)
 * Threads: finding needs no lock but then is a hint; taking and giving up need
 * the lock. Readers pin and unpin at any time.
 * Why this order: the first choice is the way that the run already uses, since a run
 * that lies together is read by one request; then the home way, where readers look
 * first; then any free way; then the way that the policy gives up (policy.c).
 */
#include "policy.h"
#include "retire.h"
#include "trim.h"

static struct td_place place_of(const struct td_engine *e, u64 frame)
{
	return td_place_of(&e->layout, frame);
}

/* @i'th slot to look at for @frame: the home way is the first. */
static u32 nth_slot(const struct td_engine *e, struct td_place p, u64 frame,
		    u32 i)
{
	return td_slot_at(&e->layout, p.base, (p.home + i) & (td_ways(&e->layout) - 1),
			  frame);
}

/* Is @v of a slot that holds @frame? Hardly a word has a half of the tag, so it is looked at first. */
static env_inline bool holds(u64 v, u64 frame)
{
	return unlikely((u32)v == (u32)frame) && td_word_has(v, frame);
}

/* The slot from @slot up to @end, in steps of @step, that holds @frame; or TD_NO_SLOT. */
static env_inline u32 find_between(const struct td_engine *e, u64 frame, u32 slot, u32 end,
				   u32 step)
{
	const struct td_word *stop = &e->words[end];

	for (const struct td_word *w = &e->words[slot]; w != stop; w += step)
		if (holds(td_word_load(w), frame))
			return (u32)(w - e->words);
	return TD_NO_SLOT;
}

/* Each write asks this for a frame that mostly has no slot: the loops are counted. */
u32 td_index_find(const struct td_engine *e, u64 frame)
{
	struct td_place p = place_of(e, frame);
	u32 first = td_slot_at(&e->layout, p.base, 0, frame);
	u32 home = td_slot_at(&e->layout, p.base, p.home, frame);
	u32 end = td_slot_at(&e->layout, p.base, td_ways(&e->layout), frame);
	u32 step = 1u << e->layout.run_shift;
	u32 slot = find_between(e, frame, home, end, step);

	return slot != TD_NO_SLOT ? slot :
		find_between(e, frame, first, home, step);
}

/* Both frames lie side by side in each way, so one loop looks for both. */
u32 td_index_find_near(const struct td_engine *e, u64 frame, u32 *near)
{
	u32 step = 1u << e->layout.run_shift;
	const struct td_word *w, *stop;
	struct td_place p;

	*near = TD_NO_SLOT;
	if (!(frame & e->layout.run_mask))
		return td_index_find(e, frame);
	p = place_of(e, frame);
	w = &e->words[td_slot_at(&e->layout, p.base, p.home, frame)];
	if (td_word_has(td_word_load(w), frame))
		return (u32)(w - e->words);
	w = &e->words[td_slot_at(&e->layout, p.base, 0, frame)];
	stop = w + (td_ways(&e->layout) << e->layout.run_shift);
	for (; w != stop; w += step) {
		if (holds(td_word_load(w), frame))
			return (u32)(w - e->words);
		if (holds(td_word_load(w - 1), frame - 1))
			*near = (u32)(w - 1 - e->words);
	}
	return TD_NO_SLOT;
}

/* As td_index_next(), frame by frame: for a few frames of the run. */
static u32 next_of_few(const struct td_engine *e, u64 first, u64 last, u32 *cursor)
{
	while (*cursor <= last - first) {
		u32 slot = td_index_find(e, first + (*cursor)++);

		if (slot != TD_NO_SLOT)
			return slot;
	}
	return TD_NO_SLOT;
}

/* The region of the disk that frame @frame lies in. */
static struct td_mark *region_of(const struct td_engine *e, u64 frame)
{
	return &e->ledger.marks[frame << TD_FRAME_SHIFT >> e->ledger.mark_shift];
}

static inline bool is_elsewhere(const struct td_word *w, u64 first, u64 run_mask)
{
	return (td_word_load(w) ^ first) & run_mask;
}

u32 td_index_next(const struct td_engine *e, u64 first, u64 last, u32 *cursor)
{
	u32 size = td_ways(&e->layout) << e->layout.run_shift;
	u64 run_mask = TD_W_TAG & ~(u64)e->layout.run_mask;
	const struct td_word *group;
	u32 base, at = *cursor;

	/* Most of a large discard is of what nobody has used for long. */
	if (!region_of(e, first)->slots)
		return TD_NO_SLOT;
	/* To look at a word of the group costs a quarter of looking for a frame in one. */
	if ((last - first) * 4 < 1u << e->layout.run_shift)
		return next_of_few(e, first, last, cursor);
	base = place_of(e, first).base;
	group = &e->words[base];
	for (;; at++) {
		u64 v;

		/* A group has a multiple of four words. Hardly one of them has the run. */
		while (!(at & 3) && at < size && is_elsewhere(&group[at], first, run_mask) &&
		       is_elsewhere(&group[at + 1], first, run_mask) &&
		       is_elsewhere(&group[at + 2], first, run_mask) &&
		       is_elsewhere(&group[at + 3], first, run_mask))
			at += 4;
		if (at >= size)
			break;
		v = td_word_load(&group[at]);
		if ((v ^ first) & run_mask)
			continue;
		if (v & TD_W_STATE && td_word_tag(v) - first <= last - first) {
			*cursor = at + 1;
			return base + at;
		}
	}
	*cursor = size;
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

bool td_index_clean_copy(const struct td_engine *e, u64 quarter, u64 *ssd_sector)
{
	u64 sector = quarter << TD_QUARTER_SHIFT;
	u32 slot = td_index_find(e, td_frame_of(sector));
	unsigned int bit = 1u << (quarter & 3);
	u64 v;

	if (e->ledger.marks[sector >> e->ledger.mark_shift].state != TD_MARK_CLEAR ||
	    slot == TD_NO_SLOT)
		return false;
	v = td_word_load(&e->words[slot]);
	*ssd_sector = td_slot_sector(&e->layout, slot) +
		      ((quarter & 3) << TD_QUARTER_SHIFT);
	return td_word_valid(v) & ~td_word_dirty(v) & bit;
}

/*
 * FREE, and only a sweeping checkpoint records that, or did (P4). Of the slots that a
 * frame may get there is none while the checkpoint is under way: they are noted.
 */
static bool is_forgotten(const struct td_ledger *l, u32 slot, u64 v)
{
	return v == (TD_W_PENDING | TD_W_STALE) && !td_ledger_is_pending(l, slot);
}

/*
 * Does no record, durable or under way, name anything in @slot? Without the lock a hint.
 */
static bool is_durably_free(const struct td_engine *e, u32 slot)
{
	u64 v = td_word_load(&e->words[slot]);

	return td_word_is_durably_free(v) || is_forgotten(&e->ledger, slot, v);
}

bool td_index_has_room(const struct td_engine *e, u64 frame)
{
	struct td_place p = place_of(e, frame);

	for (u32 i = 0; i < td_ways(&e->layout); i++)
		if (is_durably_free(e, nth_slot(e, p, frame, i)) &&
		    !td_trimming(e, nth_slot(e, p, frame, i)))
			return true;
	return false;
}

bool td_index_has_way(const struct td_engine *e, u64 frame)
{
	struct td_place p = place_of(e, frame);

	for (u32 i = 0; i < td_ways(&e->layout); i++) {
		u32 slot = nth_slot(e, p, frame, i);
		u64 v = td_word_load(&e->words[slot]);

		if ((td_word_is_free(v) || td_word_is_idle(v)) && !td_trimming(e, slot))
			return true;
	}
	return false;
}

void td_index_note_dropped(struct td_engine *e, u64 first, u64 last)
{
	struct td_ledger *l = &e->ledger;

	for (u64 f = first; f <= last; f++) {
		struct td_place p = place_of(e, f);

		for (u32 i = 0; i < td_ways(&e->layout); i++) {
			u32 slot = nth_slot(e, p, f, i);

			if (is_forgotten(l, slot, td_word_load(&e->words[slot])))
				td_ledger_pend(l, slot);
		}
	}
}

bool td_index_names_nothing(const struct td_engine *e, u32 slot)
{
	u64 v = td_word_load(&e->words[slot]);

	return td_word_is_durably_free(v) ||
	       (!e->ledger.sweeping && is_forgotten(&e->ledger, slot, v));
}

/*
 * The word of @slot was @was and is @now. The slot is in use while a quarter of it is valid,
 * as its record says too.
 */
static void count_used(struct td_engine *e, u32 slot, u64 was, u64 now)
{
	if (was & TD_W_STATE && !(now & TD_W_STATE)) {
		region_of(e, td_word_tag(was))->slots--;
		td_trim_note(e, slot);
	}
	if (!(was & TD_W_VALID) != !(now & TD_W_VALID))
		env_count(e->counters, TD_C_USED,
			  now & TD_W_VALID ? 1 : (u64)-1);
}

/* The sweep after which no record names the old content of a slot; @was: its word. */
static u64 freeing_sweep(const struct td_ledger *l, u64 was)
{
	if (was & (TD_W_VALID | TD_W_PENDING))
		return l->sweep_begun + 1;
	/* STALE alone: the record that the slot is free is under way. */
	return was & TD_W_STALE ? l->sweep_begun : 0;
}

/* Take @slot; false if a reader pinned it first, or the slot is retired or being trimmed. */
static bool take_slot(struct td_engine *e, u64 frame, u32 slot, u64 *sweep)
{
	u64 was, needed;

	if (td_trimming(e, slot))
		return false;
	if (is_forgotten(&e->ledger, slot, td_word_load(&e->words[slot])))
		td_word_settle(&e->words[slot]);
	if (td_retired(e, slot)) {
		/* Without this the policy would choose it again and again. */
		td_index_forget(e, slot, TD_QUARTERS);
		return false;
	}
	if (!td_word_take(&e->words[slot], frame, &was))
		return false;
	needed = freeing_sweep(&e->ledger, was);
	if (needed > *sweep)
		*sweep = needed;
	if (was & TD_W_STATE)
		region_of(e, td_word_tag(was))->slots--;
	region_of(e, frame)->slots++;
	if (was & TD_W_VALID) {
		env_count(e->counters, TD_C_USED, (u64)-1);
		td_ledger_pend(&e->ledger, slot);
		env_count(e->counters, TD_C_EVICTIONS, 1);
	}
	return true;
}

/* Take the slot that the policy gives up for @frame, or TD_NO_SLOT. */
static u32 evict_slot(struct td_engine *e, struct td_place p, u64 frame, u32 near_way,
		      enum td_take how_far, u64 *sweep)
{
	bool known = td_policy_known(e, frame, near_way);

	/* A reader may pin the chosen slot just then. */
	for (u32 tries = 0; tries < td_ways(&e->layout); tries++) {
		u32 way = td_policy_victim(e, frame, near_way, known, how_far);
		u32 slot;
		u64 gone;

		if (way == TD_NO_WAY)
			break;
		slot = td_slot_at(&e->layout, p.base, way, frame);
		gone = td_word_load(&e->words[slot]);
		if (!take_slot(e, frame, slot, sweep))
			continue;
		td_policy_remember(e, gone);
		if (how_far != TD_TAKE_COLD)
			td_policy_came(e, frame, way);
		if (known)
			td_word_make_regular(&e->words[slot]);
		return slot;
	}
	td_policy_remember(e, frame);
	return TD_NO_SLOT;
}

/* A free slot; @durably: that no record names. */
static u32 take_free(struct td_engine *e, struct td_place p, u64 frame,
		     u32 near_way, bool durably, u64 *sweep)
{
	u32 first = near_way == TD_NO_SLOT ? p.home : near_way;

	for (u32 i = 0; i < td_ways(&e->layout); i++) {
		u32 slot = td_slot_at(&e->layout, p.base,
				      (first + i) & (td_ways(&e->layout) - 1), frame);

		if ((durably ? is_durably_free(e, slot) :
		     td_word_is_free(td_word_load(&e->words[slot]))) &&
		    take_slot(e, frame, slot, sweep))
			return slot;
	}
	return TD_NO_SLOT;
}

u32 td_index_take(struct td_engine *e, u64 frame, u32 near, enum td_take how_far,
		  u64 *sweep)
{
	struct td_place p = place_of(e, frame);
	u32 near_way = TD_NO_SLOT;
	u32 slot;

	td_index_note_free(e, frame, frame);
	if (near != TD_NO_SLOT)
		near_way = (near - p.base) >> e->layout.run_shift;
	slot = take_free(e, p, frame, near_way, true, sweep);
	if (slot != TD_NO_SLOT || how_far == TD_TAKE_FREE)
		return slot;
	slot = take_free(e, p, frame, near_way, false, sweep);
	return slot != TD_NO_SLOT ? slot :
		evict_slot(e, p, frame, near_way, how_far, sweep);
}

u64 td_index_join_sweep(const struct td_engine *e, u32 slot)
{
	u64 v = td_word_load(&e->words[slot]);

	if ((v & TD_W_STATE) != TD_W_BUSY || !(v & TD_W_STALE))
		return 0;
	return e->ledger.sweep_begun + !!(v & TD_W_PENDING);
}

u64 td_index_own(struct td_engine *e, u32 slot, unsigned int forget, bool hold)
{
	/* Readers change only pins and recency, which do not matter here. */
	u64 was = td_word_load(&e->words[slot]);
	u64 now = td_word_own(&e->words[slot], forget, hold);

	count_used(e, slot, was, now);
	if (now & TD_W_PENDING)
		td_ledger_pend(&e->ledger, slot);
	return now;
}

/* Quarters of @slot became dirty or clean: @by of them. */
static void count_dirty(struct td_engine *e, u32 slot, s32 by)
{
	u64 frame = td_word_tag(td_word_load(&e->words[slot]));

	td_ledger_count_dirty(&e->ledger, frame << TD_FRAME_SHIFT, by);
}

static u32 count_quarters(unsigned int mask)
{
	return (0x4332322132212110ull >> (4 * (mask & TD_QUARTERS))) & 0xf;
}

/*
 * @dirty is about to be published. A reader without the lock looks at the count of dirty quarters
 * only if there are some: so the count is never below what the words say.
 */
static void count_to_publish(struct td_engine *e, u32 slot, unsigned int dirty)
{
	unsigned int new = dirty & ~td_word_dirty(td_word_load(&e->words[slot]));

	if (new)
		count_dirty(e, slot, (s32)count_quarters(new));
}

/* A slot that was @was has been published. */
static void count_published(struct td_engine *e, u32 slot, u64 was)
{
	u64 now = td_word_load(&e->words[slot]);

	count_used(e, slot, was, now);
	if (now & TD_W_PENDING)
		td_ledger_pend(&e->ledger, slot);
}

void td_index_publish(struct td_engine *e, u32 slot, unsigned int valid,
		      unsigned int dirty)
{
	count_to_publish(e, slot, dirty);
	count_published(e, slot, td_word_publish(&e->words[slot], valid, dirty));
}

void td_index_disown(struct td_engine *e, u32 slot, unsigned int valid,
		     unsigned int dirty)
{
	count_to_publish(e, slot, dirty);
	count_published(e, slot, td_word_disown(&e->words[slot], valid, dirty));
}

u64 td_index_forget(struct td_engine *e, u32 slot, unsigned int mask)
{
	u64 now;
	u64 was = td_word_forget(&e->words[slot], mask, &now);

	count_used(e, slot, was, now);
	if (now & TD_W_PENDING)
		td_ledger_pend(&e->ledger, slot);
	return was;
}

void td_index_forget_at_once(struct td_engine *e, u32 slot)
{
	struct td_word *w = &e->words[slot];
	u64 now, was;

	if (e->ledger.sweeping != TD_SWEEPING_SOON) {
		/* What an earlier drop forgot has its record, or gets it. */
		if (!is_forgotten(&e->ledger, slot, td_word_load(w)))
			td_index_forget(e, slot, TD_QUARTERS);
		return;
	}
	was = td_word_forget(w, TD_QUARTERS, &now);
	count_used(e, slot, was, now);
	td_ledger_page_differs(&e->ledger, slot);
	/* What is left of other slots may change; they are noted as usual. */
	if (now & TD_W_PENDING && now & ~(TD_W_PENDING | TD_W_STALE))
		td_ledger_pend(&e->ledger, slot);
}

static u32 clean_quarters(struct td_engine *e, u32 slot, unsigned int mask)
{
	u32 quarters;

	mask &= td_word_dirty(td_word_load(&e->words[slot]));
	quarters = count_quarters(mask);
	td_word_clean(&e->words[slot], mask);
	count_dirty(e, slot, -(s32)quarters);
	return quarters;
}

void td_index_clean(struct td_engine *e, u32 slot, unsigned int mask)
{
	env_count(e->counters, TD_C_DRAINED,
		  clean_quarters(e, slot, mask) * TD_QUARTER_SECTORS);
	td_ledger_page_differs(&e->ledger, slot);
}

void td_index_drop(struct td_engine *e, u32 slot, unsigned int mask)
{
	u64 cleaned = e->ledger.places_cleaned;
	u64 now, was = td_word_drop(&e->words[slot], mask, &now);

	td_ledger_count_dirty(&e->ledger, td_word_tag(was) << TD_FRAME_SHIFT,
			      -(s32)count_quarters(mask));
	/* Nothing was written back, which is what this number measures. */
	e->ledger.places_cleaned = cleaned;
	count_used(e, slot, was, now);
	td_ledger_page_differs(&e->ledger, slot);
}

void td_index_give_up(struct td_engine *e, u32 slot, unsigned int mask)
{
	clean_quarters(e, slot, mask);
	td_index_forget(e, slot, mask);
}
