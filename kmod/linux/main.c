// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dm-tandem: the target's life, from constructor to destructor.
 *
 * Invariant: the constructor writes to neither device. The index is read or
 * written, or taken over from a replaced table, at preresume, when the old table
 * has stopped and the new one has not begun. After postsuspend all that the cache
 * holds is durable, if the SSD took it.
 * Threads: device-mapper calls these one at a time for a device.
 */
#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "ahead.h"
#include "identity_io.h"
#include "job.h"
#include "tandem-compat.h"

static void put_devices(struct tandem *t)
{
	if (t->origin)
		dm_put_device(t->ti, t->origin);
	if (t->ssd)
		dm_put_device(t->ti, t->ssd);
}

static int get_devices(struct dm_target *ti, struct tandem *t, char **argv)
{
	struct block_device *bdevs[2];
	int r, i;

	r = dm_get_device(ti, argv[0], dm_table_get_mode(ti->table),
			  &t->origin);
	if (r) {
		t->origin = NULL;
		ti->error = "Cannot open the disk";
		return r;
	}
	r = dm_get_device(ti, argv[1], dm_table_get_mode(ti->table), &t->ssd);
	if (r) {
		t->ssd = NULL;
		ti->error = "Cannot open the SSD";
		return r;
	}
	r = -EINVAL;
	bdevs[0] = t->origin->bdev;
	bdevs[1] = t->ssd->bdev;
	if (bdevs[0] == bdevs[1]) {
		ti->error = "Disk and SSD are the same device";
		return r;
	}
	for (i = 0; i < 2; i++) {
		if (bdev_is_zoned(bdevs[i])) {
			ti->error = "Zoned devices are not supported";
			return r;
		}
		if (bdev_logical_block_size(bdevs[i]) > 4096) {
			ti->error = "Logical block size above 4096";
			return r;
		}
	}
	t->coarse_ssd = bdev_logical_block_size(bdevs[1]) >
			bdev_logical_block_size(bdevs[0]);
	if (t->coarse_ssd && t->args.mode == TD_WRITEBACK) {
		ti->error = "Write-back needs an SSD with blocks no larger than the disk's";
		return -EMEDIUMTYPE;
	}
	t->stable_ssd = bdev_stable_writes(bdevs[1]);
	/*
	 * A device that frees in such large units is most likely a thin volume. It would give
	 * space away that the cache needs later.
	 */
	tandem_trim_init(&t->trim, bdev_max_discard_sectors(bdevs[1]) &&
			 bdev_discard_granularity(bdevs[1]) < SZ_64K);
	if (bdev_read_only(t->ssd->bdev)) {
		ti->error = "SSD is read-only";
		return -EROFS;
	}
	if (bdev_nr_sectors(t->origin->bdev) < ti->len) {
		ti->error = "Device is too short for the table";
		return r;
	}
	return 0;
}

static int construct_target(struct dm_target *ti, struct tandem *t, unsigned int argc,
			    char **argv)
{
	int r;

	ti->error = "Invalid number of arguments";
	if (argc < 4)
		return -EINVAL;
	if (ti->begin) {
		ti->error = "Start must be 0";
		return -EINVAL;
	}
	/* Reads are stored on the SSD, so also a device that is only read writes. */
	if (!(dm_table_get_mode(ti->table) & TANDEM_OPEN_WRITE)) {
		ti->error = "A read-only table is not supported";
		return -EROFS;
	}
	r = tandem_parse_args(argc - 2, argv + 2, &t->args, &ti->error);
	if (r)
		return r;
	t->args.identity.origin_sectors = ti->len;
	r = get_devices(ti, t, argv);
	if (r)
		return r;
	r = tandem_register(t, &ti->error);
	if (r)
		return r;
	r = tandem_super_load(t, bdev_nr_sectors(t->ssd->bdev), &ti->error);
	t->resizes = t->args.ssd_sectors;
	if (!r && t->resizes)
		r = tandem_super_check_size(t, &ti->error);
	if (r)
		return r;
	ti->error = "Out of memory";
	/* A reload takes over the engine of the table before, most likely. */
	if (!tandem_reloads(t)) {
		r = tandem_engine_alloc(t);
		if (r)
			return r;
	}
	r = tandem_cleaner_alloc(t);
	if (r)
		return r;
	r = tandem_identity_alloc(t);
	if (r)
		return r;
	r = tandem_look_alloc(t);
	if (r)
		return r;
	r = tandem_freeze_alloc(t);
	if (r)
		return r;
	r = tandem_submit_alloc(t);
	if (r)
		return r;
	t->wq = alloc_workqueue("tandem", WQ_MEM_RECLAIM | WQ_HIGHPRI |
				TANDEM_WQ_PERCPU, 0);
	if (!t->wq)
		return -ENOMEM;
	ti->error = NULL;
	return 0;
}

