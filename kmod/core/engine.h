/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The engine: events in, actions out.
 *
 * It decides what is read from where, what is written where, in which order,
 * and when a request is answered. It never allocates, locks, sleeps, reads a
 * clock or touches a device. The caller (linux/ in the kernel, sim/ in user
 * space) brings memory, one lock for each bucket, and executes the actions.
 *
 * Life of a read
 *	td_read_look()	no lock. HIT: pinned; read the SSD, then
 *			td_word_unpin() each slot. PASS: read the disk. MISS:
 *			get a request with parts and private memory, then
 *	td_begin()	bucket lock. DISK: read the request's span into private
 *			memory, or PASS: forget the request, read the disk.
 *	td_disk_done()	bucket lock. ANSWER | SSD: copy out, answer, write the
 *			extents; or RETRY | END.
 *	td_ssd_done()	bucket lock. END.
 * If there is no memory: td_pass().
 *
 * Life of a write (write-through and write-around)
 *	td_write_wants_copy()	no lock, a hint. If true, try to get private
 *			memory and copy the user's data into it.
 *	td_begin()	bucket lock. 0: it waits for an overlapping one, and
 *			comes back by some later call's list. DISK [| SSD]:
 *			write the disk (from private memory if there, else from
 *			the user's); write the extents on the SSD.
 *	td_disk_done()	bucket lock. ANSWER, when nothing is left also END.
 *	td_ssd_done()	bucket lock. 0 or END.
 *	td_drained()	bucket lock. Possibly SSD, for the owner of the slot.
 * Without private memory, and for discards: DISK, then ANSWER | END.
 *
 * Every action is carried out after the bucket lock has been dropped, SSD
 * after the disk's action of the same return value has been *submitted*.
 * Flushes need no call in these modes: the disk alone holds the truth.
 *
 * Locks: one for each bucket, e->nr_buckets of them; requests never need two.
 * td_bucket_of() tells which. In the kernel it is a spinlock taken with
 * interrupts off, since completions take it.
 */
#ifndef TANDEM_ENGINE_H
#define TANDEM_ENGINE_H

#include "counters.h"
#include "layout.h"
#include "link.h"
#include "word.h"

enum td_mode { TD_WRITETHROUGH, TD_WRITEAROUND };
enum td_state { TD_ACTIVE, TD_BYPASS };
enum td_kind { TD_READ, TD_WRITE, TD_DISCARD /* and zero-outs */ };

/* Actions: bits of what td_begin() and the *_done() functions return. */
#define TD_DO_DISK	0x01u	/* disk I/O of the span; tell td_disk_done() */
#define TD_DO_SSD	0x02u	/* write all extents; tell td_ssd_done() once */
#define TD_DO_ANSWER	0x04u	/* answer the user, with the error if any */
#define TD_DO_RETRY	0x08u	/* read the user's own range from the disk */
#define TD_DO_END	0x10u	/* core has forgotten the request: free it */
#define TD_DO_PASS	0x20u	/* was not taken in: to the disk as it is */

/*
 * One frame of a request that has a slot. Immutable from the request's first
 * action on, but for @held and @cancelled (bucket lock).
 */
struct td_part {
	u32 slot;
	u8 frame;	/* offset from the request's first frame */
	u8 mask;	/* quarters written and published */
	u8 from, to;	/* sectors of the frame written, within mask */
	bool held;	/* the slot's pins must drain before it is written */
	bool cancelled;
};

/*
 * A request in flight. The caller's memory, from td_begin() until END (or
 * PASS); fields are core's but for what td_req_init() sets. @next links it in
 * a td_list and is the caller's after it took the request from there.
 */
struct td_req {
	struct td_link link;
	struct td_req *next;
	u64 sector;		/* the user's range */
	u64 span_sector;	/* what is read from or written to the disk */
	u32 count;
	u32 span_count;
	struct td_part *parts;	/* room for max_parts, or NULL: no copy */
	u8 max_parts;
	u8 nr_parts;
	u8 holds;		/* parts that are held */
	u8 kind;
	u8 phase;
	u8 pending;
	u8 woken;		/* actions that it was woken with */
	bool no_memory;		/* caller: a copy was wanted but there is none */
	bool failed;		/* the disk's answer */
	bool ssd_failed;
};

/* Requests that an event set going: each has the actions DISK [| SSD]. */
struct td_list {
	struct td_req *head;
	struct td_req **tail;
};

/* Contiguous on the SSD and on the disk. Sectors. */
struct td_extent {
	u64 ssd_sector;
	u64 sector;
	u32 count;
};

enum td_verdict { TD_HIT, TD_MISS, TD_PASS };

struct td_look {
	u32 count;		/* sectors of the request that this answers */
	u32 slot;		/* HIT: first slot pinned */
	u32 slots;		/* HIT: how many, consecutive */
	u64 ssd_sector;		/* HIT */
};

#define TD_GHOSTS	14

/* What the policy knows of a set of ways (policy.c); 32 bytes. */
struct td_set {
	u16 ghosts[TD_GHOSTS];	/* fingerprints of frames that went; 0: none */
	u8 ghost;		/* the oldest of them */
	u8 trials;		/* ways to look at next */
	u8 regulars;
};

struct td_bucket {
	struct td_link reqs;	/* in order of arrival */
	u32 clock;		/* evictions, for ageing */
};

#define TD_STREAMS	16

struct td_engine {
	struct td_layout layout;
	struct td_word *words;		/* layout.slots of them, zeroed */
	struct td_set *sets;		/* one for each set of ways, zeroed */
	struct td_bucket *buckets;	/* nr_buckets of them */
	u32 nr_buckets;			/* a power of two */
	env_counters counters;
	struct env_atomic64 mode;	/* enum td_mode */
	struct env_atomic64 state;	/* enum td_state */
	struct env_atomic64 streams[TD_STREAMS];
};

/* How many buckets (and locks) suit @l: a power of two, at most 1024. */
u32 td_engine_buckets(const struct td_layout *l);

/*
 * Before first use, one thread. @e->words, buckets, nr_buckets and counters
 * are set by the caller.
 */
void td_engine_init(struct td_engine *e, const struct td_layout *l,
		    enum td_mode mode);

/* The bucket whose lock guards the runs of @sector. Any context. */
static inline u32 td_bucket_of(const struct td_engine *e, u64 sector)
{
	return td_group_of(&e->layout, sector) & (e->nr_buckets - 1);
}

static inline bool td_active(const struct td_engine *e)
{
	return env_load(&e->state) == TD_ACTIVE;
}

/*
 * Where should this read go? It lies in one run and count > 0. Answers for
 * look->count sectors from the start; the caller cuts the request there.
 * Counts HIT and PASS. No lock, any context; called by map.
 */
enum td_verdict td_read_look(struct td_engine *e, u64 sector, u32 count,
			     struct td_look *look);

/* Is it worth copying this write? No lock, any context. */
bool td_write_wants_copy(struct td_engine *e, u64 sector, u32 count);

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

/*
 * Set up @r in memory that need not be zeroed. @parts NULL: no private
 * memory; a TD_READ always has parts.
 */
void td_req_init(struct td_req *r, enum td_kind kind, u64 sector, u32 count,
		 struct td_part *parts, u32 max_parts);

/* Count a read that MISS'd or a write as gone past the cache under @why. */
void td_pass(struct td_engine *e, enum td_kind kind, u32 count,
	     enum td_counter why);

void td_list_init(struct td_list *list);
/* NULL when empty. The list is the calling thread's own; no lock. */
struct td_req *td_list_pop(struct td_list *list);

/*
 * Bucket lock held, any context; each returns actions for @r, and appends to
 * @woken the requests that may start now.
 */
u32 td_begin(struct td_engine *e, struct td_req *r);
u32 td_disk_done(struct td_engine *e, struct td_req *r, bool ok,
		 struct td_list *woken);
u32 td_ssd_done(struct td_engine *e, struct td_req *r, bool ok,
		struct td_list *woken);

/* Actions of a request taken from a td_list. No lock. */
u32 td_woken(const struct td_req *r);

/*
 * td_word_unpin() said true for @slot. Bucket lock held (of the group that
 * the slot is in: any sector that was read from it tells). If it returns
 * TD_DO_SSD then *owner is the request to carry it out for. A call that comes
 * late, when the slot has another owner, is harmless.
 */
u32 td_drained(struct td_engine *e, u32 bucket, u32 slot,
	       struct td_req **owner);

/*
 * Next extent of @r to write to the SSD, in order of the disk. *cursor starts
 * at 0. False: no more. No lock; from the SSD action until td_ssd_done().
 */
bool td_next_extent(const struct td_engine *e, const struct td_req *r,
		    u32 *cursor, struct td_extent *extent);

/*
 * The SSD failed: bypass from now on, for good. True for the first caller,
 * who raises the event. No lock, any context.
 */
bool td_fail(struct td_engine *e);

/* A hit that failed was read from the disk instead. No lock, any context. */
void td_hit_failed(struct td_engine *e, u32 count);

/*
 * Forget all copies in group @group, and what is being stored there. Lock of
 * bucket group & (nr_buckets - 1) held. Reads in flight still end well.
 */
void td_forget_group(struct td_engine *e, u32 group);

#endif
