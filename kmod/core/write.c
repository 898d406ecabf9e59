// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A write of quarters that are already dirty, in a frame that is not in its home way.
 *
 * Threads: any number, without a lock: see write.h.
 * Why: a sixth of the frames lie so, and the lock would go from one processor to the other
 * with each write.
 */
#include "index.h"
#include "write.h"

bool td_write_elsewhere(struct td_engine *e, u64 sector, u32 count, u32 *slot)
{
	u64 frame = td_frame_of(sector), home;
	u32 first = (u32)sector & (TD_FRAME_SECTORS - 1);
	u32 last = first + count - 1;

	if (!env_peek(e->ledger.dirty_limit) || last >= TD_FRAME_SECTORS ||
	    e->layout.block_mask || !td_active(e) || env_load(&e->mode) != TD_WRITEBACK)
		return false;
	/* The search costs a tenth of what a write does that makes something dirty. */
	home = td_word_load(&e->words[td_home_of(&e->layout, frame)]);
	if (td_word_is_free(home) || td_word_has(home, frame) ||
	    !td_ledger_region_dirty(&e->ledger, sector))
		return false;
	*slot = td_index_find(e, frame);
	if (*slot == TD_NO_SLOT ||
	    !td_word_pin_dirty(&e->words[*slot], frame,
			       td_quarters(first >> TD_QUARTER_SHIFT,
					   last >> TD_QUARTER_SHIFT)))
		return false;
	env_count(e->counters, TD_C_WRITE_BACK, count);
	return true;
}
