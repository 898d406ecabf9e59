// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reading and writing the superblocks of the SSD.
 *
 * Invariant: nothing is written before preresume, and then only when the table
 * said "format new" over zeroes, or one of two copies of just this cache is
 * unreadable or old and is made again from the other, or a flag changes.
 * Threads: constructor and preresume; later the thread that holds super_lock. The
 * functions sleep.
 */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "load.h"
#include "resize.h"
#include "tandem.h"

#define BUFFER_BYTES	65536u

void tandem_bio_add(struct bio *bio, void *buffer, u32 bytes)
{
	bool virtual = is_vmalloc_addr(buffer);
	u32 at, n;

	if (virtual)
		flush_kernel_vmap_range(buffer, bytes);
	for (at = 0; at < bytes; at += n) {
		void *p = buffer + at;

		n = min_t(u32, bytes - at, PAGE_SIZE - offset_in_page(p));
		__bio_add_page(bio, virtual ? vmalloc_to_page(p) :
			       virt_to_page(p), n, offset_in_page(p));
	}
}

int tandem_ssd_io(struct tandem *t, blk_opf_t opf, u64 sector, void *buffer,
		  u32 bytes)
{
	struct bio_vec vecs[TANDEM_LOAD_PAGES];
	struct bio bio;
	int r;

	bio_init(&bio, t->ssd->bdev, vecs, TANDEM_LOAD_PAGES, opf);
	bio.bi_iter.bi_sector = sector;
	tandem_bio_add(&bio, buffer, bytes);
	r = submit_bio_wait(&bio);
	bio_uninit(&bio);
	if (is_vmalloc_addr(buffer))
		invalidate_kernel_vmap_range(buffer, bytes);
	return r;
}

/* 0: the area of the superblocks is all zero; 1: it is not. */
static int area_is_used(struct tandem *t, void *buffer)
{
	u64 at;
	int r;

	for (at = 0; at < TD_SUPER_AREA; at += BUFFER_BYTES >> SECTOR_SHIFT) {
		r = tandem_ssd_io(t, REQ_OP_READ, at, buffer, BUFFER_BYTES);
		if (r)
			return r;
		if (memchr_inv(buffer, 0, BUFFER_BYTES))
			return 1;
	}
	return 0;
}

static int explain_refusal(enum td_super_error error, char **why)
{
	switch (error) {
	case TD_SUPER_OK:
		return 0;
	case TD_SUPER_BLANK:
	case TD_SUPER_FOREIGN:
		*why = "SSD has no superblock";
		return -EINVAL;
	case TD_SUPER_OVERWRITTEN:
		*why = "SSD was overwritten in part by something else";
		return -EEXIST;
	case TD_SUPER_DAMAGED:
		*why = "SSD superblock is damaged";
		return -EILSEQ;
	case TD_SUPER_VERSION:
		*why = "SSD superblock has an unknown version";
		return -EPROTONOSUPPORT;
	case TD_SUPER_FEATURE:
		*why = "SSD superblock has an unknown feature";
		return -EPROTONOSUPPORT;
	case TD_SUPER_GEOMETRY:
		*why = "SSD superblock has an impossible geometry";
		return -EILSEQ;
	case TD_SUPER_SSD_SIZE:
		*why = "SSD is smaller than its superblock says";
		return -ENOSPC;
	case TD_SUPER_OTHER_CACHE:
		*why = "SSD belongs to another cache";
		return -ENXIO;
	case TD_SUPER_OTHER_DISK:
		*why = "SSD belongs to another disk";
		return -ENXIO;
	case TD_SUPER_DISK_SIZE:
		*why = "Disk has another size than when the cache was made";
		return -ENXIO;
	case TD_SUPER_TOO_SMALL:
		*why = "SSD is too small";
		return -ENOSPC;
	case TD_SUPER_TOO_LARGE:
		*why = "Disk is larger than 1 PiB";
		return -EINVAL;
	}
	return -EINVAL;
}

/* Plan a new cache, if the SSD is empty. */
static int plan_new_super(struct tandem *t, u64 ssd_sectors, void *buffer, char **why)
{
	int r = area_is_used(t, buffer);

	if (r < 0) {
		*why = "Cannot read the SSD";
		return r;
	}
	if (r) {
		*why = "SSD is not empty";
		return -EEXIST;
	}
	t->write_super = true;
	t->new_super = true;
	r = explain_refusal(td_super_plan(&t->args.identity, ssd_sectors, &t->super),
			    why);
	/* The argument "lost" means the cache before; this one is newer. */
	t->super.sequence = t->args.lost;
	return r;
}