static void destroy_target(struct tandem *t)
{
	if (t->wq) {
		tandem_cleaner_wait(t);
		tandem_meta_halt(t);
		tandem_defer_exit(t);
		destroy_workqueue(t->wq);
	}
	if (t->disk_wq)
		destroy_workqueue(t->disk_wq);
	if (t->frozen_wq)
		destroy_workqueue(t->frozen_wq);
	if (!list_empty(&t->registered))
		tandem_unregister(t);
	tandem_cleaner_free(t);
	tandem_job_free_spares(t);
	tandem_identity_free(t);
	tandem_look_free(t);
	tandem_engine_free(t);
	tandem_meta_free(t);
	put_devices(t);
	kfree(t);
}

static int tandem_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct tandem *t = kzalloc(sizeof(*t), GFP_KERNEL);
	int r;

	if (!t) {
		ti->error = "Out of memory";
		return -ENOMEM;
	}
	t->ti = ti;
	t->md = dm_table_get_md(ti->table);
	t->suspended = true;
	atomic_set(&t->jobs, 0);
	atomic_set(&t->bulk_runs, 0);
	atomic_set(&t->merges, 0);
	atomic_set(&t->foreground, 0);
	atomic_long_set(&t->pages, 0);
	init_waitqueue_head(&t->idle);
	INIT_LIST_HEAD(&t->registered);
	tandem_super_init(t);
	tandem_defer_init(t);
	tandem_cleaner_init(t);
	tandem_look_init(t);
	tandem_freeze_init(t);
	tandem_submit_init(t);
	ti->error = "Out of memory";
	r = tandem_meta_init(t);
	if (!r)
		r = construct_target(ti, t, argc, argv);
	if (r) {
		destroy_target(t);
		return r;
	}
	ti->private = t;
	ti->num_flush_bios = 1;
	ti->flush_supported = true;
	ti->num_discard_bios = 1;
	ti->num_write_zeroes_bios = 1;
	ti->per_io_data_size = sizeof(struct tandem_io);
	return 0;
}

static void tandem_dtr(struct dm_target *ti)
{
	destroy_target(ti->private);
}

/* Bios in flight may still wait for cleanings, so urgent ones go on. */
static void tandem_presuspend(struct dm_target *ti)
{
	tandem_cleaner_allow(ti->private, TANDEM_AWAITED_PLACES);
}

static void tandem_presuspend_undo(struct dm_target *ti)
{
	tandem_cleaner_allow(ti->private, TANDEM_ALL_PLACES);
}

/*
 * No bio is in flight any more. Jobs and the ledger's I/O end here, and all that the
 * cache holds becomes durable. Dirty data stays dirty: a stop does not drain.
 */
static void tandem_postsuspend(struct dm_target *ti)
{
	struct tandem *t = ti->private;
	bool durable;

	tandem_cleaner_wait(t);
	durable = t->live && tandem_make_durable(t);
	tandem_meta_halt(t);
	durable &= td_active(&t->engine);
	/* With nothing in flight and all flushed, each place can be learned. */
	if (durable)
		tandem_look(t);
	tandem_super_stopped(t, durable);
	if (durable)
		tandem_identity_stopped(t);
	t->suspended = true;
}

