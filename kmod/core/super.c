// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The superblock's bytes, and what they must say to be believed.
 *
 * Invariant: a td_super that parsed OK has regions that lie in order, do not
 * overlap, end within ssd_sectors and hold what format.h puts there, and a data
 * region of exactly groups << (way_shift + run_shift) slots; so no later
 * arithmetic on it can overflow. Its retired slots are of these, in order.
 * Threads: pure functions on the caller's memory.
 * Why two copies: a torn write or a bad sector leaves the other copy. Both are written
 * with a flush between them, first the copy that may be torn already, so at most one
 * copy is ever torn.
 */
#include "format.h"

#define MAGIC		0x31304d45444e4154ull	/* "TANDEM01", as bytes */
#define VERSION		1u
#define INCOMPAT_KNOWN		(TD_SUPER_CLEAN | TD_SUPER_COLD | TD_SUPER_PARTS | \
				 TD_SUPER_RESIZED)
#define CRC_SEED	0xffffffffu
#define JOURNAL_MIN	512u	/* sectors: 256 KiB, eight groups of any size */
#define JOURNAL_MAX	131072u	/* 64 MiB, so that a start reads no more */

/* Byte for byte as on the SSD; every field is aligned to its size. */
struct disk_super {
	__le64 magic;
	__le32 crc;		/* of all 4096 bytes, this field taken as 0 */
	__le32 version;
	__le32 compat;
	__le32 incompat;
	__le32 copy;
	__le32 frame_shift;
	u8 uuid[TD_UUID_BYTES];
	__le64 sequence;
	__le64 origin_sectors;
	__le64 ssd_sectors;
	__le32 run_shift;
	__le32 way_shift;
	__le32 groups;
	__le32 origin_id_bytes;
	u8 origin_id[TD_ORIGIN_ID_BYTES];
	__le64 region[8];	/* start, length: journal, checkpoint, intent, data */
	__le32 retired_count;
	__le32 retired[TD_RETIRED_MAX];
	__le32 made_groups;	/* 0 without TD_SUPER_RESIZED */
	u8 zero[TD_SUPER_BYTES - 224 - 4 * TD_RETIRED_MAX];
};

_Static_assert(sizeof(struct disk_super) == TD_SUPER_BYTES,
	       "no padding in the superblock");

static u32 super_checksum(const void *buffer)
{
	const u8 *bytes = buffer;
	static const u8 none[4];
	u32 crc;

	crc = env_crc32c(CRC_SEED, bytes, offsetof(struct disk_super, crc));
	crc = env_crc32c(crc, none, sizeof(none));
	crc = env_crc32c(crc, bytes + offsetof(struct disk_super, version),
			 TD_SUPER_BYTES - offsetof(struct disk_super, version));
	return ~crc;
}

static u64 align_up(u64 n, u64 step)
{
	return (n + step - 1) / step * step;
}

/* Sectors of metadata in front of the data, all multiples of 4 KiB. */
static u64 plan_regions(u64 ssd_sectors, struct td_super *sb)
{
	u64 journal = ssd_sectors / 256;

	if (journal < JOURNAL_MIN)
		journal = JOURNAL_MIN;
	if (journal > JOURNAL_MAX)
		journal = JOURNAL_MAX;
	sb->journal.start = TD_SUPER_AREA;
	sb->journal.length = align_up(journal, TD_BLOCK_SECTORS);
	sb->checkpoint.start = sb->journal.start + sb->journal.length;
	/* There are at most so many slots. */
	sb->checkpoint.length = td_checkpoint_length(ssd_sectors >> TD_FRAME_SHIFT);
	sb->intent.start = sb->checkpoint.start + sb->checkpoint.length;
	/* For any size that the disk may grow to. */
	sb->intent.length = TD_MARK_BLOCKS_MAX * TD_BLOCK_SECTORS;
	/* Data on a boundary that erase blocks and RAID chunks like. */
	return align_up(sb->intent.start + sb->intent.length, TD_SUPER_AREA);
}

enum td_super_error td_super_plan(const struct td_identity *id, u64 ssd_sectors,
				  struct td_super *sb)
{
	u64 slots, groups;