/* A copy that cannot be read counts as one that was never written. */
static bool read_copy(struct tandem *t, u32 copy, u8 *buffer)
{
	if (!tandem_ssd_io(t, REQ_OP_READ, TD_SUPER_OFFSET(copy) >> SECTOR_SHIFT,
			   buffer, TD_SUPER_BYTES))
		return true;
	memset(buffer, 0, TD_SUPER_BYTES);
	return false;
}

/*
 * The disk has grown under the mapped device that is being reloaded. The index
 * stays as it is, but the disk may now have regions of another size: start_cache()
 * looks at the marks that are still set. The old end of the disk must not cut a
 * quarter, since the rest of that quarter is not on the SSD. The marks of all regions
 * must fit in front of the data. If the start fails, the resume may be tried again,
 * and by then the replaced table is gone: so t->grown is kept.
 */
static bool grow_disk(struct tandem *t)
{
	struct td_identity *id = &t->args.identity;
	u64 old = t->super.origin_sectors;

	if (old >= id->origin_sectors || old % TD_QUARTER_SECTORS ||
	    id->origin_sectors >> (TD_TAG_BITS + TD_FRAME_SHIFT) ||
	    (!t->grown && !tandem_reloads(t)))
		return false;
	t->super.origin_sectors = id->origin_sectors;
	t->grown = td_super_holds(&t->super);
	if (!t->grown)
		t->super.origin_sectors = old;
	return t->grown;
}

static int load_super(struct tandem *t, u64 ssd_sectors, u8 *buffer, char **why)
{
	u8 *second = buffer + TD_SUPER_BYTES;
	enum td_super_error error;
	bool first_read, second_read;

	if (ssd_sectors <= TD_SUPER_AREA)
		return explain_refusal(TD_SUPER_TOO_SMALL, why);
	first_read = read_copy(t, 0, buffer);
	second_read = read_copy(t, 1, second);
	if (!first_read && !second_read) {
		*why = "Cannot read the SSD";
		return -EIO;
	}
	error = td_super_choose(buffer, second, &t->super);
	if (error == TD_SUPER_OK)
		error = td_super_match(&t->super, &t->args.identity,
				       ssd_sectors);
	if (error == TD_SUPER_DISK_SIZE && grow_disk(t))
		error = TD_SUPER_OK;
	if (error == TD_SUPER_OK) {
		t->super_first = td_super_first(buffer, second);
		t->write_super = t->grown || !td_super_agree(buffer, second);
		return 0;
	}
	if (t->args.format)
		return plan_new_super(t, ssd_sectors, buffer, why);
	return explain_refusal(error, why);
}

int tandem_super_load(struct tandem *t, u64 ssd_sectors, char **why)
{
	unsigned int noio = memalloc_noio_save();
	void *buffer = vmalloc(BUFFER_BYTES);
	int r;

	memalloc_noio_restore(noio);
	if (!buffer) {
		*why = "Out of memory";
		return -ENOMEM;
	}
	r = load_super(t, ssd_sectors, buffer, why);
	vfree(buffer);
	return r;
}

int tandem_super_check_size(struct tandem *t, char **why)
{
	struct td_super sb;

	if (t->new_super || !tandem_reloads(t)) {
		*why = "ssd_sectors is only for a cache that is in use";
		return -EINVAL;
	}
	if (t->args.ssd_sectors > bdev_nr_sectors(t->ssd->bdev)) {
		*why = "SSD is smaller than ssd_sectors";
		return -ENOSPC;
	}
	t->args.ssd_sectors = td_sectors_used(t->args.ssd_sectors);
	return explain_refusal(td_super_resize(&t->super, t->args.ssd_sectors, &sb), why);
}

/* Do both have the geometry, which does not change between a constructor and its resume? */
static bool is_alike(const struct td_super *a, const struct td_super *b)
{
	return a->run_shift == b->run_shift && a->way_shift == b->way_shift &&
	       a->groups == b->groups && a->made_groups == b->made_groups &&
	       a->origin_sectors == b->origin_sectors &&
	       a->ssd_sectors == b->ssd_sectors &&
	       !memcmp(&a->journal, &b->journal, sizeof(a->journal)) &&
	       !memcmp(&a->checkpoint, &b->checkpoint, sizeof(a->checkpoint)) &&
	       !memcmp(&a->intent, &b->intent, sizeof(a->intent)) &&
	       !memcmp(&a->data, &b->data, sizeof(a->data));
}

int tandem_super_reread(struct tandem *t)
{
	const struct td_super before = t->super;
	char *why = "SSD was changed since this table was loaded";
	int r;

	r = tandem_super_load(t, bdev_nr_sectors(t->ssd->bdev), &why);
	if (!r && (t->new_super || !is_alike(&t->super, &before)))
		r = -ESTALE;
	if (!r)
		return 0;
	DMERR("%s", why);
	t->super = before;
	t->new_super = false;
	return r;
}

