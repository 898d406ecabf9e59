/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The bytes of journal, checkpoint and intent marks: print and check. FORMAT.md
 * is the layout. Checking takes any bytes.
 *
 * A record is the durable part of a slot's word: tag, valid and dirty, or 0 for a
 * slot that holds nothing.
 *
 * All functions: no lock, any context, no memory but what is passed in. Blocks
 * lie in memory at multiples of 8 bytes.
 */
#ifndef TANDEM_FORMAT_H
#define TANDEM_FORMAT_H

#include "super.h"
#include "word.h"

#define TD_BLOCK_BYTES		4096u
#define TD_BLOCK_SECTORS	8u

/* The part of a word that is recorded. */
#define TD_RECORD		(TD_W_TAG | TD_W_VALID | TD_W_DIRTY)

static inline u64 td_record_of(u64 word)
{
	return word & TD_W_VALID ? word & TD_RECORD : 0;
}

/*
 * Journal. A group is 1..TD_GROUP_BLOCKS_MAX consecutive blocks written by one
 * request; it counts only if each of its blocks is sound and all have the same
 * tie. Groups are numbered without gaps; a group never wraps around the end of
 * the ring. After a cut a group's number may be used again: the tie, a checksum of
 * all entries of a group, tells blocks of the old group from those of the new one.
 */
#define TD_GROUP_BLOCKS_MAX	8u
#define TD_BLOCK_ENTRIES	336u	/* in one block */
#define TD_GROUP_ENTRIES	(TD_GROUP_BLOCKS_MAX * TD_BLOCK_ENTRIES)
#define TD_NUMBER_MAX		(1ull << 62)	/* of groups and checkpoints */

struct td_group_head {
	u64 number;	/* of the group, 1..TD_NUMBER_MAX */
	u32 tie;	/* the same in all blocks of the group */
	u32 index;	/* of this block in the group */
	u32 blocks;	/* in the group, 1..TD_GROUP_BLOCKS_MAX */
	u32 entries;	/* in this block, at most TD_BLOCK_ENTRIES */
};

static inline u32 td_group_blocks(u32 entries)
{
	return (entries + TD_BLOCK_ENTRIES - 1) / TD_BLOCK_ENTRIES;
}

/* Entry @i < TD_GROUP_ENTRIES of the group in @buffer. */
void td_group_put(void *buffer, u32 i, u32 slot, u64 record);
/*
 * After entries 0..@entries - 1 were put, and at least one: the heads of all
 * td_group_blocks(entries) blocks.
 */
void td_group_seal(void *buffer, const u8 *uuid, u64 number, u32 entries);
/* Is it a sound block of this cache? Then *h is complete and in range. */
bool td_group_check(const void *block, const u8 *uuid, struct td_group_head *h);
/* Entry @i < TD_BLOCK_ENTRIES of one block. */
void td_group_get(const void *block, u32 i, u32 *slot, u64 *record);

/*
 * Checkpoint: two areas, each a head of one block and then pages. Number n is
 * in area n & 1. Page p holds the records of slots p * TD_PAGE_SLOTS and on.
 */
#define TD_PAGE_SLOTS		511u

struct td_checkpoint {
	u64 number;		/* 1..TD_NUMBER_MAX; the higher sound one counts */
	u64 group;		/* the first group to be applied over it, from 1 on */
	u32 block;		/* where in the ring that group begins; inside */
	u32 slots;		/* must be the layout's */
	u64 sum;		/* TD_SUPER_PARTS: of td_page_digest() of all pages */
	u64 until;		/* groups below it were durable when the head was written */
	bool empty;		/* no page was written: all slots hold nothing */
};

static inline u32 td_page_count(u32 slots)
{
	return slots / TD_PAGE_SLOTS + (slots % TD_PAGE_SLOTS != 0);
}

/* Sectors of a checkpoint region for @slots, at most 2^31: two areas of a head and its pages. */
static inline u64 td_checkpoint_length(u64 slots)
{
	return 2 * (1 + (u64)td_page_count((u32)slots)) * TD_BLOCK_SECTORS;
}

/* Slots are numbered in 32 bits: what is beyond stays unused. */
static inline u64 td_sectors_used(u64 ssd_sectors)
{
	u64 most = 1ull << (TD_FRAME_SHIFT + 31);

	return ssd_sectors < most ? ssd_sectors : most;
}

/* Slots of the data region. */
static inline u32 td_super_slots(const struct td_super *sb)
{
	return sb->groups << (sb->run_shift + sb->way_shift);
}

/* First sector on the SSD of area @which (0, 1): its head, then its pages. */
u64 td_checkpoint_sector(const struct td_super *sb, u32 which);
void td_checkpoint_seal(void *block, const u8 *uuid,
			const struct td_checkpoint *c);
bool td_checkpoint_check(const void *block, const u8 *uuid,
			 struct td_checkpoint *c);
void td_page_put(void *block, u32 i, u64 record);	/* i < TD_PAGE_SLOTS */
/* All TD_PAGE_SLOTS of them. */
const __le64 *td_page_records(const void *block);
/* @number: of the checkpoint that writes the page. */
void td_page_seal(void *block, const struct td_super *sb, u64 number, u32 page);
/*
 * The number of the checkpoint that wrote the page, @newest or an earlier one; without
 * TD_SUPER_PARTS it is @newest. 0: the page is not sound.
 */
u64 td_page_check(const void *block, const struct td_super *sb, u64 newest, u32 page);
/* Of a page and the low bits of its number. The sum over all pages shows a lost write. */
static inline u64 td_page_digest(u32 page, u32 number)
{
	return td_hash((u64)page << 32 | number);
}

/*
 * Intent marks: one bit a region of the disk, in sectors that are sound or not
 * each for itself, so that a torn write loses nothing. A sector that is not
 * sound means that all its regions are marked.
 */
#define TD_SECTOR_BYTES		512u
#define TD_SECTOR_MARKS		4032u
#define TD_BLOCK_MARKS		(TD_SECTOR_MARKS * TD_BLOCK_SECTORS)
#define TD_MARKS_MAX		(1u << 18)
#define TD_MARK_BLOCKS_MAX	((TD_MARKS_MAX + TD_BLOCK_MARKS - 1) / \
				 TD_BLOCK_MARKS)
#define TD_MARK_SHIFT_MIN	11	/* log2 of sectors: 1 MiB, a run at most */

/* log2 of sectors in a region, so that there are at most TD_MARKS_MAX. */
u32 td_mark_shift(u64 origin_sectors);
u32 td_mark_count(u64 origin_sectors);

static inline u32 td_mark_blocks(u64 origin_sectors)
{
	return (td_mark_count(origin_sectors) + TD_BLOCK_MARKS - 1) /
		TD_BLOCK_MARKS;
}

/* @i < TD_BLOCK_MARKS: a region's bit in its block. */
void td_marks_set(void *block, u32 i);
void td_marks_reset(void *block, u32 i);
bool td_marks_get(const void *block, u32 i);
/* The bits of @i and the 63 regions behind it; @i is a multiple of 64. */
u64 td_marks_get64(const void *block, u32 i);
/* @number: which block of the intent area. Before it: memset 0 and set. */
void td_marks_seal(void *block, const u8 *uuid, u32 number);
/* Sets all bits of the sectors that are not sound. False: there was one. */
bool td_marks_check(void *block, const u8 *uuid, u32 number);

#endif