	if ((id->origin_sectors >> TD_FRAME_SHIFT) >> TD_TAG_BITS)
		return TD_SUPER_TOO_LARGE;
	ssd_sectors = td_sectors_used(ssd_sectors);
	memset(sb, 0, sizeof(*sb));
	memcpy(sb->uuid, id->uuid, TD_UUID_BYTES);
	memcpy(sb->origin_id, id->origin_id, id->origin_id_bytes);
	sb->origin_id_bytes = id->origin_id_bytes;
	sb->incompat = TD_SUPER_CLEAN | TD_SUPER_PARTS;
	sb->origin_sectors = id->origin_sectors;
	sb->ssd_sectors = ssd_sectors;
	sb->data.start = plan_regions(ssd_sectors, sb);
	if (sb->data.start >= ssd_sectors)
		return TD_SUPER_TOO_SMALL;
	slots = (ssd_sectors - sb->data.start) >> TD_FRAME_SHIFT;
	/* At least 16 groups, so that little is lost to rounding. */
	sb->run_shift = TD_RUN_SHIFT_MAX;
	sb->way_shift = TD_WAY_SHIFT_MAX;
	while (slots >> (sb->run_shift + sb->way_shift) < 16 &&
	       sb->run_shift + sb->way_shift > 4) {
		if (sb->run_shift > 2)
			sb->run_shift--;
		else
			sb->way_shift--;
	}
	groups = slots >> (sb->run_shift + sb->way_shift);
	if (!groups)
		return TD_SUPER_TOO_SMALL;
	sb->groups = sb->made_groups = (u32)groups;
	sb->data.length = groups <<
		(sb->run_shift + sb->way_shift + TD_FRAME_SHIFT);
	return TD_SUPER_OK;
}

void td_super_encode(const struct td_super *sb, u32 copy, void *buffer)
{
	const struct td_region *regions[4] = {
		&sb->journal, &sb->checkpoint, &sb->intent, &sb->data,
	};
	struct disk_super *d = buffer;

	memset(d, 0, sizeof(*d));
	d->magic = cpu_to_le64(MAGIC);
	d->version = cpu_to_le32(VERSION);
	d->compat = cpu_to_le32(sb->compat);
	d->incompat = cpu_to_le32(sb->incompat);
	d->copy = cpu_to_le32(copy);
	d->frame_shift = cpu_to_le32(TD_FRAME_SHIFT);
	memcpy(d->uuid, sb->uuid, TD_UUID_BYTES);
	d->sequence = cpu_to_le64(sb->sequence);
	d->origin_sectors = cpu_to_le64(sb->origin_sectors);
	d->ssd_sectors = cpu_to_le64(sb->ssd_sectors);
	d->run_shift = cpu_to_le32(sb->run_shift);
	d->way_shift = cpu_to_le32(sb->way_shift);
	d->groups = cpu_to_le32(sb->groups);
	d->origin_id_bytes = cpu_to_le32(sb->origin_id_bytes);
	memcpy(d->origin_id, sb->origin_id, TD_ORIGIN_ID_BYTES);
	for (u32 i = 0; i < 4; i++) {
		d->region[2 * i] = cpu_to_le64(regions[i]->start);
		d->region[2 * i + 1] = cpu_to_le64(regions[i]->length);
	}
	d->retired_count = cpu_to_le32(sb->retired.count);
	for (u32 i = 0; i < sb->retired.count; i++)
		d->retired[i] = cpu_to_le32(sb->retired.slots[i]);
	if (sb->incompat & TD_SUPER_RESIZED)
		d->made_groups = cpu_to_le32(sb->made_groups);
	d->crc = cpu_to_le32(super_checksum(d));
}

/* Are these slots of the cache, in ascending order? */
static bool retired_hold(const struct td_super *sb)
{
	const struct td_retired *r = &sb->retired;
	u32 slots = sb->groups << (sb->run_shift + sb->way_shift);

	for (u32 i = 0; i < r->count; i++)
		if (r->slots[i] >= slots || (i && r->slots[i] <= r->slots[i - 1]))
			return false;
	return true;
}

