/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes that begin or end inside a quarter, and the rest of that quarter.
 *
 * A write's first and last quarter are its edges, if the write has only a part of them. The
 * rest of an edge is what the write has not. td_begin() or td_start() say MERGE of a
 * write: the caller reads each rest that td_next_rest() names from the disk into the
 * private memory, in any order, and then calls td_rest_read().
 */
#ifndef TANDEM_EDGE_H
#define TANDEM_EDGE_H

#include "engine.h"

/* td_req.rests and td_req.asks: bits */
#define TD_EDGE_HEAD	1u
#define TD_EDGE_TAIL	2u

/*
 * The next rest of @r to be read from the disk. *cursor starts at 0. False: no more. No
 * lock; from MERGE until td_rest_read().
 */
bool td_next_rest(const struct td_engine *e, const struct td_req *r, u32 *cursor,
		  u64 *sector, u32 *count);

/*
 * All rests that @r asked for are in its memory; or (not @ok) one cannot be read. Returns as
 * td_start() does. Lock held, any context.
 */
u32 td_rest_read(struct td_engine *e, struct td_req *r, bool ok, struct td_list *woken);

/* For core: what the memory of write @r holds, with the rests that were read. */
static inline u64 td_edge_start(const struct td_req *r)
{
	u64 part = r->rests & TD_EDGE_HEAD ? TD_QUARTER_SECTORS - 1 : 0;

	return r->sector & ~part;
}

u64 td_edge_end(const struct td_engine *e, const struct td_req *r);

/*
 * For core: the edges of write @r whose rest would have to be read before @quarters of
 * @frame could be stored. Those quarters are not valid, and the write touches them.
 */
u32 td_edges_in(const struct td_engine *e, const struct td_req *r, u64 frame,
		unsigned int quarters);

#endif
