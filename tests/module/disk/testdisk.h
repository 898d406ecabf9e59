/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTDISK_H
#define TESTDISK_H

#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/list.h>

struct testdisk {
	struct list_head list;
	struct dm_dev *dev;
	char label[64];
	u64 sectors;
	unsigned int alignment;
	unsigned int block;	/* bytes of a logical block */
	bool cached;		/* the device has a volatile write cache */

	/* NULL for a plain one. */
	u8 *content;		/* what a reader sees */
	u8 *durable;		/* what a cut leaves */
	u32 *since;		/* of each sector: number of the write */
	u32 written;		/* writes answered so far */

	unsigned long *bad;	/* sectors that cannot be read */
	u64 stuck;		/* sector that cannot be written; U64_MAX: none */
	bool fail_reads, fail_writes, fail_data, fail_flushes, fail_misaligned;
	u64 fail_in;		/* requests until one fails; 0: none does */

	u64 writes, fast_reads, fast_writes, misaligned, failed;
};

/* What dm keeps for us with each bio. */
struct testdisk_io {
	struct bvec_iter iter;
	u32 written;		/* of a flush: as in struct testdisk */
	bool fua;
};

/* content.c: the content of a volatile test disk. The lock of all test disks is held. */

/* Copy between @bio as it was at @from and what a reader sees. */
void testdisk_copy_bio(struct testdisk *d, struct bio *bio, struct bvec_iter from,
		       bool to_bio);
/* A write, a discard or a zero-out begins: from now on a cut may tear it. */
void testdisk_write_begins(struct testdisk *d, struct bio *bio);
void testdisk_write_ended(struct testdisk *d, const struct testdisk_io *io);
/* The device has failed the write: what was there stays, where a cut would leave it. */
void testdisk_write_failed(struct testdisk *d, const struct testdisk_io *io);
/* What was answered before the flush came is durable now. */
void testdisk_flush_ended(struct testdisk *d, const struct testdisk_io *io);
/*
 * Give @to the content that a power cut leaves on @from. @seed modulo 4 is how many
 * quarters of the sectors that were not durable survive.
 */
void testdisk_cut(const struct testdisk *from, struct testdisk *to, u32 seed);

#endif
