// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The arithmetic of cleaning.
 *
 * Invariant: a drain always makes progress: while a drain is on and not paused, at
 * least one cleaning is allowed.
 * Threads: any; there is no state.
 * Why idleness and no share of the disk's time: on a disk that seeks, one write
 * elsewhere costs a foreground request more than its own time. While the user
 * reads, dirty data can wait, until the limit comes near.
 */
#include "pace.h"

#include <linux/math64.h>
#include <linux/minmax.h>

#define IDLE	50u	/* ms: the user is at neither device */
#define RAMP		2u	/* ms of idleness for each cleaning at a time */
#define IDLE_WRITES	2000u	/* ms: the user has stopped writing */
#define PLACES_MIN	8u
#define PLACE_US_MAX	10000000u
#define GUESS_PART	16u	/* a guess counts as 1/16 of the longest span */
#define KNOWN_US	2000000u	/* measured so long, a guess weighs little */

u32 tandem_pace(const struct tandem_pace *p, u32 *again)
{
	/* The user asked for a drain, so reads from the SSD do not hold it up. */
	u32 since = p->drain ? p->disk_idle : min(p->disk_idle, p->ssd_idle);
	bool idle = since >= IDLE;
	u32 most = p->drain ? TANDEM_FULL_SPEED : TANDEM_IDLE_SPEED;
	/* A user who pauses for a moment must not come back to a full disk queue. */
	u32 speed = min(since / RAMP, most);

	*again = 0;
	if (!p->dirty || p->paused)
		return 0;
	*again = idle ? 0 : IDLE - since;
	if (p->drain)
		return idle ? speed : 1;
	if (p->full > TANDEM_PACE_ALL * 7 / 8)
		return TANDEM_FULL_SPEED;
	if (p->full > TANDEM_PACE_ALL / 2)
		return idle ? speed : 4;
	if (!idle)
		return 0;
	if (p->rest && p->disk_idle >= TANDEM_AWAKE) {
		*again = p->rest;
		return 0;
	}
	/* Data that was just written is likely to be written again soon. */
	if (p->full > TANDEM_PACE_ALL / 8 || p->write_idle >= IDLE_WRITES)
		return speed;
	*again = IDLE_WRITES - p->write_idle;
	return 0;
}

struct tandem_span tandem_pace_span(u32 place_us, u32 longest)
{
	u32 places = max(longest / GUESS_PART / place_us, 1u);

	return (struct tandem_span) {
		.us = (u64)places * place_us,
		.places = places,
		.longest = longest,
	};
}

void tandem_pace_add(struct tandem_span *s, u64 us, u64 places)
{
	s->measured += us;
	s->us += us;
	s->places += places;
	while (s->us > s->longest) {
		s->us /= 2;
		s->places /= 2;
	}
}

bool tandem_pace_known(const struct tandem_span *s)
{
	return s->measured >= KNOWN_US;
}

u32 tandem_pace_place_us(const struct tandem_span *s)
{
	u64 us = div64_u64(s->us, max(s->places, 1ull));

	return (u32)clamp_t(u64, us, 1, PLACE_US_MAX);
}

u32 tandem_pace_places(u32 place_us, u32 seconds)
{
	/* A place may cost more than was measured: count one turn of a disk at least. */
	return max(seconds * 1000000u / max(place_us, TANDEM_PACE_GUESS),
		   PLACES_MIN);
}

u32 tandem_pace_full(u64 dirty, u64 limit)
{
	return dirty < limit ? div64_u64(dirty * TANDEM_PACE_ALL, limit) :
		TANDEM_PACE_ALL;
}

u64 tandem_pace_seconds(u32 places, u32 inflight, u64 us, struct tandem_span s)
{
	u64 done, left;

	inflight = min(inflight, places);
	done = (u64)inflight * tandem_pace_place_us(&s);
	if (us > done) {
		tandem_pace_add(&s, us, inflight);
		us = done = (u64)inflight * tandem_pace_place_us(&s);
	}
	left = (u64)places * tandem_pace_place_us(&s);
	/* Places that should be written by now, but are not, take another second. */
	return max_t(u64, DIV_ROUND_UP_ULL(left - us, 1000000), !!places);
}
