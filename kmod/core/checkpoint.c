// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Checkpoints: what changed in the index is written to its pages, so that the ring's older
 * groups may be overwritten.
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
 *   P6  With TD_SUPER_PARTS an area keeps the pages that are the same as when the area was
 *       written last, two checkpoints ago. A page differs from when a group with a record
 *       of it was applied, or a slot of it was forgotten at once; and after a load, in the
 *       area that was not loaded. Not from when the group was made: the page may be taken
 *       in between, while quarters are dirty that the group records clean.
 *   P7  With TD_SUPER_PARTS a page that differs in few slots is left as it is: groups behind
 *       the begin of the checkpoint record these slots, and the head waits for the sweep
 *       that does. A group waits for the head if the ring has no room, so then no page is
 *       left, also of those that were. td_page.differs is true of both areas with a bit in
 *       td_page.few: it may name more slots than differ, but not less.
 *   P8  A head names the groups that were durable before it: a page that was left may be far
 *       older than the head, so without them its slots would go back by many checkpoints,
 *       and not only to the group before, as after a cut (load.c).
 *
 * Pages are filled without the lock: a word may change between two others that are read.
 * A page may be newer than the ring: if a frame moved from one slot to another
 * meanwhile, both slots may name it. The load drops the older copy (load_slots.c).
 * Threads: the engine's lock, but for td_checkpoint_fill().
 * Why two areas: a page that a cut tears is one of the area that does not count. And a
 * start reads one area from its begin to its end.
 * Why P7: of a large index hardly two of the blocks that are written between two checkpoints
 * share a page. A page costs 4 KiB in each area; a record costs 12 bytes, each time.
 * Why P4: groups that record a whole large cache free fill the ring many times, each time
 * with a checkpoint, and every flush would wait for them. Nobody waits for this one but a
 * start and a stop.
 */
#include "ledger_int.h"

enum { IDLE, PAGES, HEAD, WIPE };

/* Pages that are looked at before the lock is released. */
#define STEP_PAGES	(64 * TD_STEP_SLOTS)
/* With so many slots pending no more are to be recorded, so that flushes wait for one group. */
#define PENDING_MAX	(TD_GROUP_ENTRIES / 2)

static bool has_parts(const struct td_ledger *l)
{
	return l->super.incompat & TD_SUPER_PARTS;
}

void td_checkpoint_want(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;

	if (l->checkpoint_phase == IDLE && !l->checkpoint_wanted) {
		l->checkpoint_wanted = true;
		td_ledger_due(e);
	}
}

void td_checkpoint_no_room(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;

	td_checkpoint_want(e);
	if (!l->records)
		return;
	l->records = false;
	l->records_left = 0;
	l->page = 0;
	td_ledger_due(e);
}

static void begin_checkpoint(struct td_ledger *l)
{
	l->checkpoint_wanted = false;
	l->checkpoint_phase = PAGES;
	l->checkpoint_group = l->group;
	l->checkpoint_block = l->head < l->ring_blocks ? l->head : 0;
	l->checkpoint_used = l->used;
	l->page = 0;
	l->records = false;
	l->records_sweep = 0;
	l->records_left = l->ring_blocks / 8 * TD_BLOCK_ENTRIES;
}

/* The area that is written now, which is the number's. */
static u32 area_of(const struct td_ledger *l)
{
	return (l->checkpoint + 1) & 1;
}

/* Sector on the SSD of the head of the checkpoint being written; pages follow. */
static u64 head_sector(const struct td_ledger *l)
{
	return td_checkpoint_sector(&l->super, area_of(l));
}

static void fill_page(struct td_engine *e, u8 *buffer, u64 number, u32 page)
{
	u32 first = page * TD_PAGE_SLOTS;

	memset(buffer, 0, TD_BLOCK_BYTES);
	for (u32 i = 0; i < TD_PAGE_SLOTS && first + i < e->layout.slots; i++)
		td_page_put(buffer, i,
			    td_record_of(td_word_load(&e->words[first + i])));
	td_page_seal(buffer, &e->ledger.super, number, page);
}

/* td_checkpoint.sum of an area; nobody writes its pages now. */
static u64 sum_pages(const struct td_engine *e, u32 area)
{
	u32 pages = td_page_count(e->layout.slots);
	u64 sum = 0;

	for (u32 i = 0; i < pages; i++)
		sum += td_page_digest(i, e->ledger.pages[i].number[area]);
	return sum;
}

