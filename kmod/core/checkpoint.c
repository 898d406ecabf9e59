// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Checkpoints: the whole index is written anew, so that the ring's older groups may
 * be overwritten.
 *
 * Invariants:
 *   P1  Pages are taken from the words as they are, one after another, while more
 *       groups are written. A load applies over them all groups that were written
 *       since the checkpoint began. No group was under way when it began, so quarters
 *       that the last group recorded clean were clean in memory.
 *   P2  The head is written with PREFLUSH and FUA when all pages are written. So
 *       the pages, and the data that their newest records describe, are durable.
 *   P3  The tail moves when the head is durable. The other area holds the
 *       checkpoint before, which counts until then.
 *   P4  A sweeping checkpoint is the only record of what was forgotten at once: of FREE
 *       slots whose words are pending and stale, and that are not noted in pending[]. It
 *       begins after the last of them was forgotten, and until it takes effect records of
 *       such slots may name any frame of their ways. So a slot is noted, for the next
 *       sweep, before one of these frames gets a slot, and when a write of one ends, in
 *       front of the sweep that its mark waits for (td_index_note_free()). Afterwards
 *       such a slot is durably free.
 *   P5  When a sweeping checkpoint has taken effect, the head before it is wiped. Else, if
 *       the newer head rotted, the older one would be believed with all that was dropped,
 *       and no group behind it would show that the index is old.
 *
 * Pages are filled without the lock: a word may change between two others that are read.
 * A page may be newer than the ring: if a frame moved from one slot to another
 * meanwhile, both slots may name it. The load drops the older copy (load_slots.c).
 * Threads: the engine's lock, but for td_checkpoint_fill().
 * Why P4: groups that record a whole large cache free fill the ring many times, each time
 * with a checkpoint, and every flush would wait for them. Nobody waits for this one but a
 * start and a stop.
 */
#include "ledger_int.h"

enum { IDLE, PAGES, HEAD, WIPE };

void td_checkpoint_want(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;

	if (l->checkpoint_phase == IDLE && !l->checkpoint_wanted) {
		l->checkpoint_wanted = true;
		td_ledger_due(e);
	}
}

static void begin_checkpoint(struct td_ledger *l)
{
	l->checkpoint_wanted = false;
	l->checkpoint_phase = PAGES;
	l->checkpoint_group = l->group;
	l->checkpoint_block = l->head < l->ring_blocks ? l->head : 0;
	l->checkpoint_used = l->used;
	l->page = 0;
}

/* Sector on the SSD of the head of the checkpoint being written; pages follow. */
static u64 head_sector(const struct td_ledger *l)
{
	return td_checkpoint_sector(&l->super, (l->checkpoint + 1) & 1);
}

static void fill_page(struct td_engine *e, u8 *buffer, u64 number, u32 page)
{
	u32 first = page * TD_PAGE_SLOTS;

	memset(buffer, 0, TD_BLOCK_BYTES);
	for (u32 i = 0; i < TD_PAGE_SLOTS && first + i < e->layout.slots; i++)
		td_page_put(buffer, i,
			    td_record_of(td_word_load(&e->words[first + i])));
	td_page_seal(buffer, e->ledger.super.uuid, number, page);
}

static void fill_head(const struct td_engine *e, const struct td_work *w)
{
	const struct td_ledger *l = &e->ledger;
	struct td_checkpoint c = {
		.number = w->number,
		.group = l->checkpoint_group,
		.block = l->checkpoint_block,
		.slots = e->layout.slots,
	};

	if (l->checkpoint_phase == WIPE)
		memset(w->buffer, 0, TD_BLOCK_BYTES);
	else
		td_checkpoint_seal(w->buffer, l->super.uuid, &c);
}

void td_checkpoint_fill(struct td_engine *e, const struct td_work *w)
{
	/* Nobody changes the ledger's fields of a checkpoint while its work is under way. */
	if (w->kind == TD_WORK_HEAD) {
		fill_head(e, w);
		return;
	}
	for (u32 i = 0; i < e->ledger.page_batch; i++)
		fill_page(e, (u8 *)w->buffer + i * TD_BLOCK_BYTES, w->number,
			  e->ledger.page + i);
}

