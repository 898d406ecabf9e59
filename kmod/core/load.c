// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Loads the index from the SSD into memory.
 *
 * Invariants:
 *   R1  A group is applied only if all of it is sound and every group before it
 *       was; a record only if it is possible. Else there is no index at all.
 *   R2  The journal's end is believed only if no block of the whole ring belongs to
 *       a group later than the one expected there. Groups are written one at a
 *       time, so a cut leaves no such block; but there is one if a group in the
 *       middle, or the newest checkpoint's head, has rotted, and then the groups
 *       before it are old.
 *   R3  A block that cannot be read is not taken for the journal's end, nor for an
 *       older head: a checkpoint may have records that no group has yet.
 *   R4  Nothing is applied to memory beyond what the layout and the superblock's
 *       checked numbers allow, and no loop depends on what was read.
 *   R5  A page is believed only if it is of the checkpoint that the head means: without
 *       TD_SUPER_PARTS by its number, else by the sum of all pages' numbers.
 *
 * What the slots say together is checked last (load_slots.c).
 * Threads: one, before the engine is in use.
 */
#include "ledger_int.h"
#include "load_int.h"
#include "trim.h"

enum { HEADS, PAGES, TAIL, WRAPPED, MARKS, SLOTS, READY };

/*
 * The search for the next group goes on; goes on at the ring's start only, since the
 * largest group would not fit before the ring's end; has ended.
 */
enum { WALKING, SKIPPING, ENDED };

void td_load_begin(struct td_load *l, struct td_engine *e)
{
	memset(l, 0, sizeof(*l));
	l->e = e;
	l->phase = HEADS;
	l->end = 2;
	l->error = TD_LOAD_OK;
}

static const u8 *uuid_of(const struct td_load *l)
{
	return l->e->ledger.super.uuid;
}

static void load_head(struct td_load *l, const void *block)
{
	struct td_checkpoint c;

	/* R3: this head may be the newer one. */
	if (!block)
		td_load_fail(l, TD_LOAD_DAMAGED);
	if (!block || !td_checkpoint_check(block, uuid_of(l), &c))
		return;
	if ((c.number & 1) != l->at || c.slots != l->e->layout.slots ||
	    c.block >= l->e->ledger.ring_blocks ||
	    c.number > TD_NUMBER_MAX / 2 || c.group > TD_NUMBER_MAX / 2) {
		td_load_fail(l, TD_LOAD_IMPOSSIBLE);
		return;
	}
	if (c.number > l->checkpoint.number)
		l->checkpoint = c;
}

static inline bool is_possible(const struct td_layout *l, u32 slot, u64 record)
{
	u64 tag = td_word_tag(record);
	unsigned int valid = td_word_valid(record);
	u32 group_slots = 1u << (l->run_shift + l->way_shift);

	if (slot >= l->slots || record & ~TD_RECORD)
		return false;
	if (!valid)
		return !record;
	if (td_word_dirty(record) & ~valid ||
	    (slot ^ (u32)tag) & l->run_mask)
		return false;
	if ((tag + 1) << TD_FRAME_SHIFT > l->cached_sectors &&
	    valid & ~td_quarters_cached(l, tag))
		return false;
	return td_place_of(l, tag).base == (slot & ~(group_slots - 1));
}

/*
 * Before its first use a word is changed like any memory. False, and nothing
 * is changed: such a record cannot be.
 */
static inline bool apply_record(const struct td_layout *l, struct td_word *words,
				u32 slot, u64 record)
{
	if (!is_possible(l, slot, record))
		return false;
	env_store(&words[slot].a,
		  record ? record | TD_W_LIVE | TD_W_REGULAR : 0);
	return true;
}

