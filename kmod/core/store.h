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

/* Do the two touch a common frame? */
static inline bool td_req_overlap(const struct td_req *a,
				  const struct td_req *b)
{
	return td_frame_of(a->sector) <= td_frame_of(b->sector + b->count - 1) &&
	       td_frame_of(b->sector) <= td_frame_of(a->sector + a->count - 1);
}

/*
 * Take slots for the frames of a read that misses; @stream: not at the cost
 * of better things. Sets parts and span.
 */
void td_store_plan_fill(struct td_engine *e, struct td_req *r, bool stream);

/*
 * Unpublish what a write touches, cancel fills of it, choose what it stores,
 * count it. Sets parts and holds.
 */
void td_store_plan_write(struct td_engine *e, struct td_bucket *b,
			 struct td_req *r);

/* Publish the parts if all went well, else give their slots up. */
void td_store_finish(struct td_engine *e, struct td_req *r);

/* Is any part not cancelled? */
bool td_store_wanted(const struct td_req *r);

/* Has @r a part in @slot? */
bool td_store_owns(const struct td_req *r, u32 slot);

/* Cancel the parts in slots @first..@last. */
void td_store_cancel(struct td_engine *e, struct td_req *r, u32 first,
		     u32 last);

#endif
