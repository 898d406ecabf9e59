/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a start of the module reads before the index, and what a stop writes last:
 * superblocks, and samples of the disk.
 */
#ifndef TANDEM_USER_START_H
#define TANDEM_USER_START_H

#include "identity.h"

struct tdu_engine;

/* What a superblock says, in sectors; fields as in struct td_super. */
struct tdu_geometry {
	u64 origin_sectors;
	u64 ssd_sectors;
	struct td_region journal, checkpoint, intent, data;
	u32 block_sectors;	/* logical block of the SSD; no superblock says it */
	u32 groups;
	u32 run_shift;
	u32 way_shift;
	u64 sequence;
	u32 parts;		/* is TD_SUPER_PARTS set? */
	u32 made_groups;	/* 0: as groups */
	u32 origin_id_bytes;
	u8 uuid[TD_UUID_BYTES];
	u8 origin_id[TD_ORIGIN_ID_BYTES];
};

void tdu_to_super(const struct tdu_geometry *g, struct td_super *sb);

/* All but block_sectors. */
void tdu_of_super(const struct td_super *sb, struct tdu_geometry *g);

/*
 * Fills @bytes with the quarter of the disk that begins at @sector. False: it cannot
 * be read.
 */
typedef bool (*tdu_quarter_fn)(void *context, u64 sector, u8 *bytes);

/*
 * enum td_super_error of td_super_choose(). On TD_SUPER_OK *g, but for block_sectors,
 * is what the superblock says, *flags are its incompatible flags.
 */
u32 tdu_super_choose(const u8 *first, const u8 *second, struct tdu_geometry *g,
		     u32 *flags, struct td_retired *retired);

/*
 * enum td_super_error of td_super_match(): does the cache of @found have the identity
 * of @wanted, and does an SSD of wanted->ssd_sectors hold it?
 */
u32 tdu_super_match(const struct tdu_geometry *found,
		    const struct tdu_geometry *wanted);

bool tdu_super_is_sound(const u8 *bytes, u32 copy);

/* Fills TD_SUPER_BYTES. */
void tdu_super_write(const struct tdu_geometry *g, u32 flags,
		     const struct td_retired *retired, u32 copy, u8 *bytes);

/* @first and @second: the blocks of samples. */
void tdu_samples_choose(const u8 *first, const u8 *second,
			const struct tdu_geometry *g, struct td_samples *s);

/* Choose the quarters to be sampled at a stop. @engine NULL: none was written. */
void tdu_samples_pick(const struct tdu_engine *engine,
		      const struct tdu_geometry *g, struct td_samples *s);

/* enum td_verdict_of_disk. Fills in the checksums, or with @compares compares them. */
u32 tdu_samples_probe(struct td_samples *s, bool compares, tdu_quarter_fn read,
		      void *context);

/*
 * td_samples_at_start(); if the cache was not stopped, a quarter that @engine has a clean copy
 * of should be as that copy. @read reads the SSD: false if it cannot.
 */
void tdu_samples_at_start(const struct tdu_engine *engine, const struct tdu_geometry *g,
			  struct td_samples *s, tdu_quarter_fn read, void *context);

/* Fills the sums of the 8 sectors. */
void tdu_sums_of(const u8 *quarter, u32 *sums);

/*
 * Does each use of the disk's file system change a quarter that is always sampled? @first,
 * @btrfs: the quarters TD_HOME_FIRST and TD_HOME_BTRFS.
 */
bool tdu_samples_show_uses(const u8 *first, const u8 *btrfs, u64 origin_sectors);

/* Fills TD_SAMPLES_BYTES. */
void tdu_samples_write(const struct td_samples *s, const struct tdu_geometry *g,
		       u32 copy, u8 *bytes);

#endif
