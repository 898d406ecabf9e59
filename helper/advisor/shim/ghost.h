/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A ghost: core's index and policy for some groups of a cache that does not exist.
 *
 * A cache consists of groups. The hash of a run chooses the group that the run may lie
 * in, and nothing that happens in one group changes another, but for the detector of
 * streams and the level of trials (policy.c). So the first @kept of @groups groups behave
 * as they would in the whole cache, if they get the requests to their own runs, and if the
 * detectors see all reads that miss, and all writes. The level is that of the kept groups,
 * whose reads are a sample too: the runs of the kept groups are one of all runs by their
 * hash.
 *
 * Nothing is stored, so each request ends at once, and its changes of the index count as
 * recorded at once.
 *
 * Threads: one at a time for each ghost.
 */
#ifndef TANDEM_GHOST_H
#define TANDEM_GHOST_H

#include "engine.h"

/* Which groups a ghost keeps. */
struct tdg_shape {
	u64 disk_sectors;	/* > 0, at most 36 bits of frames */
	u32 groups;		/* of the cache; groups << way_shift has 32 bits */
	u32 kept;		/* at most @groups; 0: only the detector */
	u32 run_shift;
	u32 way_shift;
};

/* Pieces of a read that missed: numbers of their first and last frames. */
struct tdg_missed {
	u32 count;
	u64 first[TD_FRAMES_MAX];
	u64 last[TD_FRAMES_MAX];
};

struct tdg_ghost;

/* NULL: no memory. */
struct tdg_ghost *tdg_new(const struct tdg_shape *shape);
void tdg_free(struct tdg_ghost *g);

/*
 * A ghost of a cache of twice the groups that keeps as many, with what @g has of these.
 * @g has evicted nothing so far. NULL: no memory.
 */
struct tdg_ghost *tdg_double(const struct tdg_ghost *g);

/* The group of the run of @sector; not kept if it is @kept or more. */
u32 tdg_group(const struct tdg_ghost *g, u64 sector);

/*
 * The following get a range in one run of a kept group, with count > 0 and its end on
 * the disk.
 */

/* Can the whole range be stored without giving up anything? */
bool tdg_has_room(const struct tdg_ghost *g, u64 sector, u32 count);
/* Returns the sectors that hit. */
u32 tdg_read(struct tdg_ghost *g, u64 sector, u32 count,
	     struct tdg_missed *missed);
/* @stream: tdg_streams() said so, of the detector that sees all writes. */
void tdg_write(struct tdg_ghost *g, u64 sector, u32 count, bool stream);

/* Forgets the range, which may be any. */
void tdg_discard(struct tdg_ghost *g, u64 sector, u64 end);

/*
 * The detector sees a read that misses: for ghosts that do not keep its group. Is the last
 * piece part of a stream?
 */
bool tdg_pass(struct tdg_ghost *g, const struct tdg_missed *missed);

/*
 * The detector sees a write, of any group. Does it go past the SSD as part of a stream?
 * Flushes, which make streams count less, are not known here.
 */
bool tdg_streams(struct tdg_ghost *g, u64 sector, u32 count);

/* What has to be saved, as 64-bit numbers: see ghost.c. */
u64 tdg_saved_count(const struct tdg_ghost *g);
void tdg_save(const struct tdg_ghost *g, u64 *numbers);
/* False: no such state can be; then @g must not be used any more. */
bool tdg_restore(struct tdg_ghost *g, const u64 *numbers);

/* Bytes of memory that @g takes. */
u64 tdg_memory(const struct tdg_ghost *g);

#endif
