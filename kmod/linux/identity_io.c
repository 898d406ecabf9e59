// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reading samples of the raw disk, at a stop and before the first request, and
 * keeping them on the SSD.
 *
 * Invariant: while requests are served, no sound copy on the SSD says STOPPED.
 * Threads: preresume and postsuspend; they sleep.
 * Why at each suspend: nobody tells whether a removal, or another target over the
 * same disk, comes next.
 */
#include <linux/slab.h>

#include "tandem.h"

int tandem_identity_alloc(struct tandem *t)
{
	t->samples = kzalloc(sizeof(*t->samples), GFP_KERNEL);
	t->samples_buffer = kmalloc(TD_SUPER_COPIES * TD_SAMPLES_BYTES,
				    GFP_KERNEL);
	return t->samples && t->samples_buffer ? 0 : -ENOMEM;
}

void tandem_identity_free(struct tandem *t)
{
	kfree(t->samples);
	kfree(t->samples_buffer);
}

/* Fill in checksums, or compare them. */
static enum td_verdict_of_disk probe(struct tandem *t, bool compares)
{
	struct td_probe p;
	u64 sector;

	td_probe_begin(&p, t->samples, compares);
	while (td_probe_next(&p, &sector)) {
		int r = tandem_disk_read(t, sector, t->samples_buffer,
					 TD_QUARTER_SECTORS << SECTOR_SHIFT);

		td_probe_feed(&p, r ? NULL : t->samples_buffer);
		cond_resched();
	}
	return td_probe_end(&p);
}

enum td_verdict_of_disk tandem_identity_check(struct tandem *t)
{
	u8 *copies = t->samples_buffer;
	u32 copy;

	for (copy = 0; copy < TD_SUPER_COPIES; copy++) {
		u8 *to = copies + copy * TD_SAMPLES_BYTES;

		/* One that cannot be read is not sound. */
		if (tandem_ssd_io(t, REQ_OP_READ | REQ_META,
				  TD_SAMPLES_OFFSET(copy) >> SECTOR_SHIFT, to,
				  TD_SAMPLES_BYTES))
			memset(to, 0, TD_SAMPLES_BYTES);
	}
	td_samples_choose(copies, copies + TD_SAMPLES_BYTES, &t->super,
			  t->samples);
	return t->samples->stopped ? probe(t, true) : TD_DISK_UNKNOWN;
}

static int write_copies(struct tandem *t)
{
	u32 copy;
	int r = 0;

	t->samples->sequence++;
	for (copy = 0; copy < TD_SUPER_COPIES && !r; copy++) {
		td_samples_encode(t->samples, t->super.uuid, copy,
				  t->samples_buffer);
		r = tandem_ssd_io(t, REQ_OP_WRITE | REQ_SYNC | REQ_META |
				  REQ_PREFLUSH | REQ_FUA,
				  TD_SAMPLES_OFFSET(copy) >> SECTOR_SHIFT,
				  t->samples_buffer, TD_SAMPLES_BYTES);
	}
	if (r)
		DMERR("Cannot write samples of the disk: %d", r);
	return r;
}

int tandem_identity_running(struct tandem *t)
{
	t->samples->stopped = false;
	t->samples->count = 0;
	return write_copies(t);
}

void tandem_identity_stopped(struct tandem *t)
{
	unsigned long flags = tandem_lock(t);

	td_samples_pick(&t->engine.heat, t->super.origin_sectors, t->samples);
	tandem_unlock(t, flags);
	if (probe(t, false) != TD_DISK_SAME)
		return;
	t->samples->stopped = true;
	write_copies(t);
}
