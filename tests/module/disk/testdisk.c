// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A disk for tests: it can lose its write cache, fail requests, and count flags.
 *
 *	<start> <length> testdisk <device> <label> plain|volatile <DMA alignment>
 *
 * Every request also goes to <device>, which gives it its duration. A plain test
 * disk keeps its content there. A volatile one keeps its content in memory, twice:
 * what a reader sees, and what a power cut leaves. If <device> has a volatile write
 * cache, a write is durable after a later flush or by FUA; without one, when the
 * write is answered. The DMA alignment is a mask, as in struct queue_limits.
 *
 * Messages:
 *	cut <seed> (<from> <to>)...	at one instant, give volatile test disk <to>
 *					the content that a power cut leaves on <from>;
 *					labels. <seed> modulo 4 is how many quarters
 *					of the sectors that were not durable survive;
 *					a request in flight may be torn.
 *	bad <sector>			reads of the sector fail until it is written
 *	stuck <sector>			writes that begin at the sector fail
 *	fail all|reads|writes|data|flushes|misaligned|nothing
 *					such requests fail from now on; a flush is a
 *					write; "data" lets flushes, discards and
 *					zero-outs pass; "misaligned": as counted; "nothing"
 *					also ends "stuck"
 *	fail request <n>		the n-th request from now on fails, once
 *	medium changed			the device gets another diskseq
 *	pieces read|write <sector>	such a request to <device>, see pieces.h; the bytes
 *					are 7
 *
 * Status: the counters of struct testdisk by their names. "misaligned" counts requests
 * with memory that begins at no multiple of the alignment, or is no whole blocks.
 *
 * Locks: disks_lock (interrupts off) guards the list of all test disks and all that
 * is in them, so that a cut hits all of them at one instant.
 */
#include <linux/bio.h>
#include <linux/bitmap.h>
#include <linux/blkdev.h>
#include <linux/device-mapper.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "pieces.h"
#include "testdisk.h"

#define DM_MSG_PREFIX "testdisk"

static LIST_HEAD(disks);
static DEFINE_SPINLOCK(disks_lock);

static bool is_write(struct bio *bio)
{
	return op_is_write(bio_op(bio)) && bio_sectors(bio);
}

static bool is_misaligned(const struct testdisk *d, struct bio *bio)
{
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_bvec(bv, bio, iter)
		if (bv.bv_offset & d->alignment || bv.bv_len % d->block)
			return true;
	return false;
}

/* Count what is asked for; true: the request is to fail. */
static bool is_to_fail(struct testdisk *d, struct bio *bio)
{
	u64 first = bio->bi_iter.bi_sector;
	u64 end = first + bio_sectors(bio);
	bool misaligned = bio_has_data(bio) && is_misaligned(d, bio);

	d->misaligned += misaligned;
	if (is_write(bio)) {
		d->writes++;
		d->fast_writes += !!(bio->bi_opf & REQ_FAILFAST_MASK);
	} else if (bio_op(bio) == REQ_OP_READ) {
		d->fast_reads += !!(bio->bi_opf & REQ_FAILFAST_MASK);
	}
	if ((d->fail_in && !--d->fail_in) || (misaligned && d->fail_misaligned))
		return true;
	if (bio_op(bio) == REQ_OP_READ)
		return d->fail_reads ||
		       find_next_bit(d->bad, end, first) < end;
	if (d->fail_data && bio_op(bio) == REQ_OP_WRITE && bio_sectors(bio))
		return true;
	if (d->fail_flushes && bio->bi_opf & REQ_PREFLUSH)
		return true;
	return d->fail_writes || (is_write(bio) && first == d->stuck);
}

static int testdisk_map(struct dm_target *ti, struct bio *bio)
{
	struct testdisk *d = ti->private;
	struct testdisk_io *io = dm_per_bio_data(bio, sizeof(*io));
	unsigned long flags;
	bool fails;

	io->iter = bio->bi_iter;
	io->fua = bio->bi_opf & REQ_FUA;
	spin_lock_irqsave(&disks_lock, flags);
	fails = is_to_fail(d, bio);
	d->failed += fails;
	io->written = d->written;
	if (!fails && is_write(bio))
		testdisk_write_begins(d, bio);
	spin_unlock_irqrestore(&disks_lock, flags);
	if (fails)
		return DM_MAPIO_KILL;
	bio_set_dev(bio, d->dev->bdev);
	return DM_MAPIO_REMAPPED;
}

