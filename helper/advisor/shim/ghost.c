// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs core's own code for a sample of its groups.
 *
 * Invariant: between two calls no slot is pinned, busy or pending, and nothing is dirty.
 * Why not core's requests (engine.h): these need memory for the marks of the whole
 * disk, and a journal, which have no influence on what hits.
 */
#include <stdlib.h>

#include "ghost.h"
#include "policy.h"
#include "store.h"

struct tdg_ghost {
	struct td_engine e;
	struct tdg_shape shape;
	/* Core counts slots for each region of the disk. Nothing here asks for the count. */
	struct td_mark whole;
	u64 counters[TD_NR_COUNTERS];
};

static u64 nr_sets(const struct tdg_ghost *g)
{
	return g->e.layout.slots >> g->e.layout.way_shift;
}

static u64 nr_pending(const struct tdg_ghost *g)
{
	return ((u64)g->e.layout.slots + 63) / 64;
}

static bool allocate(struct tdg_ghost *g)
{
	struct td_engine *e = &g->e;
	u64 slots = e->layout.slots;

	/* One more of each, for no ghost asks for 0 bytes. */
	e->words = calloc(slots + 1, sizeof(*e->words));
	e->sets = calloc(nr_sets(g) + 1, sizeof(*e->sets));
	e->buckets = calloc(td_engine_buckets(&e->layout), sizeof(*e->buckets));
	e->ledger.pending = calloc(nr_pending(g) + 1, sizeof(u64));
	e->ledger.pending_words = calloc(slots / 4096 + 1, sizeof(u64));
	e->ledger.pending_tops = calloc(slots / 262144 + 1, sizeof(u64));
	e->trim.freed = calloc((slots >> e->layout.run_shift) / 64 + 1, sizeof(u64));
	return e->words && e->trim.freed && e->sets && e->buckets && e->ledger.pending &&
	       e->ledger.pending_words && e->ledger.pending_tops;
}

struct tdg_ghost *tdg_new(const struct tdg_shape *shape)
{
	struct td_super sb = { .origin_sectors = shape->disk_sectors };
	struct tdg_ghost *g = calloc(1, sizeof(*g));
	struct td_layout l;

	if (!g)
		return NULL;
	sb.groups = shape->kept;
	sb.run_shift = shape->run_shift;
	sb.way_shift = shape->way_shift;
	td_super_layout(&sb, 1, &l);
	/* The hash chooses among all groups; there is memory for the first ones. */
	l.lanes = shape->groups << shape->way_shift;
	g->shape = *shape;
	g->e.layout = l;
	g->e.counters = g->counters;
	if (!allocate(g)) {
		tdg_free(g);
		return NULL;
	}
	td_engine_init(&g->e, &sb, &l, TD_WRITETHROUGH);
	g->e.ledger.marks = &g->whole;
	g->e.ledger.mark_shift = 63;
	return g;
}

void tdg_free(struct tdg_ghost *g)
{
	free(g->e.words);
	free(g->e.sets);
	free(g->e.buckets);
	free(g->e.trim.freed);
	free(g->e.ledger.pending);
	free(g->e.ledger.pending_words);
	free(g->e.ledger.pending_tops);
	free(g);
}

u32 tdg_group(const struct tdg_ghost *g, u64 sector)
{
	return td_group_of(&g->e.layout, sector);
}

/* All changes of the index are recorded, as a sweep would do within a second. */
static void record(struct tdg_ghost *g)
{
	struct td_ledger *l = &g->e.ledger;

	if (!l->nr_pending)
		return;
	for (u32 i = 0; i < (g->e.layout.slots + 4095) / 4096; i++) {
		for (u64 some = l->pending_words[i]; some; some &= some - 1) {
			u32 at = i * 64 + env_first_bit(some);

			for (u64 v = l->pending[at]; v; v &= v - 1) {
				struct td_word *w = &g->e.words[at * 64 + env_first_bit(v)];

				td_word_snapshot(w);
				td_word_recorded(w);
			}
			l->pending[at] = 0;
		}
		l->pending_words[i] = 0;
	}
	l->nr_pending = 0;
}

/* As begin_read() in engine.c, and the ends of the disk's read and the SSD's write. */
static void fill(struct tdg_ghost *g, u64 sector, u32 count,
		 struct tdg_missed *missed)
{
	struct td_engine *e = &g->e;
	struct td_part parts[TD_FRAMES_MAX];
	u64 first = td_frame_of(sector);
	u64 last = td_frame_of(sector + count - 1);
	struct td_req r;

	missed->first[missed->count] = first;
	missed->last[missed->count++] = last;
	td_req_init(&r, TD_READ, sector, count, parts, TD_FRAMES_MAX);
	td_store_plan_fill(e, &e->buckets[0], &r,
			   td_stream_seen(e, &e->reads, TD_STREAM_READ, first, last));
	td_store_finish(e, &e->buckets[0], &r);
	record(g);
}

