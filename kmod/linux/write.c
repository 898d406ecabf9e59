// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Writes, discards and flushes: with a copy (job.c), lent to the SSD, or to the disk as
 * they are.
 *
 * Invariants:
 *   T1  After the lock is dropped, another thread may answer a request that waits. So
 *       its bio and its tandem_io are not touched then.
 *   T2  A lent bio goes to one device at a time: to the SSD alone, and, after that has
 *       ended, to the disk. So the user may change the pages meanwhile (J1 of job.c).
 * Threads: map in process context; completions in any context, which leave to a worker
 * what submits I/O; a worker continues woken requests.
 */
#include "map.h"

static void answer(struct tandem_io *io, struct bio *bio)
{
	io->end = TANDEM_END_PLAIN;
	if (td_failed(&io->req))
		bio->bi_status = BLK_STS_IOERR;
	bio_endio(bio);
}

/* Point the lent @bio at its place on the SSD. Any context. */
static void lend(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	io->end = TANDEM_END_LENT;
	io->lent_iter = bio->bi_iter;
	bio->bi_iter.bi_sector = td_lent_sector(&t->engine, &io->req);
	/* The journal makes it durable. An error means that the SSD is lost. */
	bio->bi_opf &= ~(REQ_FUA | REQ_RAHEAD | REQ_FAILFAST_MASK | REQ_POLLED);
	if (td_stores_durably(&io->req))
		bio->bi_opf |= REQ_FUA;
	/* tandem_map_write() did this. */
	if (bio->bi_bdev != t->ssd->bdev)
		bio_set_dev(bio, t->ssd->bdev);
}

/* What td_begin() said of a request without private memory. In map. */
static int tracked_begun(struct tandem *t, struct bio *bio, struct tandem_io *io,
			 u32 todo)
{
	if (todo & TD_DO_PASS)
		return tandem_pass(t, bio, io);
	if (todo & TD_DO_SSD) {
		lend(t, bio, io);
		return DM_MAPIO_REMAPPED;
	}
	if (todo & TD_DO_DISK) {
		io->end = TANDEM_END_TRACKED;
		tandem_to_disk(t, bio, io);
		/* The lost SSD may hold older data of a lent write, recorded as dirty. */
		return tandem_wait_for_record(t, bio) ? DM_MAPIO_SUBMITTED :
			DM_MAPIO_REMAPPED;
	}
	if (todo & TD_DO_ANSWER)
		answer(io, bio);
	/* Without an action the request waits; T1. */
	return DM_MAPIO_SUBMITTED;
}

/* The same in any context; not for SSD. */
static void submit_tracked(struct tandem *t, struct bio *bio, struct tandem_io *io,
			   u32 todo)
{
	if (tracked_begun(t, bio, io, todo) == DM_MAPIO_REMAPPED)
		tandem_submit_for_user(t, bio);
}

/* So many writes at most read a rest at a time when one more may that nobody waits for. */
#define MERGES	8

/*
 * Write-back throttling (wbt) holds back writes that nobody waits for, but not their reads,
 * which would delay those of users. So most such writes of parts of quarters go to the
 * disk, where wbt sees them. A hint.
 */
static bool reads_no_rest(const struct tandem *t, const struct bio *bio)
{
	return !(bio->bi_opf & REQ_SYNC) && atomic_read(&t->merges) >= MERGES;
}

/*
 * Begin a write or a discard. @job: with the copy; NULL though a copy was @wanted: there
 * was no memory. Returns what core says. Process context.
 */
static u32 begin(struct tandem *t, struct bio *bio, struct tandem_io *io,
		 enum td_kind kind, bool stream, struct tandem_job *job, bool wanted,
		 struct td_list *woken)
{
	u64 sector = bio->bi_iter.bi_sector;
	u32 count = bio_sectors(bio);
	struct td_req *r = &io->req;
	unsigned long flags;
	u32 todo;