/* Do the regions lie in order, apart, and within the SSD? */
static bool regions_hold(const struct td_super *sb, const struct td_region *const *regions,
			 u32 count)
{
	u64 at = TD_SUPER_AREA;

	for (u32 i = 0; i < count; i++) {
		if (regions[i]->start < at || !regions[i]->length ||
		    (regions[i]->start | regions[i]->length) & 7 ||
		    regions[i]->start > sb->ssd_sectors ||
		    regions[i]->length > sb->ssd_sectors - regions[i]->start)
			return false;
		at = regions[i]->start + regions[i]->length;
	}
	return true;
}

/* Has the data so many groups? They have 32 bits, and the shifts add up to 10 at most. */
static bool groups_hold(const struct td_super *sb, u32 groups)
{
	return groups &&
	       (u64)groups << (sb->run_shift + sb->way_shift) <= 1u << 31;
}

bool td_super_holds(const struct td_super *sb)
{
	const struct td_region *planned[] = {
		&sb->journal, &sb->checkpoint, &sb->intent, &sb->data,
	};
	const struct td_region *moved[] = {
		&sb->journal, &sb->intent, &sb->data, &sb->checkpoint,
	};
	u64 slots;

	if (sb->run_shift > TD_RUN_SHIFT_MAX || sb->way_shift > TD_WAY_SHIFT_MAX ||
	    sb->run_shift + sb->way_shift < 2 || !groups_hold(sb, sb->groups) ||
	    !groups_hold(sb, sb->made_groups))
		return false;
	if (!sb->origin_id_bytes || sb->origin_id_bytes > TD_ORIGIN_ID_BYTES)
		return false;
	if (!sb->origin_sectors ||
	    (sb->origin_sectors >> TD_FRAME_SHIFT) >> TD_TAG_BITS)
		return false;
	if (!regions_hold(sb, planned, 4) &&
	    !(sb->incompat & TD_SUPER_RESIZED && regions_hold(sb, moved, 4)))
		return false;
	slots = (u64)sb->groups << (sb->run_shift + sb->way_shift);
	return sb->data.length == slots << TD_FRAME_SHIFT &&
	       sb->journal.length >= JOURNAL_MIN &&
	       sb->journal.length <= JOURNAL_MAX &&
	       sb->checkpoint.length >= td_checkpoint_length(slots) &&
	       sb->intent.length >=
			td_mark_blocks(sb->origin_sectors) * TD_BLOCK_SECTORS &&
	       sb->intent.length <= TD_MARK_BLOCKS_MAX * TD_BLOCK_SECTORS;
}

enum td_super_error td_super_parse(const void *buffer, u32 copy,
				   struct td_super *sb)
{
	const struct disk_super *d = buffer;
	const u8 *bytes = buffer;
	struct td_region *regions[4] = {
		&sb->journal, &sb->checkpoint, &sb->intent, &sb->data,
	};

	if (le64_to_cpu(d->magic) != MAGIC) {
		for (u32 i = 0; i < TD_SUPER_BYTES; i++)
			if (bytes[i])
				return TD_SUPER_FOREIGN;
		return TD_SUPER_BLANK;
	}
	if (le32_to_cpu(d->crc) != super_checksum(d))
		return TD_SUPER_DAMAGED;
	if (le32_to_cpu(d->version) != VERSION)
		return TD_SUPER_VERSION;
	sb->compat = le32_to_cpu(d->compat);
	sb->incompat = le32_to_cpu(d->incompat);
	if (sb->incompat & ~INCOMPAT_KNOWN)
		return TD_SUPER_FEATURE;
	memcpy(sb->uuid, d->uuid, TD_UUID_BYTES);
	memcpy(sb->origin_id, d->origin_id, TD_ORIGIN_ID_BYTES);
	sb->origin_id_bytes = le32_to_cpu(d->origin_id_bytes);
	sb->sequence = le64_to_cpu(d->sequence);
	sb->origin_sectors = le64_to_cpu(d->origin_sectors);
	sb->ssd_sectors = le64_to_cpu(d->ssd_sectors);
	sb->run_shift = le32_to_cpu(d->run_shift);
	sb->way_shift = le32_to_cpu(d->way_shift);
	sb->groups = le32_to_cpu(d->groups);
	sb->made_groups = sb->incompat & TD_SUPER_RESIZED ?
		le32_to_cpu(d->made_groups) : sb->groups;
	for (u32 i = 0; i < 4; i++) {
		regions[i]->start = le64_to_cpu(d->region[2 * i]);
		regions[i]->length = le64_to_cpu(d->region[2 * i + 1]);
	}
	memset(&sb->retired, 0, sizeof(sb->retired));
	sb->retired.count = le32_to_cpu(d->retired_count);
	if (sb->retired.count > TD_RETIRED_MAX)
		return TD_SUPER_GEOMETRY;
	for (u32 i = 0; i < sb->retired.count; i++)
		sb->retired.slots[i] = le32_to_cpu(d->retired[i]);
	if (le32_to_cpu(d->copy) != copy ||
	    le32_to_cpu(d->frame_shift) != TD_FRAME_SHIFT ||
	    !td_super_holds(sb) || !retired_hold(sb))
		return TD_SUPER_GEOMETRY;
	return TD_SUPER_OK;
}

