// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The ledger's own I/O: groups of the journal, marks, checkpoints, flushes; the
 * clock that starts it, and the halt that ends it.
 *
 * Invariants:
 *   D1  At most one work of each kind is under way. Its bio and its buffer are
 *       allocated by the constructor; nothing is allocated later.
 *   D2  After each call of core that may have made work due, the work is taken:
 *       by the caller, if the caller may submit I/O, else by a worker.
 *   D3  While the target is halted no work is under way, no work is taken, and
 *       the clock does not tick.
 *   D4  works_on counts a work until the work that it made due is counted.
 * Threads: work is submitted in process context, by map itself where map can,
 * since a flush waits for the work; a worker completes it.
 */
#include <linux/slab.h>

#include "job.h"

static struct block_device *bdev_of(const struct tandem *t, u8 kind)
{
	return kind == TD_WORK_FLUSH_DISK ? t->origin->bdev : t->ssd->bdev;
}

/*
 * A worker of its own submits a trim: write-back throttling may hold back discards for long,
 * and nothing else is to wait with them.
 */
static void submit_trim(struct work_struct *work)
{
	struct tandem *t = container_of(work, struct tandem, trim_submit);
	struct bio *bio = &t->works[TD_WORK_TRIM].bio;

	t->trim.began = ktime_get_ns();
	submit_bio_noacct(bio);
}

static void work_endio(struct bio *bio)
{
	struct tandem_work *w = bio->bi_private;

	queue_work(w->t->wq, &w->done);
}

static void submit_work(struct tandem *t, struct tandem_work *w)
{
	static const blk_opf_t how[TD_WORK_KINDS] = {
		[TD_WORK_GROUP] = REQ_META | REQ_FUA,
		[TD_WORK_FLUSH_SSD] = REQ_PREFLUSH,
		[TD_WORK_FLUSH_DISK] = REQ_PREFLUSH,
		[TD_WORK_MARKS] = REQ_META | REQ_FUA,
		[TD_WORK_PAGES] = REQ_META,
		[TD_WORK_HEAD] = REQ_META | REQ_PREFLUSH | REQ_FUA,
		[TD_WORK_NOTE] = REQ_META | REQ_FUA,
	};
	const struct td_work *work = &w->work;

	/* Marked like direct I/O, so that write-back throttling spares the worker. */
	bio_init(&w->bio, bdev_of(t, work->kind), &w->vec, 1,
		 (work->kind == TD_WORK_TRIM ? REQ_OP_DISCARD :
		  REQ_OP_WRITE | REQ_SYNC | REQ_IDLE) | how[work->kind] |
		 (work->flush ? REQ_PREFLUSH : 0));
	tandem_charge_nobody(&w->bio);
	w->bio.bi_iter.bi_sector = work->sector;
	w->bio.bi_private = w;
	w->bio.bi_end_io = work_endio;
	if (work->kind == TD_WORK_TRIM)
		w->bio.bi_iter.bi_size = work->sectors << SECTOR_SHIFT;
	else if (work->sectors)
		__bio_add_page(&w->bio, virt_to_page(work->buffer),
			       work->sectors << SECTOR_SHIFT,
			       offset_in_page(work->buffer));
	if (work->kind == TD_WORK_FLUSH_DISK)
		tandem_submit_own(t, &w->bio);
	else if (work->kind == TD_WORK_TRIM)
		queue_work(t->disk_wq, &t->trim_submit);
	else
		submit_bio_noacct(&w->bio);
}

/* Take one work and submit it, or let core make a step. False: there was none. */
static bool submit_next(struct tandem *t, struct td_list *woken)
{
	struct td_work work;
	struct tandem_work *w = NULL;
	unsigned long flags = tandem_lock(t);
	bool any = !t->halted && td_work_next(&t->engine, &work, woken);

	if (any && work.kind != TD_WORK_STEP) {
		w = &t->works[work.kind];
		w->work = work;
		t->works_on++;
	}
	tandem_unlock(t, flags);
	if (w) {
		td_work_fill(&t->engine, &w->work);
		submit_work(t, w);
	}
	return any;
}

