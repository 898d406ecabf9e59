// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Any bytes as journal, checkpoint and marks: loading must answer, and what it
 * believes must be what a simpler reader believes.
 *
 * Input: one byte that chooses the sizes, then operations: each writes something
 * sound, half sound or raw into the metadata of an SSD, or makes a block
 * unreadable. Checksums stand in the way of nearly every input, so operations put
 * them right.
 */
#include "../shim/medium.h"

/* Inputs are kept for what they reach in core, not here. */
#pragma clang attribute push(__attribute__((no_sanitize("coverage"))), \
			     apply_to = function)

struct input {
	const u8 *data;
	size_t left;
};

static u64 take_bytes(struct input *in, u32 bytes)
{
	u64 n = 0;

	while (bytes--) {
		n <<= 8;
		if (in->left) {
			n |= *in->data++;
			in->left--;
		}
	}
	return n;
}

/* Mostly small, at times any. */
static u64 take_number(struct input *in)
{
	u64 n = take_bytes(in, 1);

	return n < 0xf0 ? n : take_bytes(in, 8);
}

static u64 journal_sector(const struct cache *c, u32 block)
{
	return c->super.journal.start + (u64)block * TD_BLOCK_SECTORS;
}

static u64 page_sector(const struct cache *c, u64 number, u32 page)
{
	return td_checkpoint_sector(&c->super, number & 1) +
	       (1 + (u64)page) * TD_BLOCK_SECTORS;
}

/* A slot, and a record that is possible there, unless the input wants others. */
static u64 take_record(struct input *in, const struct cache *c, u32 *slot)
{
	const struct td_layout *l = &c->layout;
	u32 how = (u32)take_bytes(in, 1);
	u64 frames = (l->origin_sectors + TD_FRAME_SECTORS - 1) >> TD_FRAME_SHIFT;
	u64 tag = take_bytes(in, 2);
	unsigned int valid = how & td_quarters_cached(l, tag % frames);
	struct td_place p;

	if (how & 0x80) {
		*slot = (u32)take_bytes(in, 4);
		return take_bytes(in, 8);
	}
	/* Few frames, so that two slots often hold the same one. */
	tag %= frames;
	if (how & 0x40)
		tag = frames - 1 - tag % 3;
	p = td_place_of(l, tag);
	*slot = td_slot_at(l, p.base, (u32)take_bytes(in, 1) & ((1u << l->way_shift) - 1),
			   tag);
	valid &= td_quarters_cached(l, tag);
	if (!valid)
		return 0;
	return tag | td_word_quarters(valid) |
	       (u64)(valid & how >> 4 & 3) << TD_W_DIRTY_SHIFT;
}

static void do_head(struct cache *c, struct input *in)
{
	u32 how = (u32)take_bytes(in, 1);
	struct td_checkpoint head = {
		.number = take_number(in),
		.group = take_number(in),
		.block = (u32)take_bytes(in, 1),
		.slots = how & 2 ? (u32)take_bytes(in, 4) : c->layout.slots,
		.empty = how & 1,
	};
	u64 area = how & 4 ? how >> 3 & 1 : head.number & 1;

	td_checkpoint_seal(block_at(c, td_checkpoint_sector(&c->super, (u32)area)),
			   c->super.uuid, &head);
}

static void do_pages(struct cache *c, struct input *in)
{
	u64 number = take_number(in);
	u32 pages = td_page_count(c->layout.slots);
	u32 records = (u32)take_bytes(in, 1);

	for (u32 i = 0; i < pages; i++)
		memset(block_at(c, page_sector(c, number, i)), 0, TD_BLOCK_BYTES);
	while (records--) {
		u32 slot;
		u64 record = take_record(in, c, &slot);

		slot %= pages * TD_PAGE_SLOTS;
		td_page_put(block_at(c, page_sector(c, number,
						    slot / TD_PAGE_SLOTS)),
			    slot % TD_PAGE_SLOTS, record);
	}
	for (u32 i = 0; i < pages; i++)
		td_page_seal(block_at(c, page_sector(c, number, i)),
			     c->super.uuid, number, i);
}

