// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests with private memory: fills, writes that are copied once, cleanings.
 *
 * A job holds the pages, core's request, and one bio for each device, so that
 * nothing has to be allocated after it began. Its extents on the SSD are
 * written or fetched one after another by the one bio.
 *
 * Invariants:
 *   J1  Data for the SSD, and a write's data for the disk, comes from the job's
 *       pages: the user may change the user's buffer at any time.
 *   J2  References: core's, from td_begin() until END; that of the thread that
 *       starts it; one for each bio in flight and for a drain, until its work
 *       is done. So a work item is never freed while it is queued.
 *   J3  The last reference goes in process context, so that the destructor, which
 *       waits for the workqueue, outlives it.
 * Threads: new and start in map or a worker; bios complete in any context and
 * only queue their work. The works of one job may run at the same time.
 * Why no reserve of memory: without memory a request goes past the cache, which
 * is always right, if need be after a cleaning; and the cleaner has its jobs
 * from the constructor on. So no request ever waits for a page here.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "job.h"

/* Private pages of one target; beyond this number requests go past the cache. */
#define PAGES_MAX	((64u << 20) >> PAGE_SHIFT)

/* Never wait, never warn, and leave the reserves to memory reclaim. */
#define GFP_JOB		(GFP_NOWAIT | __GFP_NOWARN | __GFP_NOMEMALLOC)

/* Marked like direct I/O, so that write-back throttling spares the workers. */
#define REQ_OURS	(REQ_SYNC | REQ_IDLE)

enum copy_direction { FROM_USER, TO_USER };

/* The thread that submits a bio: the user's, in map, or a worker of the module. */
enum submitter { IN_MAP, IN_WORKER };

/* Whose cgroup a bio for the SSD counts for. */
enum payer { USER_PAYS, NOBODY_PAYS };

static void disk_work(struct work_struct *work);
static void ssd_work(struct work_struct *work);
static void drained_work(struct work_struct *work);

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

void tandem_job_prepare(struct tandem_job *job, struct tandem *t)
{
	atomic_inc(&t->jobs);
	job->t = t;
	job->bio = NULL;
	job->status = BLK_STS_OK;
	refcount_set(&job->refs, 2);
	INIT_WORK(&job->disk_work, disk_work);
	INIT_WORK(&job->ssd_work, ssd_work);
	INIT_WORK(&job->drained_work, drained_work);
}

void tandem_job_free(struct tandem_job *job)
{
	struct tandem *t = job->t;

	if (job->req.kind == TD_CLEAN) {
		tandem_cleaner_ended(t, job);
	} else {
		atomic_long_sub(job->nr_pages, &t->pages);
		tandem_job_release(job);
	}
	tandem_job_ended(t);
}

void tandem_job_ended(struct tandem *t)
{
	/* tandem_jobs_wait() may see 0 before this thread wakes it. */
	rcu_read_lock();
	if (atomic_dec_and_test(&t->jobs))
		wake_up(&t->idle);
	rcu_read_unlock();
}

static void job_put(struct tandem_job *job)
{
	if (refcount_dec_and_test(&job->refs))
		tandem_job_free(job);
}

/* Copy between the user's range of the pages and the user's bio. */
static void copy_data(struct tandem_job *job, enum copy_direction direction)
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

struct tandem_job *tandem_job_new(struct tandem *t, struct bio *bio,
				  enum td_kind kind, u64 sector, u32 count)
{
	struct td_span span = td_span_of(&t->engine, kind, sector, count);
	u32 pages = DIV_ROUND_UP(span.quarters << (TD_QUARTER_SHIFT + SECTOR_SHIFT),
				 PAGE_SIZE);
	struct tandem_job *job = NULL;

