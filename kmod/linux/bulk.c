// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A discard of many runs: core sees one request for each run, and the disk sees one bio.
 * A disk discards a gigabyte as fast as a megabyte, so a bio for each run would be slow.
 *
 * Invariants:
 *   D1  The bio goes to the disk when core has let each run go, in disk order, so that two
 *       bulks never wait for each other. Every other request is of one run, so what
 *       a run waits for never waits for another run of this bulk.
 *   D2  Until then one run at most waits, so one thread at most uses the bulk: map's, or
 *       the worker that continues this run. A thread that lets a run wait is done with it.
 *   D3  Behind the disk's answer @left counts runs that core has not ended, and the thread
 *       that ends them. The thread that takes the last one answers the user.
 * Threads: map and workers, in process context; the disk's completion, in any context; the
 * lock guards @left.
 * Why few runs end in the completion: a worker for each discard of an fstrim costs as much as
 * the discard.
 */
#include "map.h"

/*
 * Runs in flight of one target. Core looks through the requests of a bucket, and the disk
 * may take many discards at once.
 */
#define MOST_RUNS	8192

/* So many runs end in the disk's completion. A page has them, so that kvfree() does not sleep. */
#define FEW_RUNS	4u

struct tandem_bulk_run {
	struct td_req req;
	struct tandem_bulk *bulk;
	bool ended;	/* core has forgotten the run before the disk was asked */
};

struct tandem_bulk {
	struct work_struct work;	/* the disk has answered */
	struct tandem *t;
	struct bio *bio;
	u32 nr;
	u32 begun;	/* runs that core has let go, from the first one on */
	u32 left;
	bool answered;	/* the disk has, or was not asked */
	bool failed;	/* core says EIO of a run */
	struct tandem_bulk_run runs[];
};

/* Core said @todo of the next run. False: the run waits. Lock held. */
static bool let_go(struct tandem_bulk *b, u32 todo)
{
	struct tandem_bulk_run *run = &b->runs[b->begun];

	if (!todo)
		return false;
	b->begun++;
	if (todo & TD_DO_DISK)
		return true;
	run->ended = true;
	b->failed |= todo & TD_DO_ANSWER && td_failed(&run->req);
	return true;
}

/* Process context. False: a run waits; D2. Appends to @woken. */
static bool begin_runs(struct tandem_bulk *b, struct td_list *woken)
{
	struct tandem *t = b->t;
	unsigned long flags;
	bool goes_on = true;

	while (goes_on && b->begun < b->nr) {
		flags = tandem_lock(t);
		goes_on = let_go(b, td_begin(&t->engine, &b->runs[b->begun].req, woken));
		tandem_unlock(t, flags);
		cond_resched();
	}
	return goes_on;
}

/* Core said @todo of a run behind the disk's answer. True: answer(). Lock held. */
static bool end_run(struct tandem_bulk *b, const struct td_req *r, u32 todo)
{
	if (!todo)
		return false;
	b->failed |= td_failed(r);
	return !--b->left;
}

/* All runs have ended: forget them. Is the answer an error? */
static bool forget(struct tandem_bulk *b)
{
	bool failed = b->failed;

	atomic_sub(b->nr, &b->t->bulk_runs);
	kvfree(b);
	return failed;
}

static void answer(struct tandem_bulk *b)
{
	struct bio *bio = b->bio;

	tandem_io_of(bio)->end = TANDEM_END_PLAIN;
	if (forget(b) && !bio->bi_status)
		bio->bi_status = BLK_STS_IOERR;
	bio_endio(bio);
}

/*
 * The disk has answered, or is not asked since core failed a run. Appends to @woken. True: all
 * runs have ended. Any context.
 */
static bool end_runs(struct tandem_bulk *b, bool ok, struct td_list *woken)
{
	struct tandem *t = b->t;
	struct tandem_bulk_run *run;
	unsigned long flags;
	bool last;

	b->left = 1;
	for (run = b->runs; run < b->runs + b->nr; run++)
		b->left += !run->ended;
	b->answered = true;
	for (run = b->runs; run < b->runs + b->nr; run++) {
		if (run->ended)
			continue;
		flags = tandem_lock(t);
		end_run(b, &run->req,
			td_disk_done(&t->engine, &run->req, ok, woken));
		tandem_unlock(t, flags);
		if (b->nr > FEW_RUNS)
			cond_resched();
	}
	flags = tandem_lock(t);
	last = !--b->left;
	tandem_unlock(t, flags);
	return last;
}

/* The same, and what follows. Process context. */
static void end_all(struct tandem_bulk *b, bool ok)
{
	struct tandem *t = b->t;
	struct td_list woken;
	bool last;

	td_list_init(&woken);
	last = end_runs(b, ok, &woken);
	if (last)
		answer(b);
	tandem_carry_on(t, &woken);
}

static void answered_work(struct work_struct *work)
{
	struct tandem_bulk *b = container_of(work, struct tandem_bulk, work);

	end_all(b, !b->bio->bi_status);
}

