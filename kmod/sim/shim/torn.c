// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every write of metadata, cut at every sector: what is loaded then must be what
 * was durable before, or after if nothing of the write is missing.
 *
 * The ledger itself writes. Words are changed at random, without the engine's
 * rules: what they say is nothing to the format. At times the cut happens, and
 * the cache goes on from what was loaded; then its next group has the number of
 * the torn one.
 */
#include "medium.h"

#include "../../core/ledger_int.h"
#include "random.h"
#include "torn.h"

#define STEPS		30
#define CUTS_RANDOM	12u
#define MARKERS		4u

struct torn {
	struct cache live;
	struct cache again;	/* loads what a cut leaves; has the same image */
	u64 state;		/* state of the random numbers */
	u64 *durable;		/* a record for each slot */
	u64 *pages;		/* records of the checkpoint that is being written */
	bool *since;		/* a group recorded the slot since that checkpoint began */
	u64 group;		/* the first one since then */
	u64 near;		/* the frames that change lie there; 0: anywhere */
	u64 sweeping;		/* the checkpoint that records a drop, or 0 */
	u64 swept;		/* the last one that did */
	bool *dropped;		/* the slot was dropped, and not changed since */
	u64 replaced;		/* sector of one of its pages, or 0, */
	u8 *older;		/* and what was there before */
	u8 *before;		/* the bytes that a write replaces */
	bool *marked;		/* regions with a durable mark */
	u64 *former;		/* the records if the torn group were complete */
	bool starting;		/* a start from what a cut left is under way */
	u64 cuts;
};

/* Each frame has one way, so that no two slots hold the same one. */
static void change_word(struct torn *t)
{
	const struct td_layout *l = &t->live.layout;
	u64 frames = (l->origin_sectors + TD_FRAME_SECTORS - 1) >> TD_FRAME_SHIFT;
	u64 tag = (t->near ? t->near + random_below(&t->state, 8) :
		   random_number(&t->state)) % frames;
	unsigned int cached = td_quarters_cached(l, tag);
	unsigned int valid = random_below(&t->state, 16) & cached;
	struct td_place p = td_place_of(l, tag);
	u32 slot = td_slot_at(l, p.base, (u32)(tag * 7) & ((1u << l->way_shift) - 1),
			      tag);
	u64 v = TD_W_PENDING;

	if (valid)
		v |= TD_W_LIVE | tag | td_word_quarters(valid) |
		     (u64)(valid & random_below(&t->state, 16)) << TD_W_DIRTY_SHIFT;
	env_store(&t->live.e.words[slot].a, v);
	t->dropped[slot] = false;
	td_ledger_pend(&t->live.e.ledger, slot);
}

static bool mark_on_image(struct torn *t, u32 region)
{
	u64 sector = t->live.super.intent.start +
		     (u64)(region / TD_BLOCK_MARKS) * TD_BLOCK_SECTORS;
	static _Thread_local u8 copy[TD_BLOCK_BYTES] __attribute__((aligned(8)));

	/* Regions come in order: one look at each block. */
	if (region % TD_BLOCK_MARKS == 0) {
		memcpy(copy, block_at(&t->live, sector), sizeof(copy));
		td_marks_check(copy, t->live.super.uuid, region / TD_BLOCK_MARKS);
	}
	return td_marks_get(copy, region % TD_BLOCK_MARKS);
}

/* Each group's entry that counts, in @records. */
static void apply_group_to(struct torn *t, const struct td_work *w, u64 *records,
			   bool *since)
{
	u32 blocks = w->sectors / TD_BLOCK_SECTORS;

	for (u32 b = 0; b < blocks; b++) {
		const u8 *block = (u8 *)w->buffer + (size_t)b * TD_BLOCK_BYTES;
		struct td_group_head h;

		/* Zeroes: the place of a group that was torn is wiped. */
		if (!*block)
			return;
		must(td_group_check(block, t->live.super.uuid, &h),
		     "the ledger writes a block that is not sound");
		for (u32 i = 0; i < h.entries; i++) {
			u64 record;
			u32 slot;

			td_group_get(block, i, &slot, &record);
			records[slot] = record;
			if (since)
				since[slot] = true;
		}
	}
}

