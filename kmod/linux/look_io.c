// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Looking at the disk for core: which file system is there, and what its watched places
 * hold (core/watch.h).
 *
 * Invariant: one thread looks at a time: preresume, before the work can run; or the work.
 * Threads: preresume; a work of frozen_wq, which the clock queues. Both sleep.
 */
#include <linux/blkdev.h>

#include "identity_io.h"

#define QUARTER_BYTES	(TD_QUARTER_SECTORS << SECTOR_SHIFT)

/* A read of a quarter of the disk, on the stack of the thread that waits for it. */
struct disk_read {
	struct bio bio;
	struct bio_vec vec;
	struct completion done;
};

static void read_endio(struct bio *bio)
{
	struct disk_read *read = container_of(bio, struct disk_read, bio);

	complete(&read->done);
}

/* Begin to read quarter @quarter of the disk into @to. */
static void begin_read(struct tandem *t, struct disk_read *read, u64 quarter, void *to)
{
	struct bio *bio = &read->bio;

	init_completion(&read->done);
	bio_init(bio, t->origin->bdev, &read->vec, 1,
		 REQ_OP_READ | REQ_META | REQ_FAILFAST_DEV);
	bio->bi_iter.bi_sector = quarter << TD_QUARTER_SHIFT;
	__bio_add_page(bio, virt_to_page(to), QUARTER_BYTES, offset_in_page(to));
	bio->bi_end_io = read_endio;
	submit_bio(bio);
}

/* False: the disk cannot read the quarter. */
static bool end_read(struct disk_read *read)
{
	wait_for_completion_io(&read->done);
	bio_uninit(&read->bio);
	return !read->bio.bi_status;
}

static bool read_quarter(struct tandem *t, u64 quarter, void *to)
{
	struct disk_read read;

	begin_read(t, &read, quarter, to);
	return end_read(&read);
}

static void look_at_homes(struct tandem *t)
{
	u64 quarters = t->super.origin_sectors >> TD_QUARTER_SHIFT;
	u8 *first = t->look_buffer;
	u8 *btrfs = first + QUARTER_BYTES;
	struct td_places places;
	struct disk_read first_read, btrfs_read;
	unsigned long flags;
	bool looks;

	flags = tandem_lock(t);
	looks = td_look_begin(&t->engine);
	tandem_unlock(t, flags);
	if (!looks)
		return;
	/* Both at once: a stop waits for them. */
	begin_read(t, &first_read, TD_HOME_FIRST, first);
	if (quarters > TD_HOME_BTRFS)
		begin_read(t, &btrfs_read, TD_HOME_BTRFS, btrfs);
	if (quarters <= TD_HOME_BTRFS || !end_read(&btrfs_read))
		btrfs = NULL;
	if (!end_read(&first_read))
		first = NULL;
	td_places_find(&places, first, btrfs, quarters);
	flags = tandem_lock(t);
	td_look_end(&t->engine, &places);
	tandem_unlock(t, flags);
}

/* False: the head of the log is known, or not to be found now. */
static bool search_head(struct tandem *t)
{
	unsigned long flags;
	u64 quarter;
	bool searches, ok;

	flags = tandem_lock(t);
	searches = td_search_begin(&t->engine, &quarter);
	tandem_unlock(t, flags);
	if (!searches)
		return false;
	ok = read_quarter(t, quarter, t->look_buffer);
	flags = tandem_lock(t);
	td_search_end(&t->engine, ok ? t->look_buffer : NULL);
	tandem_unlock(t, flags);
	return ok;
}

/* False: nothing can be learned now. */
static bool learn_place(struct tandem *t)
{
	u32 sums[TD_QUARTER_SECTORS];
	unsigned long flags;
	u64 quarter;
	bool learns, ok;

	flags = tandem_lock(t);
	learns = td_learn_begin(&t->engine, &quarter);
	tandem_unlock(t, flags);
	if (!learns)
		return false;
	ok = read_quarter(t, quarter, t->look_buffer);
	if (ok)
		td_sums_of(t->look_buffer, sums);
	flags = tandem_lock(t);
	td_learn_end(&t->engine, quarter, ok ? sums : NULL);
	if (ok)
		td_learn_next(&t->engine, quarter, t->look_buffer);
	tandem_unlock(t, flags);
	/* Core does not ask for an unreadable place again before its next write. */
	return ok;
}

void tandem_look(struct tandem *t)
{
	look_at_homes(t);
	while (search_head(t))
		cond_resched();
	while (learn_place(t))
		cond_resched();
}

static void look_work(struct work_struct *work)
{
	struct tandem *t = container_of(work, struct tandem, look);
	struct td_list woken;

	tandem_look(t);
	td_list_init(&woken);
	tandem_carry_on(t, &woken);
	tandem_freeze_watch(t);
}

int tandem_look_alloc(struct tandem *t)
{
	t->look_buffer = kmalloc(2 * QUARTER_BYTES, GFP_KERNEL);
	return t->look_buffer ? 0 : -ENOMEM;
}

void tandem_look_init(struct tandem *t)
{
	INIT_WORK(&t->look, look_work);
}

void tandem_look_free(struct tandem *t)
{
	kfree(t->look_buffer);
}
