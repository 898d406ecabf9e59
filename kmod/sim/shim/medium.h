/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The metadata of an SSD in memory, and an engine that is loaded from it. Included
 * by the tests of format and recovery; each has its own copy.
 */
#ifndef TANDEM_SIM_MEDIUM_H
#define TANDEM_SIM_MEDIUM_H

#include "check.h"
#include "load.h"

/* An SSD's metadata, from the journal to the data; and an engine. */
struct cache {
	struct td_super super;
	struct td_layout layout;
	u32 blocks;
	u8 *image;
	bool *unreadable;
	struct td_engine e;
	struct td_sizes sizes;
	u64 counters[TD_NR_COUNTERS];
	u64 *expected;		/* records of the simpler reader */
	u64 *seen;		/* records after the first load */
};

/* The cache that c->super describes; its image ends at sector @end of the SSD. */
static void make_cache(struct cache *c, u64 end, u32 block_sectors)
{
	td_super_layout(&c->super, block_sectors, &c->layout);
	c->blocks = (u32)(end - TD_SUPER_AREA) / TD_BLOCK_SECTORS;
	c->image = zeroed(c->blocks, TD_BLOCK_BYTES);
	c->unreadable = zeroed(c->blocks, sizeof(bool));
	c->sizes = td_engine_sizes(&c->super, &c->layout);
	c->e.words = zeroed(c->sizes.words, sizeof(struct td_word));
	c->e.buckets = zeroed(c->sizes.buckets, sizeof(struct td_bucket));
	c->e.ledger.pending = zeroed(c->sizes.pending, sizeof(u64));
	c->e.ledger.pending_words = zeroed(c->sizes.pending_words, sizeof(u64));
	c->e.ledger.pending_tops = zeroed(c->sizes.pending_tops, sizeof(u64));
	c->e.ledger.pages = zeroed(c->sizes.pages, sizeof(struct td_page));
	c->e.ledger.marks = zeroed(c->sizes.marks, sizeof(struct td_mark));
	c->e.ledger.marks_image = zeroed(c->sizes.marks_image, 1);
	c->e.ledger.group_buffer = zeroed(1, TD_GROUP_BYTES);
	c->e.ledger.marks_buffer = zeroed(1, TD_BLOCK_BYTES);
	c->e.ledger.pages_buffer = zeroed(1, TD_PAGES_BYTES);
	c->e.trim.freed = zeroed(c->sizes.freed, sizeof(u64));
	c->expected = zeroed(c->layout.slots, sizeof(u64));
	c->seen = zeroed(c->layout.slots, sizeof(u64));
}

static inline void plan_cache(struct cache *c, u32 which)
{
	static const struct { u64 origin, ssd; u32 block; } sizes[4] = {
		{ 65536 + 13, 8192, 1 },
		{ 65536 + 13, 8192, 8 },
		{ 1u << 25, 53248, 1 },
		{ 40000u << 11, 204800 + 8, 8 },
	};
	struct td_identity id = { .uuid = { 1, 2, 3 }, .origin_id_bytes = 1 };

	id.origin_sectors = sizes[which].origin;
	must(td_super_plan(&id, sizes[which].ssd, &c->super) == TD_SUPER_OK,
	     "no plan");
	/* As caches of before have it. */
	if (which == 0)
		c->super.incompat &= ~TD_SUPER_PARTS;
	make_cache(c, c->super.intent.start + c->super.intent.length, sizes[which].block);
}

static inline void free_cache(struct cache *c)
{
	free(c->image);
	free(c->unreadable);
	free(c->e.words);
	free(c->e.buckets);
	free(c->e.ledger.pending);
	free(c->e.ledger.pending_words);
	free(c->e.ledger.pending_tops);
	free(c->e.ledger.pages);
	free(c->e.ledger.marks);
	free(c->e.ledger.marks_image);
	free(c->e.ledger.group_buffer);
	free(c->e.ledger.marks_buffer);
	free(c->e.ledger.pages_buffer);
	free(c->e.trim.freed);
	free(c->expected);
	free(c->seen);
}

