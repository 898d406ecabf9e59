// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Another size of the SSD: where the regions lie then, and the index of what stays.
 *
 * Invariants:
 *   Z1  Nothing is dirty, nothing is in flight, and no mark is set. So any copy may be
 *       forgotten, at any moment.
 *   Z2  Superblocks that have the new regions and say COLD are durable before a block of
 *       the new index is written, for that may lie where the old data or index is. COLD
 *       is taken away after a flush behind the last block.
 *   Z3  A slot keeps its number and its place on the SSD. So the copy in a slot stays if
 *       its frame belongs to the same group as before, and is forgotten else.
 *
 * Threads: one, with no request in flight.
 * Why data is not moved: a copy that is forgotten costs one read of the disk, if it is
 * wanted again at all; and a cut in the middle of moves would need a journal of its own.
 * Why the checkpoint may lie behind the data: a larger SSD needs a larger one, and in front
 * of the data there is no room.
 */
#include "resize.h"

/* In front of the data, where it was planned, if there is room; else at the SSD's end. */
static bool place_checkpoint(struct td_super *sb, u32 unit)
{
	u64 start = sb->journal.start + sb->journal.length;
	u64 room = sb->ssd_sectors - sb->data.start;

	sb->groups = (u32)(room >> unit);
	sb->checkpoint.start = start;
	sb->checkpoint.length = sb->intent.start - start;
	if (sb->checkpoint.length >= td_checkpoint_length(td_super_slots(sb)))
		return sb->groups;
	/* There are at most so many slots. */
	sb->checkpoint.length = td_checkpoint_length(room >> TD_FRAME_SHIFT);
	if (room < sb->checkpoint.length + TD_BLOCK_SECTORS)
		return false;
	sb->checkpoint.start = (sb->ssd_sectors - sb->checkpoint.length) &
			       ~(u64)(TD_BLOCK_SECTORS - 1);
	sb->groups = (u32)((sb->checkpoint.start - sb->data.start) >> unit);
	return sb->groups;
}

enum td_super_error td_super_resize(const struct td_super *old, u64 ssd_sectors,
				    struct td_super *sb)
{
	u32 unit = old->run_shift + old->way_shift + TD_FRAME_SHIFT;
	u32 kept = 0;

	*sb = *old;
	sb->incompat |= TD_SUPER_RESIZED;
	sb->ssd_sectors = td_sectors_used(ssd_sectors);
	if (sb->ssd_sectors <= sb->data.start || !place_checkpoint(sb, unit))
		return TD_SUPER_TOO_SMALL;
	sb->data.length = (u64)sb->groups << unit;
	for (u32 i = 0; i < old->retired.count; i++)
		if (old->retired.slots[i] < td_super_slots(sb))
			sb->retired.slots[kept++] = old->retired.slots[i];
	for (u32 i = kept; i < old->retired.count; i++)
		sb->retired.slots[i] = 0;
	sb->retired.count = kept;
	return TD_SUPER_OK;
}

bool td_may_resize(const struct td_engine *e)
{
	return td_active(e) && !e->ledger.dirty && !e->ledger.marks_set &&
	       !e->ledger.inflight;
}

/* The record of @slot in the new index (Z3). */
static u64 record_of(const struct td_engine *old, const struct td_layout *to, u32 slot)
{
	u32 in_group = (1u << (to->run_shift + to->way_shift)) - 1;
	u64 record;

	if (slot >= old->layout.slots)
		return 0;
	record = td_record_of(td_word_load(&old->words[slot]));
	if (!record || td_place_of(to, td_word_tag(record)).base != (slot & ~in_group))
		return 0;
	return record;
}

static void fill_pages(const struct td_engine *old, const struct td_super *to,
		       const struct td_layout *layout, u32 first, u32 count, u8 *buffer)
{
	memset(buffer, 0, (size_t)count * TD_BLOCK_BYTES);
	for (u32 page = 0; page < count; page++, buffer += TD_BLOCK_BYTES) {
		u32 slot = (first + page) * TD_PAGE_SLOTS;

		for (u32 i = 0; i < TD_PAGE_SLOTS && slot < layout->slots; i++, slot++)
			td_page_put(buffer, i, record_of(old, layout, slot));
		td_page_seal(buffer, to, 1, first + page);
	}
}

static u64 sum_of(u32 pages)
{
	u64 sum = 0;

	for (u32 page = 0; page < pages; page++)
		sum += td_page_digest(page, 1);
	return sum;
}

bool td_resize_next(const struct td_engine *old, const struct td_super *to,
		    const struct td_layout *layout, u32 step, u64 *sector,
		    u32 *sectors, void *buffer)
{
	u32 pages = td_page_count(layout->slots);
	u32 writes = (pages + TD_LOAD_BLOCKS - 1) / TD_LOAD_BLOCKS;
	struct td_checkpoint c = {
		.number = 1, .group = 1, .until = 1, .slots = layout->slots,
	};

	if (step < writes) {
		u32 first = step * TD_LOAD_BLOCKS;
		u32 count = pages - first;

		if (count > TD_LOAD_BLOCKS)
			count = TD_LOAD_BLOCKS;
		fill_pages(old, to, layout, first, count, buffer);
		*sector = td_checkpoint_sector(to, c.number & 1) +
			  (1 + (u64)first) * TD_BLOCK_SECTORS;
		*sectors = count * TD_BLOCK_SECTORS;
		return true;
	}
	if (to->incompat & TD_SUPER_PARTS)
		c.sum = sum_of(pages);
	return td_format_around(to, &c, step - writes, sector, sectors, buffer);
}

void td_resize_inherit(struct td_engine *e, const struct td_engine *old)
{
	u8 *buffer = e->watch.buffer;

	/* No request waits. What the traces say of flushes stays true (td_trace.flush). */
	e->watch = old->watch;
	e->watch.buffer = buffer;
	td_link_init(&e->watch.waiters);
	e->ledger.flush_begun = old->ledger.flush_begun;
	e->ledger.flush_done = old->ledger.flush_done;
	e->heat = old->heat;
	e->read_heat = old->read_heat;
	e->trial_level = old->trial_level;
	env_store(&e->promotes, td_promotes(old));
}
