/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A cache gets more or less of its SSD, and keeps the copies that stay where they are.
 *
 * With no request in flight, all durable and no mark set: td_super_resize(),
 * td_may_resize(); then an engine of the new size is made. The caller writes the new
 * superblocks with CLEAN and COLD, what td_resize_next() says, flushes the SSD, writes the
 * superblocks without COLD, calls td_resize_inherit(), and loads the new index (load.h).
 *
 * All functions: one thread, before requests are served; no lock.
 */
#ifndef TANDEM_RESIZE_H
#define TANDEM_RESIZE_H

#include "engine.h"
#include "load.h"
#include "super.h"

/*
 * The superblock of the cache @old on an SSD of which it uses @ssd_sectors: OK, or
 * TOO_SMALL.
 */
enum td_super_error td_super_resize(const struct td_super *old, u64 ssd_sectors,
				    struct td_super *sb);

/* Is nothing dirty, no mark set, and the SSD in use? */
bool td_may_resize(const struct td_engine *e);

/*
 * The writes of the index of @to for what @old holds, as td_format_next(). @layout is
 * that of @to.
 */
bool td_resize_next(const struct td_engine *old, const struct td_super *to,
		    const struct td_layout *layout, u32 step, u64 *sector,
		    u32 *sectors, void *buffer);

/*
 * @e, just made, takes from @old what no index has: watched places of the disk, and what
 * of the disk is used most.
 */
void td_resize_inherit(struct td_engine *e, const struct td_engine *old);

#endif
