// SPDX-License-Identifier: GPL-2.0-or-later
/* The memory of an engine in user space. */
#include "user_int.h"

struct tdu_engine *tdu_engine_new(const struct tdu_geometry *g, u32 mode)
{
	struct tdu_engine *s = tdu_zeroed(1, sizeof(*s));
	struct td_engine *e = &s->e;
	struct td_ledger *ledger = &e->ledger;
	struct td_sizes sizes;
	struct td_super sb;
	struct td_layout l;

	tdu_to_super(g, &sb);
	td_super_layout(&sb, g->block_sectors, &l);
	sizes = td_engine_sizes(&sb, &l);
	s->counters = tdu_zeroed(TD_NR_COUNTERS, sizeof(*s->counters));
	e->counters = s->counters;
	e->words = tdu_zeroed(sizes.words, sizeof(*e->words));
	e->sets = tdu_zeroed(sizes.sets, sizeof(*e->sets));
	e->nr_buckets = (u32)sizes.buckets;
	e->buckets = tdu_zeroed(sizes.buckets, sizeof(*e->buckets));
	ledger->pending = tdu_zeroed(sizes.pending, sizeof(*ledger->pending));
	ledger->pending_words = tdu_zeroed(sizes.pending_words,
					      sizeof(*ledger->pending_words));
	ledger->pending_tops = tdu_zeroed(sizes.pending_tops,
					     sizeof(*ledger->pending_tops));
	ledger->pages = tdu_zeroed(sizes.pages, sizeof(*ledger->pages));
	ledger->marks = tdu_zeroed(sizes.marks, sizeof(*ledger->marks));
	ledger->marks_image = tdu_zeroed(sizes.marks_image, 1);
	ledger->group_buffer = tdu_must_have(malloc(TD_GROUP_BYTES));
	ledger->marks_buffer = tdu_must_have(malloc(TD_BLOCK_BYTES));
	s->e.watch.buffer = tdu_must_have(malloc(TD_SAMPLES_BYTES));
	ledger->pages_buffer = tdu_must_have(malloc(TD_PAGES_BYTES));
	e->trim.freed = tdu_zeroed(sizes.freed, sizeof(*e->trim.freed));
	td_engine_init(e, &sb, &l, (enum td_mode)mode);
	return s;
}

void tdu_engine_free(struct tdu_engine *s)
{
	struct td_ledger *ledger = &s->e.ledger;

	free(ledger->pending);
	free(ledger->pending_words);
	free(ledger->pending_tops);
	free(ledger->pages);
	free(ledger->marks);
	free(ledger->marks_image);
	free(ledger->group_buffer);
	free(ledger->marks_buffer);
	free(s->e.watch.buffer);
	free(ledger->pages_buffer);
	free(s->e.trim.freed);
	free(s->e.buckets);
	free(s->e.words);
	free(s->e.sets);
	free(s->counters);
	free(s);
}