static u32 region_of_record(const struct torn *t, u64 record)
{
	return (u32)((record & TD_W_TAG) << TD_FRAME_SHIFT >>
		     t->live.e.ledger.mark_shift);
}

/* Is what was loaded what @records and the marks say? */
static bool is_loaded(struct torn *t, const u64 *records)
{
	struct cache *c = &t->again;

	for (u32 i = 0; i < c->layout.slots; i++) {
		u64 expected = records[i];
		u64 dirty = (expected & TD_W_DIRTY) >> 4;
		u64 v = td_record_of(td_word_load(&c->e.words[i]));

		if (expected && c->e.ledger.marks[region_of_record(t, expected)].state
		    == TD_MARK_SET)
			expected = dirty ? (expected & ~TD_W_VALID) | dirty : 0;
		if (v != expected)
			return false;
	}
	return true;
}

static void check_marks(struct torn *t, const struct td_work *w, bool garbage)
{
	u32 first = t->live.e.ledger.marks_block * TD_BLOCK_MARKS;

	for (u32 i = 0; i < t->live.e.ledger.nr_marks; i++) {
		bool found = t->again.e.ledger.marks[i].state == TD_MARK_SET;
		bool written = t->marked[i];

		if (w->kind == TD_WORK_MARKS && i - first < TD_BLOCK_MARKS)
			written = td_marks_get(w->buffer, i - first);
		must(found == t->marked[i] || found == written ||
		     (garbage && found), "a mark comes or goes by a cut");
	}
}

static u8 *sector_at(struct torn *t, u64 sector)
{
	return block_at(&t->live, sector - sector % TD_BLOCK_SECTORS) +
	       sector % TD_BLOCK_SECTORS * TD_SECTOR_BYTES;
}

static bool is_wipe(const struct td_work *w)
{
	return w->kind == TD_WORK_GROUP && !*(const u8 *)w->buffer;
}

/* The head of the checkpoint before a sweeping one is overwritten with zeroes. */
static bool wipes_head(const struct td_work *w)
{
	return !*(const u8 *)w->buffer;
}

/*
 * @reached: which sectors of the write are on the SSD, a byte for each.
 * @garbage: one of the others holds neither the old nor the new content. The
 * image stays so.
 */
static void cut_write(struct torn *t, const struct td_work *w, const u8 *reached,
		      bool garbage)
{
	const u8 *data = w->buffer;
	u64 *records = t->again.expected;
	bool whole = true;

	for (u32 i = 0; i < w->sectors; i++) {
		u8 *at = sector_at(t, w->sector + i);
		const u8 *from = reached[i] ? data : t->before;

		memcpy(at, from + (size_t)i * TD_SECTOR_BYTES, TD_SECTOR_BYTES);
		if (garbage && !reached[i]) {
			at[random_below(&t->state, TD_SECTOR_BYTES)] ^= 0x5a;
			garbage = false;
		}
		/* A missing sector may equal the sector that was there. */
		whole &= !memcmp(at, data + (size_t)i * TD_SECTOR_BYTES,
				 TD_SECTOR_BYTES);
	}
	memcpy(records, t->durable, t->live.layout.slots * sizeof(u64));
	if (whole && w->kind == TD_WORK_GROUP)
		apply_group_to(t, w, records, NULL);
	if (whole && w->kind == TD_WORK_HEAD && !wipes_head(w))
		for (u32 i = 0; i < t->live.layout.slots; i++)
			if (!t->since[i])
				records[i] = t->pages[i];
	t->cuts++;
	must(load_cache(&t->again) == TD_LOAD_OK, "what a cut left is not believed");
	/*
	 * Wiping a torn group may complete it, if its missing sectors are zero.
	 * Nothing was done since, so the group counts as if it had not been
	 * torn.
	 */
	must(is_loaded(t, records) ||
	     (is_wipe(w) && is_loaded(t, t->former)),
	     "what a cut left has another index");
}