	if (job) {
		r = tandem_job_req(job);
		r->no_rest = reads_no_rest(t, bio);
		io->end = TANDEM_END_PLAIN;
	} else {
		td_req_init(r, kind, sector, count, NULL, 0);
		r->no_memory = wanted;
		r->stream = stream;
		io->end = TANDEM_END_TRACKED;
	}
	r->fua = bio->bi_opf & REQ_FUA;
	flags = tandem_lock(t);
	todo = td_begin(&t->engine, r, woken);
	tandem_unlock(t, flags);
	if (unlikely(todo & TD_DO_SUM))
		todo = tandem_job_sum(job, todo, woken);
	return todo;
}

/* Core said COPY of a lent write in a worker. */
static void copy_later(struct tandem *t, struct bio *bio, struct tandem_io *io,
		       struct td_list *woken)
{
	struct tandem_job *job;
	u32 todo;

	job = tandem_job_new(t, bio, TD_WRITE, bio->bi_iter.bi_sector,
			     bio_sectors(bio));
	todo = begin(t, bio, io, TD_WRITE, false, job, true, woken);
	if (job)
		tandem_job_go_on(job, todo, woken);
	else
		submit_tracked(t, bio, io, todo);
}

void tandem_tracked_woken(struct tandem *t, struct td_req *r,
			  struct td_list *woken)
{
	struct tandem_io *io = container_of(r, struct tandem_io, req);
	struct bio *bio = dm_bio_from_per_bio_data(io, sizeof(*io));
	u32 todo = td_woken(r);
	unsigned long flags;

	if (todo & TD_DO_START) {
		flags = tandem_lock(t);
		todo = td_start(&t->engine, r, woken);
		tandem_unlock(t, flags);
	}
	if (todo & TD_DO_COPY) {
		copy_later(t, bio, io, woken);
	} else if (todo & TD_DO_SSD) {
		lend(t, bio, io);
		/* This thread must not sleep for the user's cgroup, nor be throttled (wbt). */
		tandem_charge_nobody(bio);
		bio->bi_opf |= REQ_SYNC | REQ_IDLE;
		submit_bio_noacct(bio);
	} else {
		submit_tracked(t, bio, io, todo);
	}
}

/*
 * A lent write begins. True: *@code is map's result. False: core wants a copy. In map.
 */
static bool map_lent(struct tandem *t, struct bio *bio, struct tandem_io *io, int *code)
{
	struct td_req *r = &io->req;
	struct td_list woken;
	unsigned long flags;
	u32 todo;

	td_req_init(r, TD_WRITE, bio->bi_iter.bi_sector, bio_sectors(bio),
		    &io->lent_part, 1);
	r->lent = true;
	r->fua = bio->bi_opf & REQ_FUA;
	td_list_init(&woken);
	flags = tandem_lock(t);
	todo = td_begin(&t->engine, r, &woken);
	tandem_unlock(t, flags);
	tandem_carry_on(t, &woken);
	if (todo & TD_DO_COPY)
		return false;
	*code = tracked_begun(t, bio, io, todo);
	return true;
}

/*
 * Writes that are no part of a large file that is written in one go: somebody waits until
 * just this one is durable, a file system's own data, memory that was swapped out.
 */
#define APART	(REQ_FUA | REQ_META | REQ_PRIO | REQ_SWAP)

/*
 * Does the write of the bio's first *@count sectors go past the SSD? If not, and if it may
 * take slots of others, *@count is what it may take at most. In the other modes than
 * write-back a write takes free slots only, which is quick.
 */
static bool streams(struct td_engine *e, const struct bio *bio, u32 *count)
{
	u64 sector = bio->bi_iter.bi_sector;
	u32 whole = *count;
	bool stream;

	if (env_load(&e->mode) == TD_WRITEBACK)
		*count = tandem_may_take(bio, whole);
	stream = !(bio->bi_opf & APART) && td_write_streams(e, sector, *count);
	/* The part behind the cut asks again; core knows the stream up to the cut. */
	if (stream && *count < whole &&
	    td_write_streams(e, sector + *count, whole - *count))
		*count = whole;
	return stream;
}

noinline int tandem_map_write(struct tandem *t, struct bio *bio, struct tandem_io *io,
			      enum td_kind kind)
{
	struct td_engine *e = &t->engine;
	u64 sector = bio->bi_iter.bi_sector;
	u32 count = tandem_in_run(t, bio);
	struct tandem_job *job = NULL;
	unsigned long now = jiffies;
	struct td_list woken;
	bool stream, copy, fits, lends;
	int code;
	u32 todo;

