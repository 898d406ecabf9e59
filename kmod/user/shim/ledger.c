// SPDX-License-Identifier: GPL-2.0-or-later
/* The ledger's own I/O, its clock, and what it remembers of the disk. */
#include "user_int.h"

bool tdu_work_due(struct tdu_engine *s)
{
	return td_work_due(&s->e);
}

bool tdu_work_next(struct tdu_engine *s, u32 *kind, u64 *sector,
		   u32 *sectors, bool *flush, struct tdu_list *list)
{
	struct td_list woken;
	struct td_work work;
	bool any;

	td_list_init(&woken);
	any = td_work_next(&s->e, &work, &woken);
	tdu_report_woken(&woken, list);
	if (!any)
		return false;
	s->works[work.kind] = work;
	*kind = work.kind;
	*sector = work.sector;
	*sectors = work.sectors;
	*flush = work.flush;
	return true;
}

void tdu_work_bytes(struct tdu_engine *s, u32 kind, u32 from, u32 sectors,
		    u8 *bytes)
{
	const struct td_work *w = &s->works[kind];

	if (w->buffer && (u64)from + sectors <= w->sectors)
		memcpy(bytes, (u8 *)w->buffer + from * 512ull, sectors * 512ull);
}

void tdu_work_fill(struct tdu_engine *s, u32 kind)
{
	td_work_fill(&s->e, &s->works[kind]);
}

bool tdu_work_done(struct tdu_engine *s, u32 kind, bool ok,
		   struct tdu_list *list)
{
	struct td_list woken;
	bool again;

	td_list_init(&woken);
	again = td_work_done(&s->e, &s->works[kind], ok, &woken);
	tdu_report_woken(&woken, list);
	return again;
}

void tdu_tick(struct tdu_engine *s)
{
	td_tick(&s->e);
}

void tdu_trim_allow(struct tdu_engine *s, u32 lanes)
{
	td_trim_allow(&s->e, lanes);
}

const struct td_heat *tdu_heat(const struct tdu_engine *s)
{
	return &s->e.heat;
}

const struct td_heat *tdu_read_heat(const struct tdu_engine *s)
{
	return &s->e.read_heat;
}

void tdu_heat_resume(struct tdu_engine *s, const struct td_samples *samples)
{
	td_heat_resume(&s->e.heat, &s->e.read_heat, samples);
}
