// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which quarters of the disk are written most often.
 *
 * Invariant: none that data depends on.
 * Threads: the engine's lock.
 */
#include "identity.h"

/*
 * The space-saving algorithm: a quarter that is not in the list replaces the one with
 * the lowest count and inherits that count. So no quarter that gets more than
 * 1/TD_HOT_MAX of all writes is missed.
 */
void td_heat_wrote(struct td_heat *h, u64 sector, u32 count)
{
	u64 quarter = (sector + TD_QUARTER_SECTORS - 1) >> TD_QUARTER_SHIFT;
	u32 least = 0;

	/* The first whole quarter stands for all of a large write. */
	if (quarter << TD_QUARTER_SHIFT >= sector + count)
		quarter = sector >> TD_QUARTER_SHIFT;
	for (u32 i = 0; i < TD_HOT_MAX; i++) {
		if (h->count[i] && h->quarter[i] == quarter) {
			if (h->count[i] != (u32)-1)
				h->count[i]++;
			return;
		}
		if (h->count[i] < h->count[least])
			least = i;
	}
	h->quarter[least] = quarter;
	if (h->count[least] != (u32)-1)
		h->count[least]++;
}

void td_heat_discarded(struct td_heat *h, u64 sector, u32 count)
{
	u64 first = sector >> TD_QUARTER_SHIFT;
	u64 last = (sector + count - 1) >> TD_QUARTER_SHIFT;

	for (u32 i = 0; i < TD_HOT_MAX; i++)
		if (h->quarter[i] >= first && h->quarter[i] <= last)
			h->count[i] = 0;
}
