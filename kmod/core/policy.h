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

/* Is @frame, which has no slot, a ghost of its set? The ghost is forgotten. */
bool td_policy_known(struct td_engine *e, u64 frame);

/*
 * A way of @frame's set to evict, or TD_NO_WAY. @near: the way that would
 * be best for the run, or TD_NO_WAY. Ask again if the slot cannot be taken.
 */
u32 td_policy_victim(struct td_engine *e, u64 frame, u32 near, bool known,
		     enum td_take how_far);

/* @frame got the slot that was evicted in way @way of its set. */
void td_policy_came(struct td_engine *e, u64 frame, u32 way);

/* @frame was evicted, or got no slot: remember it as a ghost. */
void td_policy_remember(struct td_engine *e, u64 frame);

#endif
