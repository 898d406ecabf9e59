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
#define QUARTER_BYTES	4096u

u32 tandem_pace(const struct tandem_pace *p, u32 *again)
{
	bool idle = p->disk_idle >= IDLE_DISK;

	*again = 0;
	if (!p->dirty || p->paused)
		return 0;
	*again = idle ? 0 : IDLE_DISK - p->disk_idle;
	if (p->drain)
		return idle ? TANDEM_FULL_SPEED : 1;
	if (p->dirty > p->limit - p->limit / 8)
		return TANDEM_FULL_SPEED;
	if (p->dirty > p->limit / 2)
		return idle ? TANDEM_FULL_SPEED : 4;
	if (!idle)
		return 0;
	/* What is written now is likely to be written again soon. */
	if (p->dirty > p->limit / 8 || p->write_idle >= IDLE_WRITES)
		return TANDEM_FULL_SPEED;
	*again = IDLE_WRITES - p->write_idle;
	return 0;
}

u64 tandem_pace_limit(u64 rate, u64 all)
{
	u64 most = all - all / 4;
	u64 limit = max_t(u64, rate * SECONDS / QUARTER_BYTES, 2048);

	return min(limit, most);
}

u64 tandem_pace_seconds(u64 dirty, u64 rate)
{
	return div64_u64(dirty * QUARTER_BYTES + rate - 1, rate);
}