static void do_group(struct cache *c, struct input *in)
{
	static u8 buffer[TD_GROUP_BYTES] __attribute__((aligned(8)));
	u32 ring = (u32)(c->super.journal.length / TD_BLOCK_SECTORS);
	u32 at = (u32)take_bytes(in, 1) % ring;
	u64 number = take_number(in);
	u32 given = (u32)take_bytes(in, 1) % 16;
	u32 entries = (u32)take_bytes(in, 2) % TD_GROUP_ENTRIES + 1;
	u32 only = (u32)take_bytes(in, 1);	/* blocks that reached the SSD */
	u32 blocks = td_group_blocks(entries);

	for (u32 i = 0; i < entries; i++)
		td_group_put(buffer, i, 0, 0);
	for (u32 i = 0; i < given; i++) {
		u32 slot;
		u64 record = take_record(in, c, &slot);

		/* All over the group, so that its last block counts. */
		td_group_put(buffer, entries - 1 - i * 97 % entries, slot, record);
	}
	td_group_seal(buffer, c->super.uuid, number, entries);
	for (u32 i = 0; i < blocks && at + i < ring; i++)
		if (!(only >> i & 1))
			memcpy(block_at(c, journal_sector(c, at + i)),
			       buffer + i * TD_BLOCK_BYTES, TD_BLOCK_BYTES);
}

static void do_marks(struct cache *c, struct input *in)
{
	u32 which = (u32)take_bytes(in, 1) % td_mark_blocks(c->super.origin_sectors);
	u8 *block = block_at(c, c->super.intent.start +
				(u64)which * TD_BLOCK_SECTORS);
	u32 marks = (u32)take_bytes(in, 1) % 16;

	memset(block, 0, TD_BLOCK_BYTES);
	while (marks--)
		td_marks_set(block, (u32)take_bytes(in, 2) % TD_BLOCK_MARKS);
	td_marks_seal(block, c->super.uuid, which);
}

/* Raw bytes somewhere; perhaps a group's head with right checksums. */
static void do_raw(struct cache *c, struct input *in, bool seal)
{
	u32 block = (u32)take_bytes(in, 2) % c->blocks;
	u8 *at = c->image + (size_t)block * TD_BLOCK_BYTES;
	u32 offset = (u32)take_bytes(in, 2) % TD_BLOCK_BYTES;
	u32 count = (u32)take_bytes(in, 1) % 32;

	for (; count--; offset++)
		at[offset % TD_BLOCK_BYTES] ^= (u8)take_bytes(in, 1);
	if (seal) {
		__le32 content = cpu_to_le32(
			~env_crc32c(0xffffffffu, at + 64, TD_BLOCK_BYTES - 64));
		u8 nowhere[16] = { 0 };
		__le32 crc;
		u32 sum;

		memcpy(at, "TDJRNL01", 8);
		memcpy(at + 12, &content, 4);
		sum = env_crc32c(0xffffffffu, c->super.uuid, TD_UUID_BYTES);
		sum = env_crc32c(sum, nowhere, sizeof(nowhere));
		crc = cpu_to_le32(~env_crc32c(sum, at + 12, 64 - 12));
		memcpy(at + 8, &crc, 4);
	}
}

static void do_copy(struct cache *c, struct input *in)
{
	u32 from = (u32)take_bytes(in, 2) % c->blocks;
	u32 to = (u32)take_bytes(in, 2) % c->blocks;

	if (from != to)
		memcpy(c->image + (size_t)to * TD_BLOCK_BYTES,
		       c->image + (size_t)from * TD_BLOCK_BYTES, TD_BLOCK_BYTES);
}