	if (atomic_long_add_return(pages, &t->pages) <= PAGES_MAX)
		job = tandem_job_alloc(pages, span.frames, GFP_JOB);
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
		copy_data(job, FROM_USER);
	return job;
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
static void aim_bio(struct tandem_job *job, struct bio *bio,
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

static void start_disk(struct tandem_job *job, enum submitter submitter)
{
	const blk_opf_t inherit = REQ_OP_MASK | REQ_SYNC | REQ_META | REQ_PRIO |
				  REQ_FUA | REQ_IDLE | REQ_BACKGROUND |
				  REQ_SWAP;
	struct bio *bio = &job->disk_bio;
	struct tandem *t = job->t;

	aim_bio(job, bio, t->origin->bdev, job->bio ?
		job->bio->bi_opf & inherit : REQ_OP_WRITE | REQ_OURS,
		job->req.span_sector, job->req.span_count);
	bio->bi_iter.bi_sector = job->req.span_sector;
	bio->bi_end_io = disk_endio;
	if (!job->bio) {
		tandem_charge_nobody(bio);
		tandem_submit_own(t, bio);
		return;
	}
	tandem_io_of(job->bio)->at_disk = true;
	tandem_disk_enter(t);
	tandem_charge_user(bio, job->bio);
	/* Sectors that the user did not ask for are not worth the disk's retries. */
	if (job->req.span_count > job->req.count)
		bio->bi_opf |= REQ_FAILFAST_DEV;
	/* The lost SSD may hold older data of this write, recorded as dirty. */
	if (tandem_wait_for_record(t, bio))
		return;
	if (submitter == IN_MAP)
		dm_submit_bio_remap(job->bio, bio);
	else
		tandem_submit_for_user(t, bio);
}

/* Write or fetch the next extent; false if there was none left. */
static bool next_ssd(struct tandem_job *job, enum payer payer)
{
	struct bio *bio = &job->ssd_bio;
	struct td_extent x;

	if (!td_next_extent(&job->t->engine, &job->req, &job->cursor, &x))
		return false;
	aim_bio(job, bio, job->t->ssd->bdev, REQ_OURS |
		(job->fetch ? REQ_OP_READ : REQ_OP_WRITE), x.sector, x.count);
	bio->bi_iter.bi_sector = x.ssd_sector;
	bio->bi_end_io = ssd_endio;
	if (payer == USER_PAYS)
		tandem_charge_user(bio, job->bio);
	else
		tandem_charge_nobody(bio);
	submit_bio_noacct(bio);
	return true;
}

/*
 * The user's cgroup pays for the SSD's I/O if the user waits for it (a write that is
 * written back later) and the user's thread submits it. A worker must not sleep for
 * the share of a cgroup, since that would hold up the journal.
 */
static void start_ssd(struct tandem_job *job, bool fetch, enum submitter submitter)
{
	job->cursor = 0;
	job->fetch = fetch;
	next_ssd(job, submitter == IN_MAP && job->req.writeback ?
		 USER_PAYS : NOBODY_PAYS);
}

static void answer_user(struct tandem_job *job)
{
	struct bio *bio = job->bio;

	job->bio = NULL;
	if (!bio)
		return;
	if (td_failed(&job->req)) {
		bio->bi_status = job->status ? job->status : BLK_STS_IOERR;
	} else if (job->req.kind == TD_READ) {
		job->bio = bio;
		copy_data(job, TO_USER);
		job->bio = NULL;
	}
	bio_endio(bio);
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

/* Send the user's own bio to the disk. */
static void hand_to_disk(struct tandem_job *job)
{
	struct bio *bio = job->bio;

	job->bio = NULL;
	tandem_to_disk(job->t, bio, tandem_io_of(bio));
	if (!tandem_wait_for_record(job->t, bio))
		tandem_submit_for_user(job->t, bio);
}

static void job_carry_out(struct tandem_job *job, u32 todo, struct td_list *woken)
{
	unsigned long flags;

	if (todo & TD_DO_START) {
		flags = tandem_lock(job->t);
		todo = td_start(&job->t->engine, &job->req, woken);
		tandem_unlock(job->t, flags);
	}
	todo = tandem_job_sum(job, todo, woken);
	if (todo & TD_DO_ANSWER)
		answer_user(job);
	if (todo & (TD_DO_RETRY | TD_DO_PASS))
		hand_to_disk(job);
	if (todo & (TD_DO_SSD | TD_DO_FETCH))
		start_ssd(job, todo & TD_DO_FETCH, IN_WORKER);
	if (todo & TD_DO_DISK)
		start_disk(job, IN_WORKER);
	if (todo & (TD_DO_END | TD_DO_PASS))
		job_put(job);
}

void tandem_job_start(struct tandem_job *job, u32 todo)
{
	/* The cleaner starts its jobs, which have no user, in a worker. */
	enum submitter submitter = job->bio ? IN_MAP : IN_WORKER;

	if (todo & TD_DO_ANSWER)
		answer_user(job);
	if (todo & (TD_DO_SSD | TD_DO_FETCH))
		start_ssd(job, todo & TD_DO_FETCH, submitter);
	if (todo & TD_DO_DISK)
		start_disk(job, submitter);
	if (todo & TD_DO_END)
		job_put(job);
	job_put(job);
}

void tandem_job_go_on(struct tandem_job *job, u32 todo, struct td_list *woken)
{
	job_carry_out(job, todo, woken);
	job_put(job);
}

void tandem_job_woken(struct td_req *r, struct td_list *woken)
{
	struct tandem_job *job = tandem_job_of(r);

	refcount_inc(&job->refs);
	tandem_job_go_on(job, td_woken(r), woken);
}

void tandem_job_drained(struct td_req *r)
{
	struct tandem_job *job = tandem_job_of(r);

	refcount_inc(&job->refs);
	queue_work(job->t->wq, &job->drained_work);
}

/* Carry out the actions after a bio's completion; then drop the bio's reference. */
static void job_go_on(struct tandem_job *job, u32 todo, struct td_list *woken)
{
	struct tandem *t = job->t;

	job_carry_out(job, todo, woken);
	tandem_carry_on(t, woken);
	job_put(job);
}

static void disk_work(struct work_struct *work)
{
	struct tandem_job *job = container_of(work, struct tandem_job,
					      disk_work);
	struct tandem *t = job->t;
	struct td_list woken;
	unsigned long flags;
	u32 todo;
	bool ok;

	td_list_init(&woken);
	job->status = job->disk_bio.bi_status;
	ok = !job->status;
	bio_uninit(&job->disk_bio);
	if (job->req.kind != TD_CLEAN)
		tandem_disk_leave(t);
	else if (!ok)
		tandem_cleaner_failed(t, &job->req, TANDEM_DISK);
	flags = tandem_lock(t);
	todo = td_disk_done(&t->engine, &job->req, ok, &woken);
	tandem_unlock(t, flags);
	job_go_on(job, todo, &woken);
}

static void ssd_work(struct work_struct *work)
{
	struct tandem_job *job = container_of(work, struct tandem_job,
					      ssd_work);
	struct tandem *t = job->t;
	bool ok = !job->ssd_bio.bi_status;
	struct td_list woken;
	unsigned long flags;
	u32 todo = 0;

	td_list_init(&woken);
	bio_uninit(&job->ssd_bio);
	/* A failed read of the SSD counts as a bad block; a failed write as its loss. */
	if (!ok && !job->fetch)
		tandem_ssd_failed(t, &woken);
	if (!ok && job->fetch)
		tandem_cleaner_failed(t, &job->req, TANDEM_SSD);
	if (!ok || !next_ssd(job, NOBODY_PAYS)) {
		flags = tandem_lock(t);
		todo = td_ssd_done(&t->engine, &job->req, ok, &woken);
		tandem_unlock(t, flags);
	}
	job_go_on(job, todo, &woken);
}

static void drained_work(struct work_struct *work)
{
	struct tandem_job *job = container_of(work, struct tandem_job,
					      drained_work);

	start_ssd(job, job->req.kind == TD_CLEAN, IN_WORKER);
	job_put(job);
}

void tandem_jobs_wait(struct tandem *t)
{
	wait_event(t->idle, !atomic_read(&t->jobs));
	/* Whatever handed over the last requests has left the target after this. */
	synchronize_rcu();
}
