// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The bytes of journal, checkpoint and intent marks.
 *
 * Invariant: every checksum of a head, a page or a mark sector also covers the uuid of
 * the cache. The checksum of a page also covers the numbers of the checkpoint and of
 * the page, and that of a mark sector its place. A head carries its number instead. So
 * no block of another cache, of another checkpoint or from another place is ever sound.
 * Threads: pure functions on the caller's memory.
 */
#include "format.h"

#define GROUP_MAGIC		0x31304c4e524a4454ull	/* "TDJRNL01", as bytes */
#define CHECKPOINT_MAGIC	0x3130545043454454ull	/* "TDECPT01" */
#define PAGE_MAGIC		0x47504454u		/* "TDPG" */
#define MARKS_MAGIC		0x4b4d4454u		/* "TDMK" */
#define CRC_SEED		0xffffffffu
#define FLAG_EMPTY		1u

struct disk_group {
	__le64 magic;
	__le32 crc;		/* of the rest of the head */
	__le32 content;		/* checksum of the entries */
	__le64 number;
	__le32 tie;		/* checksum of the contents of all blocks */
	__le32 index;
	__le32 blocks;
	__le32 entries;
	u8 zero[24];
	__le64 record[TD_BLOCK_ENTRIES];
	__le32 slot[TD_BLOCK_ENTRIES];
};

struct disk_checkpoint {
	__le64 magic;
	__le32 crc;		/* of all behind it */
	__le32 flags;
	__le64 number;
	__le64 group;
	__le32 block;
	__le32 slots;
	__le64 sum;
	__le64 until;
	u8 zero[TD_BLOCK_BYTES - 56];
};

struct disk_page {
	__le32 crc;		/* of all behind it */
	__le32 magic;		/* with TD_SUPER_PARTS low bits of the number */
	__le64 record[TD_PAGE_SLOTS];
};

struct disk_marks {
	__le32 crc;		/* of all behind it */
	__le32 magic;
	u8 bits[TD_SECTOR_MARKS / 8];
};

_Static_assert(sizeof(struct disk_group) == TD_BLOCK_BYTES, "one block");
_Static_assert(sizeof(struct disk_checkpoint) == TD_BLOCK_BYTES, "one block");
_Static_assert(sizeof(struct disk_page) == TD_BLOCK_BYTES, "one block");
_Static_assert(sizeof(struct disk_marks) == TD_SECTOR_BYTES, "one sector");

/* Of what begins at @from and ends where the block or sector @all does. */
static u32 block_checksum(const u8 *uuid, u64 number, u64 place, const void *all,
			  size_t from, size_t bytes)
{
	__le64 where[2] = { cpu_to_le64(number), cpu_to_le64(place) };
	u32 crc = env_crc32c(CRC_SEED, uuid, TD_UUID_BYTES);

	crc = env_crc32c(crc, where, sizeof(where));
	return ~env_crc32c(crc, (const u8 *)all + from, bytes - from);
}

static u32 group_crc(const struct disk_group *d, const u8 *uuid)
{
	return block_checksum(uuid, 0, 0, d, offsetof(struct disk_group, content),
			      offsetof(struct disk_group, record));
}

static u32 group_content(const struct disk_group *d)
{
	return ~env_crc32c(CRC_SEED, d->record,
			   sizeof(d->record) + sizeof(d->slot));
}

void td_group_put(void *buffer, u32 i, u32 slot, u64 record)
{
	struct disk_group *d = buffer;

	d += i / TD_BLOCK_ENTRIES;
	i %= TD_BLOCK_ENTRIES;
	d->record[i] = cpu_to_le64(record);
	d->slot[i] = cpu_to_le32(slot);
}

