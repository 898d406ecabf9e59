// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Superblocks of ext4, XFS, Btrfs and F2FS, as far as their places depend on them; LUKS,
 * where ext4, XFS and Btrfs have their superblocks at two places, encrypted.
 *
 * Invariant: a place lies whole within the disk. What is not fully understood, or is
 * two things at once, is UNKNOWN.
 * Threads: pure functions.
 * Why the mark: a file system that is made anew over this cache has other places; the
 * write of its superblock tells.
 */
#include "places.h"

#define CRC_SEED	0xffffffffu
#define SECTOR		512u
#define BOOTS		6u	/* names in boot sectors */

/* Each field of a superblock that is looked at lies in this sector of its quarter. */
struct home {
	u8 quarter;
	u8 sector;
	u8 pieces;
	struct {
		u16 at;		/* bytes from the sector's start */
		u16 bytes;
	} piece[4];
};

static const struct home homes[] = {
	/* magic and version, uuid */
	[TD_FORMAT_LUKS] = { TD_HOME_FIRST, 0, 2, {
		{ 0, 8 }, { 168, 40 } } },
	/* block size, magic, incompatible features, uuid */
	[TD_FORMAT_EXT] = { TD_HOME_FIRST, 2, 4, {
		{ 24, 4 }, { 56, 2 }, { 104, 16 }, { 104, 0 } } },
	/* magic and block size, uuid and start of the log, group size, log size */
	[TD_FORMAT_XFS] = { TD_HOME_FIRST, 0, 4, {
		{ 0, 8 }, { 32, 24 }, { 84, 4 }, { 96, 4 } } },
	/* uuid, own address and magic, devices */
	[TD_FORMAT_BTRFS] = { TD_HOME_BTRFS, 0, 3, {
		{ 32, 16 }, { 48, 8 }, { 64, 8 }, { 136, 8 } } },
	/* magic, block size, segment size; address of checkpoints */
	[TD_FORMAT_F2FS] = { TD_HOME_FIRST, 2, 3, {
		{ 0, 4 }, { 16, 8 }, { 76, 4 }, { 108, 16 } } },
};

static u32 le16_at(const u8 *p)
{
	return p[0] | (u32)p[1] << 8;
}

static u32 le32_at(const u8 *p)
{
	return le16_at(p) | le16_at(p + 2) << 16;
}

static u64 le64_at(const u8 *p)
{
	return le32_at(p) | (u64)le32_at(p + 4) << 32;
}

static u32 be32_at(const u8 *p)
{
	return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3];
}

static u64 be64_at(const u8 *p)
{
	return (u64)be32_at(p) << 32 | be32_at(p + 4);
}

static u32 mark_of(const struct home *home, const u8 *sector)
{
	u32 crc = CRC_SEED;

	for (u32 i = 0; i < home->pieces; i++)
		crc = env_crc32c(crc, sector + home->piece[i].at,
				 home->piece[i].bytes);
	return crc;
}

bool td_places_boot(const u8 *quarter)
{
	static const struct {
		u32 at;
		char name[9];
	} known[BOOTS] = {
		{ 3, "EXFAT   " }, { 3, "NTFS    " }, { 82, "FAT32   " },
		{ 54, "FAT12   " }, { 54, "FAT16   " }, { 54, "FAT     " },
	};

	if (quarter[510] != 0x55 || quarter[511] != 0xaa)
		return false;
	for (u32 i = 0; i < BOOTS; i++)
		if (!memcmp(quarter + known[i].at, known[i].name, 8))
			return true;
	return false;
}

static bool is_ext(const u8 *sb)
{
	return le16_at(sb + 56) == 0xef53;
}

/* The journal (feature 8) of another disk's file system. */
static bool is_journal(const u8 *sb)
{
	return le32_at(sb + 96) & 8;
}

static bool is_xfs(const u8 *sb)
{
	return !memcmp(sb, "XFSB", 4);
}

static bool is_f2fs(const u8 *sb)
{
	return le32_at(sb) == 0xf2f52010;
}

static bool is_btrfs(const u8 *sb)
{
	return !memcmp(sb + 64, "_BHRfS_M", 8);
}

/* The log lies in the disk, and is long enough for its strides. */
static bool find_xfs(struct td_places *p, const u8 *sb, u64 quarters)
{
	u64 block_bytes = be32_at(sb + 4);
	u64 start = be64_at(sb + 48);
	u64 per_group = be32_at(sb + 84);
	u64 blocks = be32_at(sb + 96);
	u32 group_shift = sb[124];
	u64 first, end;

	if (block_bytes < 512 || block_bytes > 65536 ||
	    block_bytes & (block_bytes - 1) || !start || group_shift > 31 ||
	    start >> group_shift >> 31)
		return false;
	first = (start >> group_shift) * per_group +
		(start & ((1ull << group_shift) - 1));
	end = first + blocks;
	/* No overflow: 63 bits of blocks would not fit in a disk. */
	if (end >> 40)
		return false;
	first = (first * block_bytes + 4095) >> 12;
	end = end * block_bytes >> 12;
	if (end > quarters || end < first + 512)
		return false;
	p->stride_shift = end - first < 2048 ? 6 : 8;
	p->log = first;
	p->steps = (u32)((end - first) >> p->stride_shift);
	return true;
}

