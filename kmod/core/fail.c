// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The SSD fails: nothing waits for it any more.
 *
 * Invariant: after td_fail() no request is in a gate that only the SSD opens, and no
 * request enters one (each caller looks at the state first). Records on the SSD, and
 * those under way, stay as they are until the index is loaded again.
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

bool td_fail(struct td_engine *e, struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;
	bool stranded = l->dirty > l->fresh;

	if (!td_active(e))
		return false;
	env_store(&e->state, stranded ? TD_STRANDED : TD_BYPASS);
	l->disk_unflushed = true;
	td_ledger_due(e);
	while (l->sweep_waiters.next != &l->sweep_waiters) {
		struct td_req *r = td_req_of_gate(l->sweep_waiters.next);

		td_link_del(&r->gate);
		fail_sweep_waiter(e, r, stranded, woken);
	}
	while (l->mark_waiters.next != &l->mark_waiters) {
		struct td_req *r = td_req_of_gate(l->mark_waiters.next);

		td_link_del(&r->gate);
		td_wake(woken, r, TD_DO_START);
	}
	while (l->clear_waiters.next != &l->clear_waiters) {
		struct td_req *r = td_req_of_gate(l->clear_waiters.next);

		td_link_del(&r->gate);
		td_flush_gate(e, r, TD_GATE_CLEAR, woken);
	}
	while (l->whole_waiters.next != &l->whole_waiters) {
		struct td_req *r = td_req_of_gate(l->whole_waiters.next);

		td_link_del(&r->gate);
		r->failed |= stranded;
		td_flush_gate(e, r, TD_GATE_WHOLE, woken);
	}
	l->sweeping = 0;
	while (l->to_record.next != &l->to_record) {
		struct td_req *r = td_req_of_gate(l->to_record.next);

		td_link_del(&r->gate);
		td_record_failed(e, r, woken);
	}
	/* No I/O will end the requests of a group that is being made. */
	if (l->group_phase != TD_GROUP_WRITTEN)
		td_group_fail(e, woken);
	td_watch_wake(e, woken);
	while (e->urgent.next != &e->urgent) {
		struct td_req *r = td_req_of_gate(e->urgent.next);

		td_link_del(&r->gate);
		r->phase = TD_PHASE_GATED;
		td_wake(woken, r, TD_DO_START);
	}
	return true;
}
