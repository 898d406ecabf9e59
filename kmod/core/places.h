/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which file system is on a disk, and which places of the disk each of its writing uses
 * changes. FORMAT.md says what was measured, and which uses no place shows.
 *
 * All functions: pure, on the caller's memory; any bytes are right.
 */
#ifndef TANDEM_PLACES_H
#define TANDEM_PLACES_H

#include "layout.h"

#define TD_PLACES_MAX	3u

enum td_format_of_disk {
	TD_FORMAT_UNKNOWN,
	TD_FORMAT_LUKS,		/* what is inside may change its places, or others */
	TD_FORMAT_TRACELESS,	/* exFAT, FAT, NTFS: no place shows each use */
	TD_FORMAT_EXT,		/* ext2, ext3, ext4 */
	TD_FORMAT_XFS,
	TD_FORMAT_BTRFS,
	TD_FORMAT_F2FS,
};

/* The places that hold superblocks; quarters of the disk. */
#define TD_HOME_FIRST	0u
#define TD_HOME_BTRFS	16u

struct td_places {
	u32 format;		/* enum td_format_of_disk */
	u32 mark;		/* checksum of what names this file system */
	u32 count;
	u32 stride_shift;	/* of quarters of the log */
	u64 quarter[TD_PLACES_MAX];
	/*
	 * XFS: each mount writes 2 MiB of the log, from behind the last block that was
	 * written. So of the quarters with a number that is a multiple of a stride, counted
	 * from the log's start, the next one behind that block is written.
	 */
	u64 log;		/* first quarter */
	u32 steps;		/* strides in the log; 0: there is no log */
	/*
	 * F2FS: a synced file is noted in a log of segments in the main area, and the
	 * checkpoints do not change. Each checkpoint says where that log goes on.
	 */
	u64 main;		/* first quarter */
	u64 end;		/* behind the disk's last quarter */
	u32 segment_shift;	/* of quarters */
};

/* Of F2FS, the places behind the first one are the first quarters of its checkpoints. */
#define TD_PACKS	2u

/* Does a use of the file system that is found there change one of the places? */
static inline bool td_places_known(const struct td_places *p)
{
	return p->format > TD_FORMAT_TRACELESS;
}

/*
 * @first, @btrfs: the quarters TD_HOME_FIRST and TD_HOME_BTRFS, or NULL; @quarters: of the
 * disk.
 */
void td_places_find(struct td_places *p, const u8 *first, const u8 *btrfs,
		    u64 quarters);

/*
 * Is @data, the content of @quarter, the home of ext, XFS, Btrfs or F2FS? Also where
 * td_places_find() does not know all their places.
 */
bool td_places_recognize(u64 quarter, const u8 *data);

/* Round of XFS's log in which its sector @sector was written. */
u32 td_places_cycle(const u8 *sector);

/*
 * Where the log goes on by a checkpoint of F2FS, a quarter of the disk; 0: nowhere.
 * @sector: the first one of the checkpoint, of 512 bytes.
 */
u64 td_places_next(const struct td_places *p, const u8 *sector);

/* Does @quarter begin with the boot sector of exFAT, FAT or NTFS? */
bool td_places_boot(const u8 *quarter);

/*
 * @sector, of 512 bytes, is sector @index of @quarter and will be written there. False:
 * afterwards the file system is another one than @p says, or has other places.
 */
bool td_places_keep(const struct td_places *p, u64 quarter, u32 index,
		    const u8 *sector);

#endif