static void cut_everywhere(struct torn *t, const struct td_work *w)
{
	u8 reached[TD_PAGES_BYTES / TD_SECTOR_BYTES];
	u32 n = w->sectors;

	for (u32 i = 0; i <= n; i++) {
		memset(reached, 0, n);
		memset(reached, 1, i);
		cut_write(t, w, reached, false);
		check_marks(t, w, false);
	}
	for (u32 i = 0; i < n; i++) {
		memset(reached, 1, n);
		reached[i] = 0;
		cut_write(t, w, reached, i & 1);
		check_marks(t, w, i & 1);
	}
	for (u32 i = 0; i < CUTS_RANDOM; i++) {
		/* Of 512 bytes, or of 4096. */
		u32 unit = i & 1 ? TD_BLOCK_SECTORS : 1;

		for (u32 s = 0; s < n; s++)
			reached[s] = s % unit ? reached[s - 1] :
				     (u8)random_below(&t->state, 2);
		cut_write(t, w, reached, false);
		check_marks(t, w, false);
	}
}

static void remember_pages(struct torn *t, const struct td_work *w)
{
	u64 first = td_checkpoint_sector(&t->live.super,
					 (t->live.e.ledger.checkpoint + 1) & 1) +
		    TD_BLOCK_SECTORS;
	u32 page = (u32)((w->sector - first) / TD_BLOCK_SECTORS);

	/* A checkpoint that a cut stopped left pages of the same number. */
	if (td_page_check(t->before, &t->live.super, w->number, page) != w->number &&
	    (!t->replaced || !random_below(&t->state, 3))) {
		t->replaced = w->sector;
		memcpy(t->older, t->before, TD_BLOCK_BYTES);
	}
	for (u32 b = 0; b < w->sectors / TD_BLOCK_SECTORS; b++, page++)
		for (u32 i = 0; i < TD_PAGE_SLOTS; i++)
			if (page * TD_PAGE_SLOTS + i < t->live.layout.slots)
				t->pages[page * TD_PAGE_SLOTS + i] = le64_to_cpu(
					td_page_records((u8 *)w->buffer +
						(size_t)b * TD_BLOCK_BYTES)[i]);
}

/* The head is durable, but the SSD has lost the write of a page without a word. */
static void lose_page(struct torn *t)
{
	u8 now[TD_BLOCK_BYTES], *at;

	if (!t->replaced)
		return;
	at = block_at(&t->live, t->replaced);
	memcpy(now, at, sizeof(now));
	memcpy(at, t->older, sizeof(now));
	must(load_cache(&t->again) == TD_LOAD_DAMAGED,
	     "a page that was lost is not missed");
	memcpy(at, now, sizeof(now));
	t->replaced = 0;
}

/* A checkpoint took effect: is all recorded that was dropped before it began? */
static void check_drop(struct torn *t, u64 number)
{
	if (!t->sweeping || number < t->sweeping)
		return;
	for (u32 i = 0; i < t->live.layout.slots; i++)
		must(!t->dropped[i] || td_word_valid(t->durable[i]) ==
		     td_word_dirty(t->durable[i]),
		     "what a drop left has another index: a slot keeps what it held");
	t->sweeping = 0;
	t->swept = number;
}