static void build_image(struct cache *c, struct input *in)
{
	while (in->left) {
		switch (take_bytes(in, 1) % 8) {
		case 0:
			do_head(c, in);
			break;
		case 1:
			do_pages(c, in);
			break;
		case 2:
		case 3:
			do_group(c, in);
			break;
		case 4:
			do_marks(c, in);
			break;
		case 5:
			do_raw(c, in, take_bytes(in, 1) & 1);
			break;
		case 6:
			do_copy(c, in);
			break;
		case 7:
			c->unreadable[take_bytes(in, 2) % c->blocks] = true;
		}
	}
}

/*
 * The simpler reader: all blocks at hand, no care for speed or reads. False: it
 * believes nothing.
 */
struct simple {
	u64 checkpoint, group;
	u32 head, used;
};

static const u8 *sound_block(struct cache *c, u32 block, struct td_group_head *h)
{
	const u8 *at = block_at(c, journal_sector(c, block));

	return is_readable(c, journal_sector(c, block)) &&
	       td_group_check(at, c->super.uuid, h) ? at : NULL;
}

static bool simple_apply(struct cache *c, u32 slot, u64 record)
{
	u64 tag = record & TD_W_TAG;
	unsigned int valid = (unsigned int)(record >> TD_W_VALID_SHIFT) & 15;
	unsigned int dirty = (unsigned int)(record >> TD_W_DIRTY_SHIFT) & 15;

	if (slot >= c->layout.slots || record >> 44)
		return false;
	if (record) {
		struct td_place p = td_place_of(&c->layout, tag);
		bool there = false;

		for (u32 way = 0; way < 1u << c->layout.way_shift; way++)
			there |= td_slot_at(&c->layout, p.base, way, tag) == slot;
		if (!valid || dirty & ~valid || !there ||
		    valid & ~td_quarters_cached(&c->layout, tag))
			return false;
	}
	c->expected[slot] = record;
	return true;
}

/* As FORMAT.md says: uuid, two numbers, and what is behind the checksum. */
static bool is_sound(const struct cache *c, const u8 *at, u32 bytes, u64 first,
		     u64 second, const char *magic)
{
	__le64 numbers[2] = { cpu_to_le64(first), cpu_to_le64(second) };
	u32 crc = env_crc32c(0xffffffffu, c->super.uuid, TD_UUID_BYTES);
	__le32 stored;

	memcpy(&stored, at, 4);
	crc = env_crc32c(crc, numbers, sizeof(numbers));
	crc = ~env_crc32c(crc, at + 4, bytes - 4);
	return crc == le32_to_cpu(stored) && !memcmp(at + 4, magic, 4);
}

static bool simple_pages(struct cache *c, const struct td_checkpoint *head)
{
	u32 pages = head->empty ? 0 : td_page_count(c->layout.slots);

	for (u32 p = 0; p < pages; p++) {
		u64 sector = page_sector(c, head->number, p);
		const u8 *page = block_at(c, sector);

		if (!is_readable(c, sector) ||
		    !is_sound(c, page, TD_BLOCK_BYTES, head->number, p, "TDPG"))
			return false;
		for (u32 i = 0; i < TD_PAGE_SLOTS; i++) {
			u32 slot = p * TD_PAGE_SLOTS + i;

			if (slot < c->layout.slots &&
			    !simple_apply(c, slot,
					  le64_to_cpu(td_page_records(page)[i])))
				return false;
		}
	}
	return true;
}

/* 0: not there; -1: there, but its records are not to be believed. */
static int simple_group(struct cache *c, u64 number, u32 at, u32 end, u32 *blocks)
{
	struct td_group_head first, h;

	if (!sound_block(c, at, &first) || first.number != number || first.index ||
	    first.blocks > end - at)
		return 0;
	for (u32 i = 0; i < first.blocks; i++)
		if (!is_readable(c, journal_sector(c, at + i)))
			return -1;
	for (u32 i = 0; i < first.blocks; i++) {
		if (!sound_block(c, at + i, &h))
			return 0;
		if (h.number != number || h.index != i || h.tie != first.tie ||
		    h.blocks != first.blocks)
			return 0;
	}
	for (u32 i = 0; i < first.blocks; i++) {
		const u8 *block = sound_block(c, at + i, &h);

		for (u32 n = 0; block && n < h.entries; n++) {
			u64 record;
			u32 slot;

			td_group_get(block, n, &slot, &record);
			if (!simple_apply(c, slot, record))
				return -1;
		}
	}
	*blocks = first.blocks;
	return 1;
}

