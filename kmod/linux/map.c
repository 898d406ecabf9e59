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

#include "map.h"
#include "read.h"
#include "write.h"

bool tandem_each_segment_fits(const struct tandem *t, const struct bio *bio,
			      const struct bvec_iter *from)
{
	struct bvec_iter iter;
	struct bio_vec bv;

	__bio_for_each_bvec(bv, bio, iter, *from)
		if (bv.bv_len & tandem_segment_mask(t))
			return false;
	return true;
}

/* A read that misses: fill from private memory, or just read. */
static noinline int map_miss(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	u64 sector = bio->bi_iter.bi_sector;
	u32 count = tandem_may_take(bio, bio_sectors(bio));
	struct tandem_job *job;
	struct td_list woken;
	unsigned long flags;
	u32 todo;

	if (tandem_join(t, bio, io))
		return DM_MAPIO_SUBMITTED;
	if (count < bio_sectors(bio))
		dm_accept_partial_bio(bio, count);
	job = tandem_job_new(t, bio, TD_READ, sector, count);
	if (!job) {
		td_pass(&t->engine, TD_READ, count, TD_C_READ_BYPASSED_MEMORY);
		return tandem_pass(t, bio, io);
	}
	io->end = TANDEM_END_PLAIN;
	td_list_init(&woken);
	flags = tandem_lock(t);
	todo = td_begin(&t->engine, tandem_job_req(job), &woken);
	tandem_unlock(t, flags);
	tandem_carry_on(t, &woken);
	return tandem_job_begun(t, bio, io, job, todo);
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

/* A read that td_read_home() does not answer. */
static noinline int map_read(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	u32 count = tandem_in_run(t, bio);
	enum td_verdict verdict;
	struct td_look look;

	tandem_measure(t, io);
	io->foreground = false;
	io->disk_read = false;
	tandem_note_user(bio, t->origin);
	/* Nothing is dirty here: start_cache() and change_mode() make sure of that. */
	if (unlikely(t->coarse_ssd && !tandem_segments_fit(t, bio, &bio->bi_iter))) {
		td_pass(&t->engine, TD_READ, bio_sectors(bio),
			TD_C_READ_BYPASSED_UNALIGNED);
		return tandem_pass(t, bio, io);
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
		return tandem_pass(t, bio, io);
	return map_miss(t, bio, io);
}

bool tandem_map_in_place(struct tandem *t, struct bio *bio, struct tandem_io *io,
			 int *code)
{
	u32 slot;

	if (!td_write_in_place(&t->engine, bio->bi_iter.bi_sector,
			       bio_sectors(bio), &slot))
		return false;
	io->end = TANDEM_END_HOME_TIMED;
	*code = map_hit(t, bio, io, slot, 1, 0);
	return true;
}

/*
 * When the disk was pulled out, all but reads fails, as on the disk alone. The SSD could
 * still take some writes: but a file system that gets only a part of its writes through
 * may mark its journal as done with, while what the journal had for the disk is not there.
 */
static inline bool is_disk_gone(const struct tandem *t)
{
	return test_bit(GD_DEAD, &t->origin->bdev->bd_disk->state);
}

/* A write of dirty quarters goes to the SSD in place, with the user's own pages: to @slot. */
static __always_inline int map_in_place(struct tandem *t, struct bio *bio,
					struct tandem_io *io, u32 slot)
{
	unsigned long now = jiffies;

	if (t->written != now)
		WRITE_ONCE(t->written, now);
	io->end = TANDEM_END_HOME;
	if (unlikely(tandem_latency_turn(t->engine.counters))) {
		io->end = TANDEM_END_HOME_TIMED;
		tandem_latency_begin(io);
	}
	return map_hit(t, bio, io, slot, 1, 0);
}

/* A write that td_write_home() does not take. */
static noinline int map_elsewhere(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	u32 slot;

	if (!td_write_elsewhere(&t->engine, bio->bi_iter.bi_sector, bio_sectors(bio), &slot))
		return tandem_map_write(t, bio, io, TD_WRITE);
	return map_in_place(t, bio, io, slot);
}

/*
 * The cost of a write in place is counted: so tandem_map() comes here at once, and all else
 * is a call in the end.
 */
static noinline int map_data(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	u32 slot;

	if (unlikely(is_disk_gone(t)))
		return DM_MAPIO_KILL;
	if (unlikely(!bio_sectors(bio)))
		return tandem_map_flush(t, bio, io);
	if (bio->bi_opf & REQ_FUA || !tandem_fits_ssd(t, bio))
		return tandem_map_write(t, bio, io, TD_WRITE);
	if (!td_write_home(&t->engine, bio->bi_iter.bi_sector, bio_sectors(bio), &slot))
		return map_elsewhere(t, bio, io);
	return map_in_place(t, bio, io, slot);
}

/* Neither a read nor a write of data. */
static noinline int map_other(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	int code;

	if (unlikely(is_disk_gone(t)))
		return DM_MAPIO_KILL;
	switch (bio_op(bio)) {
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		if (tandem_map_bulk(t, bio, io, &code))
			return code;
		return tandem_map_write(t, bio, io, TD_DISCARD);
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
		return bio_op(bio) == REQ_OP_WRITE ? map_data(t, bio, io) :
						     map_other(t, bio, io);
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
	tandem_take_back(t, bio, &io->hit.iter);
	tandem_to_disk(t, bio, io);
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

/*
 * One bad block costs its slot; core says whether it takes more than that. Memory that the
 * SSD may refuse costs nothing: else such reads could make the SSD count as lost.
 */
static noinline int hit_failed(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	u64 sector = io->hit.iter.bi_sector;
	u32 count = io->hit.iter.bi_size >> SECTOR_SHIFT;
	u32 slot = (u32)(io->hit.word - t->engine.words);
	struct td_list woken;
	unsigned long flags;
	bool again;

	td_list_init(&woken);
	flags = tandem_lock(t);
	if (tandem_segments_fit(t, bio, &io->hit.iter))
		again = td_hit_failed(&t->engine, sector, count, slot,
				      io->hit.dirty, &woken);
	else
		again = td_hit_refused(&t->engine, sector, count, slot,
				       io->hit.dirty);
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

/* All but hits and writes in place of one slot that went well and are not measured. */
static noinline int end_other(struct tandem *t, struct bio *bio, struct tandem_io *io,
			      blk_status_t *error)
{
	/* A lent write may be answered later, and by another thread. */
	if (io->end == TANDEM_END_LENT && !tandem_lent_done(t, bio, io, error))
		return DM_ENDIO_INCOMPLETE;
	if (!*error && io->since)
		tandem_latency_end(t, io);
	switch (io->end) {
	case TANDEM_END_HIT:
	case TANDEM_END_HITS:
		if (*error)
			return hit_failed(t, bio, io);
		unpin_slots(t, io);
		return DM_ENDIO_DONE;
	case TANDEM_END_HOME:
	case TANDEM_END_HOME_TIMED:
		home_done(t, io, !*error);
		return DM_ENDIO_DONE;
	case TANDEM_END_TRACKED:
		if (io->foreground)
			tandem_disk_leave(t);
		io->foreground = false;
		return tandem_tracked_done(t, &io->req, !*error) ? DM_ENDIO_DONE :
			DM_ENDIO_INCOMPLETE;
	case TANDEM_END_PLAIN:
		if (io->foreground)
			tandem_disk_leave(t);
		if (io->disk_read)
			td_disk_read_ends(&t->engine);
		break;
	case TANDEM_END_BULK:
		tandem_disk_leave(t);
		io->foreground = false;
		return tandem_bulk_done(io->bulk, error) ? DM_ENDIO_DONE :
			DM_ENDIO_INCOMPLETE;
	case TANDEM_END_LENT:
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
		return end_other(t, bio, io, error);
	if (home)
		td_write_home_done(&t->engine, true);
	if (unlikely(td_word_unpin(io->hit.word)))
		slot_drained(t, io, io->hit.word);
	return DM_ENDIO_DONE;
}