static u8 *block_at(struct cache *c, u64 sector)
{
	u64 block = (sector - TD_SUPER_AREA) / TD_BLOCK_SECTORS;

	must(sector >= TD_SUPER_AREA && !(sector % TD_BLOCK_SECTORS) &&
	     block < c->blocks, "I/O beyond the metadata");
	return c->image + block * TD_BLOCK_BYTES;
}

static bool is_readable(struct cache *c, u64 sector)
{
	return !c->unreadable[(sector - TD_SUPER_AREA) / TD_BLOCK_SECTORS];
}

static inline void format_cache(struct cache *c)
{
	static _Thread_local u8 buffer[TD_LOAD_BYTES] __attribute__((aligned(8)));
	u64 sector;
	u32 sectors;

	for (u32 step = 0; td_format_next(&c->super, step, &sector, &sectors,
					  buffer); step++) {
		u32 blocks = sectors / TD_BLOCK_SECTORS;

		block_at(c, sector + sectors - TD_BLOCK_SECTORS);
		memcpy(block_at(c, sector), buffer, blocks * TD_BLOCK_BYTES);
	}
}

static void renew_engine(struct cache *c)
{
	struct td_engine e = {
		.words = c->e.words,
		.buckets = c->e.buckets,
		.counters = c->counters,
		.trim.freed = c->e.trim.freed,
		.ledger = {
			.pending = c->e.ledger.pending,
			.pending_words = c->e.ledger.pending_words,
			.pending_tops = c->e.ledger.pending_tops,
			.pages = c->e.ledger.pages,
			.marks = c->e.ledger.marks,
			.marks_image = c->e.ledger.marks_image,
			.group_buffer = c->e.ledger.group_buffer,
			.marks_buffer = c->e.ledger.marks_buffer,
			.pages_buffer = c->e.ledger.pages_buffer,
		},
	};

	memset(c->counters, 0, sizeof(c->counters));
	memset(e.words, 0, c->sizes.words * sizeof(struct td_word));
	memset(e.ledger.pending, 0, c->sizes.pending * sizeof(u64));
	memset(e.ledger.pending_words, 0, c->sizes.pending_words * sizeof(u64));
	memset(e.ledger.pending_tops, 0, c->sizes.pending_tops * sizeof(u64));
	memset(e.ledger.pages, 0, c->sizes.pages * sizeof(struct td_page));
	memset(e.ledger.marks, 0, c->sizes.marks * sizeof(struct td_mark));
	memset(e.ledger.marks_image, 0, c->sizes.marks_image);
	c->e = e;
	td_engine_init(&c->e, &c->super, &c->layout, TD_WRITEBACK);
}

static enum td_load_error load_cache(struct cache *c)
{
	struct td_load l;
	u64 sector, most = 3 * (u64)c->blocks + 64, read = 0, computed = 0;
	u32 sectors;

	renew_engine(c);
	td_load_begin(&l, &c->e);
	while (td_load_next(&l, &sector, &sectors)) {
		u32 blocks = sectors / TD_BLOCK_SECTORS;
		bool readable = true;
		u8 *buffer;

		read += blocks;
		computed += !blocks;
		must(read <= most && computed <= c->layout.groups,
		     "loading takes too long");
		must(sectors <= TD_LOAD_BYTES / TD_SECTOR_BYTES, "too large a read");
		if (!blocks) {
			td_load_feed(&l, NULL);
			continue;
		}
		block_at(c, sector + sectors - TD_BLOCK_SECTORS);
		for (u32 i = 0; i < blocks; i++)
			readable &= is_readable(c, sector + i * TD_BLOCK_SECTORS);
		/* Of just this size, so that a step beyond is seen. */
		buffer = malloc(blocks * TD_BLOCK_BYTES);
		must(buffer, "no memory");
		memcpy(buffer, block_at(c, sector), blocks * TD_BLOCK_BYTES);
		td_load_feed(&l, readable ? buffer : NULL);
		free(buffer);
	}
	return td_load_end(&l);
}

#endif
