/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From what is on the SSD to an index in memory, after a stop or a cut.
 *
 * The caller flushes the SSD first (what a crashed kernel left in the SSD's
 * volatile cache must be durable before it is believed), then reads what
 * td_load_next() asks for and feeds it, until it asks for nothing more; then
 * td_load_end() gives the verdict. Nothing is written. Any bytes are taken, in
 * bounded time: each block is read at most once.
 *
 * Afterwards words hold LIVE frames, clean ones in marked regions are dropped
 * (and pending), regions' dirty counts and marks are set, the journal goes on
 * behind the last sound group.
 *
 * One thread, before the engine is in use; no lock. The engine was initialised by
 * td_engine_init() with zeroed memory.
 */
#ifndef TANDEM_LOAD_H
#define TANDEM_LOAD_H

#include "engine.h"

#define TD_LOAD_BYTES	(64u * TD_BLOCK_BYTES)	/* of the caller's buffer */

enum td_load_error {
	TD_LOAD_OK,
	TD_LOAD_DAMAGED,	/* index cannot be read; dirty data may be lost */
	TD_LOAD_IMPOSSIBLE,	/* sound checksums, but records that cannot be */
};

struct td_load {
	struct td_engine *e;
	struct td_checkpoint checkpoint;
	u64 group;		/* number of the group that is expected next */
	u32 phase;		/* load.c */
	u32 at;			/* block or page to be read next */
	u32 asked;		/* blocks that the caller is reading */
	u32 ring_read;		/* blocks of the journal looked at */
	u32 slot;		/* of the closing check */
	enum td_load_error error;
};

void td_load_begin(struct td_load *l, struct td_engine *e);
/* Read *sectors (at most TD_LOAD_BYTES) from *sector of the SSD on. */
bool td_load_next(struct td_load *l, u64 *sector, u32 *sectors);
/* @buffer NULL: it could not be read. */
void td_load_feed(struct td_load *l, void *buffer);
enum td_load_error td_load_end(struct td_load *l);

/*
 * What has to be written for a new cache before its superblocks: marks all
 * clear, an empty checkpoint. @step counts from 0; false: no more. Each block is
 * one write of TD_BLOCK_BYTES at *sector; then a flush, then the superblocks.
 */
bool td_format_next(const struct td_super *sb, u32 step, u64 *sector,
		    void *block);

#endif
