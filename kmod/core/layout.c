// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which quarters of a frame a range of the disk concerns, and where a run lies on an SSD
 * that got another size.
 *
 * Invariant: a quarter that can be valid ends at or before cached_sectors, or
 * is the disk's last and ends with the disk at a block boundary of the SSD.
 * Threads: pure functions.
 * Why: only here does the end of a disk of odd size make a difference.
 */
#include "layout.h"

u32 td_lane_resized(const struct td_layout *l, u64 h)
{
	u32 made = (u32)(((h >> 32) * l->made_lanes) >> 32);
	u32 lane = (u32)(((td_hash(h) >> 32) * l->lanes) >> 32);

	if (l->lanes > l->made_lanes)
		return lane < l->made_lanes ? made : lane;
	return made < l->lanes ? made : lane;
}

unsigned int td_quarters_cached(const struct td_layout *l, u64 frame)
{
	u64 start = frame << TD_FRAME_SHIFT;
	u64 left;

	if (start >= l->cached_sectors)
		return 0;
	left = l->cached_sectors - start;
	if (left >= TD_FRAME_SECTORS)
		return 0xfu;
	/* A last quarter that is only partly there counts if all of it is. */
	if (l->cached_sectors == l->origin_sectors)
		left += TD_QUARTER_SECTORS - 1;
	left >>= TD_QUARTER_SHIFT;
	return left ? td_quarters(0, (u32)left - 1) : 0;
}

unsigned int td_quarters_covered(const struct td_layout *l, u64 frame,
				 u64 sector, u64 end)
{
	u64 start = frame << TD_FRAME_SHIFT;
	u32 first = sector > start ? (u32)(sector - start) : 0;
	u32 last = end < start + TD_FRAME_SECTORS ?
			(u32)(end - start) : TD_FRAME_SECTORS;

	first = (first + TD_QUARTER_SECTORS - 1) >> TD_QUARTER_SHIFT;
	if (end == l->origin_sectors)
		last += TD_QUARTER_SECTORS - 1;
	last >>= TD_QUARTER_SHIFT;
	if (last > 4)
		last = 4;
	if (first >= last)
		return 0;
	return td_quarters(first, last - 1) & td_quarters_cached(l, frame);
}
