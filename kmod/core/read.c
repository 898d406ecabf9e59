// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The read that is answered from the SSD: no lock, no memory.
 *
 * Invariants: what td_read_look() returns as a HIT is pinned, slot by slot, and
 * every quarter asked for was valid in the very step that pinned it. In a hit of
 * several slots, either all that is asked for was dirty in that step, or nothing was:
 * else a bad block of a clean slot would fail a read of dirty data that is sound.
 * Threads: any number, against all changers of words.
 * Why the longest uniform piece: the caller cuts the request behind the piece and dm
 * sends the rest again, so each piece goes to one device. A piece that misses ends
 * with the last missing block: on a disk one long read costs one seek, but several
 * short reads with hits between them cost several.
 */
#include "discard.h"
#include "index.h"
#include "read.h"
#include "retire.h"

/* Pin @frame in another than its home way: the slot, or TD_NO_SLOT. */
static env_noinline u32 pin_elsewhere(struct td_engine *e, u64 frame,
				      unsigned int want, u64 *dirty)
{
	u32 slot = td_index_find(e, frame);

	return slot != TD_NO_SLOT && td_word_pin(&e->words[slot], frame, want, dirty) ?
		slot : TD_NO_SLOT;
}

/*
 * Pin the frames that follow in the next slots, as long as they do. Of the first
 * frame, @want was pinned.
 */
static env_noinline u64 pin_following(struct td_engine *e, u64 frame, u64 end, u32 slot,
				      unsigned int want, struct td_look *look)
{
	u64 at = (frame + 1) << TD_FRAME_SHIFT;
	u64 all = (u64)want << TD_W_DIRTY_SHIFT;

	/* When slots failed together it is not known which of them is bad. */
	if (unlikely(td_suspect(e, slot) || (look->dirty && look->dirty != all)))
		return at;
	while (at < end) {
		frame++;
		want = td_quarters_touched(frame, at, end);
		if (unlikely(td_suspect(e, slot + look->slots)))
			return at;
		if (!td_word_pin_like(&e->words[slot + look->slots], frame, want,
				      look->dirty))
			return at;
		look->slots++;
		at += TD_FRAME_SECTORS;
	}
	return end;
}

/*
 * First sector of [sector, end) that only the SSD has, or @end. A hint: a quarter
 * that becomes dirty meanwhile is written while the read is under way.
 */
static u64 first_dirty(struct td_engine *e, u64 sector, u64 end)
{
	/* The advisor's engine, in which nothing is ever dirty, has one region alone. */
	if (!td_ledger_has_dirty(&e->ledger) ||
	    !td_ledger_region_dirty(&e->ledger, sector))
		return end;
	for (u64 at = sector; at < end;) {
		u64 frame = td_frame_of(at);
		u64 next = (frame + 1) << TD_FRAME_SHIFT;
		u32 slot = td_index_find(e, frame);
		u64 v = slot == TD_NO_SLOT ? 0 : td_word_load(&e->words[slot]);
		unsigned int dirty = 0;

		if (td_word_has(v, frame))
			dirty = td_word_dirty(v) &
				td_quarters_touched(frame, at, end);
		if (dirty) {
			u64 first = (frame << TD_FRAME_SHIFT) +
				    (env_first_bit(dirty) << TD_QUARTER_SHIFT);

			return first > at ? first : at;
		}
		at = next;
	}
	return end;
}

/* End of the last frame's part of [sector, end) that is not on the SSD. */
static u64 end_of_missing(struct td_engine *e, u64 sector, u64 end)
{
	u64 frame = td_frame_of(end - 1);

	for (; frame > td_frame_of(sector); frame--) {
		u64 start = frame << TD_FRAME_SHIFT;

		if (!td_index_readable(e, frame,
				       td_quarters_touched(frame, start, end)))
			return end;
		end = start;
	}
	return end;
}

/* From @sector on, which is dirty: the part that one frame's slot can answer. */
static enum td_verdict look_dirty(struct td_engine *e, u64 sector, u64 end,
				  struct td_look *look)
{
	u64 frame = td_frame_of(sector);
	u64 start = frame << TD_FRAME_SHIFT;
	u32 slot = td_index_find(e, frame);
	u32 quarter = (u32)(sector >> TD_QUARTER_SHIFT) & 3;
	unsigned int valid;