static int testdisk_end_io(struct dm_target *ti, struct bio *bio,
			   blk_status_t *error)
{
	struct testdisk *d = ti->private;
	struct testdisk_io *io = dm_per_bio_data(bio, sizeof(*io));
	unsigned long flags;

	spin_lock_irqsave(&disks_lock, flags);
	if (bio_op(bio) == REQ_OP_READ) {
		if (d->content && !*error)
			testdisk_copy_bio(d, bio, io->iter, true);
	} else if (io->iter.bi_size) {
		if (*error)
			testdisk_write_failed(d, io);
		else
			testdisk_write_ended(d, io);
	} else if (!*error) {
		testdisk_flush_ended(d, io);
	}
	spin_unlock_irqrestore(&disks_lock, flags);
	return DM_ENDIO_DONE;
}

/* The volatile test disk of this label; disks_lock held. */
static struct testdisk *find_disk(const char *label)
{
	struct testdisk *d;

	list_for_each_entry(d, &disks, list)
		if (d->content && !strcmp(d->label, label))
			return d;
	return NULL;
}

static int cut(u32 seed, unsigned int argc, char **argv)
{
	unsigned long flags;
	unsigned int i;
	int r = 0;

	spin_lock_irqsave(&disks_lock, flags);
	for (i = 0; i + 1 < argc && !r; i += 2) {
		struct testdisk *from = find_disk(argv[i]);
		struct testdisk *to = find_disk(argv[i + 1]);

		if (from && to && from != to && from->sectors == to->sectors)
			testdisk_cut(from, to, seed + i);
		else
			r = -ENODEV;
	}
	spin_unlock_irqrestore(&disks_lock, flags);
	return r;
}

static int testdisk_message(struct dm_target *ti, unsigned int argc, char **argv,
			    char *result, unsigned int maxlen)
{
	struct testdisk *d = ti->private;
	unsigned long flags;
	u64 number = 0;
	int r = 0;

	if (argc >= 4 && !strcmp(argv[0], "cut")) {
		r = kstrtou64(argv[1], 10, &number);
		return r ? r : cut(number, argc - 2, argv + 2);
	}
	if (argc < 2 || (argc == 3 && kstrtou64(argv[2], 10, &number)) || argc > 3)
		return -EINVAL;
	if (argc == 3 && !strcmp(argv[0], "pieces"))
		return testdisk_pieces(d->dev->bdev, strcmp(argv[1], "read") ?
				       REQ_OP_WRITE : REQ_OP_READ, number, 7);
	spin_lock_irqsave(&disks_lock, flags);
	if (argc == 3 && !strcmp(argv[0], "fail") && !strcmp(argv[1], "request")) {
		d->fail_in = number;
	} else if (!strcmp(argv[0], "fail")) {
		bool all = !strcmp(argv[1], "all");

		d->fail_reads = all || !strcmp(argv[1], "reads");
		d->fail_writes = all || !strcmp(argv[1], "writes");
		d->fail_data = !strcmp(argv[1], "data");
		d->fail_flushes = !strcmp(argv[1], "flushes");
		d->fail_misaligned = !strcmp(argv[1], "misaligned");
		d->stuck = U64_MAX;
		if (!d->fail_reads && !d->fail_writes && !d->fail_data &&
		    !d->fail_flushes && !d->fail_misaligned && strcmp(argv[1], "nothing"))
			r = -EINVAL;
	} else if (!strcmp(argv[0], "medium")) {
		dm_disk(dm_table_get_md(ti->table))->diskseq++;
	} else if (!strcmp(argv[0], "stuck")) {
		r = kstrtou64(argv[1], 10, &d->stuck);
	} else if (!strcmp(argv[0], "bad")) {
		r = kstrtou64(argv[1], 10, &number);
		if (!r && number >= d->sectors)
			r = -ERANGE;
		if (!r)
			set_bit(number, d->bad);
	} else {
		r = -EINVAL;
	}
	spin_unlock_irqrestore(&disks_lock, flags);
	return r;
}

static void testdisk_status(struct dm_target *ti, status_type_t type,
			    unsigned int status_flags, char *result,
			    unsigned int maxlen)
{
	const struct testdisk *d = ti->private;
	unsigned int sz = 0;

	if (type == STATUSTYPE_INFO)
		DMEMIT("writes %llu fast_reads %llu fast_writes %llu misaligned %llu failed %llu fail_in %llu",
		       d->writes, d->fast_reads, d->fast_writes, d->misaligned,
		       d->failed, d->fail_in);
	else if (type == STATUSTYPE_TABLE)
		DMEMIT("%s %s %s %u", d->dev->name, d->label,
		       d->content ? "volatile" : "plain", d->alignment);
	else
		*result = '\0';
}

