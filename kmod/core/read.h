/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The most frequent read, in as few instructions as possible: a read of one frame that
 * lies in its home way, on an SSD with blocks of 512 bytes that has the size it was made with.
 *
 * Inline, since the caller of the kernel has everything in registers already.
 * td_read_look() answers all other reads.
 */
#ifndef TANDEM_READ_H
#define TANDEM_READ_H

#include "engine.h"

/*
 * True: the whole request is a HIT, counted, and *slot, where its frame lies, is
 * pinned; *dirty as in struct td_look. False: nothing was done; ask td_read_look().
 * No lock, any context.
 */
static inline bool td_read_home(struct td_engine *e, u64 sector, u32 count,
				u32 *slot, u64 *dirty)
{
	const struct td_layout *l = &e->layout;
	u64 frame = td_frame_of(sector);
	u32 first = (u32)sector & (TD_FRAME_SECTORS - 1);
	u32 last = first + count - 1;

	if (unlikely(last >= TD_FRAME_SECTORS || l->unusual || !td_active(e)))
		return false;
	*slot = td_home_made(l, frame);
	if (unlikely(!td_word_pin_once(&e->words[*slot], frame,
				       td_quarters(first >> TD_QUARTER_SHIFT,
						   last >> TD_QUARTER_SHIFT),
				       dirty)))
		return false;
	env_count(e->counters, TD_C_READ_HIT, count);
	return true;
}

/* Where in @slot, which holds its frame, @sector lies on the SSD. */
static inline u64 td_sector_in(const struct td_layout *l, u32 slot, u64 sector)
{
	return td_slot_sector(l, slot) + (sector & (TD_FRAME_SECTORS - 1));
}

#endif
