/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The engine: events in, actions out.
 *
 * The engine decides which device is read or written, in which order, and when a
 * request is answered. It never allocates, locks, sleeps, reads a clock or touches
 * a device. The caller (linux/ in the kernel, sim/ in user space) provides the
 * memory and one lock, and executes the actions.
 *
 * Life of a read
 *	td_read_look()	no lock. HIT: the slots are pinned; read the SSD, then
 *			td_word_unpin() each slot. PASS: read the disk. BUSY: wait
 *			a moment, look again. MISS: if td_may_join(), ask
 *	td_join_fill()	a request: answer from the memory of that read, or a first
 *			part, and look the rest up again. NULL: get
 *			a request with parts and private memory, then
 *	td_begin()	DISK: read the request's span into private memory, or PASS:
 *			forget the request, read the disk.
 *	td_disk_done()	ANSWER [| SSD]: copy out, answer, write the extents; or
 *			RETRY | END. Without SSD and END: woken with SSD later.
 *	td_ssd_done()	END.
 * If there is no memory: td_pass(), and read the disk.
 *
 * Life of a write, a discard or a zero-out
 *	td_write_streams()	no lock, a hint. If true, the write has no copy.
 *	td_write_wants_copy()	else; no lock, a hint. If true, try to get private
 *			memory and copy the user's data into it.
 *	td_write_may_lend()	else; no lock, a hint. If true, the write may be lent,
 *			without a copy.
 *	td_begin()	0: the request waits; a later call puts it in @woken.
 *			DISK [| SSD]: write the disk (from private memory if
 *			there, else from the user's); write the extents on the SSD.
 *			SSD alone: write-back, with FUA if td_stores_durably().
 *			PASS: forget it, write the disk.
 *			ANSWER | END: with td_failed(). SUM: the disk write touches
 *			a watched place; see watch.h. COPY, of a lent write: it has
 *			ended, unanswered; begin again, with a copy. MERGE: read parts
 *			of the disk into the private memory, then
 *	td_rest_read()	as td_start(); see edge.h.
 *	td_disk_done()	ANSWER, when nothing is left also END. A discard of dirty
 *			data: 0, and woken with ANSWER | END later.
 *	td_ssd_done()	0 or END; in write-back ANSWER | END, or 0 and woken with
 *			that later (FUA), or START or DISK (the SSD failed).
 *	td_drained()	Possibly SSD, for the slot's owner; or the owner is woken (a
 *			lent write always).
 * A write of quarters that are already dirty may need less: write.h.
 *
 * Life of a flush (no sector, no memory): td_begin(): 0, or ANSWER | END.
 *
 * Life of a cleaning request (the caller's own, with private memory for
 * max_parts frames that are contiguous on the disk)
 *	td_clean_seek()	which sector to begin at.
 *	td_begin()	FETCH: read the extents from the SSD into private memory;
 *			PASS: nothing to do there; 0: td_drained() says FETCH.
 *	td_ssd_done()	DISK: write the span to the disk; or END.
 *	td_disk_done()	0, and END later; or END.
 *
 * A woken request has its actions in td_woken(): START means: call td_start()
 * and carry out what it returns; other bits are actions.
 *
 * Every action is carried out after the lock has been dropped, those of the same
 * return value in any order. After each call with the lock held: if td_work_due(),
 * take the ledger's own I/O (ledger.h).
 *
 * One lock, the caller's, guards all but the words, which readers pin without
 * it. In the kernel it is a spinlock taken with interrupts off.
 */
#ifndef TANDEM_ENGINE_H
#define TANDEM_ENGINE_H

#include "counters.h"
#include "identity.h"
#include "ledger.h"
#include "layout.h"
#include "link.h"
#include "request.h"
#include "watch.h"
#include "word.h"

enum td_mode { TD_WRITETHROUGH, TD_WRITEAROUND, TD_WRITEBACK };
/*
 * BYPASS: the SSD failed, and the disk has all acknowledged data.
 * STRANDED: the SSD failed, and the disk lacks some acknowledged data.
 */
enum td_state { TD_ACTIVE, TD_BYPASS, TD_STRANDED };

/* Contiguous on the SSD and on the disk. Sectors. */
struct td_extent {
	u64 ssd_sector;
	u64 sector;
	u32 count;
};

enum td_verdict { TD_HIT, TD_MISS, TD_PASS, TD_BUSY };

