/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between watch.c and look.c. Lock held in all of them. */
#ifndef TANDEM_WATCH_INT_H
#define TANDEM_WATCH_INT_H

#include "ledger_int.h"

/* First and last quarter of the disk that @r writes. */
static inline u64 td_req_first(const struct td_req *r)
{
	return r->span_sector >> TD_QUARTER_SHIFT;
}

static inline u64 td_req_last(const struct td_req *r)
{
	return (r->span_sector + r->span_count - 1) >> TD_QUARTER_SHIFT;
}

/* Has this flush of the disk, or a later one, succeeded? @flush: low bits of its number. */
static inline bool td_flush_is_done(const struct td_ledger *l, u32 flush)
{
	return (s32)((u32)l->flush_done - flush) >= 0;
}

/* watch.c */
/* NULL: @quarter is not watched. */
struct td_trace *td_watch_trace(struct td_watch *w, u64 quarter);
/* A note is to be written that has the change of @t. */
void td_watch_note(struct td_engine *e, struct td_trace *t);

/* look.c */
/*
 * @r will write the disk. If a user's request writes the log, watch what lies behind. A
 * cleaning writes it in an order of its own: then the head has to be looked for.
 */
void td_look_follow(struct td_engine *e, const struct td_req *r);
/* Must @r wait for the note that says that the head is unknown? */
bool td_look_lost(const struct td_watch *w, const struct td_req *r);
/* Must the trace of @quarter be known, as it is one of the file system's own places? */
bool td_look_is_home(const struct td_watch *w, u64 quarter);
/* By checkpoint @quarter of F2FS the log goes on at @next (td_places_next()). */
void td_look_next(struct td_watch *w, u64 quarter, u64 next);
/* Is @quarter the first one of a checkpoint of F2FS? */
bool td_look_is_pack(const struct td_places *p, u64 quarter);
/* Look at the homes again: the file system there may be another one now. */
void td_look_doubt(struct td_engine *e);

#endif
