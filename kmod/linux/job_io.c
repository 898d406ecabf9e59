// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The I/O of jobs (job.h): their bios, and what core wants done when these have ended.
 *
 * Invariants, beside those of job.c:
 *   J3  The last reference goes in process context, so that the destructor, which
 *       waits for the workqueue and, as dm does, for map, outlives it; or, of a
 *       user's request, in a completion under rcu_read_lock(), which
 *       tandem_jobs_wait() waits for.
 *   J4  A completion submits nothing, sleeps for nothing and copies a frame at most, for
 *       it may run with interrupts off. What asks for more is left to the work of the bio.
 * Threads: start in map or a worker; bios complete in any context, also inside the
 * call that submits them. The works of one job may run at the same time.
 * Why a user's write or small read ends in completions: a worker, which the processor has
 * to switch to, costs more than all else of such a request. Other jobs have something to
 * submit or much to copy behind almost each bio, and their completions only queue a work.
 */
#include "job.h"

/* Marked like direct I/O, so that write-back throttling spares the workers. */
#define REQ_OURS	(REQ_SYNC | REQ_IDLE)

/* The thread that submits a bio: the user's, in map, or a worker of the module. */
enum submitter { IN_MAP, IN_WORKER };

/* Whose cgroup a bio for the SSD counts for. */
enum payer { USER_PAYS, NOBODY_PAYS };

static void disk_endio(struct bio *bio);
static void ssd_endio(struct bio *bio);
static void disk_work(struct work_struct *work);
static void ssd_work(struct work_struct *work);
static void drained_work(struct work_struct *work);

