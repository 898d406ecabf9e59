// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The SSD fails: nothing waits for it any more.
 *
 * Invariant: after td_fail() no request enters a gate that only the SSD opens (each caller
 * looks at the state first), and those in such a gate go on, some with each td_work_next().
 * Records on the SSD, and those under way, stay as they are until the index is loaded again.
 * Threads: the engine's lock.
 * Why bypass or stranded: if the disk has all acknowledged data, requests can go past
 * the cache. Else the SSD has data that the disk lacks; writes to the disk would make
 * two versions, of which neither is whole.
 */
#include "ledger_int.h"

/* @r waited for a sweep, which will never be done. */
static void fail_sweep_waiter(struct td_engine *e, struct td_req *r,
			      bool stranded, struct td_list *woken)
{
	switch (r->kind) {
	case TD_FLUSH:
		r->failed |= stranded;
		td_flush_gate(e, r, TD_GATE_SWEEP, woken);
		break;
	case TD_WRITE:
		if (r->then != TD_DO_SSD) {
			/* FUA: its data is on the SSD, but not for sure. */
			r->failed = true;
			td_wake(woken, r, r->then);
			break;
		}
		td_writeback_failed(e, r, woken);
		break;
	default:
		td_end(e, r, woken);
		td_wake(woken, r, TD_DO_END);
	}
}

/* Take the first request out of @gate; NULL: none. */
static struct td_req *take_from(struct td_link *gate)
{
	struct td_req *r = td_req_of_gate(gate->next);

	if (gate->next == gate)
		return NULL;
	td_link_del(&r->gate);
	return r;
}

static struct td_req *take_mark_waiter(struct td_ledger *l)
{
	struct td_req *r = take_from(&l->mark_writing);

	for (u32 i = 0; !r && i < TD_MARK_BLOCKS_MAX; i++)
		r = take_from(&l->mark_waiters[i]);
	return r;
}

/* A flush that waits for marks or for what was forgotten at once goes on. False: none. */
static bool let_flush_go(struct td_engine *e, bool stranded, struct td_list *woken)
{
	struct td_req *r = take_from(&e->ledger.clear_waiters);

	if (r) {
		td_flush_gate(e, r, TD_GATE_CLEAR, woken);
		return true;
	}
	r = take_from(&e->ledger.whole_waiters);
	if (!r)
		return false;
	r->failed |= stranded;
	td_flush_gate(e, r, TD_GATE_WHOLE, woken);
	return true;
}

/* One request that waits for the SSD goes on. False: none waits. */
static bool let_go(struct td_engine *e, struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;
	bool stranded = env_load(&e->state) == TD_STRANDED;
	struct td_req *r;

	td_link_move_all(&l->sweep_waiters, &l->next_sweep_waiters);
	r = take_from(&l->sweep_waiters);
	if (r) {
		fail_sweep_waiter(e, r, stranded, woken);
		return true;
	}
	r = take_mark_waiter(l);
	if (r) {
		td_wake(woken, r, TD_DO_START);
		return true;
	}
	if (let_flush_go(e, stranded, woken))
		return true;
	r = take_from(&l->to_record);
	/* The end of a group's I/O ends the requests that it records. */
	if (!r && l->group_phase != TD_GROUP_WRITTEN)
		r = take_from(&l->recording);
	if (r) {
		td_record_failed(e, r, woken);
		return true;
	}
	r = take_from(&e->urgent);
	if (!r)
		return false;
	r->phase = TD_PHASE_GATED;
	td_wake(woken, r, TD_DO_START);
	return true;
}

bool td_fail_next(struct td_engine *e, struct td_list *woken)
{
	u32 done = 0;

	while (done < TD_STEP_SLOTS && let_go(e, woken))
		done++;
	return done;
}

bool td_fail(struct td_engine *e, struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;

	if (!td_active(e))
		return false;
	env_store(&e->state, l->dirty > l->fresh ? TD_STRANDED : TD_BYPASS);
	l->disk_unflushed = true;
	l->sweeping = 0;
	td_ledger_due(e);
	td_watch_wake(e, woken);
	return true;
}