static bool simple_journal(struct cache *c, struct simple *s, u32 first)
{
	u32 ring = (u32)(c->super.journal.length / TD_BLOCK_SECTORS);
	u32 at = first, end = ring;
	bool skipped = false;
	struct td_group_head h;

	s->head = first;
	for (;;) {
		u32 blocks;
		int there;

		if (at == ring && end == ring) {
			at = 0;
			end = first;
		}
		if (at == end)
			break;
		if (!is_readable(c, journal_sector(c, at)))
			return false;
		there = simple_group(c, s->group, at, end, &blocks);
		if (there < 0)
			return false;
		if (!there) {
			if (end != ring || ring - at >= TD_GROUP_BLOCKS_MAX || skipped)
				break;
			skipped = true;
			at = ring;
			continue;
		}
		if (skipped && at == 0 && end != ring)
			s->used += ring - s->head;
		skipped = false;
		at += blocks;
		s->used += blocks;
		s->head = at;
		s->group++;
	}
	for (u32 i = 0; i < ring; i++)
		if (sound_block(c, i, &h) && h.number > s->group)
			return false;
	if (s->head == ring)
		s->head = 0;
	return true;
}

static bool simple_load(struct cache *c, struct simple *s)
{
	struct td_checkpoint best = { .number = 0 }, head;

	memset(s, 0, sizeof(*s));
	memset(c->expected, 0, c->layout.slots * sizeof(u64));
	for (u32 area = 0; area < 2; area++) {
		u64 sector = td_checkpoint_sector(&c->super, area);

		if (!is_readable(c, sector))
			return false;
		if (!td_checkpoint_check(block_at(c, sector), c->super.uuid, &head))
			continue;
		if ((head.number & 1) != area || head.slots != c->layout.slots ||
		    head.block >= c->super.journal.length / TD_BLOCK_SECTORS ||
		    head.number > TD_NUMBER_MAX / 2 ||
		    head.group > TD_NUMBER_MAX / 2)
			return false;
		if (head.number > best.number)
			best = head;
	}
	if (!best.number || !simple_pages(c, &best))
		return false;
	s->checkpoint = best.number;
	s->group = best.group;
	return simple_journal(c, s, best.block);
}

static bool simple_mark(struct cache *c, u32 region)
{
	u32 sector = region / TD_SECTOR_MARKS, bit = region % TD_SECTOR_MARKS;
	u64 block = c->super.intent.start + sector / 8 * 8;
	const u8 *at = block_at(c, block) + sector % 8 * TD_SECTOR_BYTES;

	if (!is_readable(c, block) ||
	    !is_sound(c, at, TD_SECTOR_BYTES, 0, sector, "TDMK"))
		return true;
	return at[8 + bit / 8] >> bit % 8 & 1;
}

/* Twins and marked regions; false: two dirty slots for one frame. */
static bool simple_settle(struct cache *c)
{
	const struct td_layout *l = &c->layout;
	u32 group = 1u << (l->run_shift + l->way_shift);
	u64 *drop = zeroed(l->slots, sizeof(u64));
	bool sound = true;

	for (u32 a = 0; a < l->slots; a++)
		for (u32 b = a - a % group; b < a - a % group + group; b++) {
			u64 u = c->expected[a], v = c->expected[b];

			if (a == b || !u || !v || (u ^ v) & TD_W_TAG)
				continue;
			if (u & TD_W_DIRTY && v & TD_W_DIRTY)
				sound = false;
			drop[a] |= !(u & TD_W_DIRTY);
		}
	for (u32 a = 0; a < l->slots; a++) {
		u64 v = c->expected[a];
		u64 dirty = (v & TD_W_DIRTY) >> 4;

		if (drop[a])
			c->expected[a] = 0;
		else if (v && simple_mark(c, (u32)((v & TD_W_TAG) << TD_FRAME_SHIFT >>
						   td_mark_shift(l->origin_sectors))))
			c->expected[a] = dirty ? (v & ~TD_W_VALID) | dirty : 0;
	}
	free(drop);
	return sound;
}

