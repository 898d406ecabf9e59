/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ledger knows which changes are durable, which must become durable before
 * others, and which requests wait for that. It owns the journal, the checkpoint, the
 * intent marks and the flushes.
 *
 * A sweep records every change of the index up to its start, in one or more groups
 * of the journal. Before each group the SSD is flushed if data was written there since its
 * last flush, so the data that the group describes is durable before the group.
 *
 * All functions: engine lock held, unless they say otherwise.
 */
#ifndef TANDEM_LEDGER_H
#define TANDEM_LEDGER_H

#include "format.h"
#include "link.h"

struct td_engine;
struct td_req;
struct td_list;

enum td_mark_state {
	TD_MARK_CLEAR,
	TD_MARK_SETTING,	/* in the write of its block that is under way, or the next one */
	TD_MARK_SET,		/* durable */
	TD_MARK_CLEARING,	/* being written without it */
};

/* One region of the disk. */
struct td_mark {
	u32 dirty;	/* quarters that are newer than the disk */
	u32 places;	/* a bit for each place that has dirty quarters, or had */
	u32 sweep;	/* low bits: the sweep that records its last change */
	u32 flush;	/* low bits: the disk flush that covers its last write */
	u32 inflight;	/* requests that may write to it */
	u32 slots;	/* LIVE or BUSY slots of its frames */
	u8 state;	/* enum td_mark_state */
	u8 tick;	/* low bits: of the clock when its last write ended */
};

enum td_work_kind {
	TD_WORK_GROUP,		/* SSD write, FUA, PREFLUSH if @flush */
	TD_WORK_FLUSH_SSD,	/* SSD flush: a sweep that has nothing to record */
	TD_WORK_FLUSH_DISK,	/* disk flush */
	TD_WORK_MARKS,		/* SSD write, FUA */
	TD_WORK_PAGES,		/* SSD write */
	TD_WORK_HEAD,		/* SSD write, PREFLUSH and FUA: a checkpoint takes effect */
	TD_WORK_NOTE,		/* SSD write, FUA: a note of watched places (watch.h) */
	TD_WORK_TRIM,		/* SSD discard, of @sectors without @buffer; it may fail */
	TD_WORK_STEP,		/* no I/O: call td_work_next() again, unlock in between */
	TD_WORK_KINDS
};

/*
 * The ledger's own I/O. @buffer is one of the engine's; it is the caller's from
 * td_work_next() until td_work_done(). td_work_fill() prints it.
 */
struct td_work {
	u8 kind;
	bool flush;	/* of a group: something was written since the SSD was flushed */
	u64 sector;	/* on the SSD */
	u32 sectors;	/* 0 for flushes */
	void *buffer;
	u64 number;	/* of the group or checkpoint; 0: td_work_fill() has nothing to do */
};

/*
 * About so many slots are looked at before the lock is released: the caller may hold it
 * with interrupts off, and each slot may cost a miss of the processor's cache.
 */
#define TD_STEP_SLOTS	ENV_STEP_SLOTS
/* And so many marks side by side; one alone counts as eight. */
#define TD_STEP_MARKS	ENV_STEP_MARKS

#define TD_GROUP_BYTES	(TD_GROUP_BLOCKS_MAX * TD_BLOCK_BYTES)
#define TD_PAGES_BATCH	8u
#define TD_PAGES_BYTES	(TD_PAGES_BATCH * TD_BLOCK_BYTES)

/* A place is a MiB of the disk; of large disks, a part of 32 of a region. */
#define TD_PLACE_SHIFT_MIN	11
#define TD_PLACES_SHIFT		5

#define TD_PAGE_DIFFERS	3u

/*
 * A page of the index. @same has a bit for each area of the checkpoint: the area's page,
 * which checkpoint @number wrote (low bits), names what the journal behind it need not.
 * An area with a bit in @few differs in no other slots than @differs, places in the page,
 * @nr_differs of them (P7).
 */
