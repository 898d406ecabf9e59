/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The word: all that is known of one slot, in 64 bits, and every operation on
 * it. There is no other place that changes a word.
 *
 *   bits  0-35  tag      number of the frame of the disk that the slot holds
 *        36-39  valid    quarters readable from the SSD
 *        40-43  dirty    quarters newer than the disk; a part of valid
 *        44-55  pins     reads of the slot in flight; full with the top bit
 *        56-57  recency  hits since it was last looked at for eviction, 0-3
 *        58-59  state    FREE, LIVE, BUSY
 *        60     held     no new pins: the owner waits for the last one to go
 *        61     pending  changed since it was last recorded
 *        62     stale    the record, durable or under way, may name quarters
 *                        that are not valid any more, or another frame
 *        63     regular: no longer on trial (policy.c)
 *
 * Two kinds of callers:
 *   readers   hold no lock, any context: td_word_pin(), td_word_unpin().
 *   changers  hold the engine's lock: all others. So a changer races with
 *             readers only, never with another changer.
 *
 * Invariants:
 *   W1  FREE: the whole word is 0 but for pending and stale. If these two are 0 as
 *       well, the slot is durably free.
 *   W2  BUSY: requests in flight own the slot: one fill, or writes of different
 *       quarters, and cleanings of different quarters. A fill or a write that goes
 *       to the disk writes quarters on the SSD that are not valid; a write-back
 *       write may write valid ones.
 *   W3  The tag of a word changes only from FREE, or from LIVE with no pin and
 *       nothing dirty, in one step. So a pin keeps the slot's meaning.
 *   W4  HELD only together with BUSY, and for one owner at a time. A read that
 *       cannot pin a dirty frame because of HELD waits a moment.
 *   W5  valid goes up only from BUSY, by td_word_publish(), td_word_disown().
 *   W6  A dirty quarter is valid, and stays both until td_word_clean(), or
 *       td_word_drop().
 *   W7  A change of recorded bits (tag of a valid frame, valid, dirty) sets
 *       pending; one that takes a quarter away also sets stale. (But not
 *       td_word_clean() and td_word_drop(): the record said so before.)
 *
 * Overflow of pins: a reader that meets a full count fails to pin, as if the
 * frame were not cached, and reads the disk, which has the same data; if the
 * frame is dirty it has to try again.
 */
#ifndef TANDEM_WORD_H
#define TANDEM_WORD_H

#include "env.h"

#define TD_QUARTERS		0xfu

#define TD_W_TAG		0x0000000fffffffffull
#define TD_W_VALID_SHIFT	36
#define TD_W_VALID		(0xfull << TD_W_VALID_SHIFT)
#define TD_W_DIRTY_SHIFT	40
#define TD_W_DIRTY		(0xfull << TD_W_DIRTY_SHIFT)
#define TD_W_PIN		(1ull << 44)
#define TD_W_PINS		(0xfffull << 44)
#define TD_W_PINS_FULL		(1ull << 55)
#define TD_W_TOUCH		(1ull << 56)
#define TD_W_RECENCY		(3ull << 56)
#define TD_W_LIVE		(1ull << 58)
#define TD_W_BUSY		(2ull << 58)
#define TD_W_STATE		(3ull << 58)
#define TD_W_HELD		(1ull << 60)
#define TD_W_PENDING		(1ull << 61)
#define TD_W_STALE		(1ull << 62)
#define TD_W_REGULAR		(1ull << 63)

struct td_word {
	struct env_atomic64 a;
};

static inline u64 td_word_load(const struct td_word *w)
{
	return env_load(&w->a);
}

static inline u64 td_word_tag(u64 v)
{
	return v & TD_W_TAG;
}

static inline unsigned int td_word_valid(u64 v)
{
	return (unsigned int)(v >> TD_W_VALID_SHIFT) & TD_QUARTERS;
}