u32 tdg_read(struct tdg_ghost *g, u64 sector, u32 count,
	     struct tdg_missed *missed)
{
	u64 end = sector + count;
	u32 hit = 0;

	missed->count = 0;
	for (struct td_look look; sector < end; sector += look.count) {
		switch (td_read_look(&g->e, sector, (u32)(end - sector), &look)) {
		case TD_HIT:
			for (u32 i = 0; i < look.slots; i++)
				td_word_unpin(&g->e.words[look.slot + i]);
			hit += look.count;
			break;
		case TD_MISS:
			fill(g, sector, look.count, missed);
			td_disk_read_ends(&g->e);
			break;
		case TD_PASS:
			td_disk_read_ends(&g->e);
			break;
		case TD_BUSY:
			/* Core says BUSY only with requests in flight. */
			return hit;
		}
	}
	return hit;
}

void tdg_write(struct tdg_ghost *g, u64 sector, u32 count, bool stream)
{
	struct td_engine *e = &g->e;
	struct td_part parts[TD_FRAMES_MAX];
	bool copy = !stream && td_write_wants_copy(e, sector, count);
	struct td_req r;

	td_req_init(&r, TD_WRITE, sector, count, copy ? parts : NULL,
		    copy ? TD_FRAMES_MAX : 0);
	r.stream = stream;
	td_store_plan_write(e, &e->buckets[0], &r);
	td_store_finish(e, &e->buckets[0], &r);
	record(g);
}

static void forget(struct tdg_ghost *g, u32 slot, u64 frame, u64 sector, u64 end)
{
	td_index_forget(&g->e, slot, td_quarters_touched(frame, sector, end));
}

void tdg_discard(struct tdg_ghost *g, u64 sector, u64 end)
{
	const struct td_layout *l = &g->e.layout;
	u64 first = td_frame_of(sector), last = td_frame_of(end - 1);

	if (last - first < l->slots) {
		for (u64 frame = first; frame <= last; frame++) {
			u32 slot;

			if (tdg_group(g, frame << TD_FRAME_SHIFT) >= g->shape.kept) {
				/* To the end of its run. */
				frame |= l->run_mask;
				continue;
			}
			slot = td_index_find(&g->e, frame);
			if (slot != TD_NO_SLOT)
				forget(g, slot, frame, sector, end);
		}
	} else {
		for (u32 slot = 0; slot < l->slots; slot++) {
			u64 v = td_word_load(&g->e.words[slot]);
			u64 frame = td_word_tag(v);

			if (v & TD_W_STATE && frame >= first && frame <= last)
				forget(g, slot, frame, sector, end);
		}
	}
	record(g);
}

bool tdg_has_room(const struct tdg_ghost *g, u64 sector, u32 count)
{
	u64 last = td_frame_of(sector + count - 1);

	for (u64 frame = td_frame_of(sector); frame <= last; frame++)
		if (td_index_find(&g->e, frame) == TD_NO_SLOT &&
		    !td_index_has_room(&g->e, frame))
			return false;
	return true;
}

bool tdg_pass(struct tdg_ghost *g, const struct tdg_missed *missed)
{
	bool stream = false;

	for (u32 i = 0; i < missed->count; i++)
		stream = td_stream_seen(&g->e, &g->e.reads, TD_STREAM_READ,
					missed->first[i], missed->last[i]);
	return stream;
}

bool tdg_streams(struct tdg_ghost *g, u64 sector, u32 count)
{
	return td_write_streams(&g->e, sector, count);
}

/* Put @v at the same distance from its home way as in @from, or behind that. */
static void move_word(struct tdg_ghost *g, const struct td_layout *from, u32 slot,
		      u64 v)
{
	const struct td_layout *l = &g->e.layout;
	u64 frame = td_word_tag(v);
	struct td_place p = td_place_of(l, frame);
	u32 ways = td_ways(l);
	u32 way = (slot >> from->run_shift) - td_place_of(from, frame).home + p.home;

	if (tdg_group(g, frame << TD_FRAME_SHIFT) >= g->shape.kept)
		return;
	for (u32 i = 0; i < ways; i++) {
		u32 to = td_slot_at(l, p.base, (way + i) & (ways - 1), frame);

		if (td_word_load(&g->e.words[to]))
			continue;
		env_store(&g->e.words[to].a, v);
		return;
	}
}

struct tdg_ghost *tdg_double(const struct tdg_ghost *g)
{
	struct tdg_shape shape = g->shape;
	struct tdg_ghost *new;

	shape.groups *= 2;
	new = tdg_new(&shape);
	if (!new)
		return NULL;
	for (u32 slot = 0; slot < g->e.layout.slots; slot++) {
		u64 v = td_word_load(&g->e.words[slot]);

		if (v)
			move_word(new, &g->e.layout, slot, v);
	}
	new->e.reads = g->e.reads;
	return new;
}

