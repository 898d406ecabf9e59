// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reading the index from the SSD before the first request, and writing an empty
 * one for a new cache.
 *
 * Invariant: data that a crashed kernel left in the SSD's volatile cache is made
 * durable before the index is believed. An index that is damaged is never guessed:
 * it is refused if it may hold dirty data, else it is made anew, and until that is
 * done the superblock says so (TD_SUPER_COLD).
 * Threads: preresume; the functions sleep, and no other thread uses the engine.
 */
#include <linux/blkdev.h>
#include <linux/sched/mm.h>
#include <linux/vmalloc.h>

#include "ahead.h"

int tandem_index_format(struct tandem *t)
{
	unsigned int noio = memalloc_noio_save();
	void *buffer = vmalloc(TD_LOAD_BYTES);
	u64 sector;
	u32 step, sectors;
	int r = buffer ? 0 : -ENOMEM;

	memalloc_noio_restore(noio);
	for (step = 0; !r && td_format_next(&t->super, step, &sector, &sectors,
					    buffer); step++)
		r = tandem_ssd_io(t, REQ_OP_WRITE | REQ_SYNC | REQ_META, sector,
				  buffer, sectors << SECTOR_SHIFT);
	if (!r)
		r = blkdev_issue_flush(t->ssd->bdev);
	vfree(buffer);
	if (r)
		DMERR("Cannot write the index: %d", r);
	return r;
}

static int read_index(struct tandem *t, struct tandem_ahead *ahead)
{
	struct td_load load;
	u64 sector;
	u32 sectors;

	if (t->super.incompat & TD_SUPER_COLD) {
		DMERR("SSD index is damaged: it was being made anew");
		return -EILSEQ;
	}
	td_load_begin(&load, &t->engine);
	while (td_load_next(&load, &sector, &sectors)) {
		void *part = NULL;

		if (sectors)
			part = tandem_ahead_read(ahead, sector, sectors,
						 td_load_until(&load));
		td_load_feed(&load, part);
		cond_resched();
	}
	switch (td_load_end(&load)) {
	case TD_LOAD_OK:
		return 0;
	case TD_LOAD_DAMAGED:
		DMERR("SSD index is damaged");
		break;
	case TD_LOAD_IMPOSSIBLE:
		DMERR("SSD index is impossible");
		break;
	}
	return -EILSEQ;
}

/*
 * If a cut stops this function, the rest of the old index must not be believed; so
 * the superblock first says that the index must not be read. The new index also
 * gets a generation above args.lost: the argument "lost" means the one before.
 */
static int index_start_anew(struct tandem *t)
{
	/* Notes are about the disk: the numbers go on. */
	u64 note = t->engine.watch.begun;
	int r;

	DMWARN("%s: nothing on the SSD is dirty, so its index is made anew",
	       dm_table_device_name(t->ti->table));
	t->super.sequence = max(t->super.sequence, t->args.lost);
	t->write_super = true;
	r = tandem_super_set_flags(t, TD_SUPER_CLEAN | TD_SUPER_COLD | TD_SUPER_PARTS |
				   (t->super.incompat & TD_SUPER_RESIZED));
	if (!r)
		r = tandem_engine_anew(t);
	t->engine.watch.begun = note;
	t->engine.watch.done = note;
	if (!r)
		r = tandem_index_format(t);
	return r;
}

int tandem_index_load(struct tandem *t, bool lost, struct tandem_ahead *ahead)
{
	bool clean = t->super.incompat & TD_SUPER_CLEAN;
	int r;

	/* The engine cannot be fed twice; no request was served since. */
	if (t->loaded)
		return t->load_error;
	r = blkdev_issue_flush(t->ssd->bdev);
	if (r) {
		DMERR("Cannot flush the SSD: %d", r);
		return r;
	}
	r = read_index(t, ahead);
	/*
	 * In bypass all answered writes were on the disk. Quarters that the SSD
	 * records as dirty were recorded while they were written; the disk is newer.
	 */
	if (lost && (!r || r == -EILSEQ))
		r = index_start_anew(t);
	/*
	 * CLEAN says that nothing is dirty. If the index says otherwise, its last
	 * group is lost, which recorded the end of a drain.
	 */
	else if (r == -EILSEQ ? clean : !r && clean && t->engine.ledger.dirty)
		r = index_start_anew(t);
	t->loaded = true;
	t->load_error = r;
	return r;
}

void tandem_index_drop(struct tandem *t)
{
	struct td_list woken;
	unsigned long flags;
	u32 group;

	td_list_init(&woken);
	mutex_lock(&t->drop_lock);
	/* The marks of a smaller disk may be cleared before a checkpoint takes effect. */
	flags = tandem_lock(t);
	if (!t->grown)
		td_sweep_at_once_begin(&t->engine, tandem_counter(t, TD_C_USED));
	tandem_unlock(t, flags);
	for (group = 0; group < t->engine.layout.groups; group++) {
		flags = tandem_lock(t);
		td_forget_group(&t->engine, group);
		tandem_unlock(t, flags);
		cond_resched();
	}
	flags = tandem_lock(t);
	td_sweep_at_once_end(&t->engine);
	tandem_unlock(t, flags);
	mutex_unlock(&t->drop_lock);
	tandem_carry_on(t, &woken);
}
