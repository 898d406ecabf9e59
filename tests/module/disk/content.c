// SPDX-License-Identifier: GPL-2.0-or-later
/* The content of a volatile test disk, twice: what a reader sees, and what a power cut leaves. */
#include <linux/bio.h>
#include <linux/bitmap.h>
#include <linux/blkdev.h>
#include <linux/highmem.h>
#include <linux/string.h>

#include "testdisk.h"

/* In testdisk.since: the sector is durable; a write of it is in flight. */
#define DURABLE		0u
#define IN_FLIGHT	U32_MAX

static u8 *at(u8 *memory, u64 sector)
{
	return memory + (sector << SECTOR_SHIFT);
}

static void make_durable(struct testdisk *d, u64 sector)
{
	memcpy(at(d->durable, sector), at(d->content, sector), SECTOR_SIZE);
	d->since[sector] = DURABLE;
}

void testdisk_copy_bio(struct testdisk *d, struct bio *bio, struct bvec_iter from,
		       bool to_bio)
{
	u8 *memory = at(d->content, from.bi_sector);
	struct bvec_iter iter;
	struct bio_vec bv;

	__bio_for_each_segment(bv, bio, iter, from) {
		void *page = bvec_kmap_local(&bv);

		if (to_bio)
			memcpy(page, memory, bv.bv_len);
		else
			memcpy(memory, page, bv.bv_len);
		kunmap_local(page);
		memory += bv.bv_len;
	}
}

void testdisk_write_begins(struct testdisk *d, struct bio *bio)
{
	u64 first = bio->bi_iter.bi_sector, i;
	u32 count = bio_sectors(bio);

	bitmap_clear(d->bad, first, count);
	if (!d->content)
		return;
	if (bio_op(bio) == REQ_OP_WRITE)
		testdisk_copy_bio(d, bio, bio->bi_iter, false);
	else
		memset(at(d->content, first), 0, (size_t)count << SECTOR_SHIFT);
	for (i = first; i < first + count; i++)
		if (d->since[i] == DURABLE)
			d->since[i] = IN_FLIGHT;
}

void testdisk_write_ended(struct testdisk *d, const struct testdisk_io *io)
{
	u64 first = io->iter.bi_sector, i;
	u32 count = io->iter.bi_size >> SECTOR_SHIFT;

	if (!d->content)
		return;
	d->written++;
	for (i = first; i < first + count; i++) {
		if (io->fua || !d->cached)
			make_durable(d, i);
		else if (d->since[i] == IN_FLIGHT)
			d->since[i] = d->written;
	}
}

void testdisk_write_failed(struct testdisk *d, const struct testdisk_io *io)
{
	u64 first = io->iter.bi_sector, i;
	u32 count = io->iter.bi_size >> SECTOR_SHIFT;

	if (!d->content)
		return;
	for (i = first; i < first + count; i++) {
		if (d->since[i] != IN_FLIGHT)
			continue;
		memcpy(at(d->content, i), at(d->durable, i), SECTOR_SIZE);
		d->since[i] = DURABLE;
	}
}

void testdisk_flush_ended(struct testdisk *d, const struct testdisk_io *io)
{
	u64 i;

	if (!d->content)
		return;
	for (i = 0; i < d->sectors; i++)
		if (d->since[i] != DURABLE && d->since[i] <= io->written)
			make_durable(d, i);
}

void testdisk_cut(const struct testdisk *from, struct testdisk *to, u32 seed)
{
	u32 random = seed * 2654435761u + 1;
	u64 i;

	memcpy(to->durable, from->durable, from->sectors << SECTOR_SHIFT);
	for (i = 0; i < from->sectors; i++) {
		if (from->since[i] == DURABLE)
			continue;
		/* xorshift32 */
		random ^= random << 13;
		random ^= random >> 17;
		random ^= random << 5;
		if (random >> 30 < seed % 4)
			memcpy(at(to->durable, i), at(from->content, i),
			       SECTOR_SIZE);
	}
	memcpy(to->content, to->durable, from->sectors << SECTOR_SHIFT);
	memset(to->since, 0, from->sectors * sizeof(*to->since));
}
