// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests with private memory: fills, writes that are copied once, cleanings. Their I/O
 * is in job_io.c.
 *
 * A job holds the pages, core's request, and one bio for each device, so that
 * nothing has to be allocated after it began. Its extents on the SSD are
 * written or fetched one after another by the one bio.
 *
 * Invariants:
 *   J1  Data for the SSD, and a write's data for the disk, comes from the job's
 *       pages: the user may change the user's buffer at any time.
 *   J2  References: core's, from td_begin() until END; that of the thread that
 *       starts it, or copies its pages out (join.c); one for each bio in flight
 *       and for a drain, until its work is done. So a work item is never freed while
 *       it is queued.
 * Threads: a job is made in map or a worker; its last reference may go in any context
 * (J3 in job_io.c).
 * Why no reserve of memory: without memory a request goes past the cache, which
 * is always right, if need be after a cleaning; and the cleaner has its jobs
 * from the constructor on. So no request ever waits for a page here.
 * Why spare jobs, one for small writes and one for fills of a frame: to get and to give
 * back a page costs as much as all that core does for a small request. One is enough,
 * since one ends for each that begins, however many there are.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "job.h"

/* Private pages of one target; beyond this number requests go past the cache. */
#define PAGES_MAX	((64u << 20) >> PAGE_SHIFT)

/* Never wait, never warn, and leave the reserves to memory reclaim. */
#define GFP_JOB		(GFP_NOWAIT | __GFP_NOWARN | __GFP_NOMEMALLOC)

enum copy_direction { FROM_USER, TO_USER };

struct td_req *tandem_job_req(struct tandem_job *job)
{
	return &job->req;
}

void tandem_job_release(struct tandem_job *job)
{
	while (job->nr_pages--)
		__free_page(job->pages[job->nr_pages].bv_page);
	kfree(job);
}

/* Where a job with so many pages, and a part, is kept; NULL: nowhere. */
static struct tandem_job **spare_of(struct tandem *t, u32 pages)
{
	if (pages == 1)
		return &t->spares[TANDEM_SPARE_QUARTER];
	return pages == TANDEM_FRAME_PAGES ? &t->spares[TANDEM_SPARE_FRAME] : NULL;
}

/* A job with so many pages, and a part; NULL: none is kept. Any context. */
static struct tandem_job *take_spare(struct tandem *t, u32 pages)
{
	struct tandem_job **spare = spare_of(t, pages);

	return spare && READ_ONCE(*spare) ? xchg(spare, NULL) : NULL;
}

/* False: @job is not what is kept, or one is kept already. Any context. */
static bool keep_as_spare(struct tandem *t, struct tandem_job *job)
{
	struct tandem_job **spare = spare_of(t, job->nr_pages);

	return spare && !READ_ONCE(*spare) && !cmpxchg(spare, NULL, job);
}

struct tandem_job *tandem_job_alloc(u32 pages, u32 parts, gfp_t gfp)
{
	struct tandem_job *job = kmalloc(struct_size(job, pages, pages) +
					 parts * sizeof(struct td_part), gfp);

	if (!job)
		return NULL;
	for (job->nr_pages = 0; job->nr_pages < pages; job->nr_pages++) {
		struct page *page = alloc_page(gfp);

		if (!page) {
			tandem_job_release(job);
			return NULL;
		}
		bvec_set_page(&job->pages[job->nr_pages], page, PAGE_SIZE, 0);
	}
	return job;
}

void tandem_job_free(struct tandem_job *job)
{
	struct tandem *t = job->t;

	if (job->req.kind == TD_CLEAN) {
		tandem_cleaner_ended(t, job);
	} else {
		atomic_long_sub(job->nr_pages, &t->pages);
		if (!keep_as_spare(t, job))
			tandem_job_release(job);
	}
	tandem_job_ended(t);
}

void tandem_job_free_spares(struct tandem *t)
{
	u32 i;

	for (i = 0; i < TANDEM_SPARES; i++)
		if (t->spares[i])
			tandem_job_release(t->spares[i]);
}

