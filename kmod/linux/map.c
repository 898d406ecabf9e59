// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every bio passes here: once on its way down, once on its way up.
 *
 * Invariant: a bio's tandem_io says what tandem_end_io() must tell core or undo. It
 * is set before core can let the bio go.
 * Threads: map in process context; end_io in any context.
 * Why no lock on a hit: core pins by one atomic and the bio itself goes to the
 * SSD. A hit of one slot is the case to be quick in, so tandem_map() and
 * tandem_end_io() are that case and leave all others to functions of their own
 * (cargo xtask bench counts instructions). Everything that completions want done
 * by submitting I/O is deferred to a worker, since they may run with interrupts
 * off.
 */
#include <linux/sched.h>

#include "read.h"
#include "tandem.h"
#include "write.h"

/*
 * An SSD with large blocks cannot split a bio inside one: each segment must be
 * whole blocks. The disk may have smaller ones, so the user need not know.
 */
static bool segments_fit(const struct tandem *t, struct bio *bio)
{
	u32 mask = (t->engine.layout.block_mask << SECTOR_SHIFT) |
		   (SECTOR_SIZE - 1);
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_bvec(bv, bio, iter)
		if (bv.bv_len & mask)
			return false;
	return true;
}

/* Requests that are not answered in the first step: is this one to be measured? */
static void measure_request(struct tandem *t, struct tandem_io *io)
{
	io->since = 0;
	if (unlikely(tandem_latency_turn(t->engine.counters)))
		tandem_latency_begin(io);
}

static int to_disk(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	io->end = TANDEM_END_PLAIN;
	tandem_to_disk(t, bio);
	return tandem_wait_for_record(t, bio) ? DM_MAPIO_SUBMITTED :
		DM_MAPIO_REMAPPED;
}

/* What td_begin() said of a request with private memory; tandem_carry_on() came first. */
static int job_begun(struct tandem *t, struct bio *bio, struct tandem_io *io,
		     struct tandem_job *job, u32 todo)
{
	if (todo & TD_DO_PASS) {
		tandem_job_free(job);
		return to_disk(t, bio, io);
	}
	tandem_job_start(job, todo);
	return DM_MAPIO_SUBMITTED;
}

/* A read that misses: fill from private memory, or just read. */
static noinline int map_miss(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	u64 sector = bio->bi_iter.bi_sector;
	u32 count = bio_sectors(bio);
	struct tandem_job *job;
	struct td_list woken;
	unsigned long flags;
	u32 todo;

	job = tandem_job_new(t, bio, TD_READ, sector, count);
	if (!job) {
		td_pass(&t->engine, TD_READ, count, TD_C_READ_BYPASSED_MEMORY);
		return to_disk(t, bio, io);
	}
	io->end = TANDEM_END_PLAIN;
	td_list_init(&woken);
	flags = tandem_lock(t);
	todo = td_begin(&t->engine, tandem_job_req(job), &woken);
	tandem_unlock(t, flags);
	tandem_carry_on(t, &woken);
	return job_begun(t, bio, io, job, todo);
}

/*
 * Another request is changing a dirty frame, so the read cannot be sent anywhere yet.
 * The I/O of that request has been submitted: each bio goes down before map sees the
 * next one. So the wait is short; but after a loss of the SSD a failed write must
 * first reach the disk. (The target does not set DM_TARGET_NOWAIT, so every bio here
 * may wait.)
 */
static noinline enum td_verdict look_again(struct tandem *t, struct bio *bio,
					   u32 count, struct td_look *look)
{
	enum td_verdict verdict;

	do {
		set_current_state(TASK_UNINTERRUPTIBLE);
		io_schedule_timeout(1);
		verdict = td_read_look(&t->engine, bio->bi_iter.bi_sector,
				       count, look);
	} while (verdict == TD_BUSY);
	return verdict;
}