static inline u64 td_word_quarters(unsigned int mask)
{
	return (u64)mask << TD_W_VALID_SHIFT;
}

static inline bool td_word_has(u64 v, u64 tag)
{
	return (v & TD_W_STATE) && td_word_tag(v) == tag;
}

/*
 * Does @old hold frame @tag with all quarters of @want valid, and may it be
 * pinned? Then *new is @old with one more pin and one more hit.
 * @want is not 0, so a FREE word never does.
 */
static inline bool td_word_pinned(u64 old, u64 tag, unsigned int want, u64 *new)
{
	u64 need = tag | td_word_quarters(want);
	u64 mask = TD_W_TAG | TD_W_HELD | TD_W_PINS_FULL |
		   td_word_quarters(want);

	if (unlikely((old & mask) != need))
		return false;
	*new = old + TD_W_PIN;
	if (unlikely((old & TD_W_RECENCY) != TD_W_RECENCY))
		*new += TD_W_TOUCH;
	return true;
}

/*
 * Pin the slot if it holds what td_word_pinned() asks for. One step: what was
 * checked is what was pinned. *dirty is not 0 if some of @want was dirty then.
 */
static inline bool td_word_pin(struct td_word *w, u64 tag, unsigned int want,
			       u64 *dirty)
{
	u64 old = env_load(&w->a);
	u64 new;

	do {
		if (!td_word_pinned(old, tag, want, &new))
			return false;
	} while (unlikely(!env_cas(&w->a, &old, new)));
	*dirty = old & (u64)want << TD_W_DIRTY_SHIFT;
	return true;
}

/*
 * The same for a slot that is read together with others: all of @want is dirty if
 * @dirty, else nothing of @want is.
 */
static inline bool td_word_pin_like(struct td_word *w, u64 tag, unsigned int want,
				    bool dirty)
{
	u64 mask = (u64)want << TD_W_DIRTY_SHIFT;
	u64 old = env_load(&w->a);
	u64 new;

	do {
		if ((old & mask) != (dirty ? mask : 0) ||
		    !td_word_pinned(old, tag, want, &new))
			return false;
	} while (unlikely(!env_cas(&w->a, &old, new)));
	return true;
}

/* td_word_pin() without a loop: also false if the word changed just then. */
static inline bool td_word_pin_once(struct td_word *w, u64 tag, unsigned int want,
				    u64 *dirty)
{
	u64 old = env_load(&w->a);
	u64 new;

	*dirty = old & (u64)want << TD_W_DIRTY_SHIFT;
	return td_word_pinned(old, tag, want, &new) &&
	       likely(env_cas(&w->a, &old, new));
}

/*
 * Pin for a write in place: all of @want is dirty and no request owns the slot. So no
 * cleaning of it is under way, and none begins before the pin is gone. False also if
 * the word changed just then, like td_word_pin_once().
 */
static inline bool td_word_pin_dirty(struct td_word *w, u64 tag,
				     unsigned int want)
{
	u64 dirty = (u64)want << TD_W_DIRTY_SHIFT;
	u64 old = env_load(&w->a);
	u64 new;

	return (old & (TD_W_STATE | dirty)) == (TD_W_LIVE | dirty) &&
	       td_word_pinned(old, tag, want, &new) &&
	       likely(env_cas(&w->a, &old, new));
}

/*
 * Undo one pin. True: that was the last one and the owner waits for it; the
 * caller must tell core by td_drained().
 */
static inline bool td_word_unpin(struct td_word *w)
{
	u64 new = env_sub_return(&w->a, TD_W_PIN);

	return unlikely(new & TD_W_HELD) && !(new & TD_W_PINS);
}

static inline unsigned int td_word_dirty(u64 v)
{
	return (unsigned int)(v >> TD_W_DIRTY_SHIFT) & TD_QUARTERS;
}