struct td_page {
	u32 number[2];
	u16 differs[TD_PAGE_DIFFERS];
	u8 same : 2;
	u8 few : 2;
	u8 nr_differs : 4;
};

#define TD_SUM_SHIFT	9
#define TD_DIRTY_SUMS	(TD_MARKS_MAX >> TD_SUM_SHIFT)

struct td_ledger {
	struct td_super super;		/* areas and uuid */
	/* Each hit of a write reads these: no other field near them changes often. */
	u64 dirty_limit;		/* quarters; no new dirty data beyond; 0: none */
	bool ssd_unflushed;		/* data written since the last sweep began (L9) */
	/* memory: the caller's, set before td_engine_init() */
	u64 *pending;			/* a bit a slot: to be recorded */
	u64 *pending_words;		/* a bit a u64 of pending */
	u64 *pending_tops;		/* a bit a u64 of pending_words */
	struct td_page *pages;
	struct td_mark *marks;
	u8 *marks_image;		/* bits of all marks that are not CLEAR */
	u8 *group_buffer;		/* TD_GROUP_BYTES */
	u8 *marks_buffer;		/* TD_BLOCK_BYTES */
	u8 *pages_buffer;		/* TD_PAGES_BYTES */

	/* td_ledger_init() sets all from here on */
	u32 nr_marks;
	u32 mark_shift;
	u32 nr_pending;			/* slots */
	u64 dirty;			/* quarters */
	u64 fresh;			/* of them: td_req.fresh of all requests */
	u32 dirty_sums[TD_DIRTY_SUMS];	/* of 1 << TD_SUM_SHIFT regions each */
	u32 place_shift;		/* log2 of sectors in a place */
	u32 places;			/* bits set in all marks' places */
	u32 places_limit;		/* with so many, no other place gets dirty */
	u64 places_cleaned;		/* sum since the engine was made */

	/* journal */
	u32 ring_blocks;
	u32 head;			/* block where the next group begins */
	u32 used;			/* blocks from the tail to the head */
	u64 group;			/* number of the next group */
	bool scrub;			/* a torn group may lie where the next group goes */
	bool scrub_on;			/* that place is being wiped */

	/* sweeps: begun and done counts; they never overlap */
	u64 sweep_begun;
	u64 sweep_done;
	u32 sweep_cursor;		/* index in pending[] where the sweep goes on */
	u32 group_entries;		/* of the group being written */
	u64 group_durable;		/* groups below it are durable */
	u32 group_applied;		/* of them: memory shows that they are durable */
	u8 group_phase;			/* ledger_int.h */
	bool sweep_wanted;
	bool sweep_on;			/* begun and not done */
	bool changed;			/* something is pending */
	bool group_flush;		/* and before, since the SSD was flushed (L9) */
	struct td_link sweep_waiters;	/* td_req.gate: for the sweep under way, */
	struct td_link next_sweep_waiters;	/* for the next one */
	struct td_link to_record;	/* cleanings and discards, for a next group */
	struct td_link recording;	/* the requests in the group under way */

	/* flushes of the disk */
	u64 flush_begun;
	u64 flush_done;			/* number of the last that succeeded */
	bool flush_wanted;
	bool flush_on;
	bool disk_unflushed;		/* written since, not counting cleanings */
	u32 cleanings;			/* begun, and not written yet */
	u32 cleanings_written;		/* the next flush is for so many */
	u32 cleanings_flush;		/* low bits: the last flush that was for some */
	struct td_link flush_waiters;	/* td_req.flush_gate: for the flush under way, */
	struct td_link next_flush_waiters;	/* for the next one */