/* @slots from @slot on are pinned: the bio goes to the SSD. */
static __always_inline int map_hit(struct tandem *t, struct bio *bio, struct tandem_io *io,
				   u32 slot, u32 slots, u64 dirty)
{
	u64 sector = bio->bi_iter.bi_sector;

	io->hit.slots = slots;
	io->hit.dirty = dirty;
	io->hit.word = &t->engine.words[slot];
	io->hit.iter = bio->bi_iter;
	bio->bi_iter.bi_sector = td_sector_in(&t->engine.layout, slot, sector);
	/* An error means that the SSD is lost: let it try hard first. */
	bio->bi_opf &= ~(REQ_RAHEAD | REQ_FAILFAST_MASK);
	bio_set_dev(bio, t->ssd->bdev);
	return DM_MAPIO_REMAPPED;
}

/*
 * Sectors of the bio that lie in its first run; map cuts it there. (dm would cut
 * at max_io_len, but also at the longest request of the disk, in the middle of a
 * frame, and the rest would meet the frame being filled.)
 */
static u32 in_run(const struct tandem *t, const struct bio *bio)
{
	u32 run = td_run_sectors(&t->engine.layout);
	u32 left = run - ((u32)bio->bi_iter.bi_sector & (run - 1));

	return min(left, bio_sectors(bio));
}

/* A read that td_read_home() does not answer. */
static noinline int map_read(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	u32 count = in_run(t, bio);
	enum td_verdict verdict;
	struct td_look look;

	measure_request(t, io);
	io->foreground = false;
	io->disk_read = false;
	tandem_note_user(t, bio);
	/* Nothing is dirty here: start_cache() and change_mode() make sure of that. */
	if (unlikely(t->coarse_ssd && !segments_fit(t, bio))) {
		td_pass(&t->engine, TD_READ, bio_sectors(bio),
			TD_C_READ_BYPASSED_UNALIGNED);
		return to_disk(t, bio, io);
	}
	verdict = td_read_look(&t->engine, bio->bi_iter.bi_sector, count,
			       &look);
	if (unlikely(verdict == TD_BUSY))
		verdict = look_again(t, bio, count, &look);
	if (look.count < bio_sectors(bio))
		dm_accept_partial_bio(bio, look.count);
	if (likely(verdict == TD_HIT)) {
		io->end = TANDEM_END_HITS;
		return map_hit(t, bio, io, look.slot, look.slots, look.dirty);
	}
	io->disk_read = true;
	if (verdict == TD_PASS)
		return to_disk(t, bio, io);
	return map_miss(t, bio, io);
}

static void tracked_answer(struct tandem_io *io, struct bio *bio)
{
	io->end = TANDEM_END_PLAIN;
	if (td_failed(&io->req))
		bio->bi_status = BLK_STS_IOERR;
	bio_endio(bio);
}

/* What td_begin() said of a request without private memory. */
static int tracked_begun(struct tandem *t, struct bio *bio, struct tandem_io *io,
			 u32 todo)
{
	if (todo & TD_DO_PASS)
		return to_disk(t, bio, io);
	if (todo & TD_DO_DISK) {
		tandem_to_disk(t, bio);
		return DM_MAPIO_REMAPPED;
	}
	if (todo & TD_DO_ANSWER)
		tracked_answer(io, bio);
	/* Without an action the request waits; another thread may have ended it by now. */
	return DM_MAPIO_SUBMITTED;
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
	if (todo & TD_DO_ANSWER) {
		tracked_answer(io, bio);
		return;
	}
	if (todo & TD_DO_DISK)
		tandem_to_disk(t, bio);
	if (todo & TD_DO_DISK || (todo & TD_DO_PASS &&
				  to_disk(t, bio, io) == DM_MAPIO_REMAPPED))
		tandem_submit_for_user(t, bio);
}

static noinline int map_write(struct tandem *t, struct bio *bio, struct tandem_io *io,
			      enum td_kind kind)
{
	struct td_engine *e = &t->engine;
	u64 sector = bio->bi_iter.bi_sector;
	u32 count = in_run(t, bio);
	struct tandem_job *job = NULL;
	struct td_req *r = &io->req;
	struct td_list woken;
	unsigned long flags;
	u32 slot, todo;
	bool copy;

