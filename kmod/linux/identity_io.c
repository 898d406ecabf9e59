// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reading samples of the raw disk, at a stop and before the first request, and
 * keeping them on the SSD.
 *
 * Invariant: while requests are served, no sound copy on the SSD says STOPPED.
 * Threads: preresume and postsuspend; they sleep.
 * Why at each suspend: device-mapper does not say whether a removal, or another
 * target over the same disk, comes next.
 */
#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "identity_io.h"
#include "index.h"
#include "job.h"
#include "policy.h"

#define QUARTER_BYTES	(TD_QUARTER_SECTORS << SECTOR_SHIFT)
#define LOOKS		256u	/* slots, with interrupts off */
#define LOOKS_AT_STOP	65536u

/* One read of the disk for each sample. */
struct tandem_probe {
	struct completion done;
	atomic_t left;
	struct bio *bios;	/* TD_PROBES_MAX of them */
	struct bio_vec vecs[TD_PROBES_MAX];
};

int tandem_identity_alloc(struct tandem *t)
{
	t->samples = kzalloc(sizeof(*t->samples), GFP_KERNEL);
	t->samples_buffer = kmalloc(TD_SUPER_COPIES * TD_SAMPLES_BYTES,
				    GFP_KERNEL);
	t->probe = kzalloc(sizeof(*t->probe), GFP_KERNEL);
	if (!t->samples || !t->samples_buffer || !t->probe)
		return -ENOMEM;
	init_completion(&t->probe->done);
	t->probe->bios = kvcalloc(TD_PROBES_MAX, sizeof(struct bio),
				  GFP_KERNEL);
	return t->probe->bios ? 0 : -ENOMEM;
}

void tandem_identity_free(struct tandem *t)
{
	kfree(t->samples);
	kfree(t->samples_buffer);
	if (t->probe)
		kvfree(t->probe->bios);
	kfree(t->probe);
}

/* Sample @i is read into the memory of a cleaning job; no job is in flight. */
static struct bio_vec sample_memory(const struct tandem *t, u32 i)
{
	const u32 of_a_job = TANDEM_CLEAN_BYTES / QUARTER_BYTES;
	const struct tandem_job *job = t->cleaner.jobs[i / of_a_job];
	u32 at = i % of_a_job * QUARTER_BYTES;
	struct bio_vec bv;

	BUILD_BUG_ON(of_a_job * TANDEM_CLEANS < TD_PROBES_MAX);
	bvec_set_page(&bv, job->pages[at >> PAGE_SHIFT].bv_page, QUARTER_BYTES,
		      offset_in_page(at));
	return bv;
}

static void read_endio(struct bio *bio)
{
	struct tandem_probe *p = bio->bi_private;

	if (atomic_dec_and_test(&p->left))
		complete(&p->done);
}

/*
 * Submit all reads of @p at once: the disk chooses their order, and if several reads hang
 * they cost one time-out, not one each. Returns how many.
 */
static u32 read_places(struct tandem *t, struct td_probe p, blk_opf_t opf)
{
	struct tandem_probe *reads = t->probe;
	struct blk_plug plug;
	u64 sector;
	u32 i;

	reinit_completion(&reads->done);
	atomic_set(&reads->left, 1);
	blk_start_plug(&plug);
	for (i = 0; td_probe_next(&p, &sector); i++, p.at++) {
		struct bio_vec bv = sample_memory(t, i);
		struct bio *bio = &reads->bios[i];

		bio_init(bio, t->origin->bdev, &reads->vecs[i], 1, opf);
		__bio_add_page(bio, bv.bv_page, bv.bv_len, bv.bv_offset);
		bio->bi_iter.bi_sector = sector;
		bio->bi_private = reads;
		bio->bi_end_io = read_endio;
		atomic_inc(&reads->left);
		submit_bio(bio);
	}
	blk_finish_plug(&plug);
	if (!atomic_dec_and_test(&reads->left))
		wait_for_completion_io(&reads->done);
	return i;
}

/* Fill in checksums, or compare them. */
static enum td_verdict_of_disk probe_disk(struct tandem *t, bool compares,
					  struct td_probe *p)
{
	u32 i, count;

	td_probe_begin(p, t->samples, compares);
	/* At a stop a quarter that is not read at once is left out: no retries. */
	count = read_places(t, *p, REQ_OP_READ | REQ_META |
			    (compares ? 0 : REQ_FAILFAST_DEV));
	for (i = 0; i < count; i++) {
		struct bio_vec bv = sample_memory(t, i);

		td_probe_feed(p, t->probe->bios[i].bi_status ? NULL :
			      bvec_virt(&bv));
		bio_uninit(&t->probe->bios[i]);
	}
	return td_probe_end(p);
}