	if (slot == TD_NO_SLOT)
		return TD_BUSY;
	valid = td_word_valid(td_word_load(&e->words[slot]));
	while (quarter < 4 && valid & 1u << quarter)
		quarter++;
	if (end > start + (quarter << TD_QUARTER_SHIFT))
		end = start + (quarter << TD_QUARTER_SHIFT);
	/* All pins of the slot may be in use, or the frame has moved to another. */
	if (end <= sector ||
	    !td_word_pin(&e->words[slot], frame,
			 td_quarters_touched(frame, sector, end), &look->dirty))
		return TD_BUSY;
	look->slot = slot;
	look->slots = 1;
	look->count = (u32)(end - sector);
	look->ssd_sector = td_sector_in(&e->layout, slot, sector);
	env_count(e->counters, TD_C_READ_HIT, look->count);
	return TD_HIT;
}

/*
 * The first frame cannot be pinned as a whole, or the SSD must not be used (@why).
 * The piece ends before the first sector that only the SSD has; if that is @sector
 * itself, the piece is that dirty part.
 */
static env_noinline enum td_verdict look_further(struct td_engine *e, u64 sector,
						 u64 end, enum td_counter *why,
						 struct td_look *look)
{
	u64 dirty = first_dirty(e, sector, end);

	/* In bypass a quarter is dirty only while a write brings it to the disk. */
	if (dirty == sector)
		return env_load(&e->state) == TD_BYPASS ? TD_BUSY :
			look_dirty(e, sector, end, look);
	look->count = (u32)(dirty - sector);
	if (*why != TD_C_READ_MISSED)
		return TD_PASS;
	look->count = (u32)(end_of_missing(e, sector, dirty) - sector);
	if (td_promotes(e))
		return TD_MISS;
	*why = TD_C_READ_BYPASSED_PROMOTION;
	return TD_PASS;
}

/* td_read_look(), but counts only HIT; *why: what PASS is to be counted as. */
static enum td_verdict look_once(struct td_engine *e, u64 sector, u32 count,
				 struct td_look *look, enum td_counter *why)
{
	const struct td_layout *l = &e->layout;
	u64 frame = td_frame_of(sector);
	u64 end = sector + count;
	unsigned int want = td_quarters_touched(frame, sector, end);
	u32 slot;

	look->count = count;
	*why = TD_C_READ_MISSED;
	if (unlikely(!td_active(e)))
		*why = TD_C_READ_BYPASSED_FAILED;
	else if (unlikely((sector | count) & l->block_mask))
		*why = TD_C_READ_BYPASSED_UNALIGNED;
	if (unlikely(*why != TD_C_READ_MISSED))
		return look_further(e, sector, end, why, look);

	slot = td_home_of(l, frame);
	/* The home way first, where it mostly is. */
	if (unlikely(!td_word_pin(&e->words[slot], frame, want, &look->dirty))) {
		slot = pin_elsewhere(e, frame, want, &look->dirty);
		if (slot == TD_NO_SLOT)
			return look_further(e, sector, end, why, look);
	}
	look->slot = slot;
	look->slots = 1;
	look->ssd_sector = td_sector_in(l, slot, sector);
	if (end > (frame + 1) << TD_FRAME_SHIFT)
		look->count = (u32)(pin_following(e, frame, end, slot, want,
						  look) - sector);
	env_count(e->counters, TD_C_READ_HIT, look->count);
	return TD_HIT;
}

enum td_verdict td_read_look(struct td_engine *e, u64 sector, u32 count,
			     struct td_look *look)
{
	enum td_counter why;
	enum td_verdict verdict = look_once(e, sector, count, look, &why);

	if (verdict == TD_HIT || verdict == TD_BUSY)
		return verdict;
	/* Q5: what counts is what is found after the read was counted. */
	td_disk_read_begins(e);
	verdict = look_once(e, sector, count, look, &why);
	if (verdict == TD_HIT || verdict == TD_BUSY)
		td_disk_read_ends(e);
	else if (verdict == TD_PASS)
		td_pass(e, TD_READ, look->count, why);
	return verdict;
}
