// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * When the SSD is trimmed.
 *
 * Invariant: trims take a hundredth of the time, as far as they are short. One that takes
 * longer is made up for by seconds without any.
 * Threads: any, under tandem.lock.
 * Why the size follows the time: some SSDs serve nothing else while they trim. An SSD for
 * which the least is far too much is not trimmed at all: three times in a row, since a trim
 * may have waited for other requests.
 */
#include "trim_pace.h"

#include <linux/minmax.h>
#include <linux/time64.h>

#define SHARE		(NSEC_PER_SEC / 100)	/* of each second */
#define LANES_MOST	8u			/* 8 MiB, but in a small cache */
#define SHORT		(2 * NSEC_PER_MSEC)
#define LONG		(10 * NSEC_PER_MSEC)
#define TOO_LONG	(100 * NSEC_PER_MSEC)	/* for one lane */
#define LONG_ONES_MAX	3u

void tandem_trim_init(struct tandem_trim *trim, bool can)
{
	*trim = (struct tandem_trim) { .lanes = 1, .can = can };
}

void tandem_trim_inherit(struct tandem_trim *trim, const struct tandem_trim *old)
{
	bool can = trim->can;

	*trim = *old;
	trim->can = can;
}

void tandem_trim_tick(struct tandem_trim *trim)
{
	trim->left = min_t(s64, trim->left + SHARE, SHARE);
}

bool tandem_trim_ended(struct tandem_trim *trim, bool ok, u64 ns)
{
	trim->left -= (s64)ns;
	trim->long_ones = ns < TOO_LONG || trim->lanes > 1 ? 0 : trim->long_ones + 1;
	trim->off |= !ok || trim->long_ones == LONG_ONES_MAX;
	if (ns < SHORT)
		trim->lanes = min(2 * trim->lanes, LANES_MOST);
	else if (ns > LONG)
		trim->lanes = max(trim->lanes / 2, 1u);
	return trim->off;
}
