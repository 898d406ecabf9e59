/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The watched places of the disk: what they hold, and what is being written there, is
 * on the SSD before the disk is written. So after a crash the disk shows whether it was
 * used without the cache.
 *
 * A request that writes a watched place goes through these steps, in front of its disk
 * write:
 *	td_start() or td_ssd_done()	SUM: r->summing is the place. The caller makes the
 *			checksums of the sectors that the request writes there, without the
 *			lock: td_sums_begin(), td_sums_add(). Then
 *	td_summed()	as td_start(); the request waits for a note, or SUM again for
 *			the next place.
 *
 * The caller looks at the disk while td_watch_asks(), with no lock held during its reads:
 *	td_look_begin(), read the homes, td_places_find(), td_look_end(); then for each
 *	stride of td_search_begin(): read it, td_search_end(); then for each place of
 *	td_learn_begin(): read it, td_learn_end(), td_learn_next().
 * Before the first request the caller does the same at once.
 *
 * All functions but td_sums_begin(), td_sums_add(): engine lock held.
 */
#ifndef TANDEM_WATCH_H
#define TANDEM_WATCH_H

#include "identity.h"
#include "link.h"
#include "places.h"

struct td_engine;
struct td_req;
struct td_list;
struct td_work;

/* Looking for the head of the log, by the cycles in its strides (look.c). */
struct td_search {
	bool on;		/* no write to the log began meanwhile */
	bool failed;		/* a stride cannot be read; since the last write to the log */
	bool first;		/* the first stride was read */
	bool last;		/* the last one, which has this cycle: */
	u32 cycle;
	u32 low;		/* a step of another cycle than the last one has */
	u32 high;		/* a step of the same cycle */
};

/* A place that is watched. */
struct td_trace {
	struct td_trace_sums sums;
	u64 note;		/* number of the note that has all this */
	u32 flush;		/* low bits: the flush of the disk that makes will durable */
	bool known;		/* else was means nothing */
	bool whole;		/* its writer writes all of it */
	bool settling;		/* will becomes was, and known, with that flush */
	bool learning;		/* being read, and no write began meanwhile */
	bool unreadable;	/* since its last write */
	const struct td_req *writer;
};

struct td_watch {
	u8 *buffer;		/* the caller's memory, of TD_SAMPLES_BYTES */
	/* td_watch_init() sets all from here on */
	struct td_places places;
	u64 last;		/* no quarter behind this one is watched */
	u32 head;		/* of the log: 1 + the step that was written last; 0: unknown */
	struct td_search search;	/* while the head is unknown */
	u64 lost;		/* number of the note that says so */
	u64 next[TD_PACKS];	/* td_places_next() of each checkpoint; 0: unknown */
	u32 old_mark;		/* of the life before, if the disk is the same since: */
	u32 old_head;		/* its places.mark and head */
	bool look;		/* the homes have to be looked at */
	bool looking;		/* they are being read, and no write began meanwhile */
	bool wanted;		/* a note */
	bool on;		/* a note is being written */
	u32 count;
	struct td_trace trace[TD_TRACES_MAX];
	u64 begun;		/* number of the note that was begun last */
	u64 done;		/* of the last that is durable */
	bool sure;		/* the durable one says so */
	struct td_link waiters;	/* td_req.gate */
	struct td_samples note;	/* the one that is being made */
};

/* What a request will write at one place. */
struct td_sums {
	struct td_places places;	/* as td_sums_begin() found them */
	u64 quarter;
	u32 mask;		/* a bit for each sector that is there */
	bool keeps;		/* the file system stays the same */
	bool has_next;		/* the first sector of a checkpoint is there */
	u64 next;		/* td_places_next() of this checkpoint */
	u32 sum[TD_QUARTER_SECTORS];
};

/* Checksum of a sector, of 512 bytes. No lock. */
u32 td_sum_of(const void *sector);
/* The sums of a whole quarter. No lock. */
void td_sums_of(const void *quarter, u32 *sums);

/*
 * May a write of these sectors touch a watched place? Then private memory is worth its
 * copy: without it the place is not known until it was read. A hint, no lock.
 */
bool td_watch_wants_copy(const struct td_engine *e, u64 sector, u32 count);

/* Nothing is known, nothing is watched. One thread. */
void td_watch_init(struct td_watch *w);

/* @quarter is r->summing. No lock; the request waits for the caller. */
void td_sums_begin(const struct td_engine *e, const struct td_req *r,
		   struct td_sums *s);
/* @data: what will be written to sector @sector of the disk, which lies in the place. */
void td_sums_add(struct td_sums *s, u64 sector, const void *data);
/* As td_start(). */
u32 td_summed(struct td_engine *e, struct td_req *r, const struct td_sums *s,
	      struct td_list *woken);

/* Has the caller to look at the disk? A hint, no lock. */
bool td_watch_asks(const struct td_engine *e);
/* True: read the homes. */
bool td_look_begin(struct td_engine *e);
/* What was found there. False: a write came between; look again later. */
bool td_look_end(struct td_engine *e, const struct td_places *p);
/* True: read quarter *quarter of the log. False: the head is known, or not to be found now. */
bool td_search_begin(struct td_engine *e, u64 *quarter);
/* @data NULL: the quarter cannot be read. */
void td_search_end(struct td_engine *e, const u8 *data);
/* True: read quarter *quarter. False: none can be learned now. */
bool td_learn_begin(struct td_engine *e, u64 *quarter);
/* @sums NULL: the quarter cannot be read. */
void td_learn_end(struct td_engine *e, u64 quarter, const u32 *sums);

/* After td_learn_end() with sums, the lock held since: @data is the content of @quarter. */
void td_learn_next(struct td_engine *e, u64 quarter, const u8 *data);

/* May the next note say that it is sure (td_samples.sure)? */
bool td_watch_sure(const struct td_watch *w);

/* Fill in the traces of @s, which will be written as the next note. */
void td_watch_fill(struct td_engine *e, struct td_samples *s);

/*
 * Before td_look_begin(), at a start, or when the disk left a device in use and came back: @s is
 * what the SSD has. @same: the disk is as @s says, and s->sure; else nothing is known of it.
 */
void td_watch_resume(struct td_engine *e, const struct td_samples *s, bool same);

#endif
