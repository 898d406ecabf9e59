// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests with private memory: fills, and writes that are copied once.
 *
 * A job holds the pages, core's request, and one bio for each device, so that
 * nothing has to be allocated after it began. Its extents on the SSD are
 * written one after another by the one bio.
 *
 * Invariants:
 *   J1  What goes to the SSD, and a write's data for the disk, comes from the
 *       job's pages: the user may change his buffer at any time.
 *   J2  References: core's, from td_begin() until END; that of the thread that
 *       starts it; one for each bio in flight and for a drain, until its work
 *       is done. So a work item is never freed while it is queued.
 *   J3  The last reference goes in process context, so that the destructor, which
 *       waits for the workqueue, outlives it.
 * Threads: new and start in map or a worker; bios complete in any context and
 * only queue their work. The works of one job may run at the same time.
 * Why no reserve of memory: without memory a request goes past the cache, which
 * is always right in these modes. So no one ever waits for a page here.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "tandem.h"

/* Private pages of one target; beyond, requests go past the cache. */
#define PAGES_MAX	((64u << 20) >> PAGE_SHIFT)

/* Never wait, never complain, and leave the reserves to those who reclaim. */
#define GFP_JOB		(GFP_NOWAIT | __GFP_NOWARN | __GFP_NOMEMALLOC)

struct tandem_job {
	struct td_req req;
	struct tandem *t;
	struct bio *bio;	/* the user's, until it is answered */
	u64 memory_sector;	/* of the first byte of the pages */
	u32 nr_pages;
	u32 cursor;		/* of td_next_extent() */
	refcount_t refs;
	struct work_struct disk_work;		/* disk_bio completed */
	struct work_struct ssd_work;		/* ssd_bio completed */
	struct work_struct drained_work;	/* the slots' last pin is gone */
	struct bio disk_bio;
	struct bio ssd_bio;
	struct bio_vec pages[];	/* each a whole page; then the parts */
};

static void disk_work(struct work_struct *work);
static void ssd_work(struct work_struct *work);
static void drained_work(struct work_struct *work);

static struct tandem_job *job_of(struct td_req *r)
{
	return container_of(r, struct tandem_job, req);
}

struct td_req *tandem_job_req(struct tandem_job *job)
{
	return &job->req;
}

void tandem_job_free(struct tandem_job *job)
{
	struct tandem *t = job->t;
	u32 i;

	for (i = 0; i < job->nr_pages; i++)
		__free_page(job->pages[i].bv_page);
	atomic_long_sub(job->nr_pages, &t->pages);
	kfree(job);
	if (atomic_dec_and_test(&t->jobs))
		wake_up(&t->idle);
}

static void job_put(struct tandem_job *job)
{
	if (refcount_dec_and_test(&job->refs))
		tandem_job_free(job);
}

/* Copy between the user's range of the pages and the user's bio. */
static void copy_data(struct tandem_job *job, bool to_user)
{
	size_t at = (job->req.sector - job->memory_sector) << SECTOR_SHIFT;
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_segment(bv, job->bio, iter) {
		char *user = bvec_kmap_local(&bv);
		unsigned int done = 0;

		while (done < bv.bv_len) {
			struct page *page = job->pages[at >> PAGE_SHIFT].bv_page;
			char *own = page_address(page) + offset_in_page(at);
			unsigned int n = min_t(unsigned int, bv.bv_len - done,
					       PAGE_SIZE - offset_in_page(at));

			if (to_user)
				memcpy(user + done, own, n);
			else
				memcpy(own, user + done, n);
			done += n;
			at += n;
		}
		kunmap_local(user);
		if (to_user)
			flush_dcache_page(bv.bv_page);
	}
}

struct tandem_job *tandem_job_new(struct tandem *t, struct bio *bio,
				  enum td_kind kind, u64 sector, u32 count)
{
	struct td_span span = td_span_of(&t->engine, kind, sector, count);
	u32 pages = DIV_ROUND_UP(span.quarters << (TD_QUARTER_SHIFT + SECTOR_SHIFT),
				 PAGE_SIZE);
	struct tandem_job *job;

	if (atomic_long_add_return(pages, &t->pages) > PAGES_MAX)
		goto none;
	job = kmalloc(struct_size(job, pages, pages) +
		      span.frames * sizeof(struct td_part), GFP_JOB);
	if (!job)
		goto none;
	for (job->nr_pages = 0; job->nr_pages < pages; job->nr_pages++) {
		struct page *page = alloc_page(GFP_JOB);

		if (!page)
			goto none_job;
		bvec_set_page(&job->pages[job->nr_pages], page, PAGE_SIZE, 0);
	}
	atomic_inc(&t->jobs);
	job->t = t;
	job->bio = bio;
	job->memory_sector = span.sector;
	job->cursor = 0;
	refcount_set(&job->refs, 2);
	INIT_WORK(&job->disk_work, disk_work);
	INIT_WORK(&job->ssd_work, ssd_work);
	INIT_WORK(&job->drained_work, drained_work);
	td_req_init(&job->req, kind, sector, count,
		    (struct td_part *)&job->pages[pages], span.frames);
	if (kind == TD_WRITE)
		copy_data(job, false);
	return job;

none_job:
	while (job->nr_pages--)
		__free_page(job->pages[job->nr_pages].bv_page);
	kfree(job);
none:
	atomic_long_sub(pages, &t->pages);
	return NULL;
}

static void disk_endio(struct bio *bio)
{
	struct tandem_job *job = bio->bi_private;

	queue_work(job->t->wq, &job->disk_work);
}

static void ssd_endio(struct bio *bio)
{
	struct tandem_job *job = bio->bi_private;

	queue_work(job->t->wq, &job->ssd_work);
}

