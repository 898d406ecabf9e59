/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The policy: which slot of a set is given up for another frame.
 *
 * A set is the slots that one frame may lie in: the ways of its group, at its
 * position in the run. Lock held in all functions.
 */
#ifndef TANDEM_POLICY_H
#define TANDEM_POLICY_H

#include "index.h"

/* td_engine.trial_level: how many trials a set of 16 ways wants, less TD_TRIALS, in 1/65536 */
#define TD_TRIAL_LEVEL_ONE	(1 << 16)
#define TD_TRIALS		2
#define TD_TRIAL_LEVEL_MIN	(-TD_TRIAL_LEVEL_ONE)		/* one trial */
#define TD_TRIAL_LEVEL_MAX	(6 * TD_TRIAL_LEVEL_ONE)	/* half of the set */

/*
 * Is @frame, which has no slot, a ghost of its set? The ghost is forgotten. @near: as
 * below.
 */
bool td_policy_known(struct td_engine *e, u64 frame, u32 near);

/*
 * A way of @frame's set to evict, or TD_NO_WAY. @near: the way that would
 * be best for the run, or TD_NO_WAY. Ask again if the slot cannot be taken.
 */
u32 td_policy_victim(struct td_engine *e, u64 frame, u32 near, bool known,
		     enum td_take how_far);

/* @frame, of no stream, got the slot that was evicted in way @way of its set. */
void td_policy_came(struct td_engine *e, u64 frame, u32 way);

/* Remember the frame of the evicted word @v as a ghost; or one that got no slot. */
void td_policy_remember(struct td_engine *e, u64 v);

/*
 * Look at @slots slots for copies that are read often, or at fewer if many are. Hits count
 * nothing more for it: the policy's count of hits is looked at.
 */
void td_heat_look(struct td_engine *e, u32 slots);

#endif
