/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Discards and zero-outs of dirty data. Lock held in all functions but the first.
 */
#ifndef TANDEM_DISCARD_H
#define TANDEM_DISCARD_H

#include "engine.h"

/* A read may be answered by the disk, from now until td_disk_read_ends(). No lock. */
static inline void td_disk_read_begins(struct td_engine *e)
{
	env_sub_return(&e->disk_reads, (u64)-1);
}

/*
 * The sector up to which marks are to be set when @r, a discard, begins. More than its own are
 * worth it in a row of discards, as fstrim sends them.
 */
u64 td_discard_ahead(struct td_engine *e, const struct td_req *r);

/*
 * May the discard @r drop now the dirty quarters that it covers whole (Q5)? If not, these
 * quarters are cleaned first.
 */
bool td_discard_may_drop(const struct td_engine *e, const struct td_bucket *b,
			 const struct td_req *r);

/* Dirty quarters of @frame that @r, a discard, covers whole; *slot has them. */
unsigned int td_discard_quarters(const struct td_engine *e, const struct td_req *r,
				 u64 frame, u32 *slot);

/* Does the discard @r, about to start, cover dirty quarters? If so, it drops them from now on. */
bool td_discard_drops(const struct td_engine *e, struct td_req *r);

/* Is a cleaning under way that moves a quarter that @r touches? */
bool td_discard_must_wait(const struct td_bucket *b, const struct td_req *r);

/* The record that takes the quarters of @r out of the index is durable. */
void td_discard_recorded(struct td_engine *e, const struct td_req *r);

#endif
