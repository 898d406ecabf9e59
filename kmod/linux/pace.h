/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arithmetic of cleaning: how much at a time, how much may be dirty, how long
 * it takes. Pure functions of numbers, any context.
 */
#ifndef TANDEM_PACE_H
#define TANDEM_PACE_H

#include "env.h"

#define TANDEM_FULL_SPEED	15u	/* cleanings; one more is for urgent ones */

struct tandem_pace {
	u64 dirty;		/* quarters */
	u64 limit;		/* quarters: no new dirty data beyond */
	u32 disk_idle;		/* ms since the last foreground request to the disk */
	u32 write_idle;		/* ms since the last write of the user */
	bool drain;		/* all is to be written back */
	bool paused;		/* by the user, or a stop began */
};

/*
 * How many cleanings may be in flight, at most TANDEM_FULL_SPEED. *again: ms
 * after which the answer may be another one, 0 if that takes an event.
 */
u32 tandem_pace(const struct tandem_pace *p, u32 *again);

/* Quarters that the disk takes in 30 s at @rate bytes/s, as far as the cache
 * of @all quarters has room for them; not less than a little.
 */
u64 tandem_pace_limit(u64 rate, u64 all);

/* Seconds that @dirty quarters take at @rate bytes/s, rounded up. */
u64 tandem_pace_seconds(u64 dirty, u64 rate);

#endif