void td_group_seal(void *buffer, const u8 *uuid, u64 number, u32 entries)
{
	struct disk_group *group = buffer;
	u32 blocks = td_group_blocks(entries);
	u32 tie = CRC_SEED;

	for (u32 i = 0; i < blocks; i++) {
		struct disk_group *d = group + i;
		u32 here = entries - i * TD_BLOCK_ENTRIES;

		if (here > TD_BLOCK_ENTRIES)
			here = TD_BLOCK_ENTRIES;
		memset(d, 0, offsetof(struct disk_group, record));
		memset(d->record + here, 0,
		       (TD_BLOCK_ENTRIES - here) * sizeof(d->record[0]));
		memset(d->slot + here, 0,
		       (TD_BLOCK_ENTRIES - here) * sizeof(d->slot[0]));
		d->magic = cpu_to_le64(GROUP_MAGIC);
		d->content = cpu_to_le32(group_content(d));
		d->number = cpu_to_le64(number);
		d->index = cpu_to_le32(i);
		d->blocks = cpu_to_le32(blocks);
		d->entries = cpu_to_le32(here);
		tie = env_crc32c(tie, &d->content, sizeof(d->content));
	}
	for (u32 i = 0; i < blocks; i++) {
		group[i].tie = cpu_to_le32(~tie);
		group[i].crc = cpu_to_le32(group_crc(group + i, uuid));
	}
}

bool td_group_check(const void *block, const u8 *uuid, struct td_group_head *h)
{
	const struct disk_group *d = block;

	if (le64_to_cpu(d->magic) != GROUP_MAGIC ||
	    le32_to_cpu(d->crc) != group_crc(d, uuid) ||
	    le32_to_cpu(d->content) != group_content(d))
		return false;
	h->number = le64_to_cpu(d->number);
	h->tie = le32_to_cpu(d->tie);
	h->index = le32_to_cpu(d->index);
	h->blocks = le32_to_cpu(d->blocks);
	h->entries = le32_to_cpu(d->entries);
	return h->number && h->number <= TD_NUMBER_MAX &&
	       h->index < h->blocks && h->blocks <= TD_GROUP_BLOCKS_MAX &&
	       h->entries <= TD_BLOCK_ENTRIES;
}

void td_group_get(const void *block, u32 i, u32 *slot, u64 *record)
{
	const struct disk_group *d = block;

	*slot = le32_to_cpu(d->slot[i]);
	*record = le64_to_cpu(d->record[i]);
}

u64 td_checkpoint_sector(const struct td_super *sb, u32 which)
{
	u64 blocks = 1ull + td_page_count(td_super_slots(sb));

	return sb->checkpoint.start + which * blocks * TD_BLOCK_SECTORS;
}

static u32 checkpoint_crc(const struct disk_checkpoint *d, const u8 *uuid)
{
	return block_checksum(uuid, 0, 0, d, offsetof(struct disk_checkpoint, flags),
			      sizeof(*d));
}

void td_checkpoint_seal(void *block, const u8 *uuid,
			const struct td_checkpoint *c)
{
	struct disk_checkpoint *d = block;

	memset(d, 0, sizeof(*d));
	d->magic = cpu_to_le64(CHECKPOINT_MAGIC);
	d->flags = cpu_to_le32(c->empty ? FLAG_EMPTY : 0);
	d->number = cpu_to_le64(c->number);
	d->group = cpu_to_le64(c->group);
	d->block = cpu_to_le32(c->block);
	d->slots = cpu_to_le32(c->slots);
	d->sum = cpu_to_le64(c->sum);
	d->until = cpu_to_le64(c->until);
	d->crc = cpu_to_le32(checkpoint_crc(d, uuid));
}

bool td_checkpoint_check(const void *block, const u8 *uuid,
			 struct td_checkpoint *c)
{
	const struct disk_checkpoint *d = block;

	if (le64_to_cpu(d->magic) != CHECKPOINT_MAGIC ||
	    le32_to_cpu(d->crc) != checkpoint_crc(d, uuid))
		return false;
	c->number = le64_to_cpu(d->number);
	c->group = le64_to_cpu(d->group);
	c->block = le32_to_cpu(d->block);
	c->slots = le32_to_cpu(d->slots);
	c->sum = le64_to_cpu(d->sum);
	c->until = le64_to_cpu(d->until);
	c->empty = le32_to_cpu(d->flags) == FLAG_EMPTY;
	return !(le32_to_cpu(d->flags) & ~FLAG_EMPTY) &&
	       c->number && c->number <= TD_NUMBER_MAX &&
	       c->group && c->group <= TD_NUMBER_MAX;
}