static void fill_head(const struct td_engine *e, const struct td_work *w)
{
	const struct td_ledger *l = &e->ledger;
	struct td_checkpoint c = {
		.number = w->number,
		.group = l->checkpoint_group,
		.until = l->checkpoint_until,
		.block = l->checkpoint_block,
		.slots = e->layout.slots,
	};

	if (l->checkpoint_phase == WIPE) {
		memset(w->buffer, 0, TD_BLOCK_BYTES);
		return;
	}
	if (has_parts(l))
		c.sum = sum_pages(e, w->number & 1);
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
			  e->ledger.batch + i);
}

/* Is @page not what the area has? */
static bool differs(const struct td_ledger *l, u32 page)
{
	return !(l->pages[page].same >> area_of(l) & 1);
}

/* Must the checkpoint write @page? */
static bool must_write(const struct td_ledger *l, u32 page)
{
	const struct td_page *p = &l->pages[page];

	return !has_parts(l) || (differs(l, page) && (!(p->few >> area_of(l) & 1) ||
						      p->nr_differs > l->records_left));
}

/* Have the slots recorded in which @page differs (P7). Returns how many. */
static u32 record_page(struct td_engine *e, u32 page)
{
	struct td_ledger *l = &e->ledger;
	const struct td_page *p = &l->pages[page];

	if (!differs(l, page))
		return 0;
	for (u32 i = 0; i < p->nr_differs; i++) {
		u32 slot = page * TD_PAGE_SLOTS + p->differs[i];

		td_word_pend(&e->words[slot]);
		td_ledger_pend(l, slot);
	}
	l->records_left -= p->nr_differs;
	l->records = true;
	return p->nr_differs;
}

/* The area gets @page as it is. What changes from here on makes it differ again. */
static void take_page(struct td_ledger *l, u32 page)
{
	struct td_page *p = &l->pages[page];
	u8 bit = (u8)(1u << area_of(l));

	p->same |= bit;
	p->few |= bit;
	if (p->few != 3 || p->same == 3)
		p->nr_differs = 0;
	p->number[area_of(l)] = (u32)(l->checkpoint + 1);
}

/* The next pages that are to be written are a work; false: there are none of those looked at. */
static bool take_pages(struct td_engine *e, struct td_work *w)
{
	struct td_ledger *l = &e->ledger;
	u32 pages = td_page_count(e->layout.slots);
	u32 end = pages - l->page < STEP_PAGES ? pages : l->page + STEP_PAGES;
	u32 recorded = 0;

	while (l->page < end && !must_write(l, l->page) && recorded < TD_STEP_SLOTS)
		recorded += record_page(e, l->page++);
	l->batch = l->page;
	l->page_batch = 0;
	while (l->page_batch < TD_PAGES_BATCH && l->page < end && must_write(l, l->page)) {
		take_page(l, l->page++);
		l->page_batch++;
	}
	w->kind = TD_WORK_PAGES;
	w->sector = head_sector(l) + (u64)(l->batch + 1) * TD_BLOCK_SECTORS;
	w->sectors = l->page_batch * TD_BLOCK_SECTORS;
	w->buffer = l->pages_buffer;
	return l->page_batch;
}

/* Must the checkpoint wait until slots are recorded (P7)? */
static bool waits_for_records(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;

	if (l->checkpoint_phase != PAGES || !l->records)
		return false;
	if (l->page < td_page_count(e->layout.slots)) {
		if (l->nr_pending < PENDING_MAX)
			return false;
		if (!l->sweep_wanted)
			td_ledger_want_sweep(e);
		return true;
	}
	if (!l->records_sweep)
		l->records_sweep = td_ledger_want_sweep(e);
	return l->records_sweep > l->sweep_done;
}

static void take_head(struct td_engine *e, struct td_work *w)
{
	struct td_ledger *l = &e->ledger;

	/* P8 */
	l->checkpoint_until = l->group_durable;
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
	if (waits_for_records(e))
		return false;
	if (l->checkpoint_phase == PAGES &&
	    l->page == td_page_count(e->layout.slots))
		l->checkpoint_phase = HEAD;
	if (l->checkpoint_phase != PAGES) {
		take_head(e, w);
	} else if (!take_pages(e, w)) {
		w->kind = TD_WORK_STEP;
		return true;
	}
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

	if (!r->whole)
		return true;
	/* In bypass a record of the loss keeps the index from being believed. */
	r->failed |= env_load(&e->state) == TD_STRANDED;
	if (!l->sweeping || r->failed || !td_active(e))
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
	if (w->kind == TD_WORK_PAGES)
		return;
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