/*
 * Point @bio at the pages of @count sectors from @sector of the disk on, and
 * take the reference that its work will drop.
 */
static void aim(struct tandem_job *job, struct bio *bio,
		struct block_device *bdev, blk_opf_t opf, u64 sector, u32 count)
{
	u32 from = (u32)(sector - job->memory_sector) << SECTOR_SHIFT;
	u32 bytes = count << SECTOR_SHIFT;
	u32 first = from >> PAGE_SHIFT;
	u32 pages = ((from + bytes - 1) >> PAGE_SHIFT) - first + 1;

	bio_init(bio, bdev, job->pages + first, pages, opf);
	bio->bi_vcnt = pages;
	bio->bi_iter.bi_size = pages << PAGE_SHIFT;
	bio_advance(bio, offset_in_page(from));
	bio->bi_iter.bi_size = bytes;
	bio->bi_private = job;
	refcount_inc(&job->refs);
}

static void start_disk(struct tandem_job *job)
{
	const blk_opf_t inherit = REQ_OP_MASK | REQ_SYNC | REQ_META | REQ_PRIO |
				  REQ_FUA | REQ_IDLE | REQ_BACKGROUND |
				  REQ_SWAP;
	struct bio *bio = &job->disk_bio;

	aim(job, bio, job->t->origin->bdev, job->bio->bi_opf & inherit,
	    job->req.span_sector, job->req.span_count);
	bio->bi_iter.bi_sector = job->req.span_sector;
	bio->bi_ioprio = job->bio->bi_ioprio;
	bio->bi_end_io = disk_endio;
	/* What was not asked for is not worth the disk's long retries. */
	if (job->req.span_count > job->req.count)
		bio->bi_opf |= REQ_FAILFAST_DEV;
	dm_submit_bio_remap(job->bio, bio);
}

/* Write the next extent; false if there was none left. */
static bool start_ssd(struct tandem_job *job)
{
	struct bio *bio = &job->ssd_bio;
	struct td_extent x;

	if (!td_next_extent(&job->t->engine, &job->req, &job->cursor, &x))
		return false;
	/* Marked as direct I/O is, so that nobody throttles the worker. */
	aim(job, bio, job->t->ssd->bdev, REQ_OP_WRITE | REQ_SYNC | REQ_IDLE,
	    x.sector, x.count);
	bio->bi_iter.bi_sector = x.ssd_sector;
	bio->bi_end_io = ssd_endio;
	submit_bio_noacct(bio);
	return true;
}

static void carry_out(struct tandem_job *job, u32 todo)
{
	if (todo & TD_DO_DISK)
		start_disk(job);
	if (todo & TD_DO_SSD)
		start_ssd(job);
}

void tandem_job_start(struct tandem_job *job, u32 todo)
{
	carry_out(job, todo);
	job_put(job);
}

void tandem_job_woken(struct td_req *r)
{
	struct tandem_job *job = job_of(r);

	refcount_inc(&job->refs);
	carry_out(job, td_woken(r));
	job_put(job);
}

void tandem_job_drained(struct td_req *r)
{
	struct tandem_job *job = job_of(r);

	refcount_inc(&job->refs);
	queue_work(job->t->wq, &job->drained_work);
}

static void answer(struct tandem_job *job)
{
	struct bio *bio = job->bio;

	if (job->req.kind == TD_READ)
		copy_data(job, true);
	else
		bio->bi_status = job->disk_bio.bi_status;
	job->bio = NULL;
	bio_endio(bio);
}

/* The wider read failed: does the user's own part of it? */
static void retry(struct tandem_job *job)
{
	tandem_to_disk(job->t, job->bio);
	submit_bio_noacct(job->bio);
}

static void disk_work(struct work_struct *work)
{
	struct tandem_job *job = container_of(work, struct tandem_job,
					      disk_work);
	struct td_engine *e = &job->t->engine;
	spinlock_t *lock = &job->t->locks[td_bucket_of(e, job->req.sector)];
	bool ok = !job->disk_bio.bi_status;
	struct td_list woken;
	u32 todo;

	td_list_init(&woken);
	bio_uninit(&job->disk_bio);
	spin_lock_irq(lock);
	todo = td_disk_done(e, &job->req, ok, &woken);
	spin_unlock_irq(lock);
	if (todo & TD_DO_ANSWER)
		answer(job);
	if (todo & TD_DO_RETRY)
		retry(job);
	if (todo & TD_DO_SSD)
		start_ssd(job);
	if (woken.head)
		tandem_defer_woken(job->t, &woken);
	if (todo & TD_DO_END)
		job_put(job);
	job_put(job);
}

static void ssd_work(struct work_struct *work)
{
	struct tandem_job *job = container_of(work, struct tandem_job,
					      ssd_work);
	struct td_engine *e = &job->t->engine;
	spinlock_t *lock = &job->t->locks[td_bucket_of(e, job->req.sector)];
	bool ok = !job->ssd_bio.bi_status;
	struct td_list woken;
	u32 todo = 0;

	td_list_init(&woken);
	bio_uninit(&job->ssd_bio);
	if (!ok)
		tandem_ssd_failed(job->t);
	if (!ok || !start_ssd(job)) {
		spin_lock_irq(lock);
		todo = td_ssd_done(e, &job->req, ok, &woken);
		spin_unlock_irq(lock);
	}
	if (woken.head)
		tandem_defer_woken(job->t, &woken);
	if (todo & TD_DO_END)
		job_put(job);
	job_put(job);
}

static void drained_work(struct work_struct *work)
{
	struct tandem_job *job = container_of(work, struct tandem_job,
					      drained_work);

	start_ssd(job);
	job_put(job);
}

void tandem_jobs_wait(struct tandem *t)
{
	wait_event(t->idle, !atomic_read(&t->jobs));
}
