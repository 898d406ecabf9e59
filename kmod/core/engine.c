// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The life of requests in flight: which request waits for which, and when each ends.
 *
 * Invariants, under the bucket's lock:
 *   E1  Every write (and discard) from td_begin() to END, and every fill, is in
 *       its bucket's ring, in order of arrival; cleanings, and discards that drop
 *       dirty data, stand before them (K4).
 *   E2  Of two writes that touch a common quarter the later one waits until the
 *       earlier one has ended. (Neighbours in a frame go side by side: a journal
 *       is written in blocks of 4 KiB, which the disk's queue should merge.)
 *   E3  A fill takes no frame that a write in the ring touches, waiting or not,
 *       nor one of another fill. A write that starts cancels the parts of fills
 *       that it touches: they are not published.
 *   E4  A write has unpublished every quarter that it touches before its disk
 *       write is submitted, and they stay so until it has ended. (But a discard
 *       leaves dirty quarters as they are until its end, Q1.)
 *   E5  A slot's SSD write is submitted only when no read is pinned that could
 *       expect the slot's former content: a slot taken from another frame had no
 *       pin when taken (W3); the first write in a slot holds the slot until the
 *       last pin is gone; a write that joins it there writes on the SSD only if
 *       no pin was there.
 *   E6  A slot is published only when the disk holds the same data: for a fill
 *       by E3, for a write since it ends after both writes succeeded.
 *
 * Why reads are linearizable per sector: take a sector and the writes to it,
 * which E2 puts in a row W1, W2, ... A read of it goes to the disk or to a
 * pinned slot.
 *   - A disk read is as linearizable as the disk, for it happens between the
 *     read's start and end.
 *   - A hit that pinned after Wn ended returns what Wn or a later fill stored,
 *     by E6 equal to the disk's content, and no later write has been submitted
 *     to the disk when the pin was taken, or it would have unpublished it (E4).
 *     If W(n+1) starts during the hit, both overlap and the old value is
 *     right: a read that returned the new value read it from the disk, after E4's
 *     unpublishing, so after the pin, so not before the hit began.
 *   - No hit pins between a write's unpublishing and its end (W5), so none sees
 *     data that the disk has not yet taken.
 *   - Until a discard drops a dirty quarter all reads of it pin that quarter (or
 *     wait), so none sees the disk; afterwards all new ones see the disk.
 *   - A fill of quarters that are not valid goes beside no pin (store.c): a write in
 *     place that pinned the slot before a discard dropped them would go on beside it,
 *     and change the copy of what the disk has. New pins are of other quarters.
 *
 * Threads: td_begin() and the *_done() functions under the bucket's lock.
 * Why a ring per bucket and no tree: it holds the requests in flight to 1/1024
 * of the disk, which is seldom more than one.
 */
#include "discard.h"
#include "index.h"
#include "ledger_int.h"

void td_pass(struct td_engine *e, enum td_kind kind, u32 count,
	     enum td_counter why)
{
	env_count(e->counters, why, count);
}

static struct td_bucket *bucket_of(const struct td_engine *e,
				   const struct td_req *r)
{
	return &e->buckets[r->bucket];
}

/* Is a write in the ring, before @before, that shares a quarter with @r? */
static bool write_before(const struct td_bucket *b, const struct td_req *r,
			 const struct td_link *before)
{
	for (struct td_link *l = b->reqs.next; l != before; l = l->next)
		if (td_req_is_write(td_req_of(l)) &&
		    td_req_collide(td_req_of(l), r))
			return true;
	return false;
}

static u32 begin_read(struct td_engine *e, struct td_bucket *b,
		      struct td_req *r)
{
	bool stream = td_stream_seen(e, &e->reads, TD_STREAM_READ,
				     td_frame_of(r->sector),
				     td_frame_of(r->sector + r->count - 1));
	bool full = td_store_plan_fill(e, b, r, stream);

	if (!r->nr_parts) {
		enum td_counter why = TD_C_READ_BYPASSED_BUSY;

		if (full)
			why = stream ? TD_C_READ_BYPASSED_SEQUENTIAL :
				TD_C_READ_BYPASSED_FULL;
		td_pass(e, TD_READ, r->count, why);
		return TD_DO_PASS;
	}
	td_link_add_tail(&b->reqs, &r->link);
	r->phase = TD_PHASE_ACTIVE;
	r->pending = TD_DO_DISK;
	/* The sweep that the fill needs runs while the disk is read. */
	if (r->sweep > e->ledger.sweep_begun)
		td_ledger_want_sweep(e);
	td_pass(e, TD_READ, r->count, TD_C_READ_MISSED);
	return TD_DO_DISK;
}

/* No other write is in the way of @r: unpublish the quarters of @r, and start. */
static u32 start_disk_write(struct td_engine *e, struct td_bucket *b,
			    struct td_req *r)
{
	td_store_plan_write(e, b, r);
	if (r->kind == TD_DISCARD && td_discard_drops(e, r)) {
		td_link_del(&r->link);
		td_clean_enter_ring(b, r);
	}
	r->phase = TD_PHASE_ACTIVE;
	r->pending = TD_DO_DISK;
	if (r->nr_parts)
		r->pending |= TD_DO_SSD;
	if (r->holds)
		env_count(e->counters, TD_C_DRAINS, 1);
	return r->holds ? TD_DO_DISK : r->pending;
}

static u32 start_writeback(struct td_engine *e, struct td_req *r)
{
	r->phase = TD_PHASE_ACTIVE;
	r->pending = TD_DO_SSD;
	if (r->holds) {
		env_count(e->counters, TD_C_DRAINS, 1);
		return 0;
	}
	return td_ledger_waits(e, r, TD_DO_SSD) ? 0 : TD_DO_SSD;
}

static u32 wait_in_ring(struct td_engine *e, struct td_req *r)
{
	if (r->phase == TD_PHASE_NEW)
		env_count(e->counters, TD_C_WAITS, 1);
	r->phase = TD_PHASE_WAITING;
	return 0;
}

/* The SSD failed: in BYPASS the write goes to the disk, in STRANDED it gets EIO. */
static u32 start_bypassed(struct td_engine *e, struct td_req *r,
			  struct td_list *woken)
{
	r->failed = env_load(&e->state) == TD_STRANDED;
	e->ledger.disk_unflushed = true;
	env_count(e->counters, TD_C_WRITE_BYPASSED_FAILED, r->count);
	td_end(e, r, woken);
	return r->failed ? TD_DO_ANSWER | TD_DO_END : TD_DO_PASS;
}

/* The cleaning @r has its data, and is about to write the disk. */
static u32 start_cleaning_write(struct td_engine *e, struct td_req *r,
				struct td_list *woken)
{
	u32 actions;

	if (!td_active(e)) {
		td_clean_failed(e, r, woken);
		return TD_DO_END;
	}
	if (!td_watch_gate(e, r, &actions))
		return actions;
	return td_ledger_waits(e, r, TD_DO_DISK) ? 0 : TD_DO_DISK;
}

/* The lent write @r is more than a write of the SSD alone. Nothing of it was written. */
static u32 want_copy(struct td_engine *e, struct td_req *r, struct td_list *woken)
{
	r->writeback = true;
	td_end(e, r, woken);
	return TD_DO_COPY;
}

u32 td_start(struct td_engine *e, struct td_req *r, struct td_list *woken)
{
	struct td_bucket *b = bucket_of(e, r);
	u32 actions;
	bool marked;

	td_link_del(&r->gate);
	if (r->kind == TD_CLEAN)
		return start_cleaning_write(e, r, woken);
	if (write_before(b, r, &r->link))
		return wait_in_ring(e, r);
	if (!td_active(e))
		return start_bypassed(e, r, woken);
	if (td_lend_plan(e, b, r))
		return start_writeback(e, r);
	marked = td_marks_is_set(e, r);
	/* Without memory for a part there is nothing to plan. */
	switch (r->parts ? td_writeback_plan(e, b, r, marked) : TD_WB_NO) {
	case TD_WB_GO:
		return start_writeback(e, r);
	case TD_WB_WAIT:
		return wait_in_ring(e, r);
	case TD_WB_MARK:
		break;
	case TD_WB_MERGE:
		return TD_DO_MERGE;
	case TD_WB_NO:
		if (r->lent)
			return want_copy(e, r, woken);
		if (td_writeback_dirty(e, b, r)) {
			/* A new round begins, else this write would count as looked at. */
			r->round = e->urgent_round++;
			td_link_add_tail(&e->urgent, &r->gate);
			if (e->ledger.cleanings_written)
				td_flush_want(e);
			td_ledger_due(e);
			return wait_in_ring(e, r);
		}
		/* Q4 */
		if (r->kind == TD_DISCARD && td_discard_must_wait(b, r))
			return wait_in_ring(e, r);
		if (!marked)
			break;
		if (!td_watch_gate(e, r, &actions))
			return actions;
		return start_disk_write(e, b, r);
	}
	r->phase = TD_PHASE_GATED;
	td_marks_wait(e, r);
	return 0;
}

u32 td_begin(struct td_engine *e, struct td_req *r, struct td_list *woken)
{
	struct td_bucket *b;

	if (r->kind == TD_FLUSH)
		return td_flush_begin(e, r);
	r->bucket = td_bucket_of(e, r->sector);
	b = bucket_of(e, r);
	if (r->kind == TD_CLEAN)
		return td_active(e) ? td_clean_begin(e, b, r) : TD_DO_PASS;
	if (r->kind == TD_READ) {
		if (td_active(e))
			return begin_read(e, b, r);
		td_pass(e, TD_READ, r->count, TD_C_READ_BYPASSED_FAILED);
		return TD_DO_PASS;
	}
	td_link_add_tail(&b->reqs, &r->link);
	td_marks_enter(e, r, woken);
	if (r->stream)
		td_marks_ahead(e, r, r->sector + TD_AHEAD_SECTORS);
	else if (r->kind == TD_DISCARD)
		td_marks_ahead(e, r, td_discard_ahead(e, r) - 1);
	return td_start(e, r, woken);
}

/*
 * May the waiting request @q go on when @r ends? A write that waits for a cleaning
 * (it is in a gate) asks for the quarters that it touches, others for a slot.
 */
static bool waits_for(const struct td_req *q, const struct td_req *r)
{
	return q->gate.next != &q->gate ? td_req_collide(q, r) :
					  td_req_overlap(q, r);
}

void td_end(struct td_engine *e, struct td_req *r, struct td_list *woken)
{
	struct td_bucket *b = bucket_of(e, r);

	td_link_del(&r->link);
	if (r->nr_parts)
		td_store_finish(e, b, r);
	r->nr_parts = 0;
	if (r->kind == TD_CLEAN && r->pending)
		td_flush_cleaning_ended(e);
	td_marks_leave(e, r, td_req_is_write(r) && !r->writeback);
	td_watch_leave(e, r);
	for (struct td_link *l = b->reqs.next; l != &b->reqs; l = l->next) {
		struct td_req *q = td_req_of(l);

		if (q->phase != TD_PHASE_WAITING || !waits_for(q, r) ||
		    write_before(b, q, l))
			continue;
		/* Wake it once only: td_start() decides what comes next. */
		q->phase = TD_PHASE_GATED;
		td_link_del(&q->gate);
		td_wake(woken, q, TD_DO_START);
	}
}

u32 td_woken(const struct td_req *r)
{
	return r->woken;
}

static u32 read_done(struct td_engine *e, struct td_req *r, bool ok,
		     struct td_list *woken)
{
	if (!ok || !td_active(e) || !td_store_has_live_part(r)) {
		td_end(e, r, woken);
		return (ok ? TD_DO_ANSWER : TD_DO_RETRY) | TD_DO_END;
	}
	r->pending |= TD_DO_SSD;
	return td_ledger_waits(e, r, TD_DO_SSD) ? TD_DO_ANSWER :
		TD_DO_ANSWER | TD_DO_SSD;
}

/*
 * A write that waits for a cleaning, and touches every quarter that the cleaning
 * @r was to move; or NULL. A write that touches only some of these quarters still
 * waits: perhaps it does not touch the bad quarter. It gets a cleaning of its own
 * (seek_urgent()).
 */
static struct td_req *write_waiting_for(struct td_engine *e,
					const struct td_req *r)
{
	for (struct td_link *k = e->urgent.next; k != &e->urgent; k = k->next)
		if (td_req_covers(td_req_of_gate(k), r))
			return td_req_of_gate(k);
	return NULL;
}

/*
 * The cleaning @r failed: it ends. The writes that waited for it try the SSD once
 * more, past the limits (B8), or get EIO. (Its quarters stay dirty; linux/ tries
 * again.)
 */
void td_clean_failed(struct td_engine *e, struct td_req *r, struct td_list *woken)
{
	struct td_req *q;

	while ((q = write_waiting_for(e, r)) != NULL) {
		td_link_del(&q->gate);
		if (td_writeback_uncleaned(e, q)) {
			q->phase = TD_PHASE_GATED;
			td_wake(woken, q, TD_DO_START);
			continue;
		}
		q->failed = true;
		env_count(e->counters, TD_C_WRITE_BYPASSED_FAILED, q->count);
		td_end(e, q, woken);
		td_wake(woken, q, TD_DO_ANSWER | TD_DO_END);
	}
	td_end(e, r, woken);
}

void td_record_failed(struct td_engine *e, struct td_req *r, struct td_list *woken)
{
	r->failed |= r->drops;
	td_end(e, r, woken);
	td_wake(woken, r, r->drops ? TD_DO_ANSWER | TD_DO_END : TD_DO_END);
}

static u32 cleaning_written(struct td_engine *e, struct td_req *r, bool ok,
			    struct td_list *woken)
{
	if (!ok || !td_active(e)) {
		/* The disk may have some of it, and lose that at a power cut. */
		e->ledger.disk_unflushed = true;
		td_marks_unflushed(e, r);
		td_clean_failed(e, r, woken);
		return TD_DO_END;
	}
	td_flush_cleaning(e, r);
	return 0;
}

u32 td_disk_done(struct td_engine *e, struct td_req *r, bool ok,
		 struct td_list *woken)
{
	/* A cleaning keeps this bit until it waits for the flush, or ends. */
	if (r->kind != TD_CLEAN)
		r->pending &= (u8)~TD_DO_DISK;
	/* A place that a long stream passes is written once. */
	if (r->kind != TD_READ && r->kind != TD_DISCARD && ok && !r->stream)
		td_heat_wrote(&e->heat, r->span_sector, r->span_count);
	/* A discard may fail since the disk does not support it. */
	if (!ok && r->kind != TD_DISCARD)
		env_count(e->counters, TD_C_DISK_ERRORS, 1);
	if (r->kind == TD_CLEAN)
		return cleaning_written(e, r, ok, woken);
	r->failed = !ok;
	if (r->kind == TD_READ)
		return read_done(e, r, ok, woken);
	e->ledger.disk_unflushed = true;
	if (r->writeback)
		td_writeback_undo(e, r);
	if (r->pending)
		return TD_DO_ANSWER;
	if (r->drops && ok && td_active(e)) {
		td_flush_discard(e, r);
		return 0;
	}
	/* The SSD failed, and has data that the disk lacks. */
	r->failed |= r->drops;
	td_end(e, r, woken);
	return TD_DO_ANSWER | TD_DO_END;
}

u32 td_writeback_done(struct td_engine *e, struct td_req *r,
		      struct td_list *woken)
{
	struct td_bucket *b = bucket_of(e, r);

	if (r->fresh && env_load(&e->state) == TD_BYPASS) {
		env_count(e->counters, TD_C_WRITE_BYPASSED_FAILED, r->count);
		r->pending = TD_DO_DISK;
		return TD_DO_DISK;
	}
	td_writeback_end_fresh(e, r);
	if (r->ssd_failed || !td_active(e)) {
		td_store_finish(e, b, r);
		r->nr_parts = 0;
		r->writeback = false;
		r->no_writeback = true;
		r->durable = false;
		r->phase = TD_PHASE_GATED;
		return TD_DO_START;
	}
	env_count(e->counters, TD_C_WRITE_BACK, r->count);
	td_end(e, r, woken);
	/* B10 */
	if (!r->fua || r->durable)
		return TD_DO_ANSWER | TD_DO_END;
	r->sweep = td_ledger_want_sweep(e);
	td_ledger_waits(e, r, TD_DO_ANSWER | TD_DO_END);
	return 0;
}

void td_writeback_failed(struct td_engine *e, struct td_req *r,
			 struct td_list *woken)
{
	r->ssd_failed = true;
	td_wake(woken, r, td_writeback_done(e, r, woken));
}

u32 td_ssd_done(struct td_engine *e, struct td_req *r, bool ok,
		struct td_list *woken)
{
	r->ssd_failed = !ok;
	if (!ok)
		env_count(e->counters, TD_C_SSD_ERRORS, 1);
	if (r->kind == TD_CLEAN) {
		if (!ok || !td_active(e)) {
			td_clean_failed(e, r, woken);
			return TD_DO_END;
		}
		r->pending = TD_DO_DISK;
		return start_cleaning_write(e, r, woken);
	}
	if (!r->durable && !e->ledger.ssd_unflushed)
		e->ledger.ssd_unflushed = true;
	r->pending &= (u8)~TD_DO_SSD;
	if (r->writeback)
		return td_writeback_done(e, r, woken);
	if (r->pending)
		return 0;
	td_end(e, r, woken);
	return TD_DO_END;
}

u32 td_drained(struct td_engine *e, u32 bucket, u32 slot,
	       struct td_req **owner, struct td_list *woken)
{
	struct td_link *head = &e->buckets[bucket].reqs;

	if (!td_word_unhold(&e->words[slot]))
		return 0;
	for (struct td_link *l = head->next; l != head; l = l->next) {
		struct td_req *r = td_req_of(l);

		if (!td_store_unheld(r, slot))
			continue;
		*owner = r;
		if (r->holds)
			return 0;
		if (r->kind == TD_CLEAN)
			return TD_DO_FETCH;
		if (!r->writeback)
			return TD_DO_SSD;
		if (r->sweep <= e->ledger.sweep_done) {
			if (!r->lent)
				return TD_DO_SSD;
			td_wake(woken, r, TD_DO_SSD);
			return 0;
		}
		/* The record may still give the slot to another frame, or say clean. */
		if (!td_active(e))
			td_writeback_failed(e, r, woken);
		else
			td_ledger_waits(e, r, TD_DO_SSD);
		return 0;
	}
	return 0;
}