/* Saved: streams of reads, of writes, the level of trials, words, sets in four numbers each. */
#define SET_NUMBERS	4

u64 tdg_saved_count(const struct tdg_ghost *g)
{
	return 2 * TD_STREAMS + 1 + g->e.layout.slots + SET_NUMBERS * nr_sets(g);
}

void tdg_save(const struct tdg_ghost *g, u64 *numbers)
{
	for (u32 i = 0; i < TD_STREAMS; i++)
		*numbers++ = env_load(&g->e.reads.entries[i]);
	for (u32 i = 0; i < TD_STREAMS; i++)
		*numbers++ = env_load(&g->e.writes.entries[i]);
	*numbers++ = (u64)(s64)g->e.trial_level;
	for (u32 i = 0; i < g->e.layout.slots; i++)
		*numbers++ = td_word_load(&g->e.words[i]);
	for (u64 i = 0; i < nr_sets(g); i++) {
		const struct td_set *s = &g->e.sets[i];
		u64 set[SET_NUMBERS] = { 0 };

		for (u32 j = 0; j < TD_GHOSTS; j++)
			set[j / 8] |= (u64)s->ghosts[j] << j % 8 * 8;
		for (u32 j = 0; j < TD_GHOSTS / 2; j++)
			set[2] |= (u64)s->ghosts_high[j] << j * 8;
		set[3] = s->ghosts_regular | (u64)s->ghost << 16 | (u64)s->trials << 24 |
			 (u64)s->regulars << 32 | (u64)s->newest << 40;
		memcpy(numbers, set, sizeof(set));
		numbers += SET_NUMBERS;
	}
}

/* May @slot have the word @v? The words before it are in place. */
static bool word_is_sound(const struct tdg_ghost *g, u32 slot, u64 v)
{
	const struct td_layout *l = &g->e.layout;
	u64 frame = td_word_tag(v);
	u32 base;

	if (!v)
		return true;
	if (v & ~(TD_W_TAG | TD_W_VALID | TD_W_LIVE | TD_W_RECENCY | TD_W_REGULAR) ||
	    !(v & TD_W_LIVE) || !td_word_valid(v) ||
	    td_word_valid(v) & ~td_quarters_cached(l, frame))
		return false;
	base = td_place_of(l, frame).base;
	if (slot < base || slot - base >= 1u << (l->way_shift + l->run_shift) ||
	    ((u32)frame & l->run_mask) != (slot & l->run_mask))
		return false;
	/* No other word has this tag. */
	return td_index_find(&g->e, frame) == TD_NO_SLOT;
}

/* @numbers are what tdg_save() gave of @s. */
static bool restore_set(const struct tdg_ghost *g, struct td_set *s, const u64 *numbers)
{
	u32 ways = td_ways(&g->e.layout);

	for (u32 i = 0; i < TD_GHOSTS; i++)
		s->ghosts[i] = (u8)(numbers[i / 8] >> i % 8 * 8);
	for (u32 i = 0; i < TD_GHOSTS / 2; i++)
		s->ghosts_high[i] = (u8)(numbers[2] >> i * 8);
	s->ghosts_regular = (u16)numbers[3];
	s->ghost = (u8)(numbers[3] >> 16);
	s->trials = (u8)(numbers[3] >> 24);
	s->regulars = (u8)(numbers[3] >> 32);
	s->newest = (u8)(numbers[3] >> 40);
	return s->ghost < ways && s->newest <= ways;
}

bool tdg_restore(struct tdg_ghost *g, const u64 *numbers)
{
	s64 level;

	for (u32 i = 0; i < TD_STREAMS; i++)
		env_store(&g->e.reads.entries[i], *numbers++);
	for (u32 i = 0; i < TD_STREAMS; i++)
		env_store(&g->e.writes.entries[i], *numbers++);
	level = (s64)*numbers++;
	if (level < TD_TRIAL_LEVEL_MIN || level > TD_TRIAL_LEVEL_MAX)
		return false;
	g->e.trial_level = (s32)level;
	for (u32 i = 0; i < g->e.layout.slots; i++, numbers++) {
		if (!word_is_sound(g, i, *numbers))
			return false;
		env_store(&g->e.words[i].a, *numbers);
	}
	for (u64 i = 0; i < nr_sets(g); i++, numbers += SET_NUMBERS)
		if (!restore_set(g, &g->e.sets[i], numbers))
			return false;
	return true;
}

u64 tdg_memory(const struct tdg_ghost *g)
{
	return sizeof(*g) + g->e.layout.slots * sizeof(*g->e.words) +
	       nr_sets(g) * sizeof(*g->e.sets) + 2 * nr_pending(g) * sizeof(u64) +
	       td_engine_buckets(&g->e.layout) * sizeof(*g->e.buckets);
}