/* All of the write reached the SSD. */
static void complete_write(struct torn *t, const struct td_work *w)
{
	const u8 *data = w->buffer;

	/* No group was under way when a checkpoint began. */
	if (t->group != t->live.e.ledger.checkpoint_group)
		memset(t->since, 0, t->live.layout.slots);
	t->group = t->live.e.ledger.checkpoint_group;
	for (u32 i = 0; i < w->sectors; i++)
		memcpy(sector_at(t, w->sector + i),
		       data + (size_t)i * TD_SECTOR_BYTES, TD_SECTOR_BYTES);
	switch (w->kind) {
	case TD_WORK_GROUP:
		apply_group_to(t, w, t->durable, t->since);
		break;
	case TD_WORK_PAGES:
		remember_pages(t, w);
		break;
	case TD_WORK_HEAD:
		if (wipes_head(w))
			break;
		for (u32 i = 0; i < t->live.layout.slots; i++)
			if (!t->since[i])
				t->durable[i] = t->pages[i];
		check_drop(t, w->number);
		lose_page(t);
		break;
	case TD_WORK_MARKS:
		for (u32 i = 0; i < t->live.e.ledger.nr_marks; i++)
			t->marked[i] = mark_on_image(t, i);
	}
}

/* The machine starts again, on what the cut left. */
static void load_after_cut(struct torn *t)
{
	must(load_cache(&t->live) == TD_LOAD_OK, "what was believed is not any more");
	/* A cut in front of the wiping leaves the older head until the next checkpoint. */
	t->replaced = t->sweeping = t->swept = 0;
	t->group = (u64)-1;
	for (u32 i = 0; i < t->live.layout.slots; i++) {
		u64 v = td_word_load(&t->live.e.words[i]);

		/* The record of a slot that was dropped is still on the SSD. */
		if (!(v & TD_W_PENDING))
			t->durable[i] = td_record_of(v);
	}
	for (u32 i = 0; i < t->live.e.ledger.nr_marks; i++)
		t->marked[i] = mark_on_image(t, i);
}

/* False: the power was cut. */
static bool carry_out_work(struct torn *t, const struct td_work *w, u32 one_in)
{
	u8 reached[TD_PAGES_BYTES / TD_SECTOR_BYTES];

	if (!w->sectors)
		return true;
	for (u32 i = 0; i < w->sectors; i++)
		memcpy(t->before + (size_t)i * TD_SECTOR_BYTES,
		       sector_at(t, w->sector + i), TD_SECTOR_BYTES);
	cut_everywhere(t, w);
	if (random_below(&t->state, one_in)) {
		complete_write(t, w);
		return true;
	}
	for (u32 i = 0; i < w->sectors; i++)
		reached[i] = i % TD_BLOCK_SECTORS ? reached[i - 1] :
			     (u8)random_below(&t->state, 2);
	cut_write(t, w, reached, false);
	memcpy(t->durable, t->again.expected,
	       t->live.layout.slots * sizeof(u64));
	if (w->kind == TD_WORK_GROUP && !is_wipe(w)) {
		memcpy(t->former, t->durable, t->live.layout.slots * sizeof(u64));
		apply_group_to(t, w, t->former, NULL);
	} else if (is_wipe(w) && !is_loaded(t, t->durable)) {
		memcpy(t->durable, t->former, t->live.layout.slots * sizeof(u64));
	}
	load_after_cut(t);
	return false;
}

/* The head of the checkpoint that recorded a drop rots: the one before must not count. */
static void rot_head(struct torn *t)
{
	u64 number = t->live.e.ledger.checkpoint;
	u8 *head = block_at(&t->live, td_checkpoint_sector(&t->live.super, number & 1));

	if (t->swept != number)
		return;
	head[TD_BLOCK_BYTES / 2] ^= 1;
	must(load_cache(&t->again) != TD_LOAD_OK,
	     "what was dropped comes back when a head rots");
	head[TD_BLOCK_BYTES / 2] ^= 1;
}

/*
 * Does the ledger's work until none is left. Returns false if the power was
 * cut.
 */
