/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The superblock of the SSD: plan one for a new cache, print, parse, compare.
 * FORMAT.md is the layout. Parsing takes any bytes.
 *
 * All functions: no lock, any context, no memory but what is passed in.
 */
#ifndef TANDEM_SUPER_H
#define TANDEM_SUPER_H

#include "layout.h"

#define TD_SUPER_BYTES		4096u	/* one copy */
#define TD_SUPER_COPIES		2
#define TD_SUPER_AREA		2048u	/* sectors before the first region */
#define TD_UUID_BYTES		16
#define TD_ORIGIN_ID_BYTES	64	/* at most */

/* Byte offset on the SSD of copy @copy. */
#define TD_SUPER_OFFSET(copy)	((copy) * 524288u)

enum td_super_error {
	TD_SUPER_OK,
	TD_SUPER_BLANK,		/* only zeroes */
	TD_SUPER_FOREIGN,	/* no magic */
	TD_SUPER_OVERWRITTEN,	/* one copy sound, the other foreign or another cache's; when choosing */
	TD_SUPER_DAMAGED,	/* magic, but a wrong checksum */
	TD_SUPER_VERSION,
	TD_SUPER_FEATURE,	/* an unknown incompatible flag */
	TD_SUPER_GEOMETRY,	/* numbers that contradict each other */
	TD_SUPER_SSD_SIZE,	/* SSD smaller than the superblock says */
	TD_SUPER_OTHER_CACHE,	/* uuid differs */
	TD_SUPER_OTHER_DISK,	/* origin_id differs */
	TD_SUPER_DISK_SIZE,	/* origin_sectors differs */
	TD_SUPER_TOO_SMALL,	/* no room for a cache; only from planning */
	TD_SUPER_TOO_LARGE,	/* disk beyond the tag; only from planning */
};

/*
 * Incompatible flags: a module that does not know them must neither make anything
 * dirty nor believe the index. CLEAN is cleared in both copies before the first
 * write-back write, and set when nothing is dirty and nothing can become dirty; so
 * CLEAN is right in any copy that has it.
 */
#define TD_SUPER_CLEAN		1u	/* nothing on the SSD is dirty */
#define TD_SUPER_COLD		2u	/* the index is being made anew: do not read it */
#define TD_SUPER_PARTS		4u	/* a checkpoint writes the pages that changed */
#define TD_SUPER_RESIZED	16u	/* made_groups, and the checkpoint's place, may differ */

/*
 * Slots in which a clean copy could not be read: nothing is stored there any more.
 * In ascending order. A slot for which there is no room is only forgotten.
 */
#define TD_RETIRED_MAX		64u

struct td_retired {
	u32 count;
	u32 slots[TD_RETIRED_MAX];
};

/* Sectors of the SSD. */
struct td_region {
	u64 start;
	u64 length;
};

struct td_super {
	u8 uuid[TD_UUID_BYTES];
	u8 origin_id[TD_ORIGIN_ID_BYTES];
	u32 origin_id_bytes;
	u32 compat;
	u32 incompat;
	u64 sequence;
	u64 origin_sectors;
	u64 ssd_sectors;
	u32 run_shift;
	u32 way_shift;
	u32 groups;
	u32 made_groups;	/* when the cache was made; without RESIZED: groups */
	struct td_region journal;
	struct td_region checkpoint;
	struct td_region intent;
	struct td_region data;
	struct td_retired retired;
};

/* Identity of a cache: given by the table line, must match the superblock. */
struct td_identity {
	u8 uuid[TD_UUID_BYTES];
	u8 origin_id[TD_ORIGIN_ID_BYTES];
	u32 origin_id_bytes;
	u64 origin_sectors;
};

/*
 * A superblock for a new cache on an SSD of @ssd_sectors.
 * OK, TOO_SMALL or TOO_LARGE.
 */
enum td_super_error td_super_plan(const struct td_identity *id, u64 ssd_sectors,
				  struct td_super *sb);

/* Fill @buffer of TD_SUPER_BYTES with copy @copy. */
void td_super_encode(const struct td_super *sb, u32 copy, void *buffer);

/*
 * Parse copy @copy. *sb is complete on OK and undefined else. Never GEOMETRY
 * on what td_super_encode() made from td_super_plan().
 */
enum td_super_error td_super_parse(const void *buffer, u32 copy,
				   struct td_super *sb);

/*
 * Parse both copies and take the newer sound one, with the incompatible flags of
 * both; if none is sound, the more telling error of the two. A sound copy beside
 * something foreign is not taken: a cut or a bad sector leaves zeroes or damage,
 * but partitioning or formatting the SSD elsewhere may leave one copy as it was.
 */
enum td_super_error td_super_choose(const void *first, const void *second,
				    struct td_super *sb);

/*
 * Which copy is to be written first: not the copy that td_super_choose() takes. (If a cut
 * damages the first copy, the other copy must be sound.)
 */
u32 td_super_first(const void *first, const void *second);

/* Are both copies sound, and of the same generation? */
bool td_super_agree(const void *first, const void *second);

/*
 * Are the regions in order, apart, within the SSD, and as large as their use
 * needs? td_super_parse() takes no other superblock.
 */
bool td_super_holds(const struct td_super *sb);

/* Does the superblock belong to @id, and does an SSD of this size hold it? */
enum td_super_error td_super_match(const struct td_super *sb,
				   const struct td_identity *id,
				   u64 ssd_sectors);

/* @block_sectors: logical block of the SSD. */
void td_super_layout(const struct td_super *sb, u32 block_sectors,
		     struct td_layout *l);

#endif