	/* marks */
	u32 marks_set;			/* regions in SETTING or SET */
	u32 lone;			/* waits of lone writes since a flush or a tick (M5) */
	u32 ahead;			/* marks set ahead (M4): from this region on, */
	u32 ahead_end;			/* up to this one; 0: none is to be set */
	u8 ahead_tick;			/* their td_mark.tick */
	bool ahead_on;			/* the write of their block is under way */
	bool marks_beyond;		/* load found marks beyond the disk's regions */
	u32 marks_block;		/* being written, or filled (M6) */
	u32 inflight;			/* sum of marks[].inflight */
	u32 clear_at;			/* where clearing goes on; nr_marks: nowhere */
	u32 clear_block;		/* whose cleared marks are to be written, */
	bool clear_unwritten;		/* if any are */
	u8 tick;
	bool clear_aged;		/* clear only old marks */
	bool marks_on;			/* a block is being written */
	u64 marks_words[TD_MARKS_MAX / 64 / 64];	/* a bit a 64 bits of the image */
	struct td_link mark_waiters[TD_MARK_BLOCKS_MAX];	/* td_req.gate, by block */
	struct td_link mark_writing;	/* td_req.gate: whose marks are SETTING (M6) */
	struct td_link clear_waiters;	/* td_req.gate: flushes */

	/* checkpoint */
	u64 checkpoint;			/* number of the last that took effect */
	u64 checkpoint_group;		/* of the one being written */
	u64 checkpoint_until;		/* groups below it are durable when the head is written */
	u32 checkpoint_block;
	u32 checkpoint_used;		/* ring blocks used when it began */
	u32 page;			/* next to be looked at */
	u32 batch;			/* being written: the first of them, */
	u32 page_batch;			/* and how many */
	u32 records_left;		/* slots that groups may record in place of pages (P7) */
	u64 records_sweep;		/* sweep that records the last of them; 0: not wanted yet */
	bool records;			/* some pages were left out for that */
	u8 checkpoint_phase;		/* checkpoint.c */
	bool checkpoint_on;		/* its work is under way */
	bool checkpoint_wanted;
	/* Number of the checkpoint that records what was forgotten at once (P4), or SOON;
	 * 0: none is to
	 */
	u64 sweeping;
#define TD_SWEEPING_SOON	((u64)-1)	/* it must not begin yet */
	struct td_link whole_waiters;	/* td_req.gate: flushes */
};

/* Memory that a cache needs, in elements and bytes. No lock. */
struct td_sizes {
	u64 words;		/* struct td_word */
	u64 sets;		/* struct td_set */
	u64 pending;		/* u64 */
	u64 pending_words;	/* u64 */
	u64 pending_tops;	/* u64 */
	u64 pages;		/* struct td_page */
	u64 marks;		/* struct td_mark */
	u64 marks_image;	/* bytes */
	u64 buckets;		/* struct td_bucket */
	u64 freed;		/* u64 */
};

struct td_sizes td_engine_sizes(const struct td_super *sb,
				const struct td_layout *l);

/*
 * Fill in *w with the ledger's next I/O, or TD_WORK_STEP; false: none. Call until false
 * after every event when td_work_due() says so. Several works may be under way, one of
 * each kind. td_work_done() tells the result of a work; true: call it again with the
 * same arguments, and release the lock in between. Both append to @woken the requests
 * that may go on.
 */
bool td_work_next(struct td_engine *e, struct td_work *w, struct td_list *woken);
bool td_work_done(struct td_engine *e, const struct td_work *w, bool ok,
		  struct td_list *woken);
/* Prints what @w is to write, between the two. No lock, any context. */
void td_work_fill(struct td_engine *e, const struct td_work *w);
/* May td_work_next() have work? A hint, no lock. */
bool td_work_due(const struct td_engine *e);

/*
 * A trim of at most @lanes MiB, or runs of a small cache, may begin if space is free. The
 * caller measures what trims cost, and says so rarely that they hold up no request.
 */
void td_trim_allow(struct td_engine *e, u32 lanes);
/* With no trim under way: none begins before the next td_trim_allow(). */
void td_trim_stop(struct td_engine *e);
/* Would td_trim_allow() have an effect? Without the lock a hint. */
bool td_trim_wants(const struct td_engine *e);

