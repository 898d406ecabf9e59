// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * S3-FIFO, in each set of ways for itself, with a share of trials that adapts.
 *
 * A new frame is on trial. A part of the set is for trials, an eighth at first: while at
 * least so many frames are on trial, the oldest of these frames is evicted. But if it was
 * hit twice, it becomes a regular instead, and if it was hit once, it stays for another
 * round; then the next oldest is looked at. With fewer trials a regular is evicted: a
 * clock's hand gives each regular one more round for each of its hits, up to three. Hits
 * of a frame count from when another frame comes: data that is asked for several times at
 * once is not data that is asked for again. (A frame of a stream ends no such burst: in a
 * scan nothing else is read for long, and the hits are those of the time before.) The set
 * remembers the frames that were evicted last as ghosts, as many as it has ways. If the
 * frame of a ghost is read again, it is a regular at once.
 *
 * How large the part for trials is: if the last frame that left the trials of a set is
 * read again, one more trial would have made a hit of it; if it is the last regular
 * given up, one trial less. Each moves the share of trials of the whole engine by a step.
 * A frame beside one of its run that has a slot does not count: a file that is read again
 * says the same with each of its frames, and would have the say alone. Each eviction
 * takes the share nearer to where it began, so that few such reads among many misses
 * mean little.
 *
 * Data that is read once passes through the trials and displaces nothing else,
 * however much it is. A large file that does not fit there becomes ghosts when it is
 * read first, regulars when it is read again, and hits the third time. A set that has
 * room takes every frame.
 *
 * Invariants: none that data depends on; any idle slot is a right answer. trial_level is
 * from TD_TRIAL_LEVEL_MIN to TD_TRIAL_LEVEL_MAX. A start begins without ghosts and with a
 * trial_level of 0.
 * Threads: under the lock; readers count hits meanwhile.
 * Cost: struct td_set, 2 bytes for each slot of a set of 16.
 * Why fingerprints of 12 bits: one of 8 takes a stranger for a ghost in 5 of
 * 100 misses, which costs a third of a point of hit rate; one of 12 in 4 of 1000.
 * Why these numbers: the best of those tried on half of the recordings that
 * tests/bench/POLICY.md names; there is what the other half says.
 */
#include "policy.h"

#define TRIAL_HITS	(2 * TD_W_TOUCH)	/* hits that end a trial */

#define LEVEL_STEP	(TD_TRIAL_LEVEL_ONE * 3 / 32)
#define LEVEL_FADES	4096	/* an eviction takes so small a part of the level away */

static struct td_set *set_of(const struct td_engine *e, u64 frame)
{
	const struct td_layout *l = &e->layout;
	u32 group = td_lane_of(l, frame) >> l->way_shift;

	return &e->sets[(group << l->run_shift) + ((u32)frame & l->run_mask)];
}

/* The word of @frame's set in way 0. */
static struct td_word *words_of(const struct td_engine *e, u64 frame)
{
	struct td_place p = td_place_of(&e->layout, frame);

	return &e->words[td_slot_at(&e->layout, p.base, 0, frame)];
}

/* @words: words_of() */
static struct td_word *word_of(const struct td_engine *e, struct td_word *words, u32 way)
{
	return words + ((way & (td_ways(&e->layout) - 1)) << e->layout.run_shift);
}

/* Fingerprint of a ghost, not 0: bits of the hash that do not choose the lane. */
static u32 fingerprint_of(const struct td_engine *e, u64 frame)
{
	u32 print = td_hash(frame >> e->layout.run_shift) & 0xfff;

	return print ? print : 1;
}

static u32 ghost_at(const struct td_set *s, u32 i)
{
	return s->ghosts[i] | (s->ghosts_high[i / 2] >> (i % 2 * 4) & 0xfu) << 8;
}

static void set_ghost(struct td_set *s, u32 i, u32 print)
{
	u32 shift = i % 2 * 4;

	s->ghosts[i] = (u8)print;
	s->ghosts_high[i / 2] = (u8)((s->ghosts_high[i / 2] & ~(0xfu << shift)) |
				     print >> 8 << shift);
}

static void move_level(struct td_engine *e, s32 by)
{
	s32 level = e->trial_level + by;

	if (level < TD_TRIAL_LEVEL_MIN)
		level = TD_TRIAL_LEVEL_MIN;
	if (level > TD_TRIAL_LEVEL_MAX)
		level = TD_TRIAL_LEVEL_MAX;
	e->trial_level = level;
}

bool td_policy_known(struct td_engine *e, u64 frame, u32 near)
{
	struct td_set *s = set_of(e, frame);
	u32 print = fingerprint_of(e, frame);
	u32 seen = 0;	/* kinds of ghosts that are younger: bit 0 trials, bit 1 regulars */

	move_level(e, -(e->trial_level / LEVEL_FADES));
	for (u32 i = 1; i <= td_ways(&e->layout); i++) {
		u32 at = (s->ghost - i) & (td_ways(&e->layout) - 1);
		u32 ghost = ghost_at(s, at);
		u32 kind = s->ghosts_regular >> at & 1;

		if (ghost == print) {
			set_ghost(s, at, 0);
			if (near == TD_NO_WAY && !(seen & 1u << kind))
				move_level(e, kind ? -LEVEL_STEP : LEVEL_STEP);
			return true;
		}
		if (ghost)
			seen |= 1u << kind;
	}
	return false;
}

