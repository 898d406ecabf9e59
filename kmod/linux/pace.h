/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arithmetic of cleaning: how much at a time, how much may be dirty, how long
 * it takes. Pure functions of numbers, any context.
 */
#ifndef TANDEM_PACE_H
#define TANDEM_PACE_H

#include "env.h"

/*
 * Cleanings at once. More of them share a flush of the disk and end sooner; but a stop,
 * and so a shutdown, waits for those that are under way.
 */
#define TANDEM_FULL_SPEED	255u	/* at a drain; one more is for urgent ones */
#define TANDEM_IDLE_SPEED	64u	/* while nobody waits for their end */

/* ms: a disk that was used so recently turns. Any disk waits longer before it rests. */
#define TANDEM_AWAKE		10000u

struct tandem_pace {
	bool dirty;		/* is there anything to write back? */
	u32 full;		/* of what may be dirty, in TANDEM_PACE_ALL parts */
	u32 disk_idle;		/* ms since the last foreground request to the disk */
	u32 ssd_idle;		/* ms since the last read that the SSD answered */
	u32 write_idle;		/* ms since the last write of the user */
	u32 rest;		/* ms that the data may still wait for a disk at rest */
	bool drain;		/* all is to be written back */
	bool paused;		/* by the user, or a stop began */
};

/*
 * How many cleanings may be in flight, at most TANDEM_FULL_SPEED. *again: ms
 * after which the answer may be another one, 0 if that takes an event.
 */
u32 tandem_pace(const struct tandem_pace *p, u32 *again);

/*
 * A disk's time depends on the number of places that it must go to; struct td_ledger
 * counts them. A span says how long a number of places took; older measurements
 * count less and less.
 */
struct tandem_span {
	u64 us;
	u64 places;
	u32 longest;	/* us; when @us is more, @us and @places are halved */
	u64 measured;	/* us: sum of all that was added */
};

#define TANDEM_PACE_GUESS	8000u	/* us for a place, until one was measured: a turn */

/* A span that begins with a guess of @place_us us for a place, of little weight. */
struct tandem_span tandem_pace_span(u32 place_us, u32 longest);

/* @places more took @us. */
void tandem_pace_add(struct tandem_span *s, u64 us, u64 places);

/* Was enough measured to estimate how long the rest takes? */
bool tandem_pace_known(const struct tandem_span *s);

/* Microseconds for a place, at least one. */
u32 tandem_pace_place_us(const struct tandem_span *s);

/* Places that the disk writes back in @seconds, at most 3600; not less than a few. */
u32 tandem_pace_places(u32 place_us, u32 seconds);

/* How full is @dirty of @limit? In TANDEM_PACE_ALL parts. */
#define TANDEM_PACE_ALL		64u
u32 tandem_pace_full(u64 dirty, u64 limit);

/*
 * Seconds that @places take, rounded up, at the speed of span @s, which ended @us
 * ago. @inflight of them are being written since then; at most their time is
 * subtracted, and if @us is longer they are taken to end now. At least 1 while there
 * are places.
 */
u64 tandem_pace_seconds(u32 places, u32 inflight, u64 us, struct tandem_span s);

#endif
