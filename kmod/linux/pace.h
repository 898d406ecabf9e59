/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arithmetic of cleaning: how much at a time, how much may be dirty, how long
 * it takes. Pure functions of numbers, any context.
 */
#ifndef TANDEM_PACE_H
#define TANDEM_PACE_H

#include "env.h"

#define TANDEM_FULL_SPEED	255u	/* cleanings; one more is for urgent ones */

struct tandem_pace {
	bool dirty;		/* is there anything to write back? */
	u32 full;		/* of what may be dirty, in TANDEM_PACE_ALL parts */
	u32 disk_idle;		/* ms since the last foreground request to the disk */
	u32 ssd_idle;		/* ms since the last read that the SSD answered */
	u32 write_idle;		/* ms since the last write of the user */
	bool drain;		/* all is to be written back */
	bool paused;		/* by the user, or a stop began */
};

/*
 * How many cleanings may be in flight, at most TANDEM_FULL_SPEED. *again: ms
 * after which the answer may be another one, 0 if that takes an event.
 */
u32 tandem_pace(const struct tandem_pace *p, u32 *again);

/*
 * What a disk's time goes into is how many places it has to go to: struct
 * td_ledger counts them. A span says how long some took; what is long ago counts
 * less and less.
 */
struct tandem_span {
	u64 us;
	u64 places;
	u32 longest;	/* us; half of what is longer is forgotten */
	u64 measured;	/* us, of all that was added */
};

#define TANDEM_PACE_GUESS	8000u	/* us for a place, until one was measured: a turn */

/* As if @place_us had been measured, for a moment. */
struct tandem_span tandem_pace_span(u32 place_us, u32 longest);

/* @places more took @us. */
void tandem_pace_add(struct tandem_span *s, u64 us, u64 places);

/* Was enough measured for a word about the future? */
bool tandem_pace_known(const struct tandem_span *s);

/* Microseconds for a place, at least one. */
u32 tandem_pace_place_us(const struct tandem_span *s);

/* Places that the disk writes back in 30 s; not less than a few. */
u32 tandem_pace_places(u32 place_us);

/* How full is @dirty of @limit? In TANDEM_PACE_ALL parts. */
#define TANDEM_PACE_ALL		64u
u32 tandem_pace_full(u64 dirty, u64 limit);

/*
 * Seconds that @places take, rounded up, by span @s, which ended @us ago: of those
 * @inflight no more is left than that, and they are taken to end now at the latest.
 * At least one as long as there are places.
 */
u64 tandem_pace_seconds(u32 places, u32 inflight, u64 us, struct tandem_span s);

#endif
