/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The simpler reader of an index, which the load is compared with: it has all blocks at
 * hand, and does not care for speed or for the number of reads. It is written from
 * FORMAT.md, not from core. A function that returns false believes nothing.
 */
#ifndef TANDEM_SIM_SIMPLE_READER_H
#define TANDEM_SIM_SIMPLE_READER_H

#include "../shim/medium.h"

static u64 journal_sector(const struct cache *c, u32 block)
{
	return c->super.journal.start + (u64)block * TD_BLOCK_SECTORS;
}

static u64 page_sector(const struct cache *c, u64 number, u32 page)
{
	return td_checkpoint_sector(&c->super, number & 1) +
	       (1 + (u64)page) * TD_BLOCK_SECTORS;
}

struct simple {
	u64 checkpoint, group;
	u32 head, used;
};

static const u8 *sound_block(struct cache *c, u32 block, struct td_group_head *h)
{
	const u8 *at = block_at(c, journal_sector(c, block));

	return is_readable(c, journal_sector(c, block)) &&
	       td_group_check(at, c->super.uuid, h) ? at : NULL;
}

static bool simple_apply(struct cache *c, u32 slot, u64 record)
{
	u64 tag = record & TD_W_TAG;
	unsigned int valid = (unsigned int)(record >> TD_W_VALID_SHIFT) & 15;
	unsigned int dirty = (unsigned int)(record >> TD_W_DIRTY_SHIFT) & 15;

	if (slot >= c->layout.slots || record >> 44)
		return false;
	if (record) {
		struct td_place p = td_place_of(&c->layout, tag);
		bool there = false;

		for (u32 way = 0; way < 1u << c->layout.way_shift; way++)
			there |= td_slot_at(&c->layout, p.base, way, tag) == slot;
		if (!valid || dirty & ~valid || !there ||
		    valid & ~td_quarters_cached(&c->layout, tag))
			return false;
	}
	c->expected[slot] = record;
	return true;
}

/* As FORMAT.md says: uuid, two numbers, and what is behind the checksum. */
static bool is_sound(const struct cache *c, const u8 *at, u32 bytes, u64 first,
		     u64 second, const char *magic)
{
	__le64 numbers[2] = { cpu_to_le64(first), cpu_to_le64(second) };
	u32 crc = env_crc32c(0xffffffffu, c->super.uuid, TD_UUID_BYTES);
	__le32 stored;

	memcpy(&stored, at, 4);
	crc = env_crc32c(crc, numbers, sizeof(numbers));
	crc = ~env_crc32c(crc, at + 4, bytes - 4);
	return crc == le32_to_cpu(stored) && !memcmp(at + 4, magic, 4);
}

static bool simple_pages(struct cache *c, const struct td_checkpoint *head)
{
	u32 pages = head->empty ? 0 : td_page_count(c->layout.slots);
	bool parts = c->super.incompat & 4;
	u64 sum = 0;

	for (u32 p = 0; p < pages; p++) {
		u64 sector = page_sector(c, head->number, p), number = head->number;
		const u8 *page = block_at(c, sector);
		char magic[4] = "TDPG";
		__le32 low;

		memcpy(&low, page + 4, 4);
		if (parts) {
			/* The last number up to the head's that ends so. */
			memcpy(magic, &low, 4);
			while ((u32)number != le32_to_cpu(low) && number &&
			       head->number - number < 1000)
				number--;
			sum += td_hash((u64)p << 32 | le32_to_cpu(low));
		}
		if (!is_readable(c, sector) || !number ||
		    (number ^ head->number) & 1 ||
		    !is_sound(c, page, TD_BLOCK_BYTES, number, p, magic))
			return false;
		for (u32 i = 0; i < TD_PAGE_SLOTS; i++) {
			u32 slot = p * TD_PAGE_SLOTS + i;

			if (slot < c->layout.slots &&
			    !simple_apply(c, slot,
					  le64_to_cpu(td_page_records(page)[i])))
				return false;
		}
	}
	return !parts || !pages || sum == head->sum;
}

/* 0: not there; -1: there, but its records are not to be believed. */
static int simple_group(struct cache *c, u64 number, u32 at, u32 end, u32 *blocks)
{
	struct td_group_head first, h;

	if (!sound_block(c, at, &first) || first.number != number || first.index ||
	    first.blocks > end - at)
		return 0;
	for (u32 i = 0; i < first.blocks; i++)
		if (!is_readable(c, journal_sector(c, at + i)))
			return -1;
	for (u32 i = 0; i < first.blocks; i++) {
		if (!sound_block(c, at + i, &h))
			return 0;
		if (h.number != number || h.index != i || h.tie != first.tie ||
		    h.blocks != first.blocks)
			return 0;
	}
	for (u32 i = 0; i < first.blocks; i++) {
		const u8 *block = sound_block(c, at + i, &h);

		for (u32 n = 0; block && n < h.entries; n++) {
			u64 record;
			u32 slot;

			td_group_get(block, n, &slot, &record);
			if (!simple_apply(c, slot, record))
				return -1;
		}
	}
	*blocks = first.blocks;
	return 1;
}

