/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of a request: which slots it stores what in. For engine.c only;
 * bucket lock held in all of them.
 */
#ifndef TANDEM_STORE_H
#define TANDEM_STORE_H

#include "engine.h"
#include "stream.h"

enum td_phase { TD_PHASE_NEW, TD_PHASE_WAITING, TD_PHASE_ACTIVE };

static inline struct td_req *td_req_of(struct td_link *link)
{
	return (struct td_req *)((char *)link - offsetof(struct td_req, link));
}

/* Do the two touch a common frame? */
static inline bool td_req_overlap(const struct td_req *a,
				  const struct td_req *b)
{
	return td_frame_of(a->sector) <= td_frame_of(b->sector + b->count - 1) &&
	       td_frame_of(b->sector) <= td_frame_of(a->sector + a->count - 1);
}

/* Two writes: do they touch a common quarter? */
static inline bool td_req_collide(const struct td_req *a,
				  const struct td_req *b)
{
	return a->sector >> TD_QUARTER_SHIFT <=
	       (b->sector + b->count - 1) >> TD_QUARTER_SHIFT &&
	       b->sector >> TD_QUARTER_SHIFT <=
	       (a->sector + a->count - 1) >> TD_QUARTER_SHIFT;
}

/*
 * Take slots for the frames of a read that misses, but for those that other
 * requests touch; @stream: not at the cost of better things. Sets parts and
 * span.
 */
void td_store_plan_fill(struct td_engine *e, const struct td_bucket *b,
			struct td_req *r, bool stream);

/*
 * Unpublish what a write touches, cancel fills of it, choose what it stores,
 * count it. Sets parts and holds.
 */
void td_store_plan_write(struct td_engine *e, struct td_bucket *b,
			 struct td_req *r);

/*
 * Publish the parts if all went well, and give their slots up. @r is not in
 * the ring any more.
 */
void td_store_finish(struct td_engine *e, const struct td_bucket *b,
		     struct td_req *r);

/* Is any part not cancelled? */
bool td_store_wanted(const struct td_req *r);

/* The pins of @slot drained. True: @r waited for that. */
bool td_store_unheld(struct td_req *r, u32 slot);

/* Cancel the parts in slots @first..@last. */
void td_store_cancel(struct td_engine *e, struct td_req *r, u32 first,
		     u32 last);

#endif
