// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which places of a disk are watched: of superblocks as the tools make them, and of any
 * bytes.
 */
#include "check.h"
#include "places.h"
#include "random.h"
#include "torn.h"

#define QUARTERS	(1u << 20)	/* 4 GiB */

struct homes {
	u8 first[4096];
	u8 btrfs[4096];
};

static void put(u8 *at, u64 value, u32 bytes, bool big)
{
	for (u32 i = 0; i < bytes; i++)
		at[big ? bytes - 1 - i : i] = (u8)(value >> 8 * i);
}

static void make_ext(struct homes *h)
{
	put(h->first + 1024 + 24, 2, 4, false);
	put(h->first + 1024 + 56, 0xef53, 2, false);
	put(h->first + 1024 + 96, 0x2c2, 4, false);
}

/* Groups of @per_group blocks of 4 KiB; the log begins at @group, 6, in blocks. */
static void make_xfs(struct homes *h, u64 group, u32 per_group, u32 blocks)
{
	memcpy(h->first, "XFSB", 4);
	put(h->first + 4, 4096, 4, true);
	put(h->first + 48, group << 18 | 6, 8, true);
	put(h->first + 84, per_group, 4, true);
	put(h->first + 96, blocks, 4, true);
	h->first[124] = 18;
}

static void make_btrfs(struct homes *h, u64 devices)
{
	put(h->btrfs + 48, 65536, 8, false);
	memcpy(h->btrfs + 64, "_BHRfS_M", 8);
	put(h->btrfs + 136, devices, 8, false);
}

static void make_f2fs(struct homes *h, u32 pack)
{
	put(h->first + 1024, 0xf2f52010, 4, false);
	put(h->first + 1024 + 16, 12, 4, false);
	put(h->first + 1024 + 20, 9, 4, false);
	put(h->first + 1024 + 76, pack, 4, false);
}

static struct td_places places_of(const struct homes *h)
{
	struct td_places p;

	td_places_find(&p, h->first, h->btrfs, QUARTERS);
	must(p.count <= TD_PLACES_MAX, "too many places");
	for (u32 i = 0; i < p.count; i++)
		must(p.quarter[i] < QUARTERS, "a place beyond the disk");
	must(!p.steps || p.log + ((u64)p.steps << p.stride_shift) <= QUARTERS,
	     "a stride beyond the disk");
	must(td_places_known(&p) || (!p.count && !p.steps),
	     "places of an unknown file system");
	return p;
}

static void check_known(void)
{
	struct homes h = { .first = { 0 } };
	struct td_places p = places_of(&h);

	must(p.format == TD_FORMAT_UNKNOWN, "zeroes are a file system");
	make_ext(&h);
	p = places_of(&h);
	must(p.format == TD_FORMAT_EXT && p.count == 1 && p.quarter[0] == 0 &&
	     !p.steps, "ext4 is not known");
	make_btrfs(&h, 1);
	p = places_of(&h);
	must(p.format == TD_FORMAT_UNKNOWN, "two file systems are one");
	memset(h.first, 0, sizeof(h.first));
	p = places_of(&h);
	must(p.format == TD_FORMAT_BTRFS && p.count == 1 && p.quarter[0] == 16,
	     "Btrfs is not known");
	make_btrfs(&h, 2);
	p = places_of(&h);
	must(p.format == TD_FORMAT_UNKNOWN, "one disk of two is known");
	memset(&h, 0, sizeof(h));
	make_f2fs(&h, 512);
	p = places_of(&h);
	must(p.format == TD_FORMAT_F2FS && p.count == 3 && p.quarter[1] == 512 &&
	     p.quarter[2] == 1024, "F2FS is not known");
	memset(&h, 0, sizeof(h));
	make_xfs(&h, 2, 200000, 16384);
	p = places_of(&h);
	must(p.format == TD_FORMAT_XFS && p.log == 400006 && p.steps == 64 &&
	     p.stride_shift == 8, "the log of XFS is not found");
	make_xfs(&h, 2, 200000, 1024);
	p = places_of(&h);
	must(p.steps == 16 && p.stride_shift == 6, "the strides of a small log");
	make_xfs(&h, 7, 200000, 1024);
	p = places_of(&h);
	must(p.format == TD_FORMAT_UNKNOWN, "a log beyond the disk");
	memcpy(h.first + 3, "NTFS    ", 8);
	h.first[510] = 0x55;
	h.first[511] = 0xaa;
	p = places_of(&h);
	must(p.format == TD_FORMAT_TRACELESS, "NTFS shows each use");
}

/* Where a synced file is noted: segment 7, block 3. */
static void check_head(void)
{
	struct homes h = { .first = { 0 } };
	u8 pack[512] = { 0 };
	struct td_places p;

	make_f2fs(&h, 512);
	put(h.first + 1024 + 92, 4096, 4, false);
	p = places_of(&h);
	put(pack + 40, 7, 4, false);
	put(pack + 70, 3, 2, false);
	must(td_places_next(&p, pack) == 4096 + 7 * 512 + 3,
	     "the log does not go on where the checkpoint says");
	put(pack + 70, 512, 2, false);
	must(!td_places_next(&p, pack), "a block behind its segment");
	put(pack + 70, 3, 2, false);
	put(pack + 40, QUARTERS, 4, false);
	must(!td_places_next(&p, pack), "the log goes on beyond the disk");
}

/* A superblock that is written again is the same file system, or another one. */
static void check_kept(u64 *state)
{
	static const u16 others[] = { 1024 + 24, 1024 + 56, 1024 + 104 };
	struct homes h = { .first = { 0 } };
	struct td_places p;
	u8 *sector = h.first + 1024;

	make_ext(&h);
	p = places_of(&h);
	put(sector + 48, random_number(state), 4, false);
	must(td_places_keep(&p, 0, 2, sector), "a mount makes another file system");
	h.first[others[random_below(state, 3)]] ^= 1;
	must(!td_places_keep(&p, 0, 2, sector), "another file system is the same");
	must(td_places_keep(&p, 0, 1, sector) && td_places_keep(&p, 1, 2, sector),
	     "another sector tells the file system");
}

u64 sim_places(u64 seed)
{
	u64 state = seed, known = 0;
	struct td_places p;
	struct homes h;

	check_known();
	check_kept(&state);
	check_head();
	for (u32 i = 0; i < 2000; i++) {
		for (u32 at = 0; at < sizeof(h.first); at++) {
			h.first[at] = (u8)random_number(&state);
			h.btrfs[at] = (u8)random_number(&state);
		}
		switch (random_below(&state, 4)) {
		case 0:
			make_xfs(&h, random_below(&state, 8),
				 random_below(&state, 300000),
				 random_below(&state, 300000));
			break;
		case 1:
			memcpy(h.first, "XFSB", 4);
			break;
		case 2:
			make_f2fs(&h, random_below(&state, 2 * QUARTERS));
			break;
		default:
			make_btrfs(&h, 1);
		}
		p = places_of(&h);
		must(p.format != TD_FORMAT_F2FS || td_places_next(&p, h.btrfs) < QUARTERS,
		     "the log goes on beyond the disk");
		known += td_places_known(&p);
	}
	must(known > 500, "hardly any file system is known");
	return known;
}
