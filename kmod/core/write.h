/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The commonest write-back write: of quarters that are already dirty, in one frame.
 * The write goes to the SSD as it is, like a read hit. Most frames lie in their home way.
 *
 * Why this needs no lock: the quarters are recorded dirty or will be, so no order has
 * to be kept; the pin keeps the slot's frame; a cleaning begins only when the pin is
 * gone; and two writes of one place at the same time have the same outcome as on any
 * disk. td_begin() takes all other writes.
 */
#ifndef TANDEM_WRITE_H
#define TANDEM_WRITE_H

#include "engine.h"

/*
 * True: the whole write (not FUA) goes to *slot, which is pinned; the write is
 * counted. False: nothing was done. The function does not look at the dirty limit:
 * a write without memory for a copy could else only wait for a cleaning. A flush ends
 * all the same, for no such write joins a cleaning. No lock, any context. Always
 * inline: as a function with two callers it costs 21 instructions a hit.
 */
static env_inline bool td_write_in_place(struct td_engine *e, u64 sector,
					 u32 count, u32 *slot)
{
	const struct td_layout *l = &e->layout;
	u64 frame = td_frame_of(sector);
	u32 first = (u32)sector & (TD_FRAME_SECTORS - 1);
	u32 last = first + count - 1;

	if (unlikely(last >= TD_FRAME_SECTORS || l->unusual ||
		     !td_active(e) || env_load(&e->mode) != TD_WRITEBACK))
		return false;
	*slot = td_home_made(l, frame);
	if (!td_word_pin_dirty(&e->words[*slot], frame,
			       td_quarters(first >> TD_QUARTER_SHIFT,
					   last >> TD_QUARTER_SHIFT)))
		return false;
	env_count(e->counters, TD_C_WRITE_BACK, count);
	return true;
}

/* As td_write_in_place(), but false while all must go to the disk (B8). Any context. */
static inline bool td_write_home(struct td_engine *e, u64 sector, u32 count,
				 u32 *slot)
{
	return likely(env_peek(e->ledger.dirty_limit)) &&
	       td_write_in_place(e, sector, count, slot);
}

/*
 * td_write_home() said false: the same for a frame in another way. A function of its own,
 * since most writes that come here make something dirty. No lock, any context.
 */
bool td_write_elsewhere(struct td_engine *e, u64 sector, u32 count, u32 *slot);

/*
 * The SSD has completed such a write. Call before td_word_unpin() and before the
 * write is answered. If the SSD failed it (@ok false), the caller also calls td_fail()
 * and answers EIO. No lock, any context.
 */
static inline void td_write_home_done(struct td_engine *e, bool ok)
{
	if (!ok)
		env_count(e->counters, TD_C_SSD_ERRORS, 1);
	if (!env_peek(e->ledger.ssd_unflushed))
		env_poke(e->ledger.ssd_unflushed, true);
}

#endif