void td_policy_remember(struct td_engine *e, u64 v)
{
	u64 frame = td_word_tag(v);
	struct td_set *s = set_of(e, frame);
	u32 bit = 1u << s->ghost;

	set_ghost(s, s->ghost, fingerprint_of(e, frame));
	s->ghosts_regular = (u16)((s->ghosts_regular & ~bit) |
				  (v & TD_W_REGULAR ? bit : 0));
	s->ghost = (u8)((s->ghost + 1u) & (td_ways(&e->layout) - 1));
}

void td_policy_came(struct td_engine *e, u64 frame, u32 way)
{
	struct td_set *s = set_of(e, frame);

	if (s->newest)
		td_word_forget_hits(word_of(e, words_of(e, frame), s->newest - 1u));
	s->newest = (u8)((way & (td_ways(&e->layout) - 1)) + 1);
}

static bool on_trial(u64 v)
{
	return !(v & TD_W_REGULAR);
}

/*
 * The way of the oldest frame on trial that was not hit since it was last looked at, or
 * TD_NO_WAY. The frame that came last is spared if there is another: where a regular was
 * given up, the hand may be just before it.
 */
static u32 trial_victim(struct td_engine *e, struct td_set *s, struct td_word *words,
			u32 near)
{
	if (near != TD_NO_WAY) {
		u64 v = td_word_load(word_of(e, words, near));

		if (on_trial(v) && td_word_is_idle(v) && !(v & TD_W_RECENCY) &&
		    s->newest != near + 1)
			return near;
	}
	for (u32 i = 0; i < 2 * td_ways(&e->layout); i++) {
		u32 way = (s->trials + i) & (td_ways(&e->layout) - 1);
		struct td_word *w = word_of(e, words, way);
		u64 v = td_word_load(w);

		if (!on_trial(v) || !td_word_is_idle(v))
			continue;
		if ((v & TD_W_RECENCY) >= TRIAL_HITS) {
			td_word_make_regular(w);
			continue;
		}
		if (v & TD_W_RECENCY) {
			td_word_forget_hits(w);
			continue;
		}
		if (s->newest == way + 1 && i < td_ways(&e->layout))
			continue;
		s->trials = (u8)(way + 1);
		return way;
	}
	return TD_NO_WAY;
}

static u32 regular_victim(struct td_engine *e, struct td_set *s, struct td_word *words,
			  u32 near)
{
	if (near != TD_NO_WAY) {
		u64 v = td_word_load(word_of(e, words, near));

		if (!on_trial(v) && td_word_is_idle(v) && !(v & TD_W_RECENCY))
			return near;
	}
	/* A round for each hit that a word can count, and one to find it. */
	for (u32 i = 0; i < 4 * td_ways(&e->layout); i++) {
		u32 way = s->regulars++ & (td_ways(&e->layout) - 1);
		struct td_word *w = word_of(e, words, way);
		u64 v = td_word_load(w);

		if (on_trial(v) || !td_word_is_idle(v))
			continue;
		if (!(v & TD_W_RECENCY))
			return way;
		td_word_age(w);
	}
	return TD_NO_WAY;
}

/* Parts of a way are made up among the sets: each rounds up at another part. */
static u32 trials_wanted(const struct td_engine *e, const struct td_set *s)
{
	u32 ways = (u32)(TD_TRIALS * TD_TRIAL_LEVEL_ONE + e->trial_level) <<
		   e->layout.way_shift >> TD_WAY_SHIFT_MAX;
	u32 part = (u32)(s - e->sets) * 151 % 256 * (TD_TRIAL_LEVEL_ONE / 256);
	u32 wanted = (ways + part) / TD_TRIAL_LEVEL_ONE;

	return wanted ? wanted : 1;
}

u32 td_policy_victim(struct td_engine *e, u64 frame, u32 near, bool known,
		     enum td_take how_far)
{
	struct td_set *s = set_of(e, frame);
	struct td_word *words = words_of(e, frame);
	bool spares_regulars = how_far == TD_TAKE_COLD && !known;
	u32 trials = 0, way = TD_NO_WAY;

	for (u32 i = 0; i < td_ways(&e->layout); i++)
		trials += on_trial(td_word_load(word_of(e, words, i)));
	if (trials >= trials_wanted(e, s) || spares_regulars)
		way = trial_victim(e, s, words, near);
	if (way == TD_NO_WAY && !spares_regulars)
		way = regular_victim(e, s, words, near);
	return way;
}

void td_heat_look(struct td_engine *e, u32 slots)
{
	for (u32 hot = 0; slots && hot < TD_HOT_MAX; slots--) {
		u64 v = td_word_load(&e->words[e->heat_slot]);
		unsigned int clean = td_word_valid(v) & ~td_word_dirty(v);

		if (++e->heat_slot == e->layout.slots)
			e->heat_slot = 0;
		if (!clean || (v & TD_W_RECENCY) < TRIAL_HITS)
			continue;
		hot++;
		td_heat_add(&e->read_heat, td_word_tag(v) *
			    (TD_FRAME_SECTORS / TD_QUARTER_SECTORS) +
			    env_first_bit(clean));
	}
}