static void take_pages(struct td_engine *e, struct td_work *w)
{
	struct td_ledger *l = &e->ledger;
	u32 left = td_page_count(e->layout.slots) - l->page;

	l->page_batch = left < TD_PAGES_BATCH ? left : TD_PAGES_BATCH;
	w->kind = TD_WORK_PAGES;
	w->sector = head_sector(l) + (u64)(l->page + 1) * TD_BLOCK_SECTORS;
	w->sectors = l->page_batch * TD_BLOCK_SECTORS;
	w->buffer = l->pages_buffer;
}

static void take_head(struct td_engine *e, struct td_work *w)
{
	struct td_ledger *l = &e->ledger;

	w->kind = TD_WORK_HEAD;
	w->sector = head_sector(l);
	w->sectors = TD_BLOCK_SECTORS;
	w->buffer = l->pages_buffer;
}

bool td_checkpoint_next(struct td_engine *e, struct td_work *w)
{
	struct td_ledger *l = &e->ledger;

	if (l->checkpoint_on)
		return false;
	if (l->checkpoint_phase == IDLE) {
		if (!l->checkpoint_wanted || l->group_phase != TD_GROUP_NONE)
			return false;
		begin_checkpoint(l);
	}
	if (l->checkpoint_phase == PAGES)
		take_pages(e, w);
	else
		take_head(e, w);
	w->number = l->checkpoint + 1;
	l->checkpoint_on = true;
	return true;
}

void td_sweep_at_once_begin(struct td_engine *e, u64 used)
{
	struct td_ledger *l = &e->ledger;
	u32 blocks = (u32)used / TD_BLOCK_ENTRIES + 1;

	/* Groups that fill half of the ring want a checkpoint all the same. */
	if (blocks >= td_page_count(e->layout.slots) || blocks > l->ring_blocks / 2)
		l->sweeping = TD_SWEEPING_SOON;
}

void td_sweep_at_once_end(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;

	if (l->sweeping != TD_SWEEPING_SOON)
		return;
	/* Pages of a checkpoint that is under way may be older. */
	l->sweeping = l->checkpoint + (l->checkpoint_phase == IDLE ? 1 : 2);
	td_checkpoint_want(e);
}

bool td_checkpoint_whole(struct td_engine *e, struct td_req *r)
{
	struct td_ledger *l = &e->ledger;

	if (!r->whole || !l->sweeping || r->failed || !td_active(e))
		return true;
	r->gates = TD_GATE_WHOLE;
	td_link_add_tail(&l->whole_waiters, &r->gate);
	return false;
}

/* The sweeping checkpoint has taken effect: flushes that wait for it go on. */
static void end_sweeping(struct td_engine *e, struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;

	l->sweeping = 0;
	while (l->whole_waiters.next != &l->whole_waiters) {
		struct td_req *r = td_req_of_gate(l->whole_waiters.next);

		td_link_del(&r->gate);
		td_flush_gate(e, r, TD_GATE_WHOLE, woken);
	}
}

void td_checkpoint_done(struct td_engine *e, const struct td_work *w,
			struct td_list *woken)
{
	struct td_ledger *l = &e->ledger;

	l->checkpoint_on = false;
	if (w->kind == TD_WORK_PAGES) {
		l->page += l->page_batch;
		if (l->page == td_page_count(e->layout.slots))
			l->checkpoint_phase = HEAD;
		return;
	}
	if (l->checkpoint_phase == HEAD) {
		l->checkpoint++;
		l->used -= l->checkpoint_used;
		env_count(e->counters, TD_C_CHECKPOINTS, 1);
		if (l->sweeping && l->checkpoint >= l->sweeping) {
			l->checkpoint_phase = WIPE;
			return;
		}
	}
	l->checkpoint_phase = IDLE;
	if (!l->sweeping || l->sweeping == TD_SWEEPING_SOON)
		return;
	if (l->checkpoint >= l->sweeping)
		end_sweeping(e, woken);
	else
		td_checkpoint_want(e);
}