void tandem_job_prepare(struct tandem_job *job, struct tandem *t)
{
	atomic_inc(&t->jobs);
	job->t = t;
	job->bio = NULL;
	job->status = BLK_STS_OK;
	job->disk_left = 0;
	job->ssd_left = 0;
	job->merging = false;
	refcount_set(&job->refs, 2);
	INIT_WORK(&job->disk_work, disk_work);
	INIT_WORK(&job->ssd_work, ssd_work);
	INIT_WORK(&job->drained_work, drained_work);
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

/* Read the next rest of a quarter for the user's write; false if there was none left. */
static bool next_rest(struct tandem_job *job, enum submitter submitter)
{
	struct bio *bio = &job->disk_bio;
	struct tandem *t = job->t;
	u64 sector;
	u32 count;

	if (!td_next_rest(&t->engine, &job->req, &job->cursor, &sector, &count))
		return false;
	/* If it fails, the write goes to the disk: no reason for the disk to try long. */
	aim_bio(job, bio, t->origin->bdev, REQ_OP_READ | REQ_FAILFAST_DEV |
		(job->bio->bi_opf & (REQ_META | REQ_PRIO | REQ_SWAP)), sector, count);
	bio->bi_iter.bi_sector = sector;
	bio->bi_end_io = disk_endio;
	tandem_disk_enter(t);
	tandem_charge_user(bio, job->bio);
	if (submitter == IN_MAP)
		dm_submit_bio_remap(job->bio, bio);
	else
		tandem_submit_for_user(t, bio);
	return true;
}

static void start_merge(struct tandem_job *job, enum submitter submitter)
{
	tandem_io_of(job->bio)->at_disk = true;
	atomic_inc(&job->t->merges);
	job->cursor = 0;
	job->merging = true;
	next_rest(job, submitter);
}

/* Write or fetch the next extent; false if there was none left. */
static bool next_ssd(struct tandem_job *job, enum payer payer)
{
	struct bio *bio = &job->ssd_bio;
	struct td_extent x;

	if (!td_next_extent(&job->t->engine, &job->req, &job->cursor, &x))
		return false;
	aim_bio(job, bio, job->t->ssd->bdev, REQ_OURS |
		(job->fetch ? REQ_OP_READ : REQ_OP_WRITE) |
		(td_stores_durably(&job->req) ? REQ_FUA : 0), x.sector, x.count);
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
	if (td_failed(&job->req))
		bio->bi_status = job->status ? job->status : BLK_STS_IOERR;
	else if (job->req.kind == TD_READ)
		tandem_job_copy_out(job, bio, job->req.sector);
	bio_endio(bio);
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
	if (job->req.kind == TD_READ && todo & (TD_DO_ANSWER | TD_DO_RETRY))
		tandem_joined_done(job, todo & TD_DO_ANSWER);
	if (todo & (TD_DO_SSD | TD_DO_FETCH))
		start_ssd(job, todo & TD_DO_FETCH, IN_WORKER);
	if (todo & TD_DO_DISK)
		start_disk(job, IN_WORKER);
	if (todo & TD_DO_MERGE)
		start_merge(job, IN_WORKER);
	if (todo & (TD_DO_END | TD_DO_PASS))
		tandem_job_put(job);
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
	if (todo & TD_DO_MERGE)
		start_merge(job, submitter);
	if (todo & TD_DO_END)
		tandem_job_put(job);
	tandem_job_put(job);
}

void tandem_job_go_on(struct tandem_job *job, u32 todo, struct td_list *woken)
{
	job_carry_out(job, todo, woken);
	tandem_job_put(job);
}

void tandem_job_woken(struct td_req *r, struct td_list *woken)
{
	struct tandem_job *job = tandem_job_of(r);

	refcount_inc(&job->refs);
	/* The disk took the writes, but not the flush that makes them durable. */
	if (r->kind == TD_CLEAN && td_failed(r))
		tandem_cleaner_failed(job->t, r, TANDEM_DISK);
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
	tandem_job_put(job);
}

/* The disk has answered for a rest. Returns what core says, or 0. Process context. */
static u32 rest_done(struct tandem_job *job, struct td_list *woken)
{
	bool ok = !job->disk_bio.bi_status;
	struct tandem *t = job->t;
	unsigned long flags;
	u32 todo;

	bio_uninit(&job->disk_bio);
	tandem_disk_leave(t);
	/* Once it is submitted, the job may be beyond it. */
	if (ok && next_rest(job, IN_WORKER))
		return 0;
	job->merging = false;
	atomic_dec(&t->merges);
	flags = tandem_lock(t);
	todo = td_rest_read(&t->engine, &job->req, ok, woken);
	tandem_unlock(t, flags);
	return todo;
}

/* The disk has answered. Returns what core says. Any context. */
static u32 disk_done(struct tandem_job *job, struct td_list *woken)
{
	struct tandem *t = job->t;
	unsigned long flags;
	u32 todo;

	job->status = job->disk_bio.bi_status;
	bio_uninit(&job->disk_bio);
	if (job->req.kind != TD_CLEAN)
		tandem_disk_leave(t);
	flags = tandem_lock(t);
	todo = td_disk_done(&t->engine, &job->req, !job->status, woken);
	tandem_unlock(t, flags);
	return todo;
}

/* The SSD has answered the last extent. Returns what core says. Any context. */
static u32 ssd_done(struct tandem_job *job, bool ok, struct td_list *woken)
{
	struct tandem *t = job->t;
	unsigned long flags;
	u32 todo;

	flags = tandem_lock(t);
	todo = td_ssd_done(&t->engine, &job->req, ok, woken);
	tandem_unlock(t, flags);
	return todo;
}

#define TODO_IN_COMPLETION	(TD_DO_ANSWER | TD_DO_END)

/* May completions of @job do what core says? J4 */
static bool is_short(const struct tandem_job *job)
{
	return job->req.kind == TD_WRITE ||
	       (job->req.kind == TD_READ && job->req.span_count <= TD_FRAME_SECTORS);
}

/*
 * In a completion (J3, J4): carry out @todo, then drop the bio's reference; or leave what is
 * more than that to @work, with the reference.
 */
static void job_end(struct tandem_job *job, u32 todo, u32 *left, struct work_struct *work,
		    struct td_list *woken)
{
	struct tandem *t = job->t;
	bool rest = todo & ~TODO_IN_COMPLETION;

	if (todo & TD_DO_ANSWER) {
		/* The reads that joined this one want copies, too. */
		if (job->req.kind == TD_READ && !bio_list_empty(&job->joined)) {
			rest = true;
		} else {
			answer_user(job);
			todo &= ~TD_DO_ANSWER;
		}
	}
	tandem_carry_on_later(t, woken);
	if (unlikely(rest)) {
		*left = todo;
		queue_work(t->wq, work);
		return;
	}
	/* Not the answer: the user's own completion may sleep where that is allowed. */
	rcu_read_lock();
	if (todo & TD_DO_END)
		tandem_job_put(job);
	tandem_job_put(job);
	rcu_read_unlock();
}

static void disk_endio(struct bio *bio)
{
	struct tandem_job *job = bio->bi_private;
	struct td_list woken;

	if (!is_short(job) || job->merging) {
		queue_work(job->t->wq, &job->disk_work);
		return;
	}
	td_list_init(&woken);
	job_end(job, disk_done(job, &woken), &job->disk_left, &job->disk_work, &woken);
}

static void ssd_endio(struct bio *bio)
{
	struct tandem_job *job = bio->bi_private;
	struct td_list woken;

	if (!is_short(job) || bio->bi_status ||
	    td_has_extent(&job->req, job->cursor)) {
		queue_work(job->t->wq, &job->ssd_work);
		return;
	}
	td_list_init(&woken);
	bio_uninit(bio);
	/* If the SSD failed meanwhile, the data of a write is for the disk. */
	job_end(job, ssd_done(job, true, &woken), &job->ssd_left, &job->ssd_work, &woken);
}

/* Takes the part of core's answer that a completion has left to its work; 0: nothing. */
static u32 take_left(u32 *left)
{
	u32 todo = *left;

	*left = 0;
	return todo;
}

static void disk_work(struct work_struct *work)
{
	struct tandem_job *job = container_of(work, struct tandem_job,
					      disk_work);
	struct td_list woken;
	u32 todo = take_left(&job->disk_left);

	td_list_init(&woken);
	if (job->req.kind == TD_CLEAN && job->disk_bio.bi_status)
		tandem_cleaner_failed(job->t, &job->req, TANDEM_DISK);
	if (!todo)
		todo = job->merging ? rest_done(job, &woken) : disk_done(job, &woken);
	job_go_on(job, todo, &woken);
}

static void ssd_work(struct work_struct *work)
{
	struct tandem_job *job = container_of(work, struct tandem_job,
					      ssd_work);
	struct tandem *t = job->t;
	bool ok = !job->ssd_bio.bi_status;
	struct td_list woken;
	u32 todo = take_left(&job->ssd_left);

	td_list_init(&woken);
	if (todo) {
		job_go_on(job, todo, &woken);
		return;
	}
	bio_uninit(&job->ssd_bio);
	/* A failed read of the SSD counts as a bad block; a failed write as its loss. */
	if (!ok && !job->fetch)
		tandem_ssd_failed(t, &woken);
	if (!ok && job->fetch)
		tandem_cleaner_failed(t, &job->req, TANDEM_SSD);
	if (!ok || !next_ssd(job, NOBODY_PAYS))
		todo = ssd_done(job, ok, &woken);
	job_go_on(job, todo, &woken);
}

static void drained_work(struct work_struct *work)
{
	struct tandem_job *job = container_of(work, struct tandem_job,
					      drained_work);

	start_ssd(job, job->req.kind == TD_CLEAN, IN_WORKER);
	tandem_job_put(job);
}
