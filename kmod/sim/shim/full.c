// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The index of a full cache, as an SSD of any size would hold it, without the
 * years that it would take to fill a cache.
 *
 * Invariant: the index is one that core could have written.
 * Threads: one thread makes the index; any thread may read it.
 * Why neighbours in a lane are of different runs: data that is read at random
 * lies that way, and it is the slower case for a reader of the index.
 */
#include <stdlib.h>

#include "check.h"
#include "checks.h"
#include "format.h"
#include "layout.h"

#define FULL_PARTS	20u	/* one of them is free */
#define DIRTY_EACH	97u	/* one of so many slots is dirty, in part */

struct sim_full {
	struct td_super super;
	struct td_layout layout;
	struct td_checkpoint head;
	u32 *runs;	/* of each lane, plus 1; 0: nothing */
};

struct sim_full *sim_full_new(const struct tdu_geometry *g)
{
	struct sim_full *f = zeroed(1, sizeof(*f));
	struct td_layout *l = &f->layout;
	u32 shift, ways, used = 0;
	u64 runs;
	u8 *filled;

	tdu_to_super(g, &f->super);
	td_super_layout(&f->super, g->block_sectors, l);
	f->head.number = 2;
	f->head.group = 1;
	f->head.slots = l->slots;
	for (u32 i = 0; g->parts && i < td_page_count(l->slots); i++)
		f->head.sum += td_page_digest(i, (u32)f->head.number);
	f->runs = zeroed(l->lanes, sizeof(*f->runs));
	filled = zeroed(l->groups, 1);
	ways = 1u << l->way_shift;
	shift = l->way_shift + l->run_shift;
	runs = l->cached_sectors / td_run_sectors(l);
	for (u64 run = 0; run < runs; run++) {
		u32 group = td_place_of(l, run << l->run_shift).base >> shift;

		if (used == l->lanes - l->lanes / FULL_PARTS)
			break;
		if (filled[group] == ways)
			continue;
		f->runs[group * ways + filled[group]++] = (u32)run + 1;
		used++;
	}
	free(filled);
	return f;
}

void sim_full_free(struct sim_full *f)
{
	free(f->runs);
	free(f);
}

static u64 record_of(const struct sim_full *f, u32 slot)
{
	const struct td_layout *l = &f->layout;
	u32 ways = 1u << l->way_shift;
	u32 lane = slot >> l->run_shift;
	u32 run = f->runs[(lane & ~(ways - 1)) | ((lane + slot) & (ways - 1))];
	u64 tag = ((u64)(run - 1) << l->run_shift) + (slot & l->run_mask);

	if (!run)
		return 0;
	return tag | td_word_quarters(TD_QUARTERS) |
	       (slot % DIRTY_EACH ? 0 : 1ull << TD_W_DIRTY_SHIFT);
}

static void full_page(const struct sim_full *f, u32 number, u8 *block)
{
	for (u32 i = 0; i < TD_PAGE_SLOTS; i++) {
		u64 slot = (u64)number * TD_PAGE_SLOTS + i;

		if (slot < f->layout.slots)
			td_page_put(block, i, record_of(f, (u32)slot));
	}
	td_page_seal(block, &f->super, f->head.number, number);
}

void sim_full_read(const struct sim_full *f, u64 sector, u32 sectors, u8 *bytes)
{
	u32 area = f->head.number & 1;
	u64 head = td_checkpoint_sector(&f->super, area);
	u32 pages = td_page_count(f->layout.slots);

	memset(bytes, 0, sectors * (u64)TD_SECTOR_BYTES);
	for (u32 i = 0; i < sectors; i += TD_BLOCK_SECTORS) {
		u8 *block = bytes + i * (u64)TD_SECTOR_BYTES;
		u64 at = sector + i;
		u64 nth = (at - head) / TD_BLOCK_SECTORS;
		u64 mark = (at - f->super.intent.start) / TD_BLOCK_SECTORS;

		if (at == head)
			td_checkpoint_seal(block, f->super.uuid, &f->head);
		else if (at > head && nth <= pages)
			full_page(f, (u32)(nth - 1), block);
		else if (at >= f->super.intent.start &&
			 mark < td_mark_blocks(f->super.origin_sectors))
			td_marks_seal(block, f->super.uuid, mark);
	}
}