static void load_page(struct td_load *l, const void *block, u32 number)
{
	/* A local copy: the compiler knows that stores to words do not change it. */
	const struct td_layout layout = l->e->layout;
	struct td_word *words = l->e->words;
	const __le64 *records;
	u32 first = number * TD_PAGE_SLOTS;
	u32 count = layout.slots - first;
	u32 area = l->checkpoint.number & 1;
	u64 written = 0;
	bool possible = true;

	if (block)
		written = td_page_check(block, &l->e->ledger.super,
					l->checkpoint.number, number);
	if (!written || (written & 1) != area) {
		td_load_fail(l, TD_LOAD_DAMAGED);
		return;
	}
	l->e->ledger.pages[number].number[area] = (u32)written;
	l->e->ledger.pages[number].same = (u8)(1u << area);
	l->e->ledger.pages[number].few = (u8)(1u << area);
	l->sum += td_page_digest(number, (u32)written);
	if (count > TD_PAGE_SLOTS)
		count = TD_PAGE_SLOTS;
	records = td_page_records(block);
	for (u32 i = 0; i < count; i++)
		possible &= apply_record(&layout, words, first + i,
					 le64_to_cpu(records[i]));
	if (!possible)
		td_load_fail(l, TD_LOAD_IMPOSSIBLE);
}

static const u8 *nth_block(const u8 *buffer, u32 i)
{
	return buffer + (size_t)i * TD_BLOCK_BYTES;
}

/*
 * Is the group that is expected next at @buffer, the first of @count blocks?
 * Returns its blocks, which may be more than @count: then they were not looked
 * at. 0: no.
 */
static u32 find_group(struct td_load *l, const u8 *buffer, u32 count)
{
	struct td_group_head h, other;

	if (!td_group_check(buffer, uuid_of(l), &h))
		return 0;
	if (h.number > l->highest)
		l->highest = h.number;
	if (h.number != l->group || h.index || h.blocks > l->end - l->at)
		return 0;
	if (h.blocks > count)
		return h.blocks;
	for (u32 i = 1; i < h.blocks; i++) {
		if (!td_group_check(nth_block(buffer, i), uuid_of(l), &other))
			return 0;
		if (other.number != h.number || other.tie != h.tie ||
		    other.index != i || other.blocks != h.blocks)
			return 0;
	}
	return h.blocks;
}

static void apply_group(struct td_load *l, const u8 *buffer, u32 blocks)
{
	struct td_group_head h;

	for (u32 b = 0; b < blocks; b++) {
		const u8 *block = nth_block(buffer, b);

		if (!td_group_check(block, uuid_of(l), &h))
			continue;
		for (u32 i = 0; i < h.entries; i++) {
			u64 record;
			u32 slot;

			td_group_get(block, i, &slot, &record);
			if (apply_record(&l->e->layout, l->e->words, slot, record))
				td_ledger_page_differs(&l->e->ledger, slot);
			else
				td_load_fail(l, TD_LOAD_IMPOSSIBLE);
		}
	}
	if (l->walk == SKIPPING)
		l->used += l->e->ledger.ring_blocks - l->head;
	l->walk = WALKING;
	l->used += blocks;
	l->at += blocks;
	l->head = l->at;
	l->group++;
}

/* The next group is not at l->at, where it was looked for. */
static void stop_walking(struct td_load *l)
{
	u32 left = l->e->ledger.ring_blocks - l->at;

	if (l->phase == TAIL && left < TD_GROUP_BLOCKS_MAX)
		l->walk = SKIPPING;
	else
		l->walk = ENDED;
}

static bool looks_here(const struct td_load *l)
{
	return l->walk == WALKING ||
	       (l->walk == SKIPPING && l->phase == WRAPPED);
}

static void walk_journal(struct td_load *l, const u8 *buffer, u32 count)
{
	u32 first = l->at;

	l->want = 0;
	if (!buffer) {
		if (looks_here(l))
			td_load_fail(l, TD_LOAD_DAMAGED);
		l->at += count;
		return;
	}
	while (l->at - first < count && l->error == TD_LOAD_OK) {
		u32 done = l->at - first;
		u32 blocks = find_group(l, nth_block(buffer, done),
					count - done);

		if (looks_here(l) && blocks > count - done) {
			/* The next read begins with the group's first block. */
			if (!done)
				l->want = blocks;
			return;
		}
		if (looks_here(l) && blocks) {
			apply_group(l, nth_block(buffer, done), blocks);
			continue;
		}
		if (looks_here(l))
			stop_walking(l);
		l->at++;
	}
}