struct td_look {
	u32 count;		/* sectors of the request that this answers */
	u32 slot;		/* HIT: first slot pinned */
	u32 slots;		/* HIT: how many, consecutive */
	u64 ssd_sector;		/* HIT */
	u64 dirty;		/* HIT: not 0 if some of it was dirty when pinned */
};

#define TD_GHOSTS	16

/* What the policy knows of a set of ways (policy.c); 30 bytes. */
struct td_set {
	u8 ghosts[TD_GHOSTS];	/* fingerprints of frames given up: their low bits */
	u8 ghosts_high[TD_GHOSTS / 2];	/* 4 bits more of each; all bits 0: no ghost */
	u16 ghosts_regular;	/* bit i: ghost i was a regular */
	u8 ghost;		/* the oldest of them */
	u8 trials;		/* next way to look at for a frame on trial */
	u8 regulars;		/* next way to look at for a regular */
	u8 newest;		/* 1 + the way that was given up last; 0: none */
};

struct td_bucket {
	struct td_link reqs;	/* in order of arrival */
};

#define TD_STREAMS	16
#define TD_SUSPECTS	8

/* Where sequential streams of requests of one kind would go on (stream.c). */
struct td_streams {
	struct env_atomic64 entries[TD_STREAMS];
	u64 flushes;		/* that made their lengths count less; lock */
	u32 latest;		/* the entry that a request went on with last; a hint */
};

/* Space of the SSD that is to be trimmed (trim.c). */
struct td_trim {
	u64 *freed;		/* the caller's: a bit a lane, for which nothing is known of
				 * the SSD, or a slot has become free since it was trimmed
				 */
	u32 nr_freed;		/* bits set */
	u32 next;		/* lane where looking goes on */
	u32 looks;		/* lanes that may be looked at still; 0: no trim is put together */
	u32 most;		/* slots of that trim */
	u32 first;		/* the range that is trimmed, or will be */
	u32 slots;		/* in it */
};

/* With more slots retired in one life of the index the SSD failed, if nothing is dirty. */
#define TD_RETIRED_LIFE	16u

struct td_engine {
	/* Each hit reads these, hardly anything writes them. */
	struct td_layout layout;
	struct td_word *words;		/* layout.slots of them, zeroed */
	struct td_set *sets;		/* one for each set of ways, zeroed */
	struct td_bucket *buckets;	/* nr_buckets of them */
	u32 nr_buckets;			/* a power of two */
	env_counters counters;
	struct env_atomic64 mode;	/* enum td_mode */
	struct env_atomic64 promotes;	/* 0: no frame gets a slot */
	struct env_atomic64 state;	/* enum td_state */
	/* These, which hardly change, keep them apart from what misses write. */
	struct td_retired retired;
	u32 retired_life;		/* since the index was loaded */
	u32 suspect_next;		/* of suspects: the one replaced next */
	struct env_atomic64 suspected;	/* not 0: some suspects are set */
	struct env_atomic64 suspects[TD_SUSPECTS];	/* retire.c */
	struct env_atomic64 due;	/* not 0: the ledger may have work */
	struct env_atomic64 disk_reads;	/* reads that the disk may answer (Q5) */
	struct td_streams reads;	/* that miss */
	struct td_streams writes;
	u32 stream_written;		/* frames in a row that make a stream of writes */
	struct td_ledger ledger;
	struct td_watch watch;
	struct td_heat heat;		/* of the disk, by writes that succeeded */
	struct td_heat read_heat;	/* by what td_heat_look() finds */
	u32 heat_slot;			/* where td_heat_look() goes on */
	s32 trial_level;		/* how many trials a set wants (policy.c); lock */
	struct td_link urgent;		/* writes that wait for a cleaning: td_req.gate */
	u64 urgent_round;		/* number of the look at them, from 1 on */
	u64 clean_frame;		/* where cleaning goes on, in disk order */
	u64 clean_left;			/* frames left of a round begun, or 0 */
	bool clean_unrecorded;		/* the round met unrecorded dirty quarters */
	/* Of the last discard (discard.c). */
	u64 trim_sector, trim_end;
	u64 trim_ahead;			/* marks are set up to here */
	u32 trims;			/* discards before it in its row */
	struct td_trim trim;
};

/* Two lines, which some processors fetch together: a write would take both from all hits. */
_Static_assert(offsetof(struct td_engine, due) - offsetof(struct td_engine, retired) >= 128,
	       "hits and misses share a line of the processor's cache");
_Static_assert(sizeof(void *) < 8 ||
	       offsetof(struct td_ledger, nr_pending) -
	       offsetof(struct td_ledger, ssd_unflushed) >= 64 + sizeof(bool),
	       "hits of writes and the ledger share a line of the processor's cache");

