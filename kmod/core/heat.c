// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which quarters of the disk are written most often, and read most often.
 *
 * Invariant: none that data depends on.
 * Threads: the engine's lock.
 */
#include "identity.h"

/*
 * One with the lowest count. Counts grow, so the search goes on where the last one ended
 * until no count is as low as that: a new quarter seldom costs a look at all counts.
 */
static u32 find_least(struct td_heat *h)
{
	for (; h->next < TD_HOT_MAX; h->next++)
		if (h->count[h->next] <= h->least)
			return h->next;
	h->next = 0;
	for (u32 i = 1; i < TD_HOT_MAX; i++)
		if (h->count[i] < h->count[h->next])
			h->next = i;
	h->least = h->count[h->next];
	return h->next;
}

/*
 * The space-saving algorithm: a quarter that is not in the list replaces the one with
 * the lowest count and inherits that count. So no quarter that gets more than
 * 1/TD_HOT_MAX of all writes is missed.
 */
static void add(struct td_heat *h, u64 quarter, u32 by)
{
	u32 least;

	for (u32 i = 0; i < TD_HOT_MAX; i++) {
		if (h->quarter[i] != quarter || !h->count[i])
			continue;
		if (h->count[i] != (u32)-1)
			h->count[i]++;
		return;
	}
	least = find_least(h);
	h->quarter[least] = quarter;
	if (h->count[least] <= (u32)-1 - by)
		h->count[least] += by;
}

void td_heat_add(struct td_heat *h, u64 quarter)
{
	add(h, quarter, 1);
}

/* The first whole quarter stands for all of a large write. */
void td_heat_wrote(struct td_heat *h, u64 sector, u32 count)
{
	u64 quarter = (sector + TD_QUARTER_SECTORS - 1) >> TD_QUARTER_SHIFT;

	if (quarter << TD_QUARTER_SHIFT >= sector + count)
		quarter = sector >> TD_QUARTER_SHIFT;
	add(h, quarter, 1);
}

/* Half of the counts of before, so that what is hot now gets into the list. */
void td_heat_resume(struct td_heat *written, struct td_heat *read,
		    const struct td_samples *s)
{
	for (u32 i = 0; i < s->count; i++) {
		u32 heat = s->sample[i].heat;

		if (heat)
			add(heat & TD_HEAT_READ ? read : written,
			    s->sample[i].quarter,
			    ((heat & ~TD_HEAT_READ) + 1) / 2);
	}
}

void td_heat_discarded(struct td_heat *h, u64 sector, u32 count)
{
	u64 first = sector >> TD_QUARTER_SHIFT;
	u64 last = (sector + count - 1) >> TD_QUARTER_SHIFT;

	for (u32 i = 0; i < TD_HOT_MAX; i++) {
		if (h->quarter[i] < first || h->quarter[i] > last)
			continue;
		h->count[i] = 0;
		h->least = 0;
		h->next = 0;
	}
}