	io->since = 0;
	if (kind == TD_WRITE)
		tandem_measure(t, io);
	io->foreground = false;
	io->disk_read = false;
	if (t->written != now)
		WRITE_ONCE(t->written, now);
	stream = kind == TD_WRITE && streams(e, bio, &count);
	if (count < bio_sectors(bio))
		dm_accept_partial_bio(bio, count);
	copy = kind == TD_WRITE && !stream;
	fits = copy && tandem_fits_ssd(t, bio);
	lends = fits && td_write_may_lend(e, sector, count);
	tandem_note_user(bio, lends ? t->ssd : t->origin);
	if (lends && map_lent(t, bio, io, &code))
		return code;
	copy = copy && (lends || td_write_wants_copy(e, sector, count));
	if (copy)
		job = tandem_job_new(t, bio, kind, sector, count);
	/* In place, since a cleaning would fail at a bad block of the SSD. */
	if (unlikely(copy && !job) && !(bio->bi_opf & REQ_FUA) && fits &&
	    tandem_map_in_place(t, bio, io, &code))
		return code;
	td_list_init(&woken);
	todo = begin(t, bio, io, kind, stream, job, copy, &woken);
	tandem_carry_on(t, &woken);
	return job ? tandem_job_begun(t, bio, io, job, todo) :
		tracked_begun(t, bio, io, todo);
}

/* A flush has no data and its bio goes to no device: core decides what to flush. */
noinline int tandem_map_flush(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	struct td_list woken;
	unsigned long flags;
	u32 todo;

	td_list_init(&woken);
	td_req_init(&io->req, TD_FLUSH, 0, 0, NULL, 0);
	io->end = TANDEM_END_PLAIN;
	io->foreground = false;
	io->disk_read = false;
	io->since = 0;
	flags = tandem_lock(t);
	todo = td_begin(&t->engine, &io->req, &woken);
	tandem_unlock(t, flags);
	tandem_carry_on(t, &woken);
	return tracked_begun(t, bio, io, todo);
}

noinline bool tandem_tracked_done(struct tandem *t, struct td_req *r, bool ok)
{
	struct td_list woken;
	unsigned long flags;
	u32 todo;

	td_list_init(&woken);
	/* Another thread may answer @r meanwhile; tandem_jobs_wait() waits for this one. */
	rcu_read_lock();
	flags = tandem_lock(t);
	todo = td_disk_done(&t->engine, r, ok, &woken);
	tandem_unlock(t, flags);
	tandem_carry_on_later(t, &woken);
	rcu_read_unlock();
	return todo & TD_DO_ANSWER;
}

noinline bool tandem_lent_done(struct tandem *t, struct bio *bio, struct tandem_io *io,
			       blk_status_t *error)
{
	struct td_req *r = &io->req;
	bool fua = r->fua, ok = !*error;
	struct td_list woken;
	unsigned long flags;
	u32 todo;

	td_list_init(&woken);
	if (unlikely(!ok))
		tandem_ssd_failed(t, &woken);
	/* As above. */
	rcu_read_lock();
	flags = tandem_lock(t);
	todo = td_ssd_done(&t->engine, r, ok, &woken);
	if (unlikely(todo & (TD_DO_DISK | TD_DO_START))) {
		tandem_take_back(t, bio, &io->lent_iter);
		bio->bi_opf &= ~REQ_FUA;
		if (fua)
			bio->bi_opf |= REQ_FUA;
	}
	if (unlikely(todo & TD_DO_START))
		todo = td_start(&t->engine, r, &woken);
	tandem_unlock(t, flags);
	if (todo & TD_DO_ANSWER) {
		if (unlikely(td_failed(r)))
			*error = BLK_STS_IOERR;
	} else if (unlikely(todo)) {
		submit_tracked(t, bio, io, todo);
	}
	tandem_carry_on_later(t, &woken);
	rcu_read_unlock();
	return todo & TD_DO_ANSWER;
}
