/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of a request: which slots it stores what in. For engine.c only;
 * bucket lock held in all of them.
 */
#ifndef TANDEM_STORE_H
#define TANDEM_STORE_H

#include "engine.h"
#include "stream.h"

enum td_phase {
	TD_PHASE_NEW,
	TD_PHASE_WAITING,	/* for another request of its bucket */
	TD_PHASE_GATED,		/* for its mark */
	TD_PHASE_ACTIVE,	/* has its parts */
	TD_PHASE_RECORDING,	/* a cleaning or discard in the group under way */
};

static inline struct td_req *td_req_of(struct td_link *link)
{
	return (struct td_req *)((char *)link - offsetof(struct td_req, link));
}

static inline struct td_req *td_req_of_gate(struct td_link *link)
{
	return (struct td_req *)((char *)link - offsetof(struct td_req, gate));
}

static inline struct td_req *td_req_of_flush_gate(struct td_link *link)
{
	return (struct td_req *)((char *)link - offsetof(struct td_req, flush_gate));
}

static inline bool td_req_is_write(const struct td_req *r)
{
	return r->kind == TD_WRITE || r->kind == TD_DISCARD;
}

/*
 * Does @r make dirty quarters not dirty, by a record in front of which the disk was
 * flushed? A cleaning, or a discard of dirty data. It stands in front of its ring
 * (clean.c, K4).
 */
static inline bool td_req_undirties(const struct td_req *r)
{
	return r->kind == TD_CLEAN || r->drops;
}

/* Do the two touch a common frame? */
static inline bool td_req_overlap(const struct td_req *a,
				  const struct td_req *b)
{
	return td_frame_of(a->sector) <= td_frame_of(b->sector + b->count - 1) &&
	       td_frame_of(b->sector) <= td_frame_of(a->sector + a->count - 1);
}

/* Do they touch a common quarter? */
static inline bool td_req_collide(const struct td_req *a,
				  const struct td_req *b)
{
	return a->sector >> TD_QUARTER_SHIFT <=
	       (b->sector + b->count - 1) >> TD_QUARTER_SHIFT &&
	       b->sector >> TD_QUARTER_SHIFT <=
	       (a->sector + a->count - 1) >> TD_QUARTER_SHIFT;
}

/* Does @a touch every quarter that @b touches? */
static inline bool td_req_covers(const struct td_req *a, const struct td_req *b)
{
	return a->sector >> TD_QUARTER_SHIFT <= b->sector >> TD_QUARTER_SHIFT &&
	       (b->sector + b->count - 1) >> TD_QUARTER_SHIFT <=
	       (a->sector + a->count - 1) >> TD_QUARTER_SHIFT;
}

/*
 * Take slots for the frames of a read that misses, but for those that other
 * requests touch; @stream: no regular is given up for a new frame (TD_TAKE_COLD).
 * Sets parts, span and sweep. True: a frame's set had no slot for it.
 */
bool td_store_plan_fill(struct td_engine *e, const struct td_bucket *b,
			struct td_req *r, bool stream);

/*
 * Unpublish the quarters that write @r touches, cancel fills of them, choose which of
 * them are stored, count the write. No such quarter is dirty. Sets parts and holds.
 */
void td_store_plan_write(struct td_engine *e, struct td_bucket *b,
			 struct td_req *r);

/* The fill in the ring that owns @slot, or NULL. */
struct td_req *td_store_filler(const struct td_bucket *b, u32 slot);

/* A part for @mask of @frame, in whole; room for it is there. */
struct td_part *td_store_add(struct td_req *r, u64 frame, u32 slot,
			     unsigned int mask);
/*
 * A write's part: what [sector, end), which its memory holds, has of these quarters.
 * Returns the sectors.
 */
u32 td_store_add_write(struct td_req *r, u64 frame, u32 slot, unsigned int mask,
		       u64 sector, u64 end);

/*
 * Publish the parts if all went well, and give their slots up. @r is not in
 * the ring any more.
 */
void td_store_finish(struct td_engine *e, const struct td_bucket *b,
		     struct td_req *r);

/* Is any part not cancelled? */
bool td_store_has_live_part(const struct td_req *r);

/* The pins of @slot drained. True: @r waited for that. */
bool td_store_unheld(struct td_req *r, u32 slot);

/* Cancel the parts in slots @first..@last, if they may be given up. */
void td_store_cancel(struct td_engine *e, struct td_req *r, u32 first,
		     u32 last);

/* writeback.c */
enum td_writeback {
	TD_WB_GO,	/* parts and sweep are set */
	TD_WB_WAIT,	/* for the owner of the slot of one of its frames */
	TD_WB_MARK,	/* it needs its region's mark */
	TD_WB_MERGE,	/* it asks for the rest of quarters (edge.h) */
	TD_WB_NO,	/* no write-back: to the disk */
};

/*
 * Can @r go to the SSD alone? @marked: its region's mark is durable. On GO it
 * has its slots.
 */
enum td_writeback td_writeback_plan(struct td_engine *e, struct td_bucket *b,
				    struct td_req *r, bool marked);

/*
 * lend.c: the same for the commonest write. True: GO. False: nothing is planned, ask
 * td_writeback_plan().
 */
bool td_lend_plan(struct td_engine *e, const struct td_bucket *b, struct td_req *r);

/*
 * Does @r, on its way to the disk, touch a dirty quarter that must be cleaned first? (A
 * discard drops those that it covers whole.)
 */
bool td_writeback_dirty(const struct td_engine *e, const struct td_bucket *b,
			const struct td_req *r);

/*
 * The cleaning that @r waited for failed. True: it is to start again, for it may go
 * to the SSD all the same.
 */
bool td_writeback_uncleaned(const struct td_engine *e, struct td_req *r);

/* The quarters that @r made dirty count as acknowledged from now on. */
void td_writeback_end_fresh(struct td_engine *e, struct td_req *r);

/* In bypass: @r was written to the disk instead; its quarters are not dirty. */
void td_writeback_undo(struct td_engine *e, struct td_req *r);

/* clean.c */
/* Put @r, which undirties, at its place in front of its ring (K4). */
void td_clean_enter_ring(struct td_bucket *b, struct td_req *r);
u32 td_clean_begin(struct td_engine *e, struct td_bucket *b, struct td_req *r);

#endif