/*
 * Once a second: wants a sweep if anything is pending, and clears marks of regions
 * without recent writes.
 */
void td_tick(struct td_engine *e);

/* @slot's word was changed: it has to be recorded. */
static inline void td_ledger_pend(struct td_ledger *l, u32 slot)
{
	u64 *word = &l->pending[slot / 64];
	u64 bit = 1ull << slot % 64;

	if (*word & bit)
		return;
	*word |= bit;
	l->pending_words[slot / 4096] |= 1ull << slot / 64 % 64;
	l->pending_tops[slot / 262144] |= 1ull << slot / 4096 % 64;
	l->nr_pending++;
	l->changed = true;
}

/* A record of @slot is durable that no page has. */
static inline void td_ledger_page_differs(struct td_ledger *l, u32 slot)
{
	struct td_page *p = &l->pages[slot / TD_PAGE_SLOTS];
	u16 place = (u16)(slot % TD_PAGE_SLOTS);

	p->same = 0;
	for (u32 i = 0; i < p->nr_differs; i++)
		if (p->differs[i] == place)
			return;
	if (p->nr_differs < TD_PAGE_DIFFERS) {
		p->differs[p->nr_differs++] = place;
		return;
	}
	p->few = 0;
	p->nr_differs = 0;
}

/* Is @slot noted as pending? Without the lock a hint. */
static inline bool td_ledger_is_pending(const struct td_ledger *l, u32 slot)
{
	return env_peek(l->pending[slot / 64]) >> slot % 64 & 1;
}

/* The bit in td_mark.places of the place of @sector. */
static inline u32 td_ledger_place(const struct td_ledger *l, u64 sector)
{
	return 1u << ((sector & ((1ull << l->mark_shift) - 1)) >> l->place_shift);
}

/* Is something dirty in the place of @sector, or was just now? */
static inline bool td_ledger_place_dirty(const struct td_ledger *l, u64 sector)
{
	return l->marks[sector >> l->mark_shift].places &
	       td_ledger_place(l, sector);
}

/*
 * @by quarters of the frame at @sector became dirty (@by < 0: clean). Places are
 * counted because their number tells how long the disk takes: about the same for one
 * quarter as for a MiB in a row. A place counts as dirty until its whole region is
 * clean, so no count for each place is needed.
 */
static inline void td_ledger_count_dirty(struct td_ledger *l, u64 sector, s32 by)
{
	u32 region = (u32)(sector >> l->mark_shift);
	struct td_mark *m = &l->marks[region];

	l->dirty += (u64)(s64)by;
	l->dirty_sums[region >> TD_SUM_SHIFT] += (u32)by;
	m->dirty += (u32)by;
	if (by > 0 && !td_ledger_place_dirty(l, sector)) {
		m->places |= td_ledger_place(l, sector);
		l->places++;
	}
	for (; !m->dirty && m->places; m->places &= m->places - 1) {
		l->places--;
		l->places_cleaned++;
	}
}

/* Is anything dirty? A hint, no lock. */
static inline bool td_ledger_has_dirty(const struct td_ledger *l)
{
	return env_peek(l->dirty) != 0;
}

/* Is anything dirty in the region of @sector? Without the lock a hint. */
static inline bool td_ledger_region_dirty(const struct td_ledger *l, u64 sector)
{
	return env_peek(l->marks[sector >> l->mark_shift].dirty) != 0;
}

/* May more become dirty at @sector? A hint, no lock. */
static inline bool td_ledger_has_room(const struct td_ledger *l, u64 sector)
{
	return env_peek(l->dirty) < env_peek(l->dirty_limit) &&
	       (env_peek(l->places) < env_peek(l->places_limit) ||
		td_ledger_place_dirty(l, sector));
}

#endif