static void load_marks(struct td_load *l, void *block, u32 number)
{
	u32 first = number * TD_BLOCK_MARKS;

	if (block)
		td_marks_check(block, uuid_of(l), number);
	for (u32 i = 0; i < TD_BLOCK_MARKS; i++) {
		if (block && !td_marks_get(block, i))
			continue;
		if (first + i < l->e->ledger.nr_marks)
			td_marks_loaded(&l->e->ledger, first + i);
		else
			l->e->ledger.marks_beyond = true;
	}
}

static void take_over(struct td_load *l)
{
	struct td_ledger *ledger = &l->e->ledger;

	ledger->checkpoint = l->checkpoint.number;
	ledger->group = l->group;
	ledger->group_durable = l->group;
	ledger->head = l->head == ledger->ring_blocks ? 0 : l->head;
	ledger->used = l->used;
	ledger->scrub = true;
	/* Trims begin with what becomes free from now on; an empty cache is trimmed as a whole. */
	if (!l->checkpoint.empty)
		td_trim_none(l->e);
	for (u32 i = 0; i < l->e->retired.count; i++)
		td_load_drop_retired(l, l->e->retired.slots[i]);
	/*
	 * Nothing is known of the time before the load: both devices count as not
	 * flushed, and each mark is cleared as after a write.
	 */
	ledger->disk_unflushed = true;
	ledger->ssd_unflushed = true;
	for (u32 i = 0; i < ledger->nr_marks; i++) {
		struct td_mark *m = &ledger->marks[i];

		if (m->state != TD_MARK_SET)
			continue;
		m->flush = (u32)(ledger->flush_begun + 1);
		m->sweep = (u32)(ledger->sweep_begun + 1);
	}
}

static void enter_phase(struct td_load *l, u32 phase, u32 at, u32 end)
{
	l->phase = phase;
	l->at = at;
	l->end = end;
	l->single = 0;
}

/* As many as fit: before the disk grew, its regions may have had other marks. */
static u32 mark_blocks(const struct td_super *sb)
{
	u64 blocks = sb->intent.length / TD_BLOCK_SECTORS;

	return blocks < TD_MARK_BLOCKS_MAX ? (u32)blocks : TD_MARK_BLOCKS_MAX;
}

static void next_phase(struct td_load *l)
{
	const struct td_engine *e = l->e;
	const struct td_checkpoint *c = &l->checkpoint;

	switch (l->phase) {
	case HEADS:
		if (!c->number)
			td_load_fail(l, TD_LOAD_DAMAGED);
		enter_phase(l, PAGES, 0,
			    c->empty ? 0 : td_page_count(e->layout.slots));
		break;
	case PAGES:
		/* R5 */
		if (e->ledger.super.incompat & TD_SUPER_PARTS && !c->empty &&
		    l->sum != c->sum)
			td_load_fail(l, TD_LOAD_DAMAGED);
		l->group = c->group;
		l->walk = WALKING;
		l->head = c->block;
		enter_phase(l, TAIL, c->block, e->ledger.ring_blocks);
		break;
	case TAIL:
		enter_phase(l, WRAPPED, 0, c->block);
		break;
	case WRAPPED:
		/* P8: a group that was durable is not as it was written. */
		if (l->highest > l->group || c->until > l->group)
			td_load_fail(l, TD_LOAD_DAMAGED);
		enter_phase(l, MARKS, 0, mark_blocks(&e->ledger.super));
		break;
	case MARKS:
		enter_phase(l, SLOTS, 0, e->layout.groups);
		break;
	default:
		take_over(l);
		enter_phase(l, READY, 0, 1);
	}
}

