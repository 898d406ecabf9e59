// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which places of the disk are watched, and learning what they hold.
 *
 * Invariants:
 *   P1  A note says "sure" only if each writing use of the file system, by another
 *       system, changes the place of one of its known traces.
 *   P2  A place is learned from the disk only while no write to it is in flight or
 *       unflushed, and none begins meanwhile.
 *
 * Threads: the engine's lock.
 * Why strides of XFS's log: its superblock shows no use that was cut off. But each mount
 * writes 2 MiB of the log behind its head, the last block that was written: so at least
 * one stride. The mount of this cache's own user did so too, hence the stride that was
 * written last may be 2 MiB behind the head; and after a crash the head may be earlier,
 * for what was in flight.
 * Why cycles: each sector of the log begins with the number of the round in which it was
 * written. XFS itself finds the head where this number changes, on the disk as it is.
 * While the SSD has a part of the log alone, there may be several such places, and another
 * system may take another one than is found here.
 */
#include "watch_int.h"

#define NEAR	4u	/* strides that are watched: from the one in front of the head on */

static u64 stride_of(const struct td_places *p, u32 step)
{
	return p->log + ((u64)step << p->stride_shift);
}

/* The last stride within @first..@last, quarters. False: none. */
static bool stride_in(const struct td_places *p, u64 first, u64 last, u32 *step)
{
	if (!p->steps || last < p->log)
		return false;
	*step = (u32)((last - p->log) >> p->stride_shift);
	if (last - p->log >= (u64)p->steps << p->stride_shift)
		*step = p->steps - 1;
	return stride_of(p, *step) >= first;
}

static void add_trace(struct td_watch *w, u64 quarter)
{
	if (w->count == TD_TRACES_MAX || td_watch_trace(w, quarter))
		return;
	w->trace[w->count++] = (struct td_trace) {
		.sums = { .quarter = quarter },
	};
}

bool td_look_is_home(const struct td_watch *w, u64 quarter)
{
	for (u32 i = 0; i < w->places.count; i++)
		if (w->places.quarter[i] == quarter)
			return true;
	return false;
}

static u32 step_behind(const struct td_places *p, u32 step)
{
	return step + 1 < p->steps ? step + 1 : 0;
}

/* The quarter of stride @i of the NEAR ones. */
static u64 near_head(const struct td_watch *w, u32 i)
{
	u32 step = w->head > 1 ? w->head - 2 : w->places.steps - 1;

	while (i--)
		step = step_behind(&w->places, step);
	return stride_of(&w->places, step);
}

/* Places that move while the file system is used: of XFS, or of F2FS. */
static u32 nr_moving(const struct td_watch *w)
{
	if (w->places.format == TD_FORMAT_F2FS)
		return TD_PACKS;
	return w->head ? NEAR : 0;
}

/* 0: it is not known. */
static u64 moving_place(const struct td_watch *w, u32 i)
{
	return w->places.format == TD_FORMAT_F2FS ? w->next[i] : near_head(w, i);
}

static bool is_moving(const struct td_watch *w, u64 quarter)
{
	for (u32 i = 0; i < nr_moving(w); i++)
		if (moving_place(w, i) == quarter)
			return true;
	return false;
}

/* Stop watching what is neither a place nor a moving one, nor being written. */
static void drop_traces(struct td_watch *w)
{
	u32 kept = 0;

	for (u32 i = 0; i < w->count; i++)
		if (w->trace[i].writer || td_look_is_home(w, w->trace[i].sums.quarter) ||
		    is_moving(w, w->trace[i].sums.quarter))
			w->trace[kept++] = w->trace[i];
	w->count = kept;
}

/* Watch the moving places, as far as there is room beside those being written. */
static void watch_moving(struct td_watch *w)
{
	drop_traces(w);
	for (u32 i = 0; i < nr_moving(w); i++)
		if (moving_place(w, i))
			add_trace(w, moving_place(w, i));
}

bool td_look_is_pack(const struct td_places *p, u64 quarter)
{
	return p->format == TD_FORMAT_F2FS && (p->quarter[1] == quarter ||
					       p->quarter[2] == quarter);
}

void td_look_next(struct td_watch *w, u64 quarter, u64 next)
{
	if (!td_look_is_pack(&w->places, quarter))
		return;
	w->next[quarter == w->places.quarter[2]] = next;
	if (next > w->last)
		w->last = next;
	watch_moving(w);
}

static void follow_head(struct td_watch *w, u32 step)
{
	if (w->head == step + 1)
		return;
	w->head = step + 1;
	watch_moving(w);
}

static bool writes_log(const struct td_watch *w, const struct td_req *r, u32 *step)
{
	return stride_in(&w->places, td_req_first(r), td_req_last(r), step);
}