static void carry_on_request(struct tandem *t, struct td_req *r, struct td_list *woken)
{
	if (r->parts && !r->lent)
		tandem_job_woken(r, woken);
	else if (r == &t->durable_flush)
		complete(&t->durable_flush_done);
	else if (r->kind == TD_DISCARD && r->reach)
		tandem_bulk_woken(t, r, woken);
	else
		tandem_tracked_woken(t, r, woken);
}

void tandem_carry_on(struct tandem *t, struct td_list *woken)
{
	struct td_req *r;

	do {
		while ((r = td_list_pop(woken)))
			carry_on_request(t, r, woken);
		if (td_work_due(&t->engine))
			while (submit_next(t, woken))
				;
	} while (woken->head);
}

void tandem_carry_on_later(struct tandem *t, struct td_list *woken)
{
	if (woken->head)
		tandem_defer_woken(t, woken);
	else if (td_work_due(&t->engine))
		queue_work(t->wq, &t->meta);
}

static void meta_work(struct work_struct *work)
{
	struct tandem *t = container_of(work, struct tandem, meta);
	struct td_list woken;

	td_list_init(&woken);
	tandem_carry_on(t, &woken);
}

/* Lock held. */
static void allow_trim(struct tandem *t)
{
	if (!t->halted && tandem_trim_may(&t->trim))
		td_trim_allow(&t->engine, t->trim.lanes);
}

/* A trim has ended; core knows that. True: that was the last one. Lock held. */
static bool trim_ended(struct tandem *t, bool ok)
{
	bool last = tandem_trim_ended(&t->trim, ok, ktime_get_ns() - t->trim.began);

	allow_trim(t);
	return last;
}

static void done_work(struct work_struct *work)
{
	struct tandem_work *w = container_of(work, struct tandem_work, done);
	struct tandem *t = w->t;
	bool ok = !w->bio.bi_status;
	struct td_list woken;
	unsigned long flags;
	bool last, clean, again, last_trim = false;

	td_list_init(&woken);
	bio_uninit(&w->bio);
	do {
		flags = tandem_lock(t);
		/* Quarters that were dirty but not recorded may be cleaned now. */
		clean = w->work.kind == TD_WORK_GROUP && t->cleaner.waits_for_record;
		again = td_work_done(&t->engine, &w->work, ok, &woken);
		if (w->work.kind == TD_WORK_TRIM)
			last_trim = trim_ended(t, ok);
		/* From here on @w may be in use again, but for another step. */
		tandem_unlock(t, flags);
	} while (again);
	if (last_trim)
		DMINFO("%s: the SSD %s, so nothing is trimmed any more",
		       dm_table_device_name(t->ti->table),
		       ok ? "trims slowly" : "has refused a trim");
	tandem_carry_on(t, &woken);
	if (clean)
		tandem_cleaner_kick(t);
	flags = tandem_lock(t);
	t->works_on--;
	last = tandem_own_io_ended_locked(t);
	tandem_unlock(t, flags);
	if (last)
		wake_up(&t->idle);
}

/* Does core hold anything that only the clock brings to an end? */
static bool needs_clock(const struct tandem *t)
{
	const struct td_engine *e = &t->engine;
	const struct td_ledger *l = &e->ledger;

	return l->changed || l->ssd_unflushed || l->marks_set || l->dirty ||
	       t->cleaner.was_dirty || td_watch_asks(e) ||
	       (tandem_trims(&t->trim) && td_trim_wants(e));
}

void tandem_unlock_cleaner(struct tandem *t, unsigned long flags)
	__releases(t->lock)
{
	const struct td_engine *e = &t->engine;
	bool tick = !t->ticking && !t->halted && needs_clock(t);
	bool failed = !td_active(e) && !t->failure_reported;
	bool lost = failed && env_load(&e->state) == TD_BYPASS;

	t->ticking |= tick;
	t->failure_reported |= failed;
	if (unlikely(lost))
		WRITE_ONCE(t->unrecorded, true);
	spin_unlock_irqrestore(&t->lock, flags);
	if (unlikely(tick))
		queue_delayed_work(t->frozen_wq, &t->tick, TANDEM_SECOND);
	if (unlikely(failed))
		queue_work(t->wq, &t->event);
	if (unlikely(lost))
		queue_delayed_work(t->wq, &t->recorded, TANDEM_SECOND);
}

