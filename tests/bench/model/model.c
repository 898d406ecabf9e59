// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A disk or an SSD as far as time goes: each request is carried out at once on
 * a RAM disk, and answered when the device that is modelled would answer it.
 *
 *	<start> <length> model <RAM disk> disk|ssd
 *
 * disk: one head above a spinning platter. A request costs a seek that grows
 * with the root of the distance, the wait for its sector to come round, and
 * the transfer; what follows the last read is read ahead. Of up to WINDOW
 * requests in the queue the nearest in time goes first. Writes go to a volatile
 * cache, and from there to the platter when no read waits, when a flush does,
 * or when the cache is half full. The distance is taken as a part of the length
 * of the table, so a small RAM disk seeks like a large disk.
 * A discard takes DISCARD_NS for a sector, and changes nothing.
 * ssd: CHANNELS requests at a time, one bus; volatile cache.
 *
 * For test kernels with exact virtual time only: a request that overwrites data
 * that is still in the modelled cache pays for both.
 *
 * Locks: model.lock (interrupts off) guards all of struct model; requests are
 * answered without it.
 */
#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "model.h"

#define DM_MSG_PREFIX "model"

#define DISCARD_NS	3500ull		/* 1000 of them: 16 GiB in 0.12 s */
#define MAX_SECTORS	2560u

static struct bio *bio_of(struct model_io *io)
{
	return dm_bio_from_per_bio_data(io, sizeof(*io));
}

void model_answer_at(struct model *m, struct model_io *io, u64 finish)
{
	struct model_io *other;

	io->finish = finish;
	list_for_each_entry_reverse(other, &m->timed, list)
		if (other->finish <= finish)
			break;
	list_add(&io->list, &other->list);
}

/* Set the timer for what comes next. */
static void wait_for_next(struct model *m)
{
	u64 next = U64_MAX;

	if (m->reading || m->writing)
		next = m->free_at;
	if (!list_empty(&m->timed))
		next = min(next, list_first_entry(&m->timed, struct model_io, list)->finish);
	if (next != U64_MAX)
		hrtimer_start(&m->timer, ns_to_ktime(next), HRTIMER_MODE_ABS_SOFT);
}

static enum hrtimer_restart model_tick(struct hrtimer *timer)
{
	struct model *m = container_of(timer, struct model, timer);
	struct model_io *io, *next;
	unsigned long flags;
	LIST_HEAD(due);
	u64 now;

	spin_lock_irqsave(&m->lock, flags);
	now = ktime_get_ns();
	model_disk_until(m, now);
	while (!list_empty(&m->timed)) {
		io = list_first_entry(&m->timed, struct model_io, list);
		if (io->finish > now)
			break;
		list_move_tail(&io->list, &due);
	}
	wait_for_next(m);
	spin_unlock_irqrestore(&m->lock, flags);
	list_for_each_entry_safe(io, next, &due, list)
		bio_endio(bio_of(io));
	return HRTIMER_NORESTART;
}

/* The RAM disk is not asked: it would look for each page. */
static int discard(struct model *m, struct model_io *io, u32 count)
{
	unsigned long flags;

	io->arrived_once = true;
	spin_lock_irqsave(&m->lock, flags);
	model_answer_at(m, io, ktime_get_ns() + COMMAND_NS +
			div_u64(count * DISCARD_NS, 1000));
	wait_for_next(m);
	spin_unlock_irqrestore(&m->lock, flags);
	return DM_MAPIO_SUBMITTED;
}

static int model_map(struct dm_target *ti, struct bio *bio)
{
	struct model *m = ti->private;
	struct model_io *io = dm_per_bio_data(bio, sizeof(*io));

	io->op = bio_op(bio);
	if (io->op == REQ_OP_DISCARD)
		return discard(m, io, bio_sectors(bio));
	if (io->op != REQ_OP_READ && io->op != REQ_OP_WRITE)
		return DM_MAPIO_KILL;
	io->sector = bio->bi_iter.bi_sector;
	io->count = bio_sectors(bio);
	io->fua = bio->bi_opf & REQ_FUA;
	io->arrived_once = false;
	bio_set_dev(bio, m->dev->bdev);
	return DM_MAPIO_REMAPPED;
}

/* The RAM disk has done it: answer when the time has come. */
static int model_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error)
{
	struct model *m = ti->private;
	struct model_io *io = dm_per_bio_data(bio, sizeof(*io));
	unsigned long flags;

	if (*error || io->arrived_once)
		return DM_ENDIO_DONE;
	io->arrived_once = true;
	spin_lock_irqsave(&m->lock, flags);
	io->arrived = ktime_get_ns();
	if (m->ssd)
		model_ssd_takes(m, io);
	else
		model_disk_takes(m, io);
	wait_for_next(m);
	spin_unlock_irqrestore(&m->lock, flags);
	return DM_ENDIO_INCOMPLETE;
}

static int model_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct model *m;
	int r;

	if (argc != 2 || (strcmp(argv[1], "disk") && strcmp(argv[1], "ssd"))) {
		ti->error = "Usage: <RAM disk> disk|ssd";
		return -EINVAL;
	}
	m = kzalloc(sizeof(*m), GFP_KERNEL);
	if (!m)
		return -ENOMEM;
	r = dm_get_device(ti, argv[0], dm_table_get_mode(ti->table), &m->dev);
	if (r) {
		ti->error = "Cannot open the RAM disk";
		kfree(m);
		return r;
	}
	m->ssd = !strcmp(argv[1], "ssd");
	m->length = ti->len;
	spin_lock_init(&m->lock);
	INIT_LIST_HEAD(&m->timed);
	model_disk_init(m);
	hrtimer_init(&m->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	m->timer.function = model_tick;
	ti->private = m;
	ti->num_flush_bios = 1;
	ti->flush_supported = true;
	ti->num_discard_bios = m->ssd ? 0 : 1;
	ti->discards_supported = !m->ssd;
	ti->per_io_data_size = sizeof(struct model_io);
	return 0;
}

static void model_dtr(struct dm_target *ti)
{
	struct model *m = ti->private;

	hrtimer_cancel(&m->timer);
	model_disk_free(m);
	dm_put_device(ti, m->dev);
	kfree(m);
}

static int model_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn,
				 void *data)
{
	struct model *m = ti->private;

	return fn(ti, m->dev, 0, ti->len, data);
}

/* A request may be as large as with a disk; a RAM disk wants smaller ones. */
static void model_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	limits->max_hw_sectors = MAX_SECTORS;
	limits->max_sectors = MAX_SECTORS;
}

static struct target_type model_target = {
	.name = "model",
	.version = {1, 0, 0},
	.module = THIS_MODULE,
	.ctr = model_ctr,
	.dtr = model_dtr,
	.map = model_map,
	.end_io = model_end_io,
	.iterate_devices = model_iterate_devices,
	.io_hints = model_io_hints,
};
module_dm(model);

MODULE_DESCRIPTION("Timing of a disk or an SSD over a RAM disk, for tests");
MODULE_AUTHOR("The Tandem authors");
MODULE_LICENSE("GPL");