void td_look_follow(struct td_engine *e, const struct td_req *r)
{
	struct td_watch *w = &e->watch;
	u32 step;

	if (!writes_log(w, r, &step))
		return;
	memset(&w->search, 0, sizeof(w->search));
	if (r->kind != TD_CLEAN) {
		follow_head(w, step);
	} else if (w->head) {
		w->head = 0;
		drop_traces(w);
		w->lost = w->begun + 1;
		td_watch_want(e);
	}
}

bool td_look_lost(const struct td_watch *w, const struct td_req *r)
{
	u32 step;

	return r->kind == TD_CLEAN && writes_log(w, r, &step);
}

bool td_watch_wants_copy(const struct td_engine *e, u64 sector, u32 count)
{
	const struct td_watch *w = &e->watch;
	u64 first = sector >> TD_QUARTER_SHIFT;
	u64 last = (sector + count - 1) >> TD_QUARTER_SHIFT;
	u32 step;

	if (first > w->last)
		return false;
	for (u32 i = 0; i < w->count && i < TD_TRACES_MAX; i++)
		if (first <= w->trace[i].sums.quarter &&
		    w->trace[i].sums.quarter <= last)
			return true;
	return stride_in(&w->places, first, last, &step);
}

static bool is_known(const struct td_watch *w, u64 quarter)
{
	for (u32 i = 0; i < w->count; i++)
		if (w->trace[i].sums.quarter == quarter)
			return w->trace[i].known;
	return false;
}

bool td_watch_sure(const struct td_watch *w)
{
	if (!td_places_known(&w->places) || w->look)
		return false;
	for (u32 i = 0; i < w->places.count; i++)
		if (!is_known(w, w->places.quarter[i]))
			return false;
	for (u32 i = 0; w->places.format == TD_FORMAT_F2FS && i < TD_PACKS; i++)
		if (!w->next[i] || !is_known(w, w->next[i]))
			return false;
	if (!w->places.steps)
		return true;
	/* The last of the NEAR may be learned later: the head is one stride before it. */
	for (u32 i = 0; i + 1 < NEAR; i++)
		if (!w->head || !is_known(w, near_head(w, i)))
			return false;
	return true;
}

void td_look_doubt(struct td_engine *e)
{
	e->watch.look = true;
	e->watch.looking = false;
}

/* Was there no room for a place when it moved? */
static bool lacks_moving(const struct td_watch *w)
{
	for (u32 i = 0; i < nr_moving(w); i++) {
		u64 quarter = moving_place(w, i);
		bool found = !quarter;

		for (u32 j = 0; j < w->count && j < TD_TRACES_MAX; j++)
			found |= w->trace[j].sums.quarter == quarter;
		if (!found)
			return true;
	}
	return false;
}

static bool wants_head(const struct td_watch *w)
{
	return w->places.steps && !w->head && !w->search.failed;
}

bool td_watch_asks(const struct td_engine *e)
{
	const struct td_watch *w = &e->watch;

	if (!td_active(e))
		return false;
	if (env_peek(w->look) || lacks_moving(w) || wants_head(w))
		return true;
	for (u32 i = 0; i < w->count; i++)
		if (!w->trace[i].known && !w->trace[i].settling &&
		    !w->trace[i].unreadable)
			return true;
	return false;
}

static const struct td_mark *mark_of(const struct td_engine *e, u64 quarter)
{
	const struct td_ledger *l = &e->ledger;
	u64 region = quarter << TD_QUARTER_SHIFT >> l->mark_shift;

	return region < l->nr_marks ? &l->marks[region] : NULL;
}

/* P2: no write is in flight. */
static bool is_quiet(const struct td_engine *e, u64 quarter)
{
	const struct td_ledger *l = &e->ledger;
	const struct td_mark *m = mark_of(e, quarter);

	return !l->cleanings && !l->cleanings_written && (!m || !m->inflight);
}

/*
 * P2: the disk was flushed since the load, behind the last write to the region, and behind all
 * cleanings, which no mark counts.
 */
static bool is_settled(const struct td_engine *e, u64 quarter)
{
	const struct td_ledger *l = &e->ledger;
	const struct td_mark *m = mark_of(e, quarter);

	return l->flush_done && td_flush_is_done(l, l->cleanings_flush) &&
	       (!m || td_flush_is_done(l, m->flush));
}

/* P2. If only a flush is missing for that, the flush is wanted. */
static bool may_read(struct td_engine *e, u64 quarter)
{
	if (!is_quiet(e, quarter))
		return false;
	if (is_settled(e, quarter))
		return true;
	if (e->ledger.disk_unflushed)
		td_flush_want(e);
	return false;
}