static bool is_pending(const struct td_ledger *l, u32 slot)
{
	bool pending = l->pending[slot / 64] >> slot % 64 & 1;
	bool word = l->pending_words[slot / 4096] >> slot / 64 % 64 & 1;

	must(word || !pending, "a pending word is missing in the summary");
	return pending;
}

/* The engine's numbers against a scan. */
static void check_counts(struct cache *c)
{
	struct td_ledger *l = &c->e.ledger;
	u32 *dirty = zeroed(l->nr_marks, sizeof(u32));
	u64 used = 0, all = 0;
	u32 sums[TD_DIRTY_SUMS] = { 0 };
	u32 set = 0, pending = 0, places = 0;

	for (u32 i = 0; i < c->layout.slots; i++) {
		u64 v = td_word_load(&c->e.words[i]);
		u64 region = (v & TD_W_TAG) << TD_FRAME_SHIFT >> l->mark_shift;

		must(!!(v & TD_W_PENDING) == is_pending(l, i), "pending differs");
		must(!(v & TD_W_STALE) || v & TD_W_PENDING, "stale, not pending");
		pending += !!(v & TD_W_PENDING);
		if (!(v & TD_W_STATE)) {
			must(!(v & ~(TD_W_PENDING | TD_W_STALE)), "free, not zero");
			continue;
		}
		used++;
		must((v & TD_W_STATE) == TD_W_LIVE, "not live");
		must(!(v & (TD_W_PINS | TD_W_HELD | TD_W_RECENCY)), "used already");
		for (u64 d = v & TD_W_DIRTY; d; d &= d - 1, all++)
			dirty[region]++;
		must(!(v & TD_W_DIRTY) ||
		     td_ledger_place_dirty(l, (v & TD_W_TAG) << TD_FRAME_SHIFT),
		     "a place is not counted");
	}
	for (u32 i = 0; i < l->nr_marks; i++) {
		const u8 *image = l->marks_image +
				  (size_t)(i / TD_BLOCK_MARKS) * TD_BLOCK_BYTES;
		bool marked = td_marks_get(image, i % TD_BLOCK_MARKS);

		set += marked;
		must(marked == (l->marks[i].state == TD_MARK_SET), "marks differ");
		must(l->marks[i].dirty == dirty[i], "a region's dirty differs");
		must(!l->marks[i].dirty == !l->marks[i].places, "places differ");
		for (u32 p = l->marks[i].places; p; p &= p - 1)
			places++;
		sums[i >> TD_SUM_SHIFT] += dirty[i];
	}
	must(!memcmp(sums, l->dirty_sums, sizeof(sums)), "a sum differs");
	must(c->counters[TD_C_USED] == used, "used differs");
	must(l->dirty == all, "dirty differs");
	must(l->places == places, "number of places differs");
	must(l->marks_set == set, "number of marks differs");
	must(l->nr_pending == pending && l->changed == !!pending, "changes differ");
	free(dirty);
}

static void check_words(struct cache *c, const u64 *expected, const char *why)
{
	for (u32 i = 0; i < c->layout.slots; i++)
		must(td_record_of(td_word_load(&c->e.words[i])) == expected[i], why);
}

static bool is_in(const struct td_work *w, const struct td_region *r)
{
	return w->sector >= r->start &&
	       w->sector + w->sectors <= r->start + r->length;
}