void tandem_unlock(struct tandem *t, unsigned long flags)
	__releases(t->lock)
{
	const struct td_engine *e = &t->engine;
	bool urgent = !t->halted && e->urgent.next != &e->urgent;

	tandem_unlock_cleaner(t, flags);
	if (unlikely(urgent))
		tandem_cleaner_kick_urgent(t);
}

void tandem_ssd_failed(struct tandem *t, struct td_list *woken)
{
	unsigned long flags = tandem_lock(t);

	td_fail(&t->engine, woken);
	tandem_unlock(t, flags);
}

static void tick_work(struct work_struct *work)
{
	struct tandem *t = container_of(to_delayed_work(work), struct tandem,
					tick);
	struct td_list woken;
	unsigned long flags;
	bool again;

	td_list_init(&woken);
	flags = tandem_lock(t);
	td_tick(&t->engine);
	tandem_trim_tick(&t->trim);
	allow_trim(t);
	tandem_cleaner_tick(t);
	again = !t->halted && needs_clock(t);
	t->ticking = again;
	tandem_unlock(t, flags);
	tandem_carry_on(t, &woken);
	if (again)
		queue_delayed_work(t->frozen_wq, &t->tick, TANDEM_SECOND);
	if (td_watch_asks(&t->engine))
		queue_work(t->frozen_wq, &t->look);
	tandem_freeze_watch(t);
}

int tandem_meta_init(struct tandem *t)
{
	u32 i;

	spin_lock_init(&t->lock);
	mutex_init(&t->drop_lock);
	init_completion(&t->durable_flush_done);
	INIT_WORK(&t->meta, meta_work);
	INIT_DELAYED_WORK(&t->tick, tick_work);
	INIT_WORK(&t->trim_submit, submit_trim);
	t->halted = true;
	t->works = kcalloc(TD_WORK_KINDS, sizeof(*t->works), GFP_KERNEL);
	if (!t->works)
		return -ENOMEM;
	for (i = 0; i < TD_WORK_KINDS; i++) {
		t->works[i].t = t;
		INIT_WORK(&t->works[i].done, done_work);
	}
	return 0;
}

void tandem_meta_free(struct tandem *t)
{
	kfree(t->works);
}

bool tandem_make_durable(struct tandem *t)
{
	struct td_list woken;
	unsigned long flags;
	u32 todo;

	td_list_init(&woken);
	reinit_completion(&t->durable_flush_done);
	td_req_init(&t->durable_flush, TD_FLUSH, 0, 0, NULL, 0);
	t->durable_flush.whole = true;
	flags = tandem_lock(t);
	todo = td_begin(&t->engine, &t->durable_flush, &woken);
	tandem_unlock(t, flags);
	tandem_carry_on(t, &woken);
	if (todo & TD_DO_PASS)
		return false;
	if (!(todo & TD_DO_ANSWER))
		wait_for_completion(&t->durable_flush_done);
	return !td_failed(&t->durable_flush);
}

void tandem_meta_halt(struct tandem *t)
{
	unsigned long flags = tandem_lock(t);

	t->halted = true;
	tandem_unlock(t, flags);
	cancel_delayed_work_sync(&t->tick);
	wait_event(t->idle, tandem_own_io_ended(t));
	flags = tandem_lock(t);
	td_trim_stop(&t->engine);
	tandem_unlock(t, flags);
	cancel_delayed_work_sync(&t->recorded);
	/* After this no work looks at the engine, so another table may take it. */
	flush_workqueue(t->wq);
	tandem_cleaner_cancel(t);
	cancel_work_sync(&t->watch);
	cancel_work_sync(&t->look);
	flush_work(&t->event);
	/* tandem_super_stopped() writes the retired slots that are not written yet. */
	cancel_work_sync(&t->retired);
	t->ticking = false;
}

void tandem_meta_start(struct tandem *t)
{
	struct td_list woken;
	unsigned long flags;

	td_list_init(&woken);
	flags = tandem_lock(t);
	t->halted = false;
	tandem_unlock(t, flags);
	tandem_carry_on(t, &woken);
	if (READ_ONCE(t->unrecorded))
		queue_delayed_work(t->wq, &t->recorded, TANDEM_SECOND);
}
