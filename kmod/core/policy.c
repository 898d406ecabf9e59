// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * S3-FIFO, in each set of ways for itself.
 *
 * A new frame is on trial. An eighth of the set is for trials: while at least so
 * many frames are on trial, the oldest of these frames is evicted; but if it was hit
 * twice, it becomes a regular instead, and the next oldest is looked at. With fewer
 * trials a regular is evicted: a clock's hand gives each regular one more round for
 * each of its hits, up to three. Hits of a frame on trial count from when another frame
 * comes: data that is asked for several times at once is not data that is asked for
 * again. The set remembers the frames that were evicted last
 * as ghosts. If the frame of a ghost is read again, it is a regular at once.
 *
 * Data that is read once passes through two ways and displaces nothing else,
 * however much it is. A large file that does not fit there becomes ghosts when it is
 * read first, regulars when it is read again, and hits the third time. A set that has
 * room takes every frame.
 *
 * Invariant: none that data depends on; any idle slot is a right answer.
 * Threads: under the lock; readers count hits meanwhile.
 * Cost: struct td_set, 2 bytes for each slot of a set of 16.
 * Why fingerprints of 16 bits: one of 8 takes a stranger for a ghost in 5 of
 * 100 misses, which costs a third of a point of hit rate.
 */
#include "policy.h"

#define TRIAL_HITS	(2 * TD_W_TOUCH)	/* hits that end a trial */

static struct td_set *set_of(const struct td_engine *e, u64 frame)
{
	const struct td_layout *l = &e->layout;
	u32 group = td_lane_of(l, frame) >> l->way_shift;

	return &e->sets[(group << l->run_shift) + ((u32)frame & l->run_mask)];
}

static struct td_word *word_of(const struct td_engine *e, u64 frame, u32 way)
{
	struct td_place p = td_place_of(&e->layout, frame);

	return &e->words[td_slot_at(&e->layout, p.base, way & (td_ways(&e->layout) - 1),
				    frame)];
}

/* Ghosts of a set: all of them for 16 ways. */
static u32 ghosts_of_set(const struct td_engine *e)
{
	u32 some = TD_GHOSTS << e->layout.way_shift >> TD_WAY_SHIFT_MAX;

	return some ? some : 1;
}

/* Fingerprint of a ghost, not 0: bits of the hash that do not choose the lane. */
static u16 fingerprint_of(const struct td_engine *e, u64 frame)
{
	u16 print = (u16)td_hash(frame >> e->layout.run_shift);

	return print ? print : 1;
}

bool td_policy_known(struct td_engine *e, u64 frame)
{
	struct td_set *s = set_of(e, frame);
	u16 print = fingerprint_of(e, frame);

	for (u32 i = 0; i < ghosts_of_set(e); i++) {
		if (s->ghosts[i] != print)
			continue;
		s->ghosts[i] = 0;
		return true;
	}
	return false;
}

void td_policy_remember(struct td_engine *e, u64 frame)
{
	struct td_set *s = set_of(e, frame);

	s->ghosts[s->ghost] = fingerprint_of(e, frame);
	s->ghost = s->ghost + 1u < ghosts_of_set(e) ? s->ghost + 1 : 0;
}

void td_policy_came(struct td_engine *e, u64 frame, u32 way)
{
	struct td_set *s = set_of(e, frame);

	if (s->newest)
		td_word_end_burst(word_of(e, frame, s->newest - 1u));
	s->newest = (u8)((way & (td_ways(&e->layout) - 1)) + 1);
}

static bool on_trial(u64 v)
{
	return !(v & TD_W_REGULAR);
}

/* The way of the oldest frame on trial that was not hit twice, or TD_NO_WAY. */
static u32 trial_victim(struct td_engine *e, struct td_set *s, u64 frame,
			u32 near)
{
	if (near != TD_NO_WAY) {
		u64 v = td_word_load(word_of(e, frame, near));

		if (on_trial(v) && td_word_is_idle(v) &&
		    (v & TD_W_RECENCY) < TRIAL_HITS)
			return near;
	}
	for (u32 i = 0; i < td_ways(&e->layout); i++) {
		u32 way = (s->trials + i) & (td_ways(&e->layout) - 1);
		struct td_word *w = word_of(e, frame, way);
		u64 v = td_word_load(w);

		if (!on_trial(v) || !td_word_is_idle(v))
			continue;
		if ((v & TD_W_RECENCY) >= TRIAL_HITS) {
			td_word_make_regular(w);
			continue;
		}
		s->trials = (u8)(way + 1);
		return way;
	}
	return TD_NO_WAY;
}

static u32 regular_victim(struct td_engine *e, struct td_set *s, u64 frame,
			  u32 near)
{
	if (near != TD_NO_WAY) {
		u64 v = td_word_load(word_of(e, frame, near));

		if (!on_trial(v) && td_word_is_idle(v) && !(v & TD_W_RECENCY))
			return near;
	}
	/* A round for each hit that a word can count, and one to find it. */
	for (u32 i = 0; i < 4 * td_ways(&e->layout); i++) {
		u32 way = s->regulars++ & (td_ways(&e->layout) - 1);
		struct td_word *w = word_of(e, frame, way);
		u64 v = td_word_load(w);

		if (on_trial(v) || !td_word_is_idle(v))
			continue;
		if (!(v & TD_W_RECENCY))
			return way;
		td_word_age(w);
	}
	return TD_NO_WAY;
}

u32 td_policy_victim(struct td_engine *e, u64 frame, u32 near, bool known,
		     enum td_take how_far)
{
	struct td_set *s = set_of(e, frame);
	u32 trials = 0, trials_wanted = (td_ways(&e->layout) + 7) / 8;
	bool spares_regulars = how_far == TD_TAKE_COLD && !known;
	u32 way = TD_NO_WAY;

	for (u32 i = 0; i < td_ways(&e->layout); i++)
		trials += on_trial(td_word_load(word_of(e, frame, i)));
	if (trials >= trials_wanted || spares_regulars)
		way = trial_victim(e, s, frame, near);
	if (way == TD_NO_WAY && !spares_regulars)
		way = regular_victim(e, s, frame, near);
	return way;
}

void td_heat_look(struct td_engine *e, u32 slots)
{
	for (; slots; slots--) {
		u64 v = td_word_load(&e->words[e->heat_slot]);
		unsigned int clean = td_word_valid(v) & ~td_word_dirty(v);

		if (++e->heat_slot == e->layout.slots)
			e->heat_slot = 0;
		if (!clean || (v & TD_W_RECENCY) < TRIAL_HITS)
			continue;
		td_heat_add(&e->read_heat, td_word_tag(v) *
			    (TD_FRAME_SECTORS / TD_QUARTER_SECTORS) +
			    env_first_bit(clean));
	}
}