/* What the ledger writes, on the image. */
static void write_to_image(struct cache *c, const struct td_work *w)
{
	const struct td_region *where =
		w->kind == TD_WORK_GROUP ? &c->super.journal :
		w->kind == TD_WORK_MARKS ? &c->super.intent :
		&c->super.checkpoint;

	if (!w->sectors)
		return;
	must(is_in(w, where), "a write leaves its area");
	for (u32 i = 0; i < w->sectors; i += TD_BLOCK_SECTORS) {
		u64 at = w->sector + i;

		memcpy(block_at(c, at),
		       (u8 *)w->buffer + (size_t)i * TD_SECTOR_BYTES,
		       TD_BLOCK_BYTES);
		c->unreadable[(at - TD_SUPER_AREA) / TD_BLOCK_SECTORS] = false;
	}
}

/* All slots are recorded anew, which fills the ring: a checkpoint is due. */
static void pend_all(struct cache *c)
{
	for (u32 i = 0; i < c->layout.slots; i++) {
		u64 v = td_word_load(&c->e.words[i]);

		env_store(&c->e.words[i].a, v | TD_W_PENDING);
		td_ledger_pend(&c->e.ledger, i);
	}
}

/* The cache goes on for a while; then the same must be there again. */
static void check_further_use(struct cache *c, u32 count)
{
	struct td_list woken;
	struct td_work w;
	u32 head, used;
	u64 group;

	/* If the journal then ends before such a block, it is not believed. */
	for (u32 i = 0; i < c->e.ledger.ring_blocks; i++)
		if (!is_readable(c, journal_sector(c, i)))
			return;
	for (u32 i = 0; i < c->layout.slots; i++)
		c->seen[i] = td_record_of(td_word_load(&c->e.words[i]));
	for (u32 n = 0; n < count; n++) {
		if (n % 4 == 0) {
			pend_all(c);
			td_tick(&c->e);
		}
		td_list_init(&woken);
		if (td_work_next(&c->e, &w, &woken)) {
			write_to_image(c, &w);
			td_work_done(&c->e, &w, true, &woken);
		}
		must(!td_list_pop(&woken), "nobody waited");
	}
	group = c->e.ledger.group;
	head = c->e.ledger.head % c->e.ledger.ring_blocks;
	used = c->e.ledger.used;
	must(load_cache(c) == TD_LOAD_OK, "its own writes are not believed");
	must(c->e.ledger.group == group && c->e.ledger.head == head &&
	     c->e.ledger.used == used, "the journal ends elsewhere");
	check_words(c, c->seen, "what was loaded and recorded is not there again");
	check_counts(c);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static struct cache caches[4];
	struct input in = { data, size };
	u32 flags = (u32)take_bytes(&in, 1);
	struct cache *c = &caches[flags & 3];
	enum td_load_error error;
	struct simple s;
	bool sound;

	if (!c->image)
		plan_cache(c, flags & 3);
	memset(c->image, 0, (size_t)c->blocks * TD_BLOCK_BYTES);
	memset(c->unreadable, 0, c->blocks * sizeof(bool));
	if (!(flags & 4))
		format_cache(c);
	build_image(c, &in);
	error = load_cache(c);
	sound = simple_load(c, &s);
	if (sound)
		sound = simple_settle(c);
	must(sound == (error == TD_LOAD_OK), "the simpler reader disagrees");
	if (!sound)
		return 0;
	check_words(c, c->expected, "the simpler reader found another index");
	check_counts(c);
	must(c->e.ledger.checkpoint == s.checkpoint, "another checkpoint");
	must(c->e.ledger.group == s.group && c->e.ledger.head == s.head &&
	     c->e.ledger.used == s.used, "another end of the journal");
	must(s.used <= c->e.ledger.ring_blocks, "more is used than there is");
	check_further_use(c, flags >> 3);
	return 0;
}

#pragma clang attribute pop