static bool find_f2fs(struct td_places *p, const u8 *sb, u64 quarters)
{
	u64 pack = le32_at(sb + 76);
	u32 segment_shift = le32_at(sb + 20);

	if (le32_at(sb + 16) != 12 || segment_shift > 20 || !pack ||
	    pack + (1ull << segment_shift) >= quarters)
		return false;
	p->quarter[p->count++] = pack;
	p->quarter[p->count++] = pack + (1ull << segment_shift);
	p->main = le32_at(sb + 92);
	p->end = quarters;
	p->segment_shift = segment_shift;
	return true;
}

/*
 * A partition table of a PC. A superblock behind it is of a file system that was there
 * before, and no use of the partitions changes this superblock.
 */
static bool is_partitioned(const u8 *sector)
{
	const u8 *entry = sector + 446;
	bool used = false;

	if (sector[510] != 0x55 || sector[511] != 0xaa)
		return false;
	for (u32 i = 0; i < 4; i++, entry += 16) {
		if (entry[0] & 0x7f)
			return false;
		used |= entry[4] && le32_at(entry + 8) && le32_at(entry + 12);
	}
	return used;
}

/* False: nothing is known of where the data begins. */
static bool find_luks(struct td_places *p, const u8 *header, u64 quarters)
{
	/* LUKS2 says so in another block; this is what cryptsetup takes by itself. */
	u64 data = 4096;

	if (memcmp(header, "LUKS\xba\xbe\0", 7))
		return false;
	if (header[7] == 1)
		data = be32_at(header + 104) >> TD_QUARTER_SHIFT;
	else if (header[7] != 2)
		return false;
	if (!data || data + TD_HOME_BTRFS >= quarters)
		return false;
	p->count = 0;
	p->quarter[p->count++] = data + TD_HOME_FIRST;
	p->quarter[p->count++] = data + TD_HOME_BTRFS;
	return true;
}

/* All that is found in the first quarter but Btrfs; UNKNOWN if it is nothing of these. */
static enum td_format_of_disk find_first(struct td_places *p, const u8 *first,
					 u64 quarters)
{
	if (td_places_boot(first))
		return TD_FORMAT_TRACELESS;
	if (is_partitioned(first))
		return TD_FORMAT_UNKNOWN;
	if (find_luks(p, first, quarters))
		return TD_FORMAT_LUKS;
	if (is_ext(first + 1024) && !is_journal(first + 1024))
		return TD_FORMAT_EXT;
	if (is_xfs(first) && find_xfs(p, first, quarters))
		return TD_FORMAT_XFS;
	if (is_f2fs(first + 1024) && find_f2fs(p, first + 1024, quarters))
		return TD_FORMAT_F2FS;
	return TD_FORMAT_UNKNOWN;
}

void td_places_find(struct td_places *p, const u8 *first, const u8 *btrfs,
		    u64 quarters)
{
	const struct home *home;
	bool found;

	memset(p, 0, sizeof(*p));
	if (!first)
		return;
	p->quarter[p->count++] = TD_HOME_FIRST;
	p->format = find_first(p, first, quarters);
	found = btrfs && is_btrfs(btrfs) && !is_partitioned(first);
	if (found && p->format == TD_FORMAT_UNKNOWN &&
	    le64_at(btrfs + 48) == 65536 && le64_at(btrfs + 136) == 1) {
		p->format = TD_FORMAT_BTRFS;
		p->quarter[0] = TD_HOME_BTRFS;
	} else if (found && p->format != TD_FORMAT_TRACELESS) {
		/* Two file systems at once, or one of several disks. */
		p->format = TD_FORMAT_UNKNOWN;
	}
	if (!td_places_known(p) && p->format != TD_FORMAT_LUKS) {
		*p = (struct td_places) { .format = p->format };
		return;
	}
	home = &homes[p->format];
	p->mark = mark_of(home, (home->quarter ? btrfs : first) +
			  home->sector * SECTOR);
}

bool td_places_recognize(u64 quarter, const u8 *data)
{
	if (quarter == TD_HOME_BTRFS)
		return is_btrfs(data);
	/* With a log or a journal elsewhere, or blocks of another size, too. */
	return quarter == TD_HOME_FIRST && !is_partitioned(data) &&
	       (is_ext(data + 1024) || is_xfs(data) || is_f2fs(data + 1024));
}

u64 td_places_next(const struct td_places *p, const u8 *sector)
{
	/* Of the log for the nodes of files. */
	u64 segment = le32_at(sector + 40);
	u32 block = le16_at(sector + 70);
	u64 next = p->main + (segment << p->segment_shift) + block;

	if (block >> p->segment_shift || next >= p->end)
		return 0;
	return next;
}

u32 td_places_cycle(const u8 *sector)
{
	/* The header of a record has a name in front. */
	return be32_at(sector) == 0xfeedbabe ? be32_at(sector + 4) : be32_at(sector);
}

bool td_places_keep(const struct td_places *p, u64 quarter, u32 index,
		    const u8 *sector)
{
	const struct home *home = &homes[p->format];

	if (!td_places_known(p))
		return true;
	if (quarter == TD_HOME_FIRST && !index && is_partitioned(sector))
		return false;
	if (quarter != home->quarter || index != home->sector)
		return true;
	return mark_of(home, sector) == p->mark;
}