static bool simple_journal(struct cache *c, struct simple *s, u32 first)
{
	u32 ring = (u32)(c->super.journal.length / TD_BLOCK_SECTORS);
	u32 at = first, end = ring;
	bool skipped = false;
	struct td_group_head h;

	s->head = first;
	for (;;) {
		u32 blocks;
		int there;

		if (at == ring && end == ring) {
			at = 0;
			end = first;
		}
		if (at == end)
			break;
		if (!is_readable(c, journal_sector(c, at)))
			return false;
		there = simple_group(c, s->group, at, end, &blocks);
		if (there < 0)
			return false;
		if (!there) {
			if (end != ring || ring - at >= TD_GROUP_BLOCKS_MAX || skipped)
				break;
			skipped = true;
			at = ring;
			continue;
		}
		if (skipped && at == 0 && end != ring)
			s->used += ring - s->head;
		skipped = false;
		at += blocks;
		s->used += blocks;
		s->head = at;
		s->group++;
	}
	for (u32 i = 0; i < ring; i++)
		if (sound_block(c, i, &h) && h.number > s->group)
			return false;
	if (s->head == ring)
		s->head = 0;
	return true;
}

static bool simple_load(struct cache *c, struct simple *s)
{
	struct td_checkpoint best = { .number = 0 }, head;

	memset(s, 0, sizeof(*s));
	memset(c->expected, 0, c->layout.slots * sizeof(u64));
	for (u32 area = 0; area < 2; area++) {
		u64 sector = td_checkpoint_sector(&c->super, area);

		if (!is_readable(c, sector))
			return false;
		if (!td_checkpoint_check(block_at(c, sector), c->super.uuid, &head))
			continue;
		if ((head.number & 1) != area || head.slots != c->layout.slots ||
		    head.block >= c->super.journal.length / TD_BLOCK_SECTORS ||
		    head.number > TD_NUMBER_MAX / 2 ||
		    head.group > TD_NUMBER_MAX / 2)
			return false;
		if (head.number > best.number)
			best = head;
	}
	if (!best.number || !simple_pages(c, &best))
		return false;
	s->checkpoint = best.number;
	s->group = best.group;
	return simple_journal(c, s, best.block) && best.until <= s->group;
}

static bool simple_mark(struct cache *c, u32 region)
{
	u32 sector = region / TD_SECTOR_MARKS, bit = region % TD_SECTOR_MARKS;
	u64 block = c->super.intent.start + sector / 8 * 8;
	const u8 *at = block_at(c, block) + sector % 8 * TD_SECTOR_BYTES;

	if (!is_readable(c, block) ||
	    !is_sound(c, at, TD_SECTOR_BYTES, 0, sector, "TDMK"))
		return true;
	return at[8 + bit / 8] >> bit % 8 & 1;
}

/* Twins and marked regions; false: two dirty slots for one frame. */
static bool simple_settle(struct cache *c)
{
	const struct td_layout *l = &c->layout;
	u32 group = 1u << (l->run_shift + l->way_shift);
	u64 *drop = zeroed(l->slots, sizeof(u64));
	bool sound = true;

	for (u32 a = 0; a < l->slots; a++)
		for (u32 b = a - a % group; b < a - a % group + group; b++) {
			u64 u = c->expected[a], v = c->expected[b];

			if (a == b || !u || !v || (u ^ v) & TD_W_TAG)
				continue;
			if (u & TD_W_DIRTY && v & TD_W_DIRTY)
				sound = false;
			drop[a] |= !(u & TD_W_DIRTY);
		}
	for (u32 a = 0; a < l->slots; a++) {
		u64 v = c->expected[a];
		u64 dirty = (v & TD_W_DIRTY) >> 4;

		if (drop[a])
			c->expected[a] = 0;
		else if (v && simple_mark(c, (u32)((v & TD_W_TAG) << TD_FRAME_SHIFT >>
						   td_mark_shift(l->origin_sectors))))
			c->expected[a] = dirty ? (v & ~TD_W_VALID) | dirty : 0;
	}
	free(drop);
	return sound;
}

#endif
