// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A cache gets other sizes, one after the other, and each write is cut.
 *
 * The order of writes is that of linux/resize_io.c. What a start finds after a cut is the
 * old cache whole, or the new one whole, or superblocks that say COLD. Where each frame
 * belongs is calculated here once more, by FORMAT.md and without core.
 */
#include "medium.h"
#include "random.h"
#include "resize.h"
#include "torn.h"

#define SECTORS_MAX	24576u	/* of the SSD */
#define SIZES		6u

struct resized {
	struct cache c;			/* as it is now; its image is the whole SSD behind 1 MiB */
	u8 super[TD_SUPER_COPIES][TD_SUPER_BYTES];
	u64 state;
	u64 cuts;
	u32 block;
};

static u32 part_of(u64 h, u32 groups)
{
	return (u32)(((h >> 32) * groups) >> 32);
}

static u64 stir(u64 n)
{
	n *= 0x9e3779b97f4a7c15ull;
	n ^= n >> 32;
	return n * 0x9e3779b97f4a7c15ull;
}

/* The group of frame @tag. */
static u32 group_of(const struct td_super *sb, u64 tag)
{
	u64 h = stir(tag >> sb->run_shift);
	u32 made = part_of(h, sb->made_groups);
	u32 other = part_of(stir(h), sb->groups);

	if (sb->groups > sb->made_groups && other >= sb->made_groups)
		return other;
	if (sb->groups < sb->made_groups && made >= sb->groups)
		return other;
	return made;
}

/* Put random clean copies into the slots that are free. */
static void fill_words(struct resized *r)
{
	const struct td_layout *l = &r->c.layout;
	u64 frames = l->cached_sectors >> TD_FRAME_SHIFT;

	for (u32 i = 0; i < l->slots; i++) {
		u64 tag = random_number(&r->state) % frames;
		u32 way = (u32)(tag * 7) & ((1u << l->way_shift) - 1);
		u32 slot = td_slot_at(l, group_of(&r->c.super, tag) <<
				      (l->way_shift + l->run_shift), way, tag);
		unsigned int valid = random_below(&r->state, 16);

		if (!td_word_load(&r->c.e.words[slot]) && valid)
			env_store(&r->c.e.words[slot].a,
				  tag | TD_W_LIVE | td_word_quarters(valid));
	}
}

/* A start after a cut now finds an index that it may believe. @written: a part of the new one may be there. */
static void check_cut(struct resized *r, struct cache *now, bool written)
{
	struct td_super sb;
	const struct cache *c = &r->c;

	r->cuts++;
	must(td_super_choose(r->super[0], r->super[1], &sb) == TD_SUPER_OK,
	     "a cut leaves no superblock");
	if (sb.incompat & TD_SUPER_COLD) {
		must(sb.incompat & TD_SUPER_CLEAN, "a cold cache may have dirty data");
		return;
	}
	if (sb.groups == c->super.groups && sb.ssd_sectors == c->super.ssd_sectors) {
		must(!written, "the old index is believed, but not whole");
		return;
	}
	must(now && load_cache(now) == TD_LOAD_OK, "the new index is not believed");
	for (u32 slot = 0; slot < now->layout.slots; slot++) {
		u64 was = slot < c->layout.slots ?
			td_record_of(td_word_load(&c->e.words[slot])) : 0;
		bool stays = was && slot >> (sb.run_shift + sb.way_shift) ==
			     group_of(&sb, td_word_tag(was));

		must(td_record_of(td_word_load(&now->e.words[slot])) == (stays ? was : 0),
		     "a copy is lost or invented");
	}
}

static void write_super(struct resized *r, struct cache *to, u32 flags, struct cache *now,
			bool written)
{
	u8 block[TD_SUPER_BYTES] __attribute__((aligned(8)));

	to->super.incompat = flags;
	to->super.sequence++;
	for (u32 copy = 0; copy < TD_SUPER_COPIES; copy++) {
		td_super_encode(&to->super, copy, block);
		for (u32 at = 0; at < TD_SUPER_BYTES; at += TD_SECTOR_BYTES) {
			memcpy(r->super[copy] + at, block + at, TD_SECTOR_BYTES);
			check_cut(r, now, written);
		}
	}
}

/* Gives the cache @sectors of the SSD. False: too few, or as many as now, which is no change. */
static bool resize(struct resized *r, u64 sectors)
{
	static _Thread_local u8 buffer[TD_LOAD_BYTES] __attribute__((aligned(8)));
	struct cache to = { 0 };
	u64 sector, data, end;
	u32 flags, count;

	if (sectors == r->c.super.ssd_sectors ||
	    td_super_resize(&r->c.super, sectors, &to.super) != TD_SUPER_OK)
		return false;
	must(td_super_holds(&to.super), "the new regions cannot be");
	must(to.super.ssd_sectors == sectors, "another size than asked for");
	data = to.super.data.start;
	end = data + to.super.data.length;
	must(data == r->c.super.data.start, "the data moves");
	make_cache(&to, SECTORS_MAX, r->block);
	free(to.image);
	to.image = r->c.image;
	must(td_may_resize(&r->c.e), "a cache at rest may not be resized");
	flags = (to.super.incompat | TD_SUPER_CLEAN) & ~TD_SUPER_COLD;
	write_super(r, &to, flags | TD_SUPER_COLD, NULL, false);
	for (u32 step = 0; td_resize_next(&r->c.e, &to.super, &to.layout, step, &sector,
					  &count, buffer); step++) {
		must(sector >= end || sector + count <= data, "metadata over copies");
		must(sector + count <= sectors, "a write beyond the new end");
		block_at(&to, sector + count - TD_BLOCK_SECTORS);
		memcpy(block_at(&to, sector), buffer, (size_t)count * TD_SECTOR_BYTES);
		check_cut(r, NULL, true);
	}
	write_super(r, &to, flags, &to, true);
	r->c.image = NULL;
	free_cache(&r->c);
	r->c = to;
	must(load_cache(&r->c) == TD_LOAD_OK, "the new index is not believed");
	return true;
}

u64 sim_resized(u64 seed)
{
	struct resized *r = zeroed(1, sizeof(*r));
	struct td_identity id = {
		.uuid = { 1, 2, 3 }, .origin_id_bytes = 1, .origin_sectors = 1u << 22,
	};
	u64 cuts;
	u32 slot;

	r->state = seed;
	r->block = seed % 2 ? 1 : 8;
	must(td_super_plan(&id, 5000 + random_below(&r->state, SECTORS_MAX - 5000),
			   &r->c.super) == TD_SUPER_OK, "no plan");
	if (seed % 5 == 0)
		r->c.super.incompat &= ~TD_SUPER_PARTS;
	make_cache(&r->c, SECTORS_MAX, r->block);
	format_cache(&r->c);
	for (u32 copy = 0; copy < TD_SUPER_COPIES; copy++)
		td_super_encode(&r->c.super, copy, r->super[copy]);
	must(load_cache(&r->c) == TD_LOAD_OK, "a new index is not believed");
	for (u32 i = 0; i < SIZES; i++) {
		fill_words(r);
		slot = random_below(&r->state, r->c.layout.slots);
		r->c.super.retired = (struct td_retired) { .count = 1, .slots = { slot } };
		env_store(&r->c.e.words[slot].a, 0);
		resize(r, 5000 + random_below(&r->state, SECTORS_MAX - 5000));
	}
	cuts = r->cuts;
	free_cache(&r->c);
	free(r);
	return cuts;
}