void td_page_put(void *block, u32 i, u64 record)
{
	struct disk_page *d = block;

	d->record[i] = cpu_to_le64(record);
}

const __le64 *td_page_records(const void *block)
{
	const struct disk_page *d = block;

	return d->record;
}

static u32 page_crc(const struct disk_page *d, const u8 *uuid, u64 number,
		    u32 page)
{
	return block_checksum(uuid, number, page, d, offsetof(struct disk_page, magic),
			      sizeof(*d));
}

void td_page_seal(void *block, const struct td_super *sb, u64 number, u32 page)
{
	struct disk_page *d = block;

	d->magic = cpu_to_le32(sb->incompat & TD_SUPER_PARTS ? (u32)number :
			       PAGE_MAGIC);
	d->crc = cpu_to_le32(page_crc(d, sb->uuid, number, page));
}

u64 td_page_check(const void *block, const struct td_super *sb, u64 newest, u32 page)
{
	const struct disk_page *d = block;
	u32 magic = le32_to_cpu(d->magic);
	u64 number = newest;

	if (sb->incompat & TD_SUPER_PARTS) {
		u32 back = (u32)newest - magic;

		if (back >= newest)
			return 0;
		number -= back;
	} else if (magic != PAGE_MAGIC) {
		return 0;
	}
	return le32_to_cpu(d->crc) == page_crc(d, sb->uuid, number, page) ?
		number : 0;
}

u32 td_mark_shift(u64 origin_sectors)
{
	u32 shift = TD_MARK_SHIFT_MIN;

	while ((origin_sectors - 1) >> shift >= TD_MARKS_MAX)
		shift++;
	return shift;
}

u32 td_mark_count(u64 origin_sectors)
{
	return (u32)((origin_sectors - 1) >> td_mark_shift(origin_sectors)) + 1;
}

static u32 marks_crc(const struct disk_marks *d, const u8 *uuid, u64 number)
{
	return block_checksum(uuid, 0, number, d, offsetof(struct disk_marks, magic),
			      sizeof(*d));
}

_Static_assert(TD_SECTOR_MARKS % 64 == 0, "64 regions lie in two sectors");

/* The byte with bit @i of a block. */
static size_t marks_byte(u32 i)
{
	return i / TD_SECTOR_MARKS * sizeof(struct disk_marks) +
	       offsetof(struct disk_marks, bits) + i % TD_SECTOR_MARKS / 8;
}

void td_marks_set(void *block, u32 i)
{
	((u8 *)block)[marks_byte(i)] |= (u8)(1u << i % 8);
}

void td_marks_reset(void *block, u32 i)
{
	((u8 *)block)[marks_byte(i)] &= (u8)~(1u << i % 8);
}

bool td_marks_get(const void *block, u32 i)
{
	return ((const u8 *)block)[marks_byte(i)] >> i % 8 & 1;
}

u64 td_marks_get64(const void *block, u32 i)
{
	__le64 bits;

	memcpy(&bits, (const u8 *)block + marks_byte(i), sizeof(bits));
	return le64_to_cpu(bits);
}

void td_marks_seal(void *block, const u8 *uuid, u32 number)
{
	struct disk_marks *d = block;

	for (u32 i = 0; i < TD_BLOCK_SECTORS; i++) {
		u64 place = (u64)number * TD_BLOCK_SECTORS + i;

		d[i].magic = cpu_to_le32(MARKS_MAGIC);
		d[i].crc = cpu_to_le32(marks_crc(d + i, uuid, place));
	}
}

bool td_marks_check(void *block, const u8 *uuid, u32 number)
{
	struct disk_marks *d = block;
	bool all = true;

	for (u32 i = 0; i < TD_BLOCK_SECTORS; i++) {
		u64 place = (u64)number * TD_BLOCK_SECTORS + i;

		if (le32_to_cpu(d[i].magic) == MARKS_MAGIC &&
		    le32_to_cpu(d[i].crc) == marks_crc(d + i, uuid, place))
			continue;
		memset(d[i].bits, 0xff, sizeof(d[i].bits));
		all = false;
	}
	return all;
}
