/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a frame may lie on the SSD: arithmetic without state.
 *
 * A run is 1 << run_shift consecutive frames of the disk. Its number's hash
 * chooses a group and, in it, the home way. A slot's number is
 *
 *	((group << way_shift) + way) << run_shift | position in the run
 *
 * so a run that got the same way at every position lies contiguous on the SSD
 * and its words lie contiguous in memory, and a large read stays one request.
 *
 * All functions: no lock, any context.
 */
#ifndef TANDEM_LAYOUT_H
#define TANDEM_LAYOUT_H

#include "env.h"

#define TD_FRAME_SHIFT		5	/* log2 of sectors in a frame */
#define TD_FRAME_SECTORS	(1u << TD_FRAME_SHIFT)
#define TD_QUARTER_SHIFT	3
#define TD_QUARTER_SECTORS	(1u << TD_QUARTER_SHIFT)
#define TD_RUN_SHIFT_MAX	6	/* a run is at most 1 MiB */
#define TD_WAY_SHIFT_MAX	4
#define TD_FRAMES_MAX		(1u << TD_RUN_SHIFT_MAX)
#define TD_TAG_BITS		36

struct td_layout {
	u64 origin_sectors;	/* the disk, as the table says */
	u64 cached_sectors;	/* those that the SSD's block size can hold */
	u64 data_start;		/* sector of slot 0 on the SSD */
	u32 groups;
	u32 slots;		/* groups << (way_shift + run_shift) */
	u32 run_shift;
	u32 way_shift;
	u32 block_mask;		/* sectors in a logical block of the SSD, less 1 */
};

/* Place of a run: the first slot of its group, and its home way. */
struct td_place {
	u32 base;
	u32 home;
};

static inline u64 td_frame_of(u64 sector)
{
	return sector >> TD_FRAME_SHIFT;
}

static inline u32 td_run_sectors(const struct td_layout *l)
{
	return TD_FRAME_SECTORS << l->run_shift;
}

static inline u64 td_hash(u64 run)
{
	u64 h = run * 0x9e3779b97f4a7c15ull;

	h ^= h >> 32;
	return h * 0x9e3779b97f4a7c15ull;
}

static inline u32 td_group_of(const struct td_layout *l, u64 sector)
{
	u64 h = td_hash(sector >> (TD_FRAME_SHIFT + l->run_shift));

	return (u32)(((h >> 32) * l->groups) >> 32);
}

static inline struct td_place td_place_of(const struct td_layout *l, u64 run)
{
	u64 h = td_hash(run);
	u32 group = (u32)(((h >> 32) * l->groups) >> 32);

	return (struct td_place) {
		.base = group << (l->way_shift + l->run_shift),
		.home = (u32)(h >> 16) & ((1u << l->way_shift) - 1),
	};
}

/* Slot at position @frame's in way @way of the group that begins at @base. */
static inline u32 td_slot_at(const struct td_layout *l, u32 base, u32 way,
			     u64 frame)
{
	u32 position = (u32)frame & ((1u << l->run_shift) - 1);

	return base + (way << l->run_shift) + position;
}

static inline u64 td_slot_sector(const struct td_layout *l, u32 slot)
{
	return l->data_start + ((u64)slot << TD_FRAME_SHIFT);
}

/*
 * Quarters of @frame that lie wholly in the cached part of the disk, or end
 * with it: only these are ever valid.
 */
unsigned int td_quarters_cached(const struct td_layout *l, u64 frame);

/* Quarters of @frame that [sector, end) touches. */
unsigned int td_quarters_touched(u64 frame, u64 sector, u64 end);

/*
 * Quarters of @frame that [sector, end) covers as far as the disk reaches;
 * always a part of td_quarters_cached().
 */
unsigned int td_quarters_covered(const struct td_layout *l, u64 frame,
				 u64 sector, u64 end);

#endif