static void read_notes(struct tandem *t)
{
	u8 *copies[TD_SUPER_COPIES];
	u32 copy;

	for (copy = 0; copy < TD_SUPER_COPIES; copy++) {
		u8 *to = t->samples_buffer + copy * TD_SAMPLES_BYTES;
		int r = tandem_ssd_io(t, REQ_OP_READ | REQ_META,
				      TD_SAMPLES_OFFSET(copy) >> SECTOR_SHIFT,
				      to, TD_SAMPLES_BYTES);

		copies[copy] = r ? NULL : to;
	}
	td_samples_choose(copies[0], copies[1], &t->super, t->samples);
}

/* The disk should be as its clean copies on the SSD; a copy that cannot be read is none. */
static void know_copies(struct tandem *t)
{
	struct td_samples *s = t->samples;
	u64 sector;
	u32 i;

	for (i = 0; i < s->count; i++)
		if (td_index_clean_copy(&t->engine, s->sample[i].quarter, &sector) &&
		    !tandem_ssd_io(t, REQ_OP_READ | REQ_META, sector,
				   t->samples_buffer, QUARTER_BYTES))
			td_sample_know(s, i, t->samples_buffer);
}

enum td_start tandem_identity_judge(struct tandem *t, bool left)
{
	struct td_probe p;
	struct td_past past = {
		.left = left,
		.dirty = t->engine.ledger.dirty,
	};

	read_notes(t);
	past.stopped = t->samples->stopped;
	if (!t->live)
		td_heat_resume(&t->engine.heat, &t->engine.read_heat,
			       t->samples);
	td_samples_at_start(t->samples, t->super.origin_sectors);
	if (!past.stopped)
		know_copies(t);
	past.verdict = probe_disk(t, true, &p);
	past.proven = p.proven;
	past.recognized = p.recognized;
	past.traceless = p.traceless;
	td_watch_resume(&t->engine, t->samples,
			past.proven && past.verdict == TD_DISK_SAME);
	return td_start_judge(&past);
}

/* No note is under way. The copy that is older is written first (core/watch.c, N2). */
static int write_copies(struct tandem *t)
{
	struct td_samples *s = t->samples;
	u32 i;
	int r = 0;

	s->sequence = ++t->engine.watch.begun;
	t->engine.watch.done = s->sequence;
	td_watch_fill(&t->engine, s);
	for (i = 0; i < TD_SUPER_COPIES && !r; i++) {
		u32 copy = (s->sequence + i) % TD_SUPER_COPIES;

		td_samples_encode(s, t->super.uuid, copy, t->samples_buffer);
		r = tandem_ssd_io(t, REQ_OP_WRITE | REQ_SYNC | REQ_META |
				  REQ_PREFLUSH | REQ_FUA,
				  TD_SAMPLES_OFFSET(copy) >> SECTOR_SHIFT,
				  t->samples_buffer, TD_SAMPLES_BYTES);
	}
	if (r)
		DMERR("Cannot write samples of the disk: %d", r);
	else
		t->engine.watch.sure = s->sure;
	return r;
}

static void pick_samples(struct tandem *t)
{
	unsigned long flags = tandem_lock(t);

	td_samples_pick(&t->engine.heat, &t->engine.read_heat,
			t->super.origin_sectors, t->samples);
	tandem_unlock(t, flags);
}

int tandem_identity_running(struct tandem *t)
{
	t->samples->stopped = false;
	pick_samples(t);
	return write_copies(t);
}

/* Copies that were read since the last tick. */
static void look_for_heat(struct tandem *t)
{
	u32 left;

	for (left = min(t->engine.layout.slots, LOOKS_AT_STOP); left;
	     left -= min(left, LOOKS)) {
		unsigned long flags = tandem_lock(t);

		td_heat_look(&t->engine, min(left, LOOKS));
		tandem_unlock(t, flags);
		cond_resched();
	}
}

void tandem_identity_stopped(struct tandem *t)
{
	struct td_probe p;

	look_for_heat(t);
	pick_samples(t);
	if (probe_disk(t, false, &p) != TD_DISK_SAME || !t->samples->count)
		return;
	/* Another medium is in the drive: the samples are not of this cache's disk. */
	if (tandem_disk_seq(t) != t->disk_seq)
		return;
	t->samples->stopped = true;
	write_copies(t);
}