/*
 * The start becomes durable before the first request: dropped copies must not come back
 * after a cut, and a half-written group of the journal must not become whole.
 */
static bool make_start_durable(struct tandem *t)
{
	bool durable;

	tandem_meta_start(t);
	durable = tandem_make_durable(t);
	tandem_meta_halt(t);
	if (durable)
		tandem_look(t);
	return durable;
}

/*
 * What is not known to be unchanged is dropped. *drop: set if clean copies must be
 * dropped.
 */
static int judge_disk(struct tandem *t, bool left, bool *drop)
{
	static const char * const why[] = {
		[TD_START_CHANGED] = "the disk was changed without it",
		[TD_START_UNPROVEN] = "nothing shows that the disk is unchanged",
		[TD_START_LEFT] = "the disk was away",
		[TD_START_TRACELESS] = "exFAT, FAT and NTFS do not show each change",
	};

	t->start = tandem_identity_judge(t, left);
	if (t->start == TD_START_DIVERGED) {
		DMERR("Disk was changed while the SSD held data for it");
		return -ESTALE;
	}
	if (t->start == TD_START_WARM)
		return 0;
	*drop = true;
	if (tandem_counter(t, TD_C_USED))
		DMINFO("%s: starts cold: %s", dm_table_device_name(t->ti->table),
		       why[t->start]);
	else
		t->start = TD_START_WARM;
	return 0;
}

/* The index of a cache that was in use, or an empty one. */
static int start_cache(struct tandem *t, bool left)
{
	struct tandem_ahead *ahead;
	bool lost, drop, durable;
	int r;

	if (t->new_super) {
		r = tandem_index_format(t);
		/* What the disk holds is not known before a flush of it; that may fail. */
		if (!r)
			make_start_durable(t);
		return r;
	}
	r = tandem_super_reread(t);
	if (r)
		return r;
	t->engine.retired = t->super.retired;
	/* Another table of this device may have made the index anew since the constructor. */
	t->engine.ledger.super.incompat = t->super.incompat;
	lost = tandem_loss_noted(t) ||
	       (t->args.lost && t->args.lost >= t->super.sequence);
	ahead = tandem_ahead_alloc(t);
	if (!ahead)
		return -ENOMEM;
	r = tandem_index_load(t, lost, ahead);
	tandem_ahead_free(ahead);
	if (r)
		return r;
	drop = t->args.cold || lost;
	/* The marks are of the smaller disk's regions, maybe of more regions than now. */
	drop |= t->grown && (t->engine.ledger.marks_set ||
			     t->engine.ledger.marks_beyond);
	/* An SSD with larger blocks could not read every dirty quarter. */
	if (t->coarse_ssd && t->engine.ledger.dirty) {
		DMERR("Dirty data needs an SSD with blocks no larger than the disk's");
		return t->load_error = -EMEDIUMTYPE;
	}
	r = judge_disk(t, left, &drop);
	if (r)
		return t->load_error = r;
	if (drop)
		tandem_index_drop(t);
	durable = make_start_durable(t);
	if (durable && lost)
		tandem_loss_forget(t);
	/* Go on past a failed SSD; but for a cold start 0 would mean that it is done. */
	if (durable || (!td_active(&t->engine) && !t->args.cold && !t->args.lost))
		return 0;
	DMERR("Cannot flush the devices");
	return t->load_error = -EIO;
}

/*
 * Drop the index that was taken over, if the table says "start cold" or the disk was
 * away meanwhile. Dirty data stays, or the disk is refused.
 */
static int drop_if_cold(struct tandem *t, bool left)
{
	bool drop = t->args.cold;
	int r = 0;

	if (left && td_active(&t->engine))
		r = judge_disk(t, left, &drop);
	if (r || !drop)
		return r;
	tandem_index_drop(t);
	if (!make_start_durable(t)) {
		DMERR("Cannot flush the devices");
		return -EIO;
	}
	return 0;
}

