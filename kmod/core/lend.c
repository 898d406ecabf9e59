// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The commonest write that is not yet dirty on the SSD: it is lent, and nothing else goes on
 * in its frame.
 *
 * Invariant:
 *   Y1  What is planned here is what td_writeback_plan() would plan. Each condition rules
 *       out something that asks for more: a neighbour in the ring, a record that says
 *       "clean" (B1), a pin (B5), a limit, a retired slot.
 *
 * Threads: the engine's lock.
 * Why: random writes are as fast as the processor can tell the SSD of them, and such a plan
 * costs half of what the general one does.
 */
#include "index.h"
#include "store.h"

/* Does another request in the ring touch the frame of @r? */
static bool has_neighbour(const struct td_bucket *b, const struct td_req *r)
{
	for (struct td_link *l = b->reqs.next; l != &b->reqs; l = l->next)
		if (l != &r->link && td_req_overlap(td_req_of(l), r))
			return true;
	return false;
}

/*
 * May @touched be written in a slot whose word is @v, just so? A reader that pins the slot
 * from now on reads other quarters, or dirty ones.
 */
static bool is_ready(u64 v, unsigned int touched)
{
	return (v & (TD_W_STATE | TD_W_PINS | TD_W_STALE)) == TD_W_LIVE &&
	       !(touched & td_word_valid(v) & ~td_word_dirty(v));
}

bool td_lend_plan(struct td_engine *e, const struct td_bucket *b, struct td_req *r)
{
	u64 frame = td_frame_of(r->sector), end = r->sector + r->count;
	u32 from = (u32)r->sector & (TD_FRAME_SECTORS - 1), near, slot;
	unsigned int touched;
	struct td_part *p;

	if (!r->lent || r->no_writeback || end > e->layout.cached_sectors || e->retired.count ||
	    env_load(&e->mode) != TD_WRITEBACK || !td_promotes(e) ||
	    !td_ledger_has_room(&e->ledger, r->sector) || has_neighbour(b, r))
		return false;
	touched = td_quarters(from >> TD_QUARTER_SHIFT,
			      (from + r->count - 1) >> TD_QUARTER_SHIFT);
	r->sweep = 0;
	slot = td_index_find_near(e, frame, &near);
	if (slot == TD_NO_SLOT)
		slot = td_index_take(e, frame, near, TD_TAKE_ANY, &r->sweep);
	else if (is_ready(td_word_load(&e->words[slot]), touched))
		td_index_own(e, slot, 0, false);
	else
		return false;
	if (slot == TD_NO_SLOT)
		return false;
	r->nr_parts = 0;
	p = td_store_add(r, frame, slot, touched);
	p->from = (u8)from;
	p->to = (u8)(from + r->count);
	r->durable = false;
	r->writeback = true;
	return true;
}
