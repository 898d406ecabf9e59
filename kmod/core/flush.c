// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Flushes of the disk and of both devices; and the order of the ledger's own I/O.
 *
 * Invariants:
 *   F1  A flush is answered only when every write acknowledged before it began is
 *       durable: those on the disk by a flush of the disk that began later,
 *       those on the SSD by a sweep that began later.
 *   F2  For a flush the disk is flushed only if a write to the disk completed since
 *       its last flush began, or that flush failed, or nothing is known (after a
 *       load). Cleanings do not count: their data is recorded dirty, on the SSD.
 *   F3  One flush of the disk is under way at a time; flushes that come meanwhile
 *       share the next one.
 *   F4  Cleanings that are on their way together share a flush of the disk: it
 *       begins when the last has written, or when a write waits for a cleaning.
 *   F5  A flush waits for marks to be cleared only while no request that may write
 *       to the disk is in flight. Each such request sets marks that go before those
 *       to be cleared (marks.c), so a flush would wait for all that came later.
 *
 * Threads: the engine's lock.
 * Why F4: a disk that is flushed after each write has nothing to sort. The caller
 * decides how many cleanings begin and so share a flush; none of them ends before it.
 * Why a flush with nothing in flight clears the marks before it is answered:
 * the machine may be switched off next, and marked regions start cold.
 */
#include "ledger_int.h"
#include "policy.h"
#include "trim.h"

#define NOTE_TICKS	64	/* a note for the list of what is hot; a power of two */
#define LOOKS	256u	/* slots that each tick looks at, with interrupts off */

void td_flush_want(struct td_engine *e)
{
	e->ledger.flush_wanted = true;
	td_ledger_due(e);
}

static void flush_for_cleanings(struct td_engine *e)
{
	const struct td_ledger *l = &e->ledger;

	if (l->cleanings_written && (!l->cleanings || e->urgent.next != &e->urgent))
		td_flush_want(e);
}

void td_flush_cleaning(struct td_engine *e, struct td_req *r)
{
	struct td_ledger *l = &e->ledger;

	r->pending = 0;
	td_link_add_tail(&l->next_flush_waiters, &r->flush_gate);
	l->cleanings_written++;
	l->cleanings--;
	flush_for_cleanings(e);
}

void td_flush_cleaning_ended(struct td_engine *e)
{
	e->ledger.cleanings--;
	flush_for_cleanings(e);
}

void td_flush_discard(struct td_engine *e, struct td_req *r)
{
	td_flush_want(e);
	td_link_add_tail(&e->ledger.next_flush_waiters, &r->flush_gate);
}

static u32 answer_flush(struct td_req *r)
{
	r->phase = TD_PHASE_ACTIVE;
	return TD_DO_ANSWER | TD_DO_END;
}

/* All that @r is for is durable. Must @r wait until marks are cleared (F5)? */
static bool waits_for_clearing(struct td_engine *e, struct td_req *r)
{
	struct td_ledger *l = &e->ledger;

	/* A block that clears the last marks may be on its way: marks_on. */
	if (r->failed || !td_active(e) || (!l->marks_set && !l->marks_on && !l->clear_unwritten) ||
	    l->inflight)
		return false;
	r->gates = TD_GATE_CLEAR;
	td_link_add_tail(&l->clear_waiters, &r->gate);
	td_marks_clear_all(e);
	return true;
}

u32 td_flush_begin(struct td_engine *e, struct td_req *r)
{
	struct td_ledger *l = &e->ledger;
	bool stranded = env_load(&e->state) == TD_STRANDED;

	r->gates = 0;
	td_marks_lone_ended(e);
	td_stream_flushed(&e->writes);
	/* Writes past a failed SSD are not tracked, so the disk may need a flush. */
	if (!td_active(e))
		l->disk_unflushed = true;
	/* A write that the flush under way covers still has its mark (M2). */
	if (l->disk_unflushed || (l->flush_on && l->marks_set)) {
		r->gates |= TD_GATE_FLUSH;
		if (l->disk_unflushed) {
			td_flush_want(e);
			td_link_add_tail(&l->next_flush_waiters, &r->flush_gate);
		} else {
			td_link_add_tail(&l->flush_waiters, &r->flush_gate);
		}
	}
	if (stranded) {
		r->failed = true;
	} else if (td_active(e) &&
		   (l->changed || l->ssd_unflushed || l->sweep_on)) {
		r->sweep = l->changed || l->ssd_unflushed ?
			td_ledger_want_sweep(e) : l->sweep_begun;
		if (td_ledger_waits(e, r, 0))
			r->gates |= TD_GATE_SWEEP;
	}
	if (r->gates || !td_checkpoint_whole(e, r) || waits_for_clearing(e, r))
		return 0;
	return answer_flush(r);
}

