// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Any bytes as superblocks: parsing must answer, and what it believes must be
 * true.
 *
 * Input: one byte of flags, the fields of copy 0, the fields of copy 1, more
 * bytes behind the fields of copy 0. The checksum stands in the way of nearly
 * every input, so flags may ask to have it put right.
 */
#include "../shim/check.h"

#include "engine.h"
#include "super.h"

#define FIELDS		216u	/* bytes before the zeroes */
#define CRC_AT		8u
#define RETIRED_AT	216u	/* the count; then the slots */
#define FIX_MAGIC	1u
#define FIX_CRC		2u
#define FIX_VERSION	4u

static void put_right(u8 *copy, unsigned int flags)
{
	u32 crc;

	if (flags & FIX_MAGIC)
		memcpy(copy, "TANDEM01", 8);
	if (flags & FIX_VERSION)
		memcpy(copy + 12, "\1\0\0\0\0\0\0\0\0\0\0", 12);
	if (flags & FIX_CRC) {
		memset(copy + CRC_AT, 0, 4);
		crc = cpu_to_le32(~env_crc32c(0xffffffffu, copy, TD_SUPER_BYTES));
		memcpy(copy + CRC_AT, &crc, 4);
	}
}

/* What the rest of the module takes for granted of a parsed superblock. */
static void check_parsed(const struct td_super *sb)
{
	const struct td_region *regions[4] = {
		&sb->journal, &sb->checkpoint, &sb->intent, &sb->data,
	};
	u64 at = TD_SUPER_AREA;

	for (int i = 0; i < 4; i++) {
		must(regions[i]->start >= at, "regions overlap");
		must(regions[i]->length <= sb->ssd_sectors, "a region is larger than the SSD");
		at = regions[i]->start + regions[i]->length;
		must(at <= sb->ssd_sectors, "a region leaves the SSD");
	}
	must(sb->origin_id_bytes <= TD_ORIGIN_ID_BYTES, "origin_id is too long");
	must(sb->retired.count <= TD_RETIRED_MAX, "too many slots are retired");
	for (u32 i = 0; i < sb->retired.count; i++) {
		u32 slot = sb->retired.slots[i];

		must(slot < sb->groups << (sb->run_shift + sb->way_shift),
		     "a retired slot is none of the cache");
		must(!i || slot > sb->retired.slots[i - 1],
		     "retired slots are not in order");
	}
	for (u32 block = 1; block <= 8; block *= 2) {
		struct td_layout l;
		u32 buckets;

		td_super_layout(sb, block, &l);
		must(l.slots && l.groups, "no slots");
		must(td_slot_sector(&l, l.slots - 1) + TD_FRAME_SECTORS <=
			sb->data.start + sb->data.length, "a slot leaves the data");
		must(l.cached_sectors <= l.origin_sectors, "more is cached than there is");
		buckets = td_engine_buckets(&l);
		must(buckets && !(buckets & (buckets - 1)), "buckets are no power of two");
	}
}

/* A copy with one wrong bit: the checksum must be wrong. */
static void check_damaged_super(const u8 *copy, u32 number, u32 bit)
{
	static u8 buffer[TD_SUPER_BYTES] __attribute__((aligned(8)));
	struct td_super sb;

	memcpy(buffer, copy, TD_SUPER_BYTES);
	buffer[bit / 8 % TD_SUPER_BYTES] ^= (u8)(1 << bit % 8);
	must(td_super_parse(buffer, number, &sb) != TD_SUPER_OK, "damaged, it still parses");
}

static void check_again(const struct td_super *sb, u32 copy)
{
	static u8 buffer[TD_SUPER_BYTES] __attribute__((aligned(8)));
	struct td_identity id = {
		.origin_id_bytes = sb->origin_id_bytes,
		.origin_sectors = sb->origin_sectors,
	};
	struct td_super again;

	memcpy(id.uuid, sb->uuid, sizeof(id.uuid));
	memcpy(id.origin_id, sb->origin_id, sizeof(id.origin_id));
	must(td_super_match(sb, &id, sb->ssd_sectors) == TD_SUPER_OK, "does not match itself");
	must(td_super_match(sb, &id, sb->ssd_sectors - 1) == TD_SUPER_SSD_SIZE,
	     "a smaller SSD matches");
	id.uuid[3] ^= 1;
	must(td_super_match(sb, &id, sb->ssd_sectors) == TD_SUPER_OTHER_CACHE,
	     "another cache matches");
	td_super_encode(sb, copy, buffer);
	must(td_super_parse(buffer, copy, &again) == TD_SUPER_OK, "encoded, it does not parse");
	must(again.sequence == sb->sequence && again.data.start == sb->data.start &&
	     again.data.length == sb->data.length && again.groups == sb->groups &&
	     !memcmp(&again.retired, &sb->retired, sizeof(again.retired)),
	     "encoded and parsed, it differs");
}

