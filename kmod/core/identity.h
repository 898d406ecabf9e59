/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Is the disk as this cache left it? Checksums of some quarters of it are written
 * to the SSD at a clean stop, and compared before anything is served again.
 *
 * Sampled are the places of partition tables and of file systems' superblocks, which
 * every mount changes, and the quarters that this cache's users wrote most often:
 * journals, metadata. A change of a sampled quarter is always found, other changes
 * are not. After a crash the fixed quarters are compared with their clean copies on the
 * SSD instead. FORMAT.md is the layout; parsing takes any bytes.
 *
 * The caller's order:
 *   start	td_samples_choose(); td_samples_at_start(); if not stopped, td_sample_know()
 *		for each sample that has a clean copy on the SSD. td_probe_begin(),
 *		read and feed, td_probe_end(); then td_start_judge(). DIVERGED: dirty
 *		data is not for this disk. Cold: clean data has to be dropped,
 *		durably. Then RUNNING is written to both copies (FUA), then the
 *		first request is served.
 *   clean stop	all is flushed, on both devices. td_samples_pick(), td_probe_begin(),
 *		read and feed, td_probe_end(); STOPPED is written to both copies.
 *
 * All functions: no memory but what is passed in; no lock unless said otherwise.
 */
#ifndef TANDEM_IDENTITY_H
#define TANDEM_IDENTITY_H

#include "super.h"

#define TD_SAMPLES_BYTES	4096u	/* one copy */
/* Byte offset on the SSD of copy @copy: behind that of the superblock. */
#define TD_SAMPLES_OFFSET(copy)	(TD_SUPER_OFFSET(copy) + TD_SUPER_BYTES)
#define TD_SAMPLES_MAX		96u
#define TD_HOT_MAX		48u
#define TD_TRACES_MAX		8u
#define TD_PROBES_MAX		(TD_SAMPLES_MAX + TD_TRACES_MAX)

/* Quarters that are written often, or read often; a count may be too high (heat.c). */
struct td_heat {
	u64 quarter[TD_HOT_MAX];
	u32 count[TD_HOT_MAX];	/* 0: unused */
	u32 least;		/* no count in front of @next is as low, or lower */
	u32 next;
};

struct td_sample {
	u64 quarter;		/* of the disk, whole */
	u32 sum;
	u32 heat;		/* TD_HEAT_READ, and a count; 0: it was not hot */
	bool unknown;		/* @sum is not known: the quarter is read only */
};

#define TD_HEAT_READ	(1u << 31)

/* The content of a place that each use changes (watch.h), by checksums of its sectors. */
struct td_trace_sums {
	u64 quarter;
	u32 was[TD_QUARTER_SECTORS];	/* durable on the disk */
	u32 will[TD_QUARTER_SECTORS];	/* may have been written since */
};

struct td_samples {
	u64 sequence;		/* of two sound copies the higher one counts */
	bool stopped;		/* else RUNNING: all samples are unknown */
	bool sure;		/* each use of the disk changes a place of the traces */
	bool of_crcs;		/* notes of an older module: crc32c instead of td_sum_of() */
	u32 count;
	u32 traces;
	u32 mark;		/* of td_places: which file system it is */
	u32 head;		/* of td_watch */
	struct td_sample sample[TD_SAMPLES_MAX];
	struct td_trace_sums trace[TD_TRACES_MAX];
};

void td_samples_encode(const struct td_samples *s, const u8 *uuid, u32 copy,
		       void *block);
/* False: the block is not sound, or names a quarter beyond @origin_sectors. */
bool td_samples_parse(const void *block, const u8 *uuid, u32 copy,
		      u64 origin_sectors, struct td_samples *s);
/*
 * The newer sound copy; if none is, RUNNING with sequence 0. NULL: a copy that the SSD
 * cannot read; then the traces of a running cache mean nothing.
 */
void td_samples_choose(const void *first, const void *second,
		       const struct td_super *sb, struct td_samples *s);
/*
 * Choose the quarters to sample, without checksums yet: fixed ones, and those that were
 * written most, and read most (@read may be NULL). Lock held.
 */
void td_samples_pick(const struct td_heat *written, const struct td_heat *read,
		     u64 origin_sectors, struct td_samples *s);
/*
 * Complete @s, as chosen at a start. Stopped: the places of boot sectors are read too.
 * Not stopped: the fixed quarters.
 */
void td_samples_at_start(struct td_samples *s, u64 origin_sectors);
/* Sum of a sector, of TD_SECTOR_BYTES; of all sectors of a quarter (FORMAT.md). */
u32 td_sum_of(const void *sector);
void td_sums_of(const void *quarter, u32 *sums);
/* @quarter: content that sample @at should have. */
void td_sample_know(struct td_samples *s, u32 at, const void *quarter);

enum td_verdict_of_disk {
	TD_DISK_SAME,
	TD_DISK_CHANGED,
	TD_DISK_UNKNOWN,	/* nothing could be compared */
};

/* Reads of the disk for all samples: to fill in checksums, or to compare. */
struct td_probe {
	struct td_samples *samples;
	u32 at;
	u32 readable;		/* samples whose quarters could be read */
	u32 traces;		/* whose places could be read */
	bool compares;
	bool differs;
	bool proven;		/* td_probe_end(): see struct td_past */
	bool recognized;	/* see struct td_past */
	bool traceless;
};

void td_probe_begin(struct td_probe *p, struct td_samples *s, bool compares);
/* Read the quarter (TD_QUARTER_SECTORS) at *sector of the disk. False: no more. */
bool td_probe_next(const struct td_probe *p, u64 *sector);
/* @quarter NULL: the disk cannot read the quarter, which is then left out. */
void td_probe_feed(struct td_probe *p, const void *quarter);
/* SAME also when checksums were filled in: then the samples may be encoded as STOPPED. */
enum td_verdict_of_disk td_probe_end(struct td_probe *p);

/* What a start knows of the time since the cache was in use. */
struct td_past {
	enum td_verdict_of_disk verdict;
	bool proven;		/* all traces are as they were, and they are sure */
	bool stopped;		/* in order: the samples say STOPPED */
	bool recognized;	/* each use of the file system changes known places */
	bool dirty;		/* the SSD holds data that the disk lacks */
	bool left;		/* the disk left its mapping and came back */
	bool traceless;		/* a use of exFAT, FAT or NTFS may leave no trace */
};

/* How a cache starts. TARGET.rst has the numbers. */
enum td_start {
	TD_START_WARM = 0,
	TD_START_CHANGED = 1,	/* cold: the disk was changed without the cache */
	TD_START_UNPROVEN = 2,	/* cold: nothing shows that the disk is unchanged */
	TD_START_LEFT = 3,	/* cold */
	TD_START_TRACELESS = 4,	/* cold */
	TD_START_DIVERGED = 5,	/* refused: dirty data is not for this disk */
};

/*
 * Cold: all clean copies are dropped, and what is dirty stays. Only DIVERGED gives up
 * the start because of dirty data.
 */
enum td_start td_start_judge(const struct td_past *past);

/* heat.c; lock held. A quarter was written, or found to be read. */
void td_heat_add(struct td_heat *h, u64 quarter);
/* The life before has left @s: its hot quarters are the first ones of this life. */
void td_heat_resume(struct td_heat *written, struct td_heat *read,
		    const struct td_samples *s);
/* @count sectors from @sector of the disk were written. Lock held. */
void td_heat_wrote(struct td_heat *h, u64 sector, u32 count);
/* These sectors were discarded: reads of them may return anything. Lock held. */
void td_heat_discarded(struct td_heat *h, u64 sector, u32 count);

#endif
