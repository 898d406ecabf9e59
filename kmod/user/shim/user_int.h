/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files of the shim: an engine and a request in user space. */
#ifndef TANDEM_USER_INT_H
#define TANDEM_USER_INT_H

#include <stdlib.h>

#include "store.h"
#include "user.h"

struct tdu_engine {
	struct td_engine e;
	u64 *counters;
	struct td_work works[TD_WORK_KINDS];
};

struct tdu_request {
	struct td_req r;
	struct td_part *parts;
	u64 id;
};

/* The request of the shim that holds @r. */
static inline struct tdu_request *tdu_request_of(struct td_req *r)
{
	return (struct tdu_request *)((char *)r - offsetof(struct tdu_request, r));
}

/* No caller in user space can go on without memory. */
static inline void *tdu_must_have(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static inline void *tdu_zeroed(u64 count, size_t size)
{
	return tdu_must_have(calloc(count ? count : 1, size));
}

/* memory.c and loading.c; user.h says what each does (struct tdu_api). */
struct tdu_engine *tdu_engine_new(const struct tdu_geometry *g, u32 mode);
void tdu_engine_free(struct tdu_engine *s);
struct tdu_load *tdu_load_begin(struct tdu_engine *s);
bool tdu_load_next(struct tdu_load *load, u64 *sector, u32 *sectors);
void tdu_load_feed(struct tdu_load *load, const u8 *bytes);
u32 tdu_load_end(struct tdu_load *load);
bool tdu_format_next(const struct tdu_geometry *g, u32 step, u64 *sector,
		     u32 *sectors, const u8 **bytes);

/* reading.c; user.h says what each does */
u32 tdu_read_look(struct tdu_engine *s, u64 sector, u32 count, struct td_look *look);
void tdu_disk_read_ends(struct tdu_engine *s);
bool tdu_may_join(struct tdu_engine *s, u64 sector);
bool tdu_join_fill(struct tdu_engine *s, u64 sector, u32 *count, u64 *id, bool *answered);

/* ledger.c; user.h says what each does */
bool tdu_work_due(struct tdu_engine *s);
bool tdu_work_next(struct tdu_engine *s, u32 *kind, u64 *sector,
		   u32 *sectors, bool *flush, struct tdu_list *list);
void tdu_work_bytes(struct tdu_engine *s, u32 kind, u32 from, u32 sectors,
		    u8 *bytes);
void tdu_work_fill(struct tdu_engine *s, u32 kind);
bool tdu_work_done(struct tdu_engine *s, u32 kind, bool ok,
		   struct tdu_list *list);
void tdu_tick(struct tdu_engine *s);
void tdu_trim_allow(struct tdu_engine *s, u32 lanes);

/* user.c: move the requests in @from to @to. */
void tdu_report_woken(struct td_list *from, struct tdu_list *to);

/* watching.c; user.h says what each does */
u64 tdu_summing(const struct tdu_request *q);
u32 tdu_summed(struct tdu_engine *s, struct tdu_request *q, u32 mask,
	       const u32 *sums, struct tdu_list *list);
void tdu_watch_resume(struct tdu_engine *s, const struct td_samples *samples,
		      bool same);
bool tdu_watch_asks(struct tdu_engine *s);
bool tdu_look_begin(struct tdu_engine *s);
bool tdu_look_end(struct tdu_engine *s, const u64 *quarters, u32 count);
bool tdu_learn_begin(struct tdu_engine *s, u64 *quarter);
void tdu_learn_end(struct tdu_engine *s, u64 quarter, const u32 *sums);

/* edge.c; user.h says what each does */
bool tdu_next_rest(struct tdu_engine *s, const struct tdu_request *q, u32 *cursor,
		   u64 *sector, u32 *count);
u32 tdu_rest_read(struct tdu_engine *s, struct tdu_request *q, bool ok,
		  struct tdu_list *list);

/* A number for the state of @s, without counters and policy. */
u64 tdu_digest(struct tdu_engine *s);

#endif