	io->since = 0;
	if (kind == TD_WRITE)
		measure_request(t, io);
	io->foreground = false;
	io->disk_read = false;
	tandem_note_user(t, bio);
	WRITE_ONCE(t->written, jiffies);
	if (count < bio_sectors(bio))
		dm_accept_partial_bio(bio, count);
	copy = kind == TD_WRITE && td_write_wants_copy(e, sector, count);
	if (copy)
		job = tandem_job_new(t, bio, kind, sector, count);
	/* In place, since a cleaning would fail at a bad block of the SSD. */
	if (unlikely(copy && !job) && !(bio->bi_opf & REQ_FUA) && !t->stable_ssd &&
	    td_write_in_place(e, sector, count, &slot)) {
		io->end = TANDEM_END_HOME_TIMED;
		return map_hit(t, bio, io, slot, 1, 0);
	}
	if (job) {
		r = tandem_job_req(job);
		io->end = TANDEM_END_PLAIN;
	} else {
		td_req_init(r, kind, sector, count, NULL, 0);
		r->no_memory = copy;
		io->end = TANDEM_END_TRACKED;
	}
	r->fua = bio->bi_opf & REQ_FUA;
	td_list_init(&woken);
	flags = tandem_lock(t);
	todo = td_begin(e, r, &woken);
	tandem_unlock(t, flags);
	if (unlikely(todo & TD_DO_SUM))
		todo = tandem_job_sum(job, todo, &woken);
	tandem_carry_on(t, &woken);
	return job ? job_begun(t, bio, io, job, todo) :
		tracked_begun(t, bio, io, todo);
}

/* A flush has no data and its bio goes to no device: core decides what to flush. */
static noinline int map_flush(struct tandem *t, struct bio *bio, struct tandem_io *io)
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

/*
 * A write of dirty quarters goes to the SSD in place, with the user's own pages. Not
 * if the SSD computes checksums of pages (stable_ssd): the cached device has the
 * disk's limits (tandem_iterate_devices()), so the user may change a page during the
 * write, which such an SSD would fail, and the SSD would count as lost. Such an SSD
 * gets copies.
 */
static noinline int map_data(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	unsigned long now = jiffies;
	u32 slot;

	if (bio->bi_opf & REQ_FUA || t->stable_ssd ||
	    !td_write_home(&t->engine, bio->bi_iter.bi_sector,
			   bio_sectors(bio), &slot))
		return map_write(t, bio, io, TD_WRITE);
	if (t->written != now)
		WRITE_ONCE(t->written, now);
	io->end = TANDEM_END_HOME;
	if (unlikely(tandem_latency_turn(t->engine.counters))) {
		io->end = TANDEM_END_HOME_TIMED;
		tandem_latency_begin(io);
	}
	return map_hit(t, bio, io, slot, 1, 0);
}

/*
 * All but reads. When the disk was pulled out, each of them fails, as on the disk alone. The
 * SSD could still take some: but a file system that gets only a part of its writes through
 * may mark its journal as done with, while what the journal had for the disk is not there.
 */
static noinline int map_other(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	if (unlikely(test_bit(GD_DEAD, &t->origin->bdev->bd_disk->state)))
		return DM_MAPIO_KILL;
	switch (bio_op(bio)) {
	case REQ_OP_WRITE:
		if (likely(bio_sectors(bio)))
			return map_data(t, bio, io);
		return map_flush(t, bio, io);
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		return map_write(t, bio, io, TD_DISCARD);
	default:
		return DM_MAPIO_KILL;
	}
}

int tandem_map(struct dm_target *ti, struct bio *bio)
{
	struct tandem *t = ti->private;
	struct tandem_io *io = tandem_io_of(bio);
	u64 dirty;
	u32 slot;

	if (unlikely(bio_op(bio) != REQ_OP_READ))
		return map_other(t, bio, io);
	if (unlikely(!td_read_home(&t->engine, bio->bi_iter.bi_sector,
				   bio_sectors(bio), &slot, &dirty)))
		return map_read(t, bio, io);
	io->end = TANDEM_END_HIT;
	if (unlikely(tandem_latency_turn(t->engine.counters))) {
		io->end = TANDEM_END_HITS;
		tandem_latency_begin(io);
	}
	return map_hit(t, bio, io, slot, 1, dirty);
}

/* The last pin of a held slot is gone: tell the request that waits for that. */
static noinline void slot_drained(struct tandem *t, struct tandem_io *io,
				  struct td_word *word)
{
	u32 bucket = td_bucket_of(&t->engine, io->hit.iter.bi_sector);
	u32 slot = (u32)(word - t->engine.words);
	struct td_list woken;
	struct td_req *owner;
	unsigned long flags;
	u32 todo;