/* The list of retired slots as it is, and one that cannot be. */
static void check_retired(struct td_super *sb)
{
	static u8 buffer[TD_SUPER_BYTES] __attribute__((aligned(8)));
	u32 slots = sb->groups << (sb->run_shift + sb->way_shift);
	const struct { u32 count, second; } wrong[] = {
		{ TD_RETIRED_MAX + 1, 1 }, { 0xffffffff, 1 }, { 2, 0 }, { 2, slots },
	};
	struct td_super again;

	/* At least 16 slots there are. */
	sb->retired.count = 2;
	sb->retired.slots[1] = slots - 1;
	td_super_encode(sb, 0, buffer);
	must(td_super_parse(buffer, 0, &again) == TD_SUPER_OK &&
	     !memcmp(&again.retired, &sb->retired, sizeof(again.retired)),
	     "retired slots are not found again");
	for (u32 i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		u32 count = cpu_to_le32(wrong[i].count);
		u32 second = cpu_to_le32(wrong[i].second);

		memcpy(buffer + RETIRED_AT, &count, 4);
		memcpy(buffer + RETIRED_AT + 8, &second, 4);
		put_right(buffer, FIX_CRC);
		must(td_super_parse(buffer, 0, &again) == TD_SUPER_GEOMETRY,
		     "an impossible list of retired slots is taken");
	}
}

/* What planning makes must parse, whatever the sizes. */
static void check_plan(const u8 *data)
{
	static u8 buffer[TD_SUPER_BYTES] __attribute__((aligned(8)));
	struct td_identity id = { .origin_id_bytes = data[0] % TD_ORIGIN_ID_BYTES + 1u };
	struct td_super sb, again;
	u64 ssd;

	memcpy(&id.origin_sectors, data, 8);
	memcpy(&ssd, data + 8, 8);
	/* Sizes of block devices: at most 2^63 bytes, and not 0. */
	id.origin_sectors = (id.origin_sectors >> (8 + data[1] % 48)) + 1;
	ssd = (ssd >> (8 + data[2] % 48)) + 1;
	memcpy(id.uuid, data, sizeof(id.uuid));
	if (td_super_plan(&id, ssd, &sb) != TD_SUPER_OK)
		return;
	must(sb.data.start + sb.data.length <= ssd, "the plan leaves the SSD");
	check_parsed(&sb);
	td_super_encode(&sb, 0, buffer);
	must(td_super_parse(buffer, 0, &again) == TD_SUPER_OK, "a plan does not parse");
	must(td_super_match(&again, &id, ssd) == TD_SUPER_OK, "a plan does not match");
	check_retired(&sb);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static u8 copies[2][TD_SUPER_BYTES] __attribute__((aligned(8)));
	struct td_super sb;
	size_t more;

	if (size < 1 + 2 * FIELDS)
		return 0;
	memset(copies, 0, sizeof(copies));
	memcpy(copies[0], data + 1, FIELDS);
	memcpy(copies[1], data + 1 + FIELDS, FIELDS);
	more = size - 1 - 2 * FIELDS;
	if (more > TD_SUPER_BYTES - FIELDS)
		more = TD_SUPER_BYTES - FIELDS;
	memcpy(copies[0] + FIELDS, data + 1 + 2 * FIELDS, more);
	for (u32 i = 0; i < 2; i++) {
		put_right(copies[i], data[0] >> (3 * i));
		if (td_super_parse(copies[i], i, &sb) == TD_SUPER_OK) {
			check_parsed(&sb);
			check_again(&sb, i);
			check_damaged_super(copies[i], i, data[size - 1] * 129u);
		}
	}
	if (td_super_choose(copies[0], copies[1], &sb) == TD_SUPER_OK)
		check_parsed(&sb);
	check_plan(data + 1);
	return 0;
}
