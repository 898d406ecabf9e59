// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Watched places: what they hold, and the notes of that.
 *
 * Invariants:
 *   N1  While a trace is in a durable note, and known, each sector of its place on the
 *       disk has one of the two checksums there. So a request is carried out on the disk
 *       only when a note with its checksums is durable; and before the next one, the
 *       disk was flushed behind it.
 *   N2  Notes go to the two copies in turn, one at a time. The one before stays whole.
 *
 * Threads: the engine's lock.
 * Why notes and no intent mark: a region that is marked is not believed, and the
 * superblock of Btrfs is written with each fsync.
 * Why two checksums for each sector: at a power cut the disk may have kept some sectors of
 * a write.
 */
#include "watch_int.h"

void td_watch_init(struct td_watch *w)
{
	u8 *buffer = w->buffer;

	memset(w, 0, sizeof(*w));
	w->buffer = buffer;
	w->last = TD_HOME_BTRFS;
	w->look = true;
	td_link_init(&w->waiters);
}

static bool touches(const struct td_req *r, u64 quarter)
{
	return td_req_first(r) <= quarter && quarter <= td_req_last(r);
}

struct td_trace *td_watch_trace(struct td_watch *w, u64 quarter)
{
	for (u32 i = 0; i < w->count; i++)
		if (w->trace[i].sums.quarter == quarter)
			return &w->trace[i];
	return NULL;
}

void td_watch_want(struct td_engine *e)
{
	e->watch.wanted = true;
	td_ledger_due(e);
}

void td_watch_note(struct td_engine *e, struct td_trace *t)
{
	t->note = e->watch.begun + 1;
	td_watch_want(e);
}

/* Was the disk flushed since the last write at the place of @t? */
static bool is_flushed(const struct td_engine *e, const struct td_trace *t)
{
	return td_flush_is_done(&e->ledger, t->flush);
}

static void settle(struct td_engine *e, struct td_trace *t)
{
	bool known = t->known;

	if (!t->settling || !is_flushed(e, t))
		return;
	memcpy(t->sums.was, t->sums.will, sizeof(t->sums.was));
	t->settling = false;
	t->known = true;
	/* The note before is true as well, but for what it does not know. */
	if (!known)
		td_watch_note(e, t);
}

/* The first place that @r writes and has not summed yet; NULL: none. */
static struct td_trace *next_place(struct td_watch *w, const struct td_req *r)
{
	struct td_trace *first = NULL;

	for (u32 i = 0; i < w->count; i++) {
		struct td_trace *t = &w->trace[i];

		if (touches(r, t->sums.quarter) && t->writer != r &&
		    (!first || t->sums.quarter < first->sums.quarter))
			first = t;
	}
	return first;
}

static u32 wait_for_note(struct td_engine *e, struct td_req *r)
{
	/* A cleaning has its slots already. */
	if (r->kind != TD_CLEAN)
		r->phase = TD_PHASE_GATED;
	td_link_add_tail(&e->watch.waiters, &r->gate);
	return 0;
}

/* Number of the note that @r has to wait for; 0: none. */
static u64 note_of(const struct td_watch *w, const struct td_req *r)
{
	u64 note = td_look_lost(w, r) ? w->lost : 0;

	for (u32 i = 0; i < w->count; i++)
		if (w->trace[i].writer == r && w->trace[i].note > note)
			note = w->trace[i].note;
	return note;
}

bool td_watch_gate(struct td_engine *e, struct td_req *r, u32 *actions)
{
	struct td_watch *w = &e->watch;
	struct td_trace *t;

	if (td_req_first(r) > w->last)
		return true;
	/* Nothing is known of the homes, or they are being read. */
	if (touches(r, TD_HOME_FIRST) || touches(r, TD_HOME_BTRFS)) {
		w->looking = false;
		/* Btrfs has nothing in the first quarter: another use of the disk begins. */
		if (!td_places_known(&w->places) ||
		    (w->places.format == TD_FORMAT_BTRFS &&
		     touches(r, TD_HOME_FIRST)))
			w->look = true;
	}
	td_look_follow(e, r);
	while ((t = next_place(w, r)) != NULL) {
		t->learning = false;
		t->unreadable = false;
		settle(e, t);
		/* N1: two contents of a place are all that a note can hold. */
		if (t->settling) {
			if (e->ledger.disk_unflushed)
				td_flush_want(e);
			*actions = wait_for_note(e, r);
			return false;
		}
		if (r->kind != TD_DISCARD && r->parts) {
			r->summing = t->sums.quarter;
			*actions = TD_DO_SUM;
			return false;
		}
		/* The user may change the buffer during the write: learn it afterwards. */
		t->known = false;
		t->whole = false;
		t->writer = r;
		if (td_look_is_home(w, t->sums.quarter))
			td_look_doubt(e);
		td_watch_note(e, t);
	}
	if (note_of(w, r) <= w->done)
		return true;
	*actions = wait_for_note(e, r);
	return false;
}

void td_sums_begin(const struct td_engine *e, const struct td_req *r,
		   struct td_sums *s)
{
	memset(s, 0, sizeof(*s));
	s->quarter = r->summing;
	s->places = e->watch.places;
	s->keeps = true;
}