	td_list_init(&woken);
	flags = tandem_lock(t);
	todo = td_drained(&t->engine, bucket, slot, &owner, &woken);
	tandem_unlock(t, flags);
	if (todo)
		tandem_job_drained(owner);
	tandem_carry_on_later(t, &woken);
}

/* The SSD failed to read a copy; the disk has the same data. */
static int read_again(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	io->end = TANDEM_END_PLAIN;
	io->disk_read = true;
	io->since = 0;
	bio->bi_iter = io->hit.iter;
	bio->bi_status = BLK_STS_OK;
	bio->bi_opf &= ~REQ_POLLED;
	/* A lower device that split the bio counted this down. */
	atomic_set(&bio->__bi_remaining, 1);
	tandem_to_disk(t, bio);
	tandem_submit_for_user(t, bio);
	return DM_ENDIO_INCOMPLETE;
}

static void unpin_slots(struct tandem *t, struct tandem_io *io)
{
	u32 i;

	for (i = 0; i < io->hit.slots; i++)
		if (td_word_unpin(&io->hit.word[i]))
			slot_drained(t, io, &io->hit.word[i]);
}

/* One bad block costs its slot; core says whether it takes more than that. */
static noinline int hit_failed(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	struct td_list woken;
	unsigned long flags;
	bool again;

	td_list_init(&woken);
	flags = tandem_lock(t);
	again = td_hit_failed(&t->engine, io->hit.iter.bi_sector,
			      io->hit.iter.bi_size >> SECTOR_SHIFT,
			      (u32)(io->hit.word - t->engine.words),
			      io->hit.dirty, &woken);
	if (tandem_retired_changed(t))
		queue_work(t->frozen_wq, &t->retired);
	tandem_unlock(t, flags);
	unpin_slots(t, io);
	tandem_carry_on_later(t, &woken);
	return again ? read_again(t, bio, io) : DM_ENDIO_DONE;
}

static void home_done(struct tandem *t, struct tandem_io *io, bool ok)
{
	struct td_list woken;

	td_write_home_done(&t->engine, ok);
	if (unlikely(!ok)) {
		td_list_init(&woken);
		tandem_ssd_failed(t, &woken);
		tandem_carry_on_later(t, &woken);
	}
	unpin_slots(t, io);
}

/* False: @r is answered later by tandem_tracked_woken(), or was already. */
static noinline bool tracked_done(struct tandem *t, struct td_req *r, bool ok)
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

/* All but hits and writes in place of one slot that went well and are not measured. */
static noinline int end_other(struct tandem *t, struct bio *bio, struct tandem_io *io,
			      blk_status_t error)
{
	if (!error && io->since)
		tandem_latency_end(t, io);
	switch (io->end) {
	case TANDEM_END_HIT:
	case TANDEM_END_HITS:
		if (error)
			return hit_failed(t, bio, io);
		unpin_slots(t, io);
		return DM_ENDIO_DONE;
	case TANDEM_END_HOME:
	case TANDEM_END_HOME_TIMED:
		home_done(t, io, !error);
		return DM_ENDIO_DONE;
	case TANDEM_END_TRACKED:
		if (io->foreground)
			tandem_disk_leave(t);
		io->foreground = false;
		return tracked_done(t, &io->req, !error) ? DM_ENDIO_DONE :
			DM_ENDIO_INCOMPLETE;
	case TANDEM_END_PLAIN:
		if (io->foreground)
			tandem_disk_leave(t);
		if (io->disk_read)
			td_disk_read_ends(&t->engine);
		break;
	}
	return DM_ENDIO_DONE;
}

int tandem_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error)
{
	struct tandem *t = ti->private;
	struct tandem_io *io = tandem_io_of(bio);
	bool home = io->end == TANDEM_END_HOME;

	if (unlikely((io->end != TANDEM_END_HIT && !home) || *error))
		return end_other(t, bio, io, *error);
	if (home)
		td_write_home_done(&t->engine, true);
	if (unlikely(td_word_unpin(io->hit.word)))
		slot_drained(t, io, io->hit.word);
	return DM_ENDIO_DONE;
}