/* FREE, or holding nothing that can be read. */
static inline bool td_word_is_free(u64 v)
{
	return !(v & (TD_W_VALID | TD_W_PINS | TD_W_BUSY));
}

/* No record, durable or under way, names anything in the slot. */
static inline bool td_word_is_durably_free(u64 v)
{
	return td_word_is_free(v) && !(v & (TD_W_PENDING | TD_W_STALE));
}

/*
 * FREE, or LIVE without pins and dirty quarters -> BUSY for @tag, nothing
 * valid. False: a reader pinned it meanwhile. *was is what it replaced.
 */
static inline bool td_word_take(struct td_word *w, u64 tag, u64 *was)
{
	u64 old = env_load(&w->a);
	u64 new;

	do {
		if ((old & TD_W_STATE) == TD_W_BUSY ||
		    (old & (TD_W_PINS | TD_W_DIRTY)))
			return false;
		new = tag | TD_W_BUSY | (old & (TD_W_PENDING | TD_W_STALE));
		if (old & TD_W_VALID)
			new |= TD_W_PENDING | TD_W_STALE;
	} while (!env_cas(&w->a, &old, new));
	*was = old;
	return true;
}

/*
 * LIVE or BUSY -> BUSY, and @forget, which is not dirty, is no longer valid.
 * With @hold and pins there, new pins are refused until td_word_unhold().
 * Returns the new word.
 */
static inline u64 td_word_own(struct td_word *w, unsigned int forget, bool hold)
{
	u64 old = env_load(&w->a);
	u64 new;

	do {
		new = old & ~(TD_W_STATE | td_word_quarters(forget));
		new |= TD_W_BUSY;
		if (old & td_word_quarters(forget))
			new |= TD_W_PENDING | TD_W_STALE;
		if (hold && (old & TD_W_PINS))
			new |= TD_W_HELD;
	} while (!env_cas(&w->a, &old, new));
	return new;
}

/* HELD and no pin left -> not held. True: done, by this call. */
static inline bool td_word_unhold(struct td_word *w)
{
	u64 old = env_load(&w->a);

	do {
		if (!(old & TD_W_HELD) || (old & TD_W_PINS))
			return false;
	} while (!env_cas(&w->a, &old, old & ~TD_W_HELD));
	return true;
}

/* @v with the quarters of @valid valid, and of @dirty both. */
static inline u64 td_word_with(u64 v, unsigned int valid, unsigned int dirty)
{
	u64 new = v | td_word_quarters(valid | dirty) |
		  (u64)dirty << TD_W_DIRTY_SHIFT;

	return new == v ? v : new | TD_W_PENDING;
}

/* The slot stays BUSY: another request owns it too. Returns the word before. */
static inline u64 td_word_publish(struct td_word *w, unsigned int valid,
				  unsigned int dirty)
{
	u64 old = env_load(&w->a);

	while (!env_cas(&w->a, &old, td_word_with(old, valid, dirty)))
		;
	return old;
}

/*
 * BUSY -> LIVE with @valid and @dirty as well, or FREE if that leaves nothing
 * valid and nothing pinned. (Nothing valid but pinned: LIVE, and td_word_take()
 * may have it when the pins are gone.) Returns the word before.
 */
static inline u64 td_word_disown(struct td_word *w, unsigned int valid,
				 unsigned int dirty)
{
	u64 old = env_load(&w->a);
	u64 new;

	do {
		new = td_word_with(old, valid, dirty);
		new &= ~(TD_W_STATE | TD_W_HELD);
		if (new & (TD_W_VALID | TD_W_PINS))
			new |= TD_W_LIVE;
		else
			new &= TD_W_PENDING | TD_W_STALE;
	} while (!env_cas(&w->a, &old, new));
	return old;
}

/* @v, from which quarters were taken: LIVE with nothing valid or pinned is FREE. */
static inline u64 td_word_without_use(u64 v)
{
	if ((v & TD_W_STATE) == TD_W_LIVE && !(v & (TD_W_VALID | TD_W_PINS)))
		v &= TD_W_PENDING | TD_W_STALE;
	return v;
}