static u64 sector_of(const struct td_load *l)
{
	const struct td_super *sb = &l->e->ledger.super;

	switch (l->phase) {
	case HEADS:
		return td_checkpoint_sector(sb, l->at);
	case PAGES:
		return td_checkpoint_sector(sb, l->checkpoint.number & 1) +
		       (1 + (u64)l->at) * TD_BLOCK_SECTORS;
	case MARKS:
		return sb->intent.start + (u64)l->at * TD_BLOCK_SECTORS;
	default:
		return sb->journal.start + (u64)l->at * TD_BLOCK_SECTORS;
	}
}

u64 td_load_until(const struct td_load *l)
{
	return sector_of(l) + (u64)(l->end - l->at) * TD_BLOCK_SECTORS;
}

bool td_load_next(struct td_load *l, u64 *sector, u32 *sectors)
{
	while (l->error == TD_LOAD_OK && l->at == l->end)
		next_phase(l);
	if (l->error != TD_LOAD_OK || l->phase == READY)
		return false;
	l->asked = l->end - l->at;
	if (l->asked > TD_LOAD_BLOCKS)
		l->asked = TD_LOAD_BLOCKS;
	if (l->single || l->phase == HEADS)
		l->asked = 1;
	if (l->want)
		l->asked = l->want;
	if (l->phase == SLOTS)
		l->asked = 0;
	*sector = sector_of(l);
	*sectors = l->asked * TD_BLOCK_SECTORS;
	return true;
}

void td_load_feed(struct td_load *l, void *buffer)
{
	if (l->phase == SLOTS) {
		td_load_check_slots(l);
		return;
	}
	if (!buffer && l->asked > 1 && !l->want) {
		l->single = l->asked;
		return;
	}
	if (l->single)
		l->single--;
	if (l->phase == TAIL || l->phase == WRAPPED) {
		walk_journal(l, buffer, l->asked);
		return;
	}
	for (u32 i = 0; i < l->asked && l->error == TD_LOAD_OK; i++, l->at++) {
		u8 *here = buffer ? (u8 *)buffer + (size_t)i * TD_BLOCK_BYTES :
				    NULL;

		if (l->phase == HEADS)
			load_head(l, here);
		else if (l->phase == PAGES)
			load_page(l, here, l->at);
		else
			load_marks(l, here, l->at);
	}
}

enum td_load_error td_load_end(struct td_load *l)
{
	if (l->phase != READY)
		td_load_fail(l, TD_LOAD_DAMAGED);
	return l->error;
}

static u32 at_most(u32 n, u32 most)
{
	return n < most ? n : most;
}

bool td_format_next(const struct td_super *sb, u32 step, u64 *sector,
		    u32 *sectors, void *buffer)
{
	struct td_checkpoint c = {
		.number = 1, .group = 1, .slots = td_super_slots(sb),
		.empty = true,
	};

	return td_format_around(sb, &c, step, sector, sectors, buffer);
}

bool td_format_around(const struct td_super *sb, const struct td_checkpoint *c, u32 step,
		      u64 *sector, u32 *sectors, void *buffer)
{
	u32 ring = (u32)(sb->journal.length / TD_BLOCK_SECTORS);
	u32 reads = (ring + TD_LOAD_BLOCKS - 1) / TD_LOAD_BLOCKS;
	u32 blocks = (u32)(sb->intent.length / TD_BLOCK_SECTORS);

	memset(buffer, 0, TD_LOAD_BYTES);
	if (step < reads) {
		u32 first = step * TD_LOAD_BLOCKS;

		*sector = sb->journal.start + (u64)first * TD_BLOCK_SECTORS;
		*sectors = at_most(ring - first, TD_LOAD_BLOCKS) *
			   TD_BLOCK_SECTORS;
		return true;
	}
	step -= reads;
	*sectors = TD_BLOCK_SECTORS;
	if (step < 2) {
		*sector = td_checkpoint_sector(sb, step);
		if (step == (c->number & 1))
			td_checkpoint_seal(buffer, sb->uuid, c);
		return true;
	}
	step -= 2;
	*sector = sb->intent.start + (u64)step * TD_BLOCK_SECTORS;
	if (step < blocks)
		td_marks_seal(buffer, sb->uuid, step);
	return step < blocks;
}
