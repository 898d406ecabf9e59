/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loads the index from the SSD into memory, after a stop or a cut.
 *
 * The caller flushes the SSD first (what a crashed kernel left in the SSD's
 * volatile cache must be durable before it is believed), then reads what
 * td_load_next() asks for and feeds it, until it asks for nothing more; then
 * td_load_end() gives the verdict. Nothing is written. Any bytes are taken, in
 * bounded time: each block is read once; it is read again if a group crosses the end
 * of a read there, or if a block near it cannot be read.
 *
 * Afterwards the words hold LIVE frames, clean frames in marked regions are dropped
 * (and pending), the regions' dirty counts and marks are set, and the next group goes
 * behind the last sound group. Without TD_LOAD_OK the engine must not be used.
 *
 * One thread, before the engine is in use; no lock. The engine was initialised by
 * td_engine_init() with zeroed memory.
 */
#ifndef TANDEM_LOAD_H
#define TANDEM_LOAD_H

#include "engine.h"

#define TD_LOAD_BLOCKS	64u
#define TD_LOAD_BYTES	(TD_LOAD_BLOCKS * TD_BLOCK_BYTES)	/* of the buffer */

#define TD_LOAD_SEEN	512u	/* runs told apart where frames are compared */

enum td_load_error {
	TD_LOAD_OK,
	TD_LOAD_DAMAGED,	/* index cannot be read; dirty data may be lost */
	TD_LOAD_IMPOSSIBLE,	/* sound checksums, but records that cannot be */
};

struct td_load {
	struct td_engine *e;
	struct td_checkpoint checkpoint;	/* number 0: none was sound yet */
	u64 group;		/* number of the group that is expected next */
	u64 sum;		/* td_checkpoint.sum, of the pages that were read */
	u64 highest;		/* group number of a sound block that was looked at */
	u32 phase;		/* load.c */
	u32 at;			/* block, page or group of slots where it goes on */
	u32 end;		/* of the phase, not included */
	u32 asked;		/* blocks that the caller is reading */
	u32 single;		/* blocks still to be read one by one */
	u32 want;		/* blocks to be read at once, or 0 */
	u32 walk;		/* load.c: has the journal's end been found? */
	u32 head;		/* behind the last group that was applied */
	u32 used;		/* blocks from the checkpoint's to there */
	u8 seen[TD_LOAD_SEEN];	/* load.c: in which set a run was seen last */
	u8 seen_in;		/* number, 1-255, of the set that is looked at */
	enum td_load_error error;
};

void td_load_begin(struct td_load *l, struct td_engine *e);
/*
 * Read *sectors (at most TD_LOAD_BYTES) from *sector of the SSD on, then call
 * td_load_feed(). 0 sectors: nothing is to be read, the feeding computes. False:
 * no more.
 */
bool td_load_next(struct td_load *l, u64 *sector, u32 *sectors);
/* After td_load_next(): the sector up to which it is likely to ask on, in order. */
u64 td_load_until(const struct td_load *l);
/* @buffer NULL: the SSD could not read it. Else at a multiple of 8; it is changed. */
void td_load_feed(struct td_load *l, void *buffer);
enum td_load_error td_load_end(struct td_load *l);

/*
 * The writes for a new cache before its superblocks: a journal of zeroes, an empty
 * checkpoint, all marks clear. @step counts from 0; false: no more. The caller writes
 * *sectors of @buffer (TD_LOAD_BYTES) to *sector of the SSD; after the last write a
 * flush, then the superblocks.
 */
bool td_format_next(const struct td_super *sb, u32 step, u64 *sector,
		    u32 *sectors, void *buffer);
/* The same with @c as the head of the first checkpoint, whose pages the caller has written. */
bool td_format_around(const struct td_super *sb, const struct td_checkpoint *c, u32 step,
		      u64 *sector, u32 *sectors, void *buffer);

#endif