/*
 * The next generation, with the retired slots of now; *before: those of the last one.
 * False: the SSD has failed. A reader of status may have seen the generation together
 * with "bypass", and keeps it for the argument "lost". So the SSD must not get a
 * higher generation.
 */
static bool next_generation(struct tandem *t, struct td_retired *before)
{
	unsigned long flags;
	bool usable;

	spin_lock_irqsave(&t->lock, flags);
	usable = !t->live || td_active(&t->engine);
	*before = t->super.retired;
	if (usable && t->engine.words)
		t->super.retired = t->engine.retired;
	t->super.sequence += usable;
	spin_unlock_irqrestore(&t->lock, flags);
	return usable;
}

int tandem_super_write(struct tandem *t)
{
	void *buffer = kmalloc(TD_SUPER_BYTES, GFP_NOIO);
	struct td_retired before;
	u32 i;
	int r = 0;

	if (!buffer)
		return -ENOMEM;
	if (!next_generation(t, &before)) {
		kfree(buffer);
		return -ENODEV;
	}
	for (i = 0; i < TD_SUPER_COPIES && !r; i++) {
		u32 copy = t->super_first ^ i;

		td_super_encode(&t->super, copy, buffer);
		r = tandem_ssd_io(t, REQ_OP_WRITE | REQ_SYNC | REQ_PREFLUSH |
				  REQ_FUA, TD_SUPER_OFFSET(copy) >> SECTOR_SHIFT,
				  buffer, TD_SUPER_BYTES);
		/* The next write begins with this copy, before the sound one. */
		if (r)
			t->super_first = copy;
	}
	kfree(buffer);
	if (r) {
		DMERR("Cannot write the superblock: %d", r);
		/* The retired slots are to be written later (tandem_retired_changed()). */
		t->super.retired = before;
	} else {
		t->write_super = t->new_super = false;
	}
	return r;
}

int tandem_super_set_flags(struct tandem *t, u32 flags)
{
	u32 old = t->super.incompat;
	int r = 0;

	t->super.incompat = flags;
	if (flags != old || t->write_super)
		r = tandem_super_write(t);
	/* One copy may still have the old flags, so they count too. */
	if (r)
		t->super.incompat |= old;
	return r;
}

int tandem_super_resume(struct tandem *t)
{
	u32 flags = t->super.incompat & ~TD_SUPER_COLD;
	bool needed = t->new_super || t->grown;
	int r;

	mutex_lock(&t->super_lock);
	if (t->args.mode == TD_WRITEBACK && td_active(&t->engine)) {
		/* A copy that cannot be read now may have CLEAN. */
		needed |= t->write_super || flags & TD_SUPER_CLEAN;
		flags &= ~TD_SUPER_CLEAN;
	}
	r = tandem_super_set_flags(t, flags);
	t->owns_super = true;
	mutex_unlock(&t->super_lock);
	/* If not needed, one sound copy is enough; a later write makes the other. */
	return needed ? r : 0;
}

int tandem_super_allow_dirty(struct tandem *t)
{
	int r;

	if (!t->owns_super || !td_active(&t->engine))
		return 0;
	r = tandem_super_set_flags(t, t->super.incompat &
				   ~(TD_SUPER_CLEAN | TD_SUPER_COLD));
	/* The SSD has just failed, so nothing becomes dirty. */
	return r == -ENODEV ? 0 : r;
}

void tandem_super_stopped(struct tandem *t, bool durable)
{
	mutex_lock(&t->super_lock);
	t->owns_super = false;
	if (durable && t->args.mode != TD_WRITEBACK && !t->engine.ledger.dirty &&
	    !(t->super.incompat & TD_SUPER_CLEAN))
		tandem_super_set_flags(t, t->super.incompat | TD_SUPER_CLEAN);
	if (durable && tandem_retired_changed(t))
		tandem_super_write(t);
	mutex_unlock(&t->super_lock);
}

static void retired_work(struct work_struct *work)
{
	struct tandem *t = container_of(work, struct tandem, retired);
	unsigned long flags;
	bool changed;

	mutex_lock(&t->super_lock);
	spin_lock_irqsave(&t->lock, flags);
	/* If not owns_super: the stop writes them, or another table has the engine. */
	changed = t->owns_super && tandem_retired_changed(t);
	spin_unlock_irqrestore(&t->lock, flags);
	/*
	 * After an error the next retired slot tries again, or the stop. The SSD does
	 * not count as failed: at worst such a slot is filled again after a crash.
	 */
	if (changed)
		tandem_super_write(t);
	mutex_unlock(&t->super_lock);
}

void tandem_super_init(struct tandem *t)
{
	mutex_init(&t->super_lock);
	INIT_WORK(&t->retired, retired_work);
}