static void testdisk_free(struct dm_target *ti, struct testdisk *d)
{
	if (d->dev)
		dm_put_device(ti, d->dev);
	vfree(d->content);
	vfree(d->durable);
	vfree(d->since);
	vfree(d->bad);
	kfree(d);
}

static int construct(struct dm_target *ti, struct testdisk *d, char **argv)
{
	bool is_volatile = !strcmp(argv[2], "volatile");
	int r;

	r = dm_get_device(ti, argv[0], dm_table_get_mode(ti->table), &d->dev);
	if (r) {
		d->dev = NULL;
		ti->error = "Cannot open the device";
		return r;
	}
	if (kstrtouint(argv[3], 10, &d->alignment) ||
	    (!is_volatile && strcmp(argv[2], "plain")) ||
	    strscpy(d->label, argv[1], sizeof(d->label)) < 0) {
		ti->error = "Bad argument";
		return -EINVAL;
	}
	d->sectors = ti->len;
	d->stuck = U64_MAX;
	d->block = bdev_logical_block_size(d->dev->bdev);
	d->cached = bdev_write_cache(d->dev->bdev);
	d->bad = vzalloc(BITS_TO_LONGS(ti->len) * sizeof(long));
	if (is_volatile) {
		d->content = vzalloc(ti->len << SECTOR_SHIFT);
		d->durable = vzalloc(ti->len << SECTOR_SHIFT);
		d->since = vzalloc(ti->len * sizeof(*d->since));
	}
	if (!d->bad || (is_volatile && (!d->content || !d->durable || !d->since))) {
		ti->error = "Out of memory";
		return -ENOMEM;
	}
	return 0;
}

static int testdisk_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct testdisk *d;
	unsigned long flags;
	int r;

	if (argc != 4) {
		ti->error = "Usage: <device> <label> plain|volatile <DMA alignment>";
		return -EINVAL;
	}
	d = kzalloc(sizeof(*d), GFP_KERNEL);
	if (!d)
		return -ENOMEM;
	r = construct(ti, d, argv);
	if (r) {
		testdisk_free(ti, d);
		return r;
	}
	ti->private = d;
	ti->num_flush_bios = 1;
	ti->num_discard_bios = 1;
	ti->num_write_zeroes_bios = 1;
	ti->per_io_data_size = sizeof(struct testdisk_io);
	spin_lock_irqsave(&disks_lock, flags);
	list_add(&d->list, &disks);
	spin_unlock_irqrestore(&disks_lock, flags);
	return 0;
}

static void testdisk_dtr(struct dm_target *ti)
{
	struct testdisk *d = ti->private;
	unsigned long flags;

	spin_lock_irqsave(&disks_lock, flags);
	list_del(&d->list);
	spin_unlock_irqrestore(&disks_lock, flags);
	testdisk_free(ti, d);
}

static int testdisk_iterate_devices(struct dm_target *ti,
				    iterate_devices_callout_fn fn, void *data)
{
	struct testdisk *d = ti->private;

	return fn(ti, d->dev, 0, ti->len, data);
}

static void testdisk_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	struct testdisk *d = ti->private;

	limits->dma_alignment = max_t(unsigned int, limits->dma_alignment,
				      d->alignment);
}

static struct target_type testdisk_target = {
	.name = "testdisk",
	.version = {1, 0, 0},
	.module = THIS_MODULE,
	.ctr = testdisk_ctr,
	.dtr = testdisk_dtr,
	.map = testdisk_map,
	.end_io = testdisk_end_io,
	.message = testdisk_message,
	.status = testdisk_status,
	.iterate_devices = testdisk_iterate_devices,
	.io_hints = testdisk_io_hints,
};

static int __init testdisk_init(void)
{
	return dm_register_target(&testdisk_target);
}

static void __exit testdisk_exit(void)
{
	dm_unregister_target(&testdisk_target);
}

module_init(testdisk_init);
module_exit(testdisk_exit);

MODULE_DESCRIPTION("A disk that loses its write cache, for tests");
MODULE_AUTHOR("The Tandem authors");
MODULE_LICENSE("GPL");