static int tandem_preresume(struct dm_target *ti)
{
	struct tandem *t = ti->private;
	bool fresh = t->new_super;
	struct td_list woken;
	bool left;
	u64 seq;
	int r;

	td_list_init(&woken);
	if (tandem_take_over(t)) {
		r = tandem_engine_anew(t);
		if (r) {
			DMERR("Out of memory");
			return r;
		}
	}
	seq = tandem_disk_seq(t);
	left = t->disk_seq && t->disk_seq != seq;
	r = t->live ? drop_if_cold(t, left) : start_cache(t, left);
	if (r)
		return r;
	if (td_active(&t->engine) && !fresh)
		r = tandem_identity_running(t);
	if (r && !t->live)
		return r;
	if (!r && t->live && td_active(&t->engine) && t->args.ssd_sectors &&
	    t->args.ssd_sectors != t->super.ssd_sectors)
		r = tandem_resize(t);
	/* A device that is already in use goes on, past the SSD. */
	if (r)
		tandem_ssd_failed(t, &woken);
	r = tandem_super_resume(t);
	if (r && (!t->live || t->grown))
		return r;
	if (r)
		tandem_ssd_failed(t, &woken);
	/* Without a superblock no other block may be there: nobody could format the SSD. */
	if (fresh && !r)
		r = tandem_identity_running(t);
	if (r && !t->live)
		return r;
	/* A noted loss was of another cache, before this one was formatted. */
	if (fresh && !r)
		tandem_loss_forget(t);
	t->grown = false;
	t->disk_seq = seq;
	/* As in tandem_take_over(). */
	smp_store_release(&t->live, true);
	t->args.ssd_sectors = 0;
	/* Messages come from now on. */
	smp_store_release(&t->resizes, false);
	t->args.cold = false;
	return 0;
}

static void tandem_resume(struct dm_target *ti)
{
	struct tandem *t = ti->private;

	tandem_registry_lock();
	t->suspended = false;
	WRITE_ONCE(t->disk_used, jiffies);
	t->written = jiffies;
	tandem_registry_unlock();
	tandem_meta_start(t);
	tandem_cleaner_allow(t, TANDEM_ALL_PLACES);
}

/*
 * The disk only: its block size, its limits and its features are those of the
 * cached device. What the SSD cannot serve goes to the disk.
 */
static int tandem_iterate_devices(struct dm_target *ti,
				  iterate_devices_callout_fn fn, void *data)
{
	struct tandem *t = ti->private;

	return fn(ti, t->origin, 0, ti->len, data);
}

/* Memory of a user's bio goes to either device as it is. */
static void tandem_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	struct tandem *t = ti->private;

	limits->dma_alignment = max_t(unsigned int, limits->dma_alignment,
				      bdev_dma_alignment(t->ssd->bdev));
}

static struct target_type tandem_target = {
	.name = "tandem",
	.version = {1, 4, 0},
	.module = THIS_MODULE,
	.ctr = tandem_ctr,
	.dtr = tandem_dtr,
	.map = tandem_map,
	.end_io = tandem_end_io,
	.presuspend = tandem_presuspend,
	.presuspend_undo = tandem_presuspend_undo,
	.postsuspend = tandem_postsuspend,
	.preresume = tandem_preresume,
	.resume = tandem_resume,
	.status = tandem_status,
	.message = tandem_message,
	.iterate_devices = tandem_iterate_devices,
	.io_hints = tandem_io_hints,
};

static int __init tandem_init(void)
{
	return dm_register_target(&tandem_target);
}

static void __exit tandem_exit(void)
{
	dm_unregister_target(&tandem_target);
	tandem_loss_forget_all();
}

module_init(tandem_init);
module_exit(tandem_exit);

MODULE_DESCRIPTION("SSD cache for a disk that already holds data");
MODULE_AUTHOR("The Tandem authors");
MODULE_LICENSE("GPL");