enum td_super_error td_super_choose(const void *first, const void *second,
				    struct td_super *sb)
{
	struct td_super other;
	enum td_super_error a = td_super_parse(first, 0, sb);
	enum td_super_error b = td_super_parse(second, 1, &other);

	if ((a == TD_SUPER_OK && b == TD_SUPER_FOREIGN) ||
	    (a == TD_SUPER_FOREIGN && b == TD_SUPER_OK))
		return TD_SUPER_OVERWRITTEN;
	if (a == TD_SUPER_OK && b == TD_SUPER_OK) {
		/* A part of another SSD was copied here: what one copy says is not of the other. */
		if (memcmp(sb->uuid, other.uuid, TD_UUID_BYTES))
			return TD_SUPER_OVERWRITTEN;
		sb->incompat = other.incompat = sb->incompat | other.incompat;
	}
	if (b == TD_SUPER_OK &&
	    (a != TD_SUPER_OK || other.sequence > sb->sequence)) {
		*sb = other;
		return TD_SUPER_OK;
	}
	/* BLANK and FOREIGN tell less than any other error. */
	return a > TD_SUPER_FOREIGN || a == TD_SUPER_OK || b == TD_SUPER_BLANK ?
		a : b;
}

u32 td_super_first(const void *first, const void *second)
{
	struct td_super sb, other;

	return td_super_parse(first, 0, &sb) == TD_SUPER_OK &&
	       (td_super_parse(second, 1, &other) != TD_SUPER_OK ||
		other.sequence < sb.sequence);
}

bool td_super_agree(const void *first, const void *second)
{
	struct td_super sb, other;

	return td_super_parse(first, 0, &sb) == TD_SUPER_OK &&
	       td_super_parse(second, 1, &other) == TD_SUPER_OK &&
	       sb.sequence == other.sequence;
}

enum td_super_error td_super_match(const struct td_super *sb,
				   const struct td_identity *id,
				   u64 ssd_sectors)
{
	if (memcmp(sb->uuid, id->uuid, TD_UUID_BYTES))
		return TD_SUPER_OTHER_CACHE;
	if (sb->origin_id_bytes != id->origin_id_bytes ||
	    memcmp(sb->origin_id, id->origin_id, id->origin_id_bytes))
		return TD_SUPER_OTHER_DISK;
	if (sb->origin_sectors != id->origin_sectors)
		return TD_SUPER_DISK_SIZE;
	if (sb->ssd_sectors > ssd_sectors)
		return TD_SUPER_SSD_SIZE;
	return TD_SUPER_OK;
}

void td_super_layout(const struct td_super *sb, u32 block_sectors,
		     struct td_layout *l)
{
	l->origin_sectors = sb->origin_sectors;
	l->cached_sectors = sb->origin_sectors & ~((u64)block_sectors - 1);
	l->data_start = sb->data.start;
	l->groups = sb->groups;
	l->lanes = sb->groups << sb->way_shift;
	l->made_lanes = sb->made_groups == sb->groups ? 0 :
		sb->made_groups << sb->way_shift;
	l->slots = l->lanes << sb->run_shift;
	l->run_shift = sb->run_shift;
	l->run_mask = (1u << sb->run_shift) - 1;
	l->way_shift = sb->way_shift;
	l->block_mask = block_sectors - 1;
	l->unusual = l->block_mask | l->made_lanes;
}