/* How many buckets suit @l: a power of two, at most 1024. */
u32 td_engine_buckets(const struct td_layout *l);

/*
 * Before first use, one thread. The memory (td_engine_sizes(), zeroed) and
 * counters were set by the caller. An empty cache, as just formatted; then
 * load.h for one that was in use.
 */
void td_engine_init(struct td_engine *e, const struct td_super *sb,
		    const struct td_layout *l, enum td_mode mode);

/*
 * @e was copied from another address, with no request in flight: set right its rings,
 * which point into the structure. One thread; the old copy must not be used any more.
 */
void td_engine_moved(struct td_engine *e);

/* The bucket of the runs of @sector. Any context. */
static inline u32 td_bucket_of(const struct td_engine *e, u64 sector)
{
	return td_group_of(&e->layout, sector) & (e->nr_buckets - 1);
}

static inline bool td_active(const struct td_engine *e)
{
	return env_load(&e->state) == TD_ACTIVE;
}

/*
 * May a frame that has no slot get one? If not, hits are served and frames that have
 * a slot are kept up to date. Any context.
 */
static inline bool td_promotes(const struct td_engine *e)
{
	return env_load(&e->promotes);
}

/*
 * Where should this read go? It lies in one run and count > 0. Answers for
 * look->count sectors from the start; the caller cuts the request there.
 * Counts HIT and PASS. After PASS or MISS the caller calls td_disk_read_ends() when it
 * answers the read. No lock, any context; called by map.
 */
enum td_verdict td_read_look(struct td_engine *e, u64 sector, u32 count,
			     struct td_look *look);

/* See td_read_look(), td_hit_failed(). No lock, any context. */
static inline void td_disk_read_ends(struct td_engine *e)
{
	env_sub_return(&e->disk_reads, 1);
}

/*
 * May a fill in flight bring what the read of @sector, which misses, asks for? A hint. No
 * lock, any context.
 */
bool td_may_join(const struct td_engine *e, u64 sector);

/*
 * The read of *@count sectors misses. The request of a fill in flight whose private memory
 * has, or will have, the first sectors of the read, or all; *@count: how many. Or NULL.
 * If the disk has answered the fill
 * (td_disk_answered()), answer the read now, from that memory, which the caller has to keep.
 * Else keep the read, under this same hold of the lock, until td_disk_done() of the fill
 * says ANSWER: answer from the memory; or RETRY: read the disk. Count the read by
 * td_pass(), as missed; or ask td_begin() instead, for all of the read. The sectors behind
 * *@count are a read of their own. Lock held, any context.
 */
struct td_req *td_join_fill(struct td_engine *e, u64 sector, u32 *count);

/* Has the disk answered the fill @r? Lock held. */
static inline bool td_disk_answered(const struct td_req *r)
{
	return !(r->pending & TD_DO_DISK);
}

/*
 * Does this write go on a long stream, and should it go to the disk alone? Then it needs
 * no copy, and r->stream is to be set. A write for whose durability somebody waits (FUA),
 * and metadata of a file system, are not to be asked about. No lock, any context.
 */
bool td_write_streams(struct td_engine *e, u64 sector, u32 count);

/* Should this write be copied, since the SSD may store it? No lock, any context. */
bool td_write_wants_copy(struct td_engine *e, u64 sector, u32 count);

/*
 * May this write be lent? Then it needs no copy: it goes to the SSD alone, or
 * td_begin() or td_start() say COPY. No lock, any context.
 */
bool td_write_may_lend(const struct td_engine *e, u64 sector, u32 count);

/*
 * Private memory for a request: from a quarter's boundary on. A read's is the
 * whole frames that the user's range touches, as far as they are cached; a
 * write's is the user's range, with its first and last quarter whole.
 */
struct td_span {
	u64 sector;		/* of the first byte of memory */
	u32 quarters;
	u32 frames;		/* parts needed */
};

/* No lock, any context. */
struct td_span td_span_of(const struct td_engine *e, enum td_kind kind,
			  u64 sector, u32 count);

/* Count a missed read or a write of @count sectors under @why. No lock, any context. */
void td_pass(struct td_engine *e, enum td_kind kind, u32 count,
	     enum td_counter why);

/*
 * Lock held, any context; each returns actions for @r, and appends to @woken
 * the requests that may go on.
 */