static bool do_all_work(struct torn *t, struct td_list *woken)
{
	struct td_engine *e = &t->live.e;
	struct td_work w;

	for (u32 i = 0; i < 3; i++)
		td_tick(e);
	while (td_work_next(e, &w, woken)) {
		if (w.kind == TD_WORK_STEP)
			continue;
		td_work_fill(e, &w);
		/*
		 * A large group is likely to meet what a cut left of another
		 * group.
		 */
		if (!carry_out_work(t, &w, w.sectors > TD_BLOCK_SECTORS ? 3 : 12))
			return false;
		while (td_work_done(e, &w, true, woken))
			;
		/*
		 * More changes, so that the checkpoint's pages meet changes
		 * that are pending.
		 */
		if (w.kind == TD_WORK_PAGES && !t->starting)
			change_word(t);
	}
	rot_head(t);
	return true;
}

/* All clean copies are dropped, as one checkpoint will record. */
static void drop_all(struct torn *t)
{
	struct td_engine *e = &t->live.e;
	u32 slots = e->layout.slots;

	if (e->ledger.sweeping)
		return;
	td_sweep_at_once_begin(e, (u64)TD_BLOCK_ENTRIES * td_page_count(slots));
	for (u32 i = 0; i < e->layout.groups; i++)
		td_forget_group(e, i);
	td_sweep_at_once_end(e);
	t->sweeping = e->ledger.sweeping;
	for (u32 i = 0; i < slots; i++)
		t->dropped[i] = true;
}

static void change_and_write(struct torn *t)
{
	static const u32 amounts[4] = { 5, 60, 900, 9000 };
	struct td_engine *e = &t->live.e;
	u32 count = random_below(&t->state, amounts[random_below(&t->state, 4)]) + 1;
	struct td_req markers[MARKERS];
	struct td_list woken;

	td_list_init(&woken);
	/* No change is made before the start is settled. */
	while (t->starting)
		t->starting = !do_all_work(t, &woken);
	/* Else hardly a page stays as it is. */
	t->near = random_below(&t->state, 3) ? random_number(&t->state) : 0;
	while (count--)
		change_word(t);
	for (u32 i = 0; i < random_below(&t->state, MARKERS); i++) {
		td_req_init(markers + i, TD_WRITE,
			    random_number(&t->state) % t->live.layout.origin_sectors, 1,
			    NULL, 0);
		if (!td_marks_is_set(e, markers + i))
			td_marks_wait(e, markers + i);
	}
	if (!random_below(&t->state, 6))
		drop_all(t);
	if (!random_below(&t->state, 3))
		td_checkpoint_want(e);
	t->starting = !do_all_work(t, &woken);
}

u64 sim_torn(u64 seed)
{
	struct torn t = { .state = seed };

	/* In the large one a sweep may need more than a group. */
	const u32 sizes[4] = { 0, 2, 0, 3 };

	plan_cache(&t.live, sizes[seed % 4]);
	plan_cache(&t.again, sizes[seed % 4]);
	free(t.again.image);
	t.again.image = t.live.image;
	t.durable = zeroed(t.live.layout.slots, sizeof(u64));
	t.pages = zeroed(t.live.layout.slots, sizeof(u64));
	t.since = zeroed(t.live.layout.slots, sizeof(bool));
	t.former = zeroed(t.live.layout.slots, sizeof(u64));
	t.before = zeroed(1, TD_PAGES_BYTES);
	t.older = zeroed(1, TD_BLOCK_BYTES);
	t.dropped = zeroed(t.live.layout.slots, sizeof(bool));
	format_cache(&t.live);
	renew_engine(&t.live);
	t.marked = zeroed(t.live.e.ledger.nr_marks, sizeof(bool));
	for (u32 i = 0; i < STEPS; i++)
		change_and_write(&t);
	t.again.image = NULL;
	free_cache(&t.live);
	free_cache(&t.again);
	free(t.durable);
	free(t.pages);
	free(t.since);
	free(t.before);
	free(t.older);
	free(t.dropped);
	free(t.former);
	free(t.marked);
	return t.cuts;
}