void td_flush_gate(struct td_engine *e, struct td_req *r, u32 gate,
		   struct td_list *woken)
{
	r->gates &= (u8)~gate;
	if (r->gates || !td_checkpoint_whole(e, r) ||
	    (gate != TD_GATE_CLEAR && waits_for_clearing(e, r)))
		return;
	td_wake(woken, r, answer_flush(r));
}

bool td_flush_next(struct td_engine *e, struct td_work *w)
{
	struct td_ledger *l = &e->ledger;

	if (l->flush_on || !l->flush_wanted)
		return false;
	l->flush_wanted = false;
	l->flush_on = true;
	l->flush_begun++;
	td_link_move_all(&l->flush_waiters, &l->next_flush_waiters);
	l->disk_unflushed = false;
	if (l->cleanings_written)
		l->cleanings_flush = (u32)l->flush_begun;
	l->cleanings_written = 0;
	w->kind = TD_WORK_FLUSH_DISK;
	w->sectors = 0;
	env_count(e->counters, TD_C_FLUSHES_DISK, 1);
	return true;
}

/* @r waited for the flush that has ended. */
static void end_waiting(struct td_engine *e, struct td_req *r, bool ok,
			struct td_list *woken)
{
	if (r->kind == TD_FLUSH) {
		r->failed |= !ok;
		td_flush_gate(e, r, TD_GATE_FLUSH, woken);
	} else if (ok && td_active(e)) {
		td_ledger_record(e, r);
	} else if (r->drops) {
		td_record_failed(e, r, woken);
	} else {
		td_marks_unflushed(e, r);
		if (!ok)
			r->failed = true;
		td_clean_failed(e, r, woken);
		td_wake(woken, r, TD_DO_END);
	}
}

bool td_flush_done(struct td_engine *e, bool ok, struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;

	if (ok)
		l->flush_done = l->flush_begun;
	else
		l->disk_unflushed = true;
	for (u32 i = 0; i < TD_STEP_SLOTS && l->flush_waiters.next != &l->flush_waiters;
	     i++) {
		struct td_req *r = td_req_of_flush_gate(l->flush_waiters.next);

		td_link_del(&r->flush_gate);
		end_waiting(e, r, ok, woken);
	}
	if (l->flush_waiters.next != &l->flush_waiters)
		return true;
	l->flush_on = false;
	if (!ok)
		env_count(e->counters, TD_C_DISK_ERRORS, 1);
	td_watch_flushed(e, ok, woken);
	return false;
}

bool td_work_due(const struct td_engine *e)
{
	return env_load(&e->due) != 0;
}

bool td_work_next(struct td_engine *e, struct td_work *w, struct td_list *woken)
{
	memset(w, 0, sizeof(*w));
	if (td_flush_next(e, w))
		return true;
	if (td_active(e) &&
	    (td_notes_next(e, w) || td_marks_next(e, w, woken) || td_checkpoint_next(e, w) ||
	     td_group_next(e, w) ||
	     /* A group that finds no room wants a checkpoint. */
	     td_checkpoint_next(e, w) || td_trim_next(e, w)))
		return true;
	w->kind = TD_WORK_STEP;
	if (!td_active(e) && td_fail_next(e, woken))
		return true;
	env_store(&e->due, 0);
	return false;
}

void td_work_fill(struct td_engine *e, const struct td_work *w)
{
	if (!w->number)
		return;
	if (w->kind == TD_WORK_GROUP)
		td_group_fill(e, w);
	else
		td_checkpoint_fill(e, w);
}

bool td_work_done(struct td_engine *e, const struct td_work *w, bool ok,
		  struct td_list *woken)
{
	td_ledger_due(e);
	if (w->kind == TD_WORK_FLUSH_DISK)
		return td_flush_done(e, ok, woken);
	if (w->kind == TD_WORK_TRIM) {
		td_trim_done(e, ok);
		return false;
	}
	if (!ok) {
		env_count(e->counters, TD_C_SSD_ERRORS, 1);
		td_fail(e, woken);
	}
	/* The SSD has failed: the result of this work means nothing. */
	if (!td_active(e)) {
		if (w->kind == TD_WORK_GROUP || w->kind == TD_WORK_FLUSH_SSD)
			e->ledger.group_phase = TD_GROUP_NONE;
		return false;
	}
	switch (w->kind) {
	case TD_WORK_GROUP:
	case TD_WORK_FLUSH_SSD:
		return td_group_done(e, woken);
	case TD_WORK_MARKS:
		return td_marks_done(e, woken);
	case TD_WORK_NOTE:
		td_notes_done(e, woken);
		break;
	default:
		td_checkpoint_done(e, w, woken);
		break;
	}
	return false;
}

void td_tick(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;

	if (!td_active(e))
		return;
	if (l->changed || l->ssd_unflushed)
		td_ledger_want_sweep(e);
	td_marks_lone_ended(e);
	td_marks_tick(e);
	td_heat_look(e, LOOKS);
	/* What is hot changes slowly. */
	if (l->tick % NOTE_TICKS == 0)
		td_watch_want(e);
}
