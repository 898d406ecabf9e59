/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a frame may lie on the SSD: arithmetic without state.
 *
 * A run is 1 << run_shift consecutive frames of the disk. Its number's hash
 * chooses a lane: one way of one group, the home way. A slot's number is
 *
 *	lane << run_shift | position in the run
 *	lane = group << way_shift | way
 *
 * so a run that got the same way at every position lies contiguous on the SSD
 * and its words lie contiguous in memory, and a large read stays one request.
 *
 * If the SSD got another size, most runs stay where they are: of a larger SSD each
 * new group takes its share of runs from all old groups; of a smaller SSD only the
 * runs of groups that are gone lie elsewhere.
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
	u32 lanes;		/* groups << way_shift */
	u32 made_lanes;		/* of the groups that the cache was made with; 0: the same */
	u32 slots;		/* lanes << run_shift */
	u32 run_shift;
	u32 run_mask;		/* frames in a run, less 1 */
	u32 way_shift;
	u32 block_mask;		/* sectors in a logical block of the SSD, less 1 */
	u32 unusual;		/* not 0: block_mask or made_lanes is not 0 */
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

/* The home lane of a run with hash @h where made_lanes is not 0. */
u32 td_lane_resized(const struct td_layout *l, u64 h);

/* The home lane of a run with hash @h where made_lanes is 0. */
static inline u32 td_lane_made(const struct td_layout *l, u64 h)
{
	return (u32)(((h >> 32) * l->lanes) >> 32);
}

/* Home lane of @frame's run. */
static inline u32 td_lane_of(const struct td_layout *l, u64 frame)
{
	u64 h = td_hash(frame >> l->run_shift);

	if (unlikely(l->made_lanes))
		return td_lane_resized(l, h);
	return td_lane_made(l, h);
}

static inline u32 td_group_of(const struct td_layout *l, u64 sector)
{
	return td_lane_of(l, td_frame_of(sector)) >> l->way_shift;
}

/* The slot of @frame in its home lane. */
static inline u32 td_home_of(const struct td_layout *l, u64 frame)
{
	return (td_lane_of(l, frame) << l->run_shift) +
	       ((u32)frame & l->run_mask);
}

/* The same, where l->unusual is 0. */
static inline u32 td_home_made(const struct td_layout *l, u64 frame)
{
	return (td_lane_made(l, td_hash(frame >> l->run_shift)) << l->run_shift) +
	       ((u32)frame & l->run_mask);
}

static inline struct td_place td_place_of(const struct td_layout *l, u64 frame)
{
	u32 lane = td_lane_of(l, frame);

	return (struct td_place) {
		.base = lane >> l->way_shift << (l->way_shift + l->run_shift),
		.home = lane & ((1u << l->way_shift) - 1),
	};
}

/* Slot at position @frame's in way @way of the group that begins at @base. */
static inline u32 td_slot_at(const struct td_layout *l, u32 base, u32 way,
			     u64 frame)
{
	return base + (way << l->run_shift) + ((u32)frame & l->run_mask);
}

/* How many slots one frame may lie in: the ways of its set. */
static inline u32 td_ways(const struct td_layout *l)
{
	return 1u << l->way_shift;
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

/* Quarters @first..@last of a frame, both counted. */
static inline unsigned int td_quarters(u32 first, u32 last)
{
	return (2u << last) - (1u << first);
}

/* Quarters of @frame that [sector, end) touches; it does touch the frame. */
static inline unsigned int td_quarters_touched(u64 frame, u64 sector, u64 end)
{
	u32 first = 0, last = 3;

	if (td_frame_of(sector) == frame)
		first = (u32)(sector >> TD_QUARTER_SHIFT) & 3;
	if (td_frame_of(end - 1) == frame)
		last = (u32)((end - 1) >> TD_QUARTER_SHIFT) & 3;
	return td_quarters(first, last);
}

/*
 * Quarters of @frame that [sector, end) covers as far as the disk reaches;
 * always a part of td_quarters_cached().
 */
unsigned int td_quarters_covered(const struct td_layout *l, u64 frame,
				 u64 sector, u64 end);

#endif