bool td_look_begin(struct td_engine *e)
{
	struct td_watch *w = &e->watch;

	w->looking = w->look && td_active(e) && is_quiet(e, TD_HOME_FIRST) &&
		     is_quiet(e, TD_HOME_BTRFS);
	return w->looking;
}

/* Another file system, or the first that is found. */
static void change_places(struct td_watch *w, const struct td_places *p)
{
	w->places = *p;
	w->head = 0;
	memset(w->next, 0, sizeof(w->next));
	memset(&w->search, 0, sizeof(w->search));
	drop_traces(w);
	w->last = TD_HOME_BTRFS;
	for (u32 i = 0; i < p->count; i++) {
		add_trace(w, p->quarter[i]);
		if (p->quarter[i] > w->last)
			w->last = p->quarter[i];
	}
	if (!p->steps)
		return;
	w->last = p->log + ((u64)(p->steps + 1) << p->stride_shift);
	if (w->old_head && w->old_head <= p->steps && w->old_mark == p->mark)
		follow_head(w, w->old_head - 1);
}

bool td_look_end(struct td_engine *e, const struct td_places *p)
{
	struct td_watch *w = &e->watch;

	if (!w->looking)
		return false;
	w->looking = w->look = false;
	if (p->format != w->places.format || p->mark != w->places.mark)
		change_places(w, p);
	w->old_head = 0;
	td_watch_want(e);
	return true;
}

/* The step to read next. */
static u32 search_step(const struct td_watch *w)
{
	const struct td_search *k = &w->search;

	if (!k->last)
		return w->places.steps - 1;
	return k->first ? k->low + (k->high - k->low) / 2 : 0;
}

bool td_search_begin(struct td_engine *e, u64 *quarter)
{
	struct td_watch *w = &e->watch;

	if (!wants_head(w) || w->look)
		return false;
	*quarter = stride_of(&w->places, search_step(w));
	w->search.on = may_read(e, *quarter);
	return w->search.on;
}

void td_search_end(struct td_engine *e, const u8 *data)
{
	struct td_watch *w = &e->watch;
	struct td_search *k = &w->search;
	u32 cycle;

	if (!k->on)
		return;
	k->on = false;
	k->failed = !data;
	if (!data)
		return;
	cycle = td_places_cycle(data);
	if (!k->last) {
		k->last = true;
		k->cycle = cycle;
		k->high = w->places.steps - 1;
		return;
	}
	if (!k->first) {
		k->first = true;
		/* One round is complete. */
		if (cycle == k->cycle)
			k->low = k->high;
	} else if (cycle == k->cycle) {
		k->high = search_step(w);
	} else {
		k->low = search_step(w);
	}
	if (k->low + 1 >= k->high)
		follow_head(w, k->low);
}

bool td_learn_begin(struct td_engine *e, u64 *quarter)
{
	struct td_watch *w = &e->watch;

	if (lacks_moving(w))
		watch_moving(w);
	for (u32 i = 0; i < w->count; i++) {
		struct td_trace *t = &w->trace[i];

		if (t->known || t->settling || t->writer || t->learning ||
		    t->unreadable || !may_read(e, t->sums.quarter))
			continue;
		t->learning = true;
		*quarter = t->sums.quarter;
		return true;
	}
	return false;
}

void td_learn_end(struct td_engine *e, u64 quarter, const u32 *sums)
{
	struct td_trace *t = td_watch_trace(&e->watch, quarter);

	if (!t || !t->learning)
		return;
	t->learning = false;
	t->unreadable = !sums;
	if (!sums)
		return;
	memcpy(t->sums.was, sums, sizeof(t->sums.was));
	memcpy(t->sums.will, sums, sizeof(t->sums.will));
	t->known = true;
	td_watch_note(e, t);
}

void td_learn_next(struct td_engine *e, u64 quarter, const u8 *data)
{
	if (is_known(&e->watch, quarter) && td_look_is_pack(&e->watch.places, quarter))
		td_look_next(&e->watch, quarter, td_places_next(&e->watch.places, data));
}

/* A device in use may have traces, of a disk that is not as it was. No request in flight. */
static void forget_content(struct td_watch *w)
{
	for (u32 i = 0; i < w->count; i++) {
		w->trace[i].known = false;
		w->trace[i].settling = false;
		w->trace[i].unreadable = false;
	}
	w->head = 0;
	memset(w->next, 0, sizeof(w->next));
	memset(&w->search, 0, sizeof(w->search));
	w->look = true;
}

void td_watch_resume(struct td_engine *e, const struct td_samples *s, bool same)
{
	struct td_watch *w = &e->watch;

	w->begun = s->sequence;
	w->done = s->sequence;
	w->old_mark = s->mark;
	w->old_head = same ? s->head : 0;
	if (!same)
		forget_content(w);
}
