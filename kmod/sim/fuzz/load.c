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

#include "simple_reader.h"

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

/* What a page with TD_SUPER_PARTS says of its checkpoint. */
static u32 own_number(struct cache *c, u64 number, u32 page)
{
	__le32 low;

	memcpy(&low, block_at(c, page_sector(c, number, page)) + 4, 4);
	return le32_to_cpu(low);
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
	u32 pages = c->super.incompat & TD_SUPER_PARTS && !(how & 16) ?
		    td_page_count(c->layout.slots) : 0;

	for (u32 i = 0; i < pages; i++)
		head.sum += td_page_digest(i, own_number(c, head.number, i));

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
		td_page_seal(block_at(c, page_sector(c, number, i)), &c->super,
			     number, i);
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

static bool is_pending(const struct td_ledger *l, u32 slot)
{
	bool pending = l->pending[slot / 64] >> slot % 64 & 1;
	bool word = l->pending_words[slot / 4096] >> slot / 64 % 64 & 1;
	bool top = l->pending_tops[slot / 262144] >> slot / 4096 % 64 & 1;

	must(top || !word, "a word of the summary is missing in its own");
	must(word || !pending, "a pending word is missing in the summary");
	return pending;
}

/* The engine's numbers against a scan. */
static void check_counts(struct cache *c)
{
	struct td_ledger *l = &c->e.ledger;
	u32 *dirty = zeroed(l->nr_marks, sizeof(u32));
	u32 *slots = zeroed(l->nr_marks, sizeof(u32));
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
		slots[region]++;
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
		must(l->marks[i].slots == slots[i], "a region's slots differ");
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
	free(slots);
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
		if (td_work_next(&c->e, &w, &woken) && w.kind != TD_WORK_STEP) {
			td_work_fill(&c->e, &w);
			write_to_image(c, &w);
			while (td_work_done(&c->e, &w, true, &woken))
				;
		}
		must(!td_list_pop(&woken), "a request is woken, but none waited");
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
