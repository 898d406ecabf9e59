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

#include "index.h"
#include "job.h"

#define QUARTER_BYTES	(TD_QUARTER_SECTORS << SECTOR_SHIFT)

/* One read of the disk for each sample. */
struct tandem_probe {
	struct completion done;
	atomic_t left;
	struct bio *bios;	/* TD_SAMPLES_MAX of them */
	struct bio_vec vecs[TD_SAMPLES_MAX];
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
	t->probe->bios = kvcalloc(TD_SAMPLES_MAX, sizeof(struct bio),
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

	BUILD_BUG_ON(of_a_job * TANDEM_CLEANS < TD_SAMPLES_MAX);
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
 * Submit all reads at once: the disk chooses their order, and if several reads hang
 * they cost one time-out, not one each.
 */
static void read_samples(struct tandem *t, blk_opf_t opf)
{
	const struct td_samples *s = t->samples;
	struct tandem_probe *p = t->probe;
	struct blk_plug plug;
	u32 i;

	if (!s->count)
		return;
	reinit_completion(&p->done);
	atomic_set(&p->left, s->count);
	blk_start_plug(&plug);
	for (i = 0; i < s->count; i++) {
		struct bio_vec bv = sample_memory(t, i);
		struct bio *bio = &p->bios[i];

		bio_init(bio, t->origin->bdev, &p->vecs[i], 1, opf);
		__bio_add_page(bio, bv.bv_page, bv.bv_len, bv.bv_offset);
		bio->bi_iter.bi_sector = s->sample[i].quarter << TD_QUARTER_SHIFT;
		bio->bi_private = p;
		bio->bi_end_io = read_endio;
		submit_bio(bio);
	}
	blk_finish_plug(&plug);
	wait_for_completion_io(&p->done);
}

/* Fill in checksums, or compare them. */
static enum td_verdict_of_disk probe_disk(struct tandem *t, bool compares,
					  bool *traceless)
{
	struct td_probe p;
	enum td_verdict_of_disk verdict;
	u64 sector;
	u32 i;

	/* At a stop a quarter that is not read at once is left out: no retries. */
	read_samples(t, REQ_OP_READ | REQ_META |
		     (compares ? 0 : REQ_FAILFAST_DEV));
	td_probe_begin(&p, t->samples, compares);
	for (i = 0; td_probe_next(&p, &sector); i++) {
		struct bio_vec bv = sample_memory(t, i);

		td_probe_feed(&p, t->probe->bios[i].bi_status ? NULL :
			      bvec_virt(&bv));
		bio_uninit(&t->probe->bios[i]);
	}
	verdict = td_probe_end(&p);
	*traceless = p.traceless;
	return verdict;
}

static void read_notes(struct tandem *t)
{
	u8 *copies = t->samples_buffer;
	u32 copy;

	for (copy = 0; copy < TD_SUPER_COPIES; copy++) {
		u8 *to = copies + copy * TD_SAMPLES_BYTES;

		/* A copy that cannot be read is not sound. */
		if (tandem_ssd_io(t, REQ_OP_READ | REQ_META,
				  TD_SAMPLES_OFFSET(copy) >> SECTOR_SHIFT, to,
				  TD_SAMPLES_BYTES))
			memset(to, 0, TD_SAMPLES_BYTES);
	}
	td_samples_choose(copies, copies + TD_SAMPLES_BYTES, &t->super,
			  t->samples);
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
			td_sample_know(&s->sample[i], t->samples_buffer);
}

enum td_start tandem_identity_judge(struct tandem *t, bool left)
{
	/* A life that ended with CLEAN was not in write-back. */
	struct td_past past = {
		.left = left,
		.dirty = t->engine.ledger.dirty,
		.writes_back = t->args.mode == TD_WRITEBACK &&
			       !(t->super.incompat & TD_SUPER_CLEAN),
	};

	read_notes(t);
	past.stopped = t->samples->stopped;
	td_samples_at_start(t->samples, t->super.origin_sectors);
	if (!past.stopped)
		know_copies(t);
	past.verdict = probe_disk(t, true, &past.traceless);
	return td_start_judge(&past);
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
	bool traceless;

	td_samples_pick(&t->engine.heat, t->super.origin_sectors, t->samples);
	tandem_unlock(t, flags);
	if (probe_disk(t, false, &traceless) != TD_DISK_SAME || !t->samples->count)
		return;
	/* Another medium is in the drive: the samples are not of this cache's disk. */
	if (tandem_disk_seq(t) != t->disk_seq)
		return;
	t->samples->stopped = true;
	write_copies(t);
}