void tandem_job_ended(struct tandem *t)
{
	/* tandem_jobs_wait() may see 0 before this thread wakes it. */
	rcu_read_lock();
	if (atomic_dec_and_test(&t->jobs))
		wake_up(&t->idle);
	rcu_read_unlock();
}

void tandem_job_put(struct tandem_job *job)
{
	if (refcount_dec_and_test(&job->refs))
		tandem_job_free(job);
}

/* Copy between the pages, from @sector of the disk on, and the user's @bio. */
static void copy_data(struct tandem_job *job, struct bio *bio, u64 sector,
		      enum copy_direction direction)
{
	size_t at = (sector - job->memory_sector) << SECTOR_SHIFT;
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_segment(bv, bio, iter) {
		char *user = bvec_kmap_local(&bv);
		unsigned int done = 0;

		while (done < bv.bv_len) {
			struct page *page = job->pages[at >> PAGE_SHIFT].bv_page;
			char *own = page_address(page) + offset_in_page(at);
			unsigned int n = min_t(unsigned int, bv.bv_len - done,
					       PAGE_SIZE - offset_in_page(at));

			if (direction == TO_USER)
				memcpy(user + done, own, n);
			else
				memcpy(own, user + done, n);
			done += n;
			at += n;
		}
		kunmap_local(user);
		if (direction == TO_USER)
			flush_dcache_page(bv.bv_page);
	}
}

void tandem_job_copy_out(struct tandem_job *job, struct bio *user, u64 sector)
{
	copy_data(job, user, sector, TO_USER);
}

struct tandem_job *tandem_job_new(struct tandem *t, struct bio *bio,
				  enum td_kind kind, u64 sector, u32 count)
{
	struct td_span span = td_span_of(&t->engine, kind, sector, count);
	u32 pages = DIV_ROUND_UP(span.quarters << (TD_QUARTER_SHIFT + SECTOR_SHIFT),
				 PAGE_SIZE);
	struct tandem_job *job = NULL;

	if (atomic_long_add_return(pages, &t->pages) <= PAGES_MAX) {
		if (span.frames == 1)
			job = take_spare(t, pages);
		if (!job)
			job = tandem_job_alloc(pages, span.frames, GFP_JOB);
	}
	if (!job) {
		atomic_long_sub(pages, &t->pages);
		return NULL;
	}
	tandem_job_prepare(job, t);
	job->bio = bio;
	job->memory_sector = span.sector;
	td_req_init(&job->req, kind, sector, count, tandem_job_parts(job),
		    span.frames);
	if (kind == TD_WRITE)
		copy_data(job, bio, sector, FROM_USER);
	else
		bio_list_init(&job->joined);
	return job;
}

/* Checksums of what the job writes at the place that core asks for; then core goes on. */
static u32 sum_place(struct tandem_job *job, struct td_list *woken)
{
	const struct td_req *r = &job->req;
	u64 first = max(r->summing << TD_QUARTER_SHIFT, r->span_sector);
	u64 end = min((r->summing + 1) << TD_QUARTER_SHIFT,
		      r->span_sector + r->span_count);
	struct tandem *t = job->t;
	struct td_sums sums;
	unsigned long flags;
	u64 sector;
	u32 todo;

	td_sums_begin(&t->engine, r, &sums);
	for (sector = first; sector < end; sector++) {
		size_t at = (sector - job->memory_sector) << SECTOR_SHIFT;
		struct page *page = job->pages[at >> PAGE_SHIFT].bv_page;

		td_sums_add(&sums, sector,
			    page_address(page) + offset_in_page(at));
	}
	flags = tandem_lock(t);
	todo = td_summed(&t->engine, &job->req, &sums, woken);
	tandem_unlock(t, flags);
	return todo;
}

u32 tandem_job_sum(struct tandem_job *job, u32 todo, struct td_list *woken)
{
	while (todo & TD_DO_SUM)
		todo = sum_place(job, woken);
	return todo;
}

void tandem_jobs_wait(struct tandem *t)
{
	wait_event(t->idle, !atomic_read(&t->jobs));
	/* Whatever handed over the last requests has left the target after this. */
	synchronize_rcu();
}
