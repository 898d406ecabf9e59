// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The arithmetic of cleaning.
 *
 * Invariant: whoever waits for a drain gets on: at least one cleaning is always
 * allowed while all is to be written back.
 * Threads: any; there is no state.
 * Why idleness and no share of the disk's time: on a disk that seeks, one write
 * elsewhere costs a foreground request more than its own time. While the user
 * reads, dirty data can wait, until the limit comes near.
 */
#include "pace.h"

#include <linux/math64.h>
#include <linux/minmax.h>

#define IDLE_DISK	50u	/* ms: the user is not at the disk */
#define IDLE_WRITES	2000u	/* ms: he has stopped writing */
#define SECONDS		30u	/* of draining may be dirty */
#define PLACES_MIN	8u
#define PLACE_US_MAX	10000000u
#define SPAN_FIRST	500000u		/* us: what a guess is worth */
#define SPAN_HALF	8000000u	/* us: half of what is longer is forgotten */

u32 tandem_pace(const struct tandem_pace *p, u32 *again)
{
	bool idle = p->disk_idle >= IDLE_DISK;

	*again = 0;
	if (!p->dirty || p->paused)
		return 0;
	*again = idle ? 0 : IDLE_DISK - p->disk_idle;
	if (p->drain)
		return idle ? TANDEM_FULL_SPEED : 1;
	if (p->full > TANDEM_PACE_ALL * 7 / 8)
		return TANDEM_FULL_SPEED;
	if (p->full > TANDEM_PACE_ALL / 2)
		return idle ? TANDEM_FULL_SPEED : 4;
	if (!idle)
		return 0;
	/* What is written now is likely to be written again soon. */
	if (p->full > TANDEM_PACE_ALL / 8 || p->write_idle >= IDLE_WRITES)
		return TANDEM_FULL_SPEED;
	*again = IDLE_WRITES - p->write_idle;
	return 0;
}

struct tandem_span tandem_pace_span(u32 place_us)
{
	u32 places = max(SPAN_FIRST / place_us, 1u);

	return (struct tandem_span) {
		.us = (u64)places * place_us,
		.places = places,
	};
}

void tandem_pace_add(struct tandem_span *s, u64 us, u64 places)
{
	s->us += us;
	s->places += places;
	while (s->us > SPAN_HALF) {
		s->us /= 2;
		s->places /= 2;
	}
}

u32 tandem_pace_place_us(const struct tandem_span *s)
{
	u64 us = div64_u64(s->us, max(s->places, 1ull));

	return (u32)clamp_t(u64, us, 1, PLACE_US_MAX);
}

u32 tandem_pace_places(u32 place_us)
{
	/* A place may get more than what was measured: reckon with a turn. */
	return max(SECONDS * 1000000u / max(place_us, TANDEM_PACE_GUESS),
		   PLACES_MIN);
}

u32 tandem_pace_full(u64 dirty, u64 limit)
{
	return dirty < limit ? div64_u64(dirty * TANDEM_PACE_ALL, limit) :
		TANDEM_PACE_ALL;
}

u64 tandem_pace_seconds(u32 places, u32 place_us)
{
	return DIV_ROUND_UP_ULL((u64)places * place_us, 1000000);
}