void td_sums_add(struct td_sums *s, u64 sector, const void *data)
{
	u32 index = (u32)(sector - (s->quarter << TD_QUARTER_SHIFT));

	s->mask |= 1u << index;
	s->sum[index] = td_sum_of(data);
	s->keeps &= td_places_keep(&s->places, s->quarter, index, data);
	if (!index && td_look_is_pack(&s->places, s->quarter)) {
		s->has_next = true;
		s->next = td_places_next(&s->places, data);
	}
}

u32 td_summed(struct td_engine *e, struct td_req *r, const struct td_sums *s,
	      struct td_list *woken)
{
	struct td_trace *t = td_watch_trace(&e->watch, s->quarter);

	if (t) {
		for (u32 i = 0; i < TD_QUARTER_SECTORS; i++)
			if (s->mask & 1u << i)
				t->sums.will[i] = s->sum[i];
		/* Of a part of a place that is not known, nothing can be known. */
		t->whole = s->mask == (1u << TD_QUARTER_SECTORS) - 1;
		t->writer = r;
		if (!s->keeps)
			td_look_doubt(e);
		td_watch_note(e, t);
		/* Traces move: @t is not used any more. */
		if (s->has_next)
			td_look_next(&e->watch, s->quarter, s->next);
	}
	return td_start(e, r, woken);
}

/* Was what @r had to write there written, and the disk not in doubt of it? */
static bool has_written(const struct td_req *r)
{
	if (r->kind == TD_CLEAN)
		return r->phase == TD_PHASE_RECORDING;
	return r->kind == TD_WRITE && !r->failed;
}

void td_watch_leave(struct td_engine *e, const struct td_req *r)
{
	const struct td_ledger *l = &e->ledger;
	struct td_watch *w = &e->watch;

	if (r->kind == TD_READ)
		return;
	for (u32 i = 0; i < w->count; i++) {
		struct td_trace *t = &w->trace[i];

		if (t->writer != r)
			continue;
		t->writer = NULL;
		if (r->writeback) {
			/* In the end the data went to the SSD alone. */
			memcpy(t->sums.will, t->sums.was, sizeof(t->sums.will));
			continue;
		}
		/* The disk answered FUA, or was flushed for the cleaning. */
		if (r->fua || r->kind == TD_CLEAN)
			t->flush = (u32)l->flush_done;
		else
			t->flush = (u32)(l->flush_begun + l->disk_unflushed);
		t->settling = has_written(r) && (t->known || t->whole);
		if (!t->settling) {
			t->known = false;
			td_watch_note(e, t);
		}
		settle(e, t);
	}
}

void td_watch_fill(struct td_engine *e, struct td_samples *s)
{
	struct td_watch *w = &e->watch;

	w->wanted = false;
	s->sure = td_watch_sure(w);
	s->mark = w->places.mark;
	s->head = w->head;
	s->traces = 0;
	for (u32 i = 0; i < w->count; i++) {
		if (w->trace[i].known)
			s->trace[s->traces++] = w->trace[i].sums;
	}
}

bool td_notes_next(struct td_engine *e, struct td_work *work)
{
	struct td_watch *w = &e->watch;
	u32 copy;

	if (w->on || !w->wanted)
		return false;
	w->on = true;
	w->begun++;
	copy = (u32)w->begun & 1;
	w->note.stopped = false;
	td_samples_pick(&e->heat, &e->read_heat, e->layout.origin_sectors,
			&w->note);
	w->note.sequence = w->begun;
	td_watch_fill(e, &w->note);
	td_samples_encode(&w->note, e->ledger.super.uuid, copy, w->buffer);
	work->kind = TD_WORK_NOTE;
	work->sector = TD_SAMPLES_OFFSET(copy) / TD_SECTOR_BYTES;
	work->sectors = TD_SAMPLES_BYTES / TD_SECTOR_BYTES;
	work->buffer = w->buffer;
	env_count(e->counters, TD_C_NOTES, 1);
	return true;
}

/* Requests that wait for a note, or for a flush, look again. */
void td_watch_wake(struct td_engine *e, struct td_list *woken)
{
	struct td_watch *w = &e->watch;
	struct td_link *next;

	for (struct td_link *k = w->waiters.next; k != &w->waiters; k = next) {
		struct td_req *r = td_req_of_gate(k);

		next = k->next;
		if (td_active(e) && note_of(w, r) > w->done)
			continue;
		td_link_del(k);
		td_wake(woken, r, TD_DO_START);
	}
}

void td_notes_done(struct td_engine *e, struct td_list *woken)
{
	e->watch.on = false;
	e->watch.done = e->watch.begun;
	e->watch.sure = e->watch.note.sure;
	td_watch_wake(e, woken);
}

/*
 * The disk may hold either content for long, if not for ever: the next writer must not
 * wait for that, and after this write a note would have to hold three contents.
 */
static void give_up(struct td_engine *e, struct td_trace *t)
{
	if (!t->settling || (s32)((u32)e->ledger.flush_begun - t->flush) < 0)
		return;
	t->settling = false;
	t->known = false;
	td_watch_note(e, t);
}

void td_watch_flushed(struct td_engine *e, bool ok, struct td_list *woken)
{
	for (u32 i = 0; i < e->watch.count; i++) {
		if (ok)
			settle(e, &e->watch.trace[i]);
		else
			give_up(e, &e->watch.trace[i]);
	}
	td_watch_wake(e, woken);
}