u32 td_begin(struct td_engine *e, struct td_req *r, struct td_list *woken);
u32 td_start(struct td_engine *e, struct td_req *r, struct td_list *woken);
u32 td_disk_done(struct td_engine *e, struct td_req *r, bool ok,
		 struct td_list *woken);
u32 td_ssd_done(struct td_engine *e, struct td_req *r, bool ok,
		struct td_list *woken);

/*
 * td_word_unpin() said true for @slot, which is in @bucket. Lock held. If it
 * returns TD_DO_SSD or TD_DO_FETCH then *owner is the request to carry it out
 * for. A call that comes late, when the slot has another owner, is harmless.
 */
u32 td_drained(struct td_engine *e, u32 bucket, u32 slot,
	       struct td_req **owner, struct td_list *woken);

/*
 * Next extent of @r to write to the SSD, or to fetch, in order of the disk.
 * *cursor starts at 0. False: no more. No lock; from the action until
 * td_ssd_done().
 */
bool td_next_extent(const struct td_engine *e, const struct td_req *r,
		    u32 *cursor, struct td_extent *extent);

/* Where the lent write @r goes: a frame's quarters lie side by side. No lock; as above. */
static inline u64 td_lent_sector(const struct td_engine *e, const struct td_req *r)
{
	return td_slot_sector(&e->layout, r->parts->slot) + r->parts->from;
}

/* Is there an extent of @r behind the last one that td_next_extent() gave? No lock. */
static inline bool td_has_extent(const struct td_req *r, u32 cursor)
{
	/* It stops in front of the next extent, or behind the last quarter. */
	return cursor < r->nr_parts * 4u;
}

enum td_seek { TD_SEEK_NOWHERE, TD_SEEK_FOUND, TD_SEEK_FURTHER };

/*
 * Where should cleaning go on? Urgent places first, then, with @all, the next
 * dirty run in disk order: at most @looks at a frame or at the count of what has
 * none dirty (or at all frames of one urgent write), FURTHER if that was not
 * enough. The caller may then drop the lock before it asks again, with @goes_on: urgent
 * places that were looked at are not looked at again. (Without @goes_on all are looked at
 * again, for meanwhile their quarters may have been recorded or let go.) NOWHERE:
 * all places were looked at. FOUND: call td_begin() with a request of kind CLEAN,
 * *sector and *count (0: to the end of the run); td_begin() sets the request's
 * sector and count to the piece that it cleans. Lock held.
 */
enum td_seek td_clean_seek(struct td_engine *e, bool all, bool goes_on, u32 looks,
			   u64 *sector, u32 *count);

/* Cleaning goes on at @sector, with a new round. Lock held. */
void td_clean_skip_to(struct td_engine *e, u64 sector);

/*
 * The SSD failed: the state is BYPASS from now on (with dirty data: STRANDED), until
 * the index is loaded again. True for the first call. Appends to @woken; td_work_next()
 * lets the requests go that wait for the SSD. Lock held, any context.
 */
bool td_fail(struct td_engine *e, struct td_list *woken);

/*
 * The SSD failed to read a hit; its slots are still pinned, @dirty is td_look.dirty.
 * If the hit was of one slot with nothing dirty, the slot's copy is forgotten and the
 * slot is retired: e->retired changes, which the caller writes to the superblocks.
 * After more than TD_RETIRED_LIFE such slots, with nothing dirty, the SSD fails as by
 * td_fail(). True: read the disk instead; call td_disk_read_ends() when the read is
 * answered. False: the only copy cannot be read, EIO.
 * Appends to @woken. Lock held, any context.
 */
bool td_hit_failed(struct td_engine *e, u64 sector, u32 count, u32 slot,
		   u64 dirty, struct td_list *woken);

/*
 * The SSD did not take the memory of a hit, which says nothing of its data. Returns as
 * td_hit_failed() does. Lock held, any context.
 */
bool td_hit_refused(struct td_engine *e, u64 sector, u32 count, u32 slot, u64 dirty);

/*
 * Forget all clean copies in group @group, and cancel the fills and writes that store
 * there. Reads in flight still end well. Lock held, any context.
 */
void td_forget_group(struct td_engine *e, u32 group);

/*
 * All groups are about to be forgotten, by one caller at a time; all are. @used: slots
 * with a valid quarter (TD_C_USED). The lock may be dropped between the calls. If that is
 * cheaper, one checkpoint records it (checkpoint.c, P4), for which only a flush that is
 * "whole" waits. Lock held, any context.
 */
void td_sweep_at_once_begin(struct td_engine *e, u64 used);
void td_sweep_at_once_end(struct td_engine *e);

#endif