bool tandem_bulk_done(struct tandem_bulk *b, blk_status_t *error)
{
	struct tandem *t = b->t;
	struct td_list woken;
	bool last;

	if (b->nr > FEW_RUNS) {
		queue_work(t->wq, &b->work);
		return false;
	}
	td_list_init(&woken);
	/* Another thread may answer meanwhile; tandem_jobs_wait() waits for this one. */
	rcu_read_lock();
	last = end_runs(b, !*error, &woken);
	if (last && forget(b) && !*error)
		*error = BLK_STS_IOERR;
	tandem_carry_on_later(t, &woken);
	rcu_read_unlock();
	return last;
}

/* Core has let all runs go. Returns a DM_MAPIO code; process context. */
static int to_disk(struct tandem_bulk *b)
{
	struct tandem *t = b->t;
	struct bio *bio = b->bio;
	struct tandem_io *io = tandem_io_of(bio);

	if (b->failed) {
		end_all(b, false);
		return DM_MAPIO_SUBMITTED;
	}
	io->end = TANDEM_END_BULK;
	io->bulk = b;
	tandem_to_disk(t, bio, io);
	return tandem_wait_for_record(t, bio) ? DM_MAPIO_SUBMITTED :
		DM_MAPIO_REMAPPED;
}

void tandem_bulk_woken(struct tandem *t, struct td_req *r, struct td_list *woken)
{
	struct tandem_bulk *b =
		container_of(r, struct tandem_bulk_run, req)->bulk;
	struct bio *bio = b->bio;
	u32 todo = td_woken(r);
	unsigned long flags;
	bool go_on;

	flags = tandem_lock(t);
	if (b->answered) {
		go_on = end_run(b, r, todo);
		tandem_unlock(t, flags);
		if (go_on)
			answer(b);
		return;
	}
	if (todo & TD_DO_START)
		todo = td_start(&t->engine, r, woken);
	go_on = let_go(b, todo);
	tandem_unlock(t, flags);
	if (go_on && begin_runs(b, woken) && to_disk(b) == DM_MAPIO_REMAPPED)
		tandem_submit_for_user(t, bio);
}

/* The bulk of @count sectors of @bio; NULL: no memory. */
static struct tandem_bulk *new_bulk(struct tandem *t, struct bio *bio, u32 count)
{
	u64 sector = bio->bi_iter.bi_sector, end = sector + count;
	u32 shift = TD_FRAME_SHIFT + t->engine.layout.run_shift;
	u32 nr = (u32)(((end - 1) >> shift) - (sector >> shift)) + 1;
	struct tandem_bulk *b;
	u32 i;

	BUILD_BUG_ON(sizeof(struct tandem_bulk) + FEW_RUNS * sizeof(struct tandem_bulk_run) >
		     PAGE_SIZE);
	b = kvmalloc(struct_size(b, runs, nr), GFP_NOIO | __GFP_NORETRY | __GFP_NOWARN);
	if (!b)
		return NULL;
	atomic_add(nr, &t->bulk_runs);
	INIT_WORK(&b->work, answered_work);
	b->t = t;
	b->bio = bio;
	b->nr = nr;
	b->begun = 0;
	b->answered = false;
	b->failed = false;
	for (i = 0; i < nr; i++) {
		u64 next = min(end, ((sector >> shift) + 1) << shift);

		td_req_init(&b->runs[i].req, TD_DISCARD, sector, (u32)(next - sector),
			    NULL, 0);
		b->runs[i].req.reach = end;
		b->runs[i].bulk = b;
		b->runs[i].ended = false;
		sector = next;
	}
	return b;
}

/*
 * Dirty data is written back while a read is at the disk. Requests of one run do that side
 * by side and share a flush of the disk; by D1 the runs of a bulk would do it in turn.
 */
static bool drains_first(const struct tandem *t)
{
	return td_ledger_has_dirty(&t->engine.ledger) &&
	       env_load(&t->engine.disk_reads);
}

/* Sectors from @sector to the next multiple of TANDEM_BULK_RUNS, so that no cut is in a
 * large granule of the disk.
 */
static u64 to_cut(const struct tandem *t, u64 sector)
{
	u64 most = (u64)TANDEM_BULK_RUNS * td_run_sectors(&t->engine.layout);

	return most - (sector & (most - 1));
}

bool tandem_map_bulk(struct tandem *t, struct bio *bio, struct tandem_io *io,
		     int *code)
{
	u32 first = tandem_in_run(t, bio);
	struct tandem_bulk *b;
	struct td_list woken;
	bool begun;
	u32 count;

	if (first == bio_sectors(bio) || drains_first(t) ||
	    atomic_read(&t->bulk_runs) > MOST_RUNS - (int)TANDEM_BULK_RUNS)
		return false;
	count = (u32)min_t(u64, bio_sectors(bio), to_cut(t, bio->bi_iter.bi_sector));
	b = new_bulk(t, bio, count);
	if (!b)
		return false;
	io->end = TANDEM_END_PLAIN;
	io->since = 0;
	io->foreground = false;
	io->disk_read = false;
	tandem_note_user(bio, t->origin);
	WRITE_ONCE(t->written, jiffies);
	if (count < bio_sectors(bio))
		dm_accept_partial_bio(bio, count);
	td_list_init(&woken);
	begun = begin_runs(b, &woken);
	tandem_carry_on(t, &woken);
	*code = begun ? to_disk(b) : DM_MAPIO_SUBMITTED;
	return true;
}
