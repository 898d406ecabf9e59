// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Another size of the SSD, at a reload of a mapped device that stays in use.
 *
 * Invariants: see core/resize.c. Until the first new superblock is written the cache can
 * stay as it is, and does so where anything is in the way. From then on nothing of the old
 * index counts, and a failure means that the SSD failed: the disk has everything.
 * Threads: preresume; the functions sleep, and no other thread uses the engine.
 * Why the index is read again: a start is known to check all that it reads.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "ahead.h"
#include "identity_io.h"
#include "resize.h"
#include "trim.h"

/* Z1; what becomes durable here is mostly nothing. */
static bool is_at_rest(struct tandem *t)
{
	bool durable;

	tandem_meta_start(t);
	durable = tandem_make_durable(t);
	tandem_meta_halt(t);
	return durable && td_may_resize(&t->engine);
}

/*
 * Make an engine of the size of t->super; @old gets the one before. 0 or -ENOMEM: all is
 * as before.
 */
static int exchange_engine(struct tandem *t, struct td_engine *old)
{
	unsigned int noio = memalloc_noio_save();
	int r;

	/* Status may be looking at it. */
	tandem_registry_lock();
	*old = t->engine;
	memset(&t->engine, 0, sizeof(t->engine));
	r = tandem_engine_alloc(t);
	if (r) {
		t->engine = *old;
		td_engine_moved(&t->engine);
	} else {
		td_resize_inherit(&t->engine, old);
	}
	tandem_registry_unlock();
	memalloc_noio_restore(noio);
	return r;
}

static int write_index(struct tandem *t, const struct td_engine *old, void *buffer)
{
	u64 sector;
	u32 step, sectors;
	int r = 0;

	for (step = 0; !r && td_resize_next(old, &t->super, &t->engine.layout, step,
					    &sector, &sectors, buffer); step++) {
		r = tandem_ssd_io(t, REQ_OP_WRITE | REQ_SYNC | REQ_META, sector,
				  buffer, sectors << SECTOR_SHIFT);
		cond_resched();
	}
	return r;
}

/* Z2: each write of a superblock flushes the SSD first. Then the new index is loaded. */
static int change_format(struct tandem *t, const struct td_engine *old, void *buffer,
			 struct tandem_ahead *ahead)
{
	u32 flags = (t->super.incompat | TD_SUPER_CLEAN) & ~TD_SUPER_COLD;
	int r;

	mutex_lock(&t->super_lock);
	t->write_super = true;
	r = tandem_super_set_flags(t, flags | TD_SUPER_COLD);
	if (!r)
		r = write_index(t, old, buffer);
	if (!r)
		r = tandem_super_set_flags(t, flags);
	mutex_unlock(&t->super_lock);
	if (r)
		return r;
	t->engine.ledger.super.incompat = t->super.incompat;
	t->loaded = false;
	return tandem_index_load(t, false, ahead);
}

int tandem_resize(struct tandem *t)
{
	unsigned int noio = memalloc_noio_save();
	struct td_engine *old = kvmalloc(sizeof(*old), GFP_KERNEL);
	struct tandem_ahead *ahead = tandem_ahead_alloc(t);
	void *buffer = vmalloc(TD_LOAD_BYTES);
	const struct td_super before = t->super;
	int r = 0;

	memalloc_noio_restore(noio);
	if (!old || !ahead || !buffer || !is_at_rest(t) ||
	    td_super_resize(&before, t->args.ssd_sectors, &t->super) ||
	    exchange_engine(t, old)) {
		DMWARN("%s: something is dirty or there is no memory: it keeps its size",
		       dm_table_device_name(t->ti->table));
		t->super = before;
		goto out;
	}
	r = change_format(t, old, buffer, ahead);
	tandem_memory_free(old);
	tandem_cleaner_inherit(t, t);
	/* Nothing is known of the part that is new. */
	td_trim_all(&t->engine);
	if (!r && !is_at_rest(t))
		r = -EIO;
	/* If the index was made anew, nothing is watched any more: no older note may count. */
	if (!r)
		r = tandem_identity_running(t);
	if (r)
		DMERR("Cannot give the cache another size: %d", r);
out:
	kvfree(old);
	vfree(buffer);
	if (ahead)
		tandem_ahead_free(ahead);
	return r;
}