/*
 * The quarters of @mask, as far as they are not dirty, are no longer valid, in
 * LIVE or BUSY; LIVE with nothing valid and nothing pinned becomes FREE. Returns
 * the word before; *now after.
 */
static inline u64 td_word_forget(struct td_word *w, unsigned int mask, u64 *now)
{
	u64 old = env_load(&w->a);
	u64 new;

	do {
		u64 gone = old & td_word_quarters(mask & ~td_word_dirty(old));

		new = old & ~gone;
		if (gone)
			new |= TD_W_PENDING | TD_W_STALE;
		new = td_word_without_use(new);
	} while (!env_cas(&w->a, &old, new));
	*now = new;
	return old;
}

/* The quarters of @mask are durably on the disk, and recorded so. */
static inline void td_word_clean(struct td_word *w, unsigned int mask)
{
	u64 old = env_load(&w->a);

	while (!env_cas(&w->a, &old,
			old & ~((u64)mask << TD_W_DIRTY_SHIFT)))
		;
}

/*
 * The quarters of @mask, all dirty, were discarded on the disk, and are recorded so.
 * Returns the word before; *now after.
 */
static inline u64 td_word_drop(struct td_word *w, unsigned int mask, u64 *now)
{
	u64 gone = td_word_quarters(mask) | (u64)mask << TD_W_DIRTY_SHIFT;
	u64 old = env_load(&w->a);
	u64 new;

	do {
		new = td_word_without_use(old & ~gone);
	} while (!env_cas(&w->a, &old, new));
	*now = new;
	return old;
}

/* The record under way is out of date: the slot must be recorded once more. */
static inline void td_word_pend(struct td_word *w)
{
	u64 old = env_load(&w->a);

	while (!env_cas(&w->a, &old, old | TD_W_PENDING))
		;
}

/* The caller records the returned word: it is no longer pending. */
static inline u64 td_word_snapshot(struct td_word *w)
{
	u64 old = env_load(&w->a);

	while (!env_cas(&w->a, &old, old & ~TD_W_PENDING))
		;
	return old;
}

/* The last snapshot is durable. */
static inline void td_word_recorded(struct td_word *w)
{
	u64 old = env_load(&w->a);

	do {
		if (old & TD_W_PENDING || !(old & TD_W_STALE))
			return;
	} while (!env_cas(&w->a, &old, old & ~TD_W_STALE));
}

/* FREE, pending and stale, and recorded so -> durably free. */
static inline void td_word_settle(struct td_word *w)
{
	u64 old = TD_W_PENDING | TD_W_STALE;

	env_cas(&w->a, &old, 0);
}

/* LIVE without pins and dirty quarters: td_word_take() may have it. */
static inline bool td_word_is_idle(u64 v)
{
	return (v & TD_W_STATE) == TD_W_LIVE && !(v & (TD_W_PINS | TD_W_DIRTY));
}

/* The slot becomes a regular, and its hits are forgotten. */
static inline void td_word_make_regular(struct td_word *w)
{
	u64 old = env_load(&w->a);

	while (!env_cas(&w->a, &old, (old & ~TD_W_RECENCY) | TD_W_REGULAR))
		;
}

/* The hits of the slot so far are forgotten. */
static inline void td_word_forget_hits(struct td_word *w)
{
	u64 old = env_load(&w->a);

	do {
		if (!(old & TD_W_RECENCY))
			return;
	} while (!env_cas(&w->a, &old, old & ~TD_W_RECENCY));
}

/* The slot has one hit less. */
static inline void td_word_age(struct td_word *w)
{
	u64 old = env_load(&w->a);

	do {
		if (!(old & TD_W_RECENCY))
			return;
	} while (!env_cas(&w->a, &old, old - TD_W_TOUCH));
}

#endif
