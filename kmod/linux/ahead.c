// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reading the SSD in order, before the reader asks for it: while core checks one
 * part of the index the next ones are on their way.
 *
 * Invariants:
 *   A1  What is read ahead is used only if just that is asked for next and it was
 *       read without an error. Else it is as if nobody had read it.
 *   A2  Nothing is read ahead but behind a whole buffer that was asked for: not
 *       block by block around a place that cannot be read.
 * Threads: one; what is under way ends in interrupts.
 * Why bios of its own and no worker: the device may be suspended, and what would
 * free memory for a new worker may wait for it.
 */
#include <linux/completion.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "ahead.h"

#define LOAD_SECTORS	(TD_LOAD_BYTES >> SECTOR_SHIFT)
#define BUFFERS		5u	/* one is in use, the others under way */
#define LOOK_AGAIN	(30 * HZ)	/* so that no wait looks like a hang */

struct part {
	struct bio bio;
	struct bio_vec vecs[TANDEM_LOAD_PAGES];
	struct completion done;
	void *buffer;
	u64 sector;
	u32 sectors;		/* under way, or 0 */
};

struct tandem_ahead {
	struct tandem *t;
	u32 used;		/* the caller's; the next ones follow in order */
	struct part *parts[BUFFERS];
};

static struct part *nth(struct tandem_ahead *a, u32 n)
{
	return a->parts[(a->used + n) % BUFFERS];
}

static void part_endio(struct bio *bio)
{
	struct part *p = bio->bi_private;

	complete(&p->done);
}

static void begin(struct tandem_ahead *a, struct part *p, u64 sector)
{
	struct block_device *bdev = a->t->ssd->bdev;
	u64 left = bdev_nr_sectors(bdev);

	left -= min(left, sector);
	p->sector = sector;
	p->sectors = min_t(u64, left, LOAD_SECTORS);
	if (!p->sectors)
		return;
	reinit_completion(&p->done);
	bio_init(&p->bio, bdev, p->vecs, TANDEM_LOAD_PAGES,
		 REQ_OP_READ | REQ_META);
	p->bio.bi_iter.bi_sector = sector;
	p->bio.bi_private = p;
	p->bio.bi_end_io = part_endio;
	tandem_bio_add(&p->bio, p->buffer, p->sectors << SECTOR_SHIFT);
	submit_bio(&p->bio);
}

/* True: it was read. */
static bool end(struct part *p)
{
	bool ok;

	while (!wait_for_completion_io_timeout(&p->done, LOOK_AGAIN))
		;
	ok = !p->bio.bi_status;
	bio_uninit(&p->bio);
	invalidate_kernel_vmap_range(p->buffer, p->sectors << SECTOR_SHIFT);
	p->sectors = 0;
	return ok;
}

static void drop(struct tandem_ahead *a)
{
	u32 i;

	for (i = 0; i < BUFFERS; i++)
		if (a->parts[i] && a->parts[i]->sectors)
			end(a->parts[i]);
}

void *tandem_ahead_read(struct tandem_ahead *a, u64 sector, u32 sectors)
{
	struct part *p = nth(a, 1);
	u64 next = sector + sectors;
	bool whole = sectors == LOAD_SECTORS;
	u32 i;

	if (p->sectors >= sectors && p->sector == sector && end(p)) {
		a->used = (a->used + 1) % BUFFERS;
	} else {
		drop(a);
		p = nth(a, 0);
		if (tandem_ssd_io(a->t, REQ_OP_READ | REQ_META, sector,
				  p->buffer, sectors << SECTOR_SHIFT))
			return NULL;
	}
	for (i = 1; i < BUFFERS && whole; i++, next += LOAD_SECTORS)
		if (!nth(a, i)->sectors)
			begin(a, nth(a, i), next);
	return p->buffer;
}

static struct part *part_alloc(void)
{
	struct part *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return NULL;
	init_completion(&p->done);
	p->buffer = vmalloc(TD_LOAD_BYTES);
	if (!p->buffer) {
		kfree(p);
		return NULL;
	}
	return p;
}

struct tandem_ahead *tandem_ahead_alloc(struct tandem *t)
{
	unsigned int noio = memalloc_noio_save();
	struct tandem_ahead *a = kzalloc(sizeof(*a), GFP_KERNEL);
	bool ok = a;
	u32 i;

	for (i = 0; i < BUFFERS && ok; i++) {
		a->parts[i] = part_alloc();
		ok = a->parts[i];
	}
	memalloc_noio_restore(noio);
	if (!ok) {
		tandem_ahead_free(a);
		return NULL;
	}
	a->t = t;
	return a;
}

void tandem_ahead_free(struct tandem_ahead *a)
{
	u32 i;

	if (!a)
		return;
	drop(a);
	for (i = 0; i < BUFFERS && a->parts[i]; i++) {
		vfree(a->parts[i]->buffer);
		kfree(a->parts[i]);
	}
	kfree(a);
}
