/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Space of the SSD that no copy uses any more is trimmed there.
 *
 * The unit is a lane: the slots of one run in one way, which lie side by side on the SSD.
 * Engine lock held in all functions here.
 */
#ifndef TANDEM_TRIM_H
#define TANDEM_TRIM_H

#include "engine.h"

/* All lanes are to be looked at: nothing is known of what the SSD has trimmed. */
void td_trim_all(struct td_engine *e);
/* None is: a start takes what is free for trimmed. */
void td_trim_none(struct td_engine *e);

/* @slot has become FREE. */
static inline void td_trim_note(struct td_engine *e, u32 slot)
{
	u32 lane = slot >> e->layout.run_shift;
	u64 bit = 1ull << lane % 64;

	e->trim.nr_freed += !(e->trim.freed[lane / 64] & bit);
	e->trim.freed[lane / 64] |= bit;
}

/* Is @slot being trimmed, so that no frame may get the slot now (T2)? */
static inline bool td_trimming(const struct td_engine *e, u32 slot)
{
	return unlikely(slot - e->trim.first < e->trim.slots);
}

/* The next trim, or a step that looks for its lanes; false: none is allowed, or none is left. */
bool td_trim_next(struct td_engine *e, struct td_work *w);
/* The trim under way has ended. */
void td_trim_done(struct td_engine *e, bool ok);

#endif
