// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The engine's memory: words, sets, buckets and their locks, counters.
 *
 * Invariant: either all of it is there or none.
 * Threads: constructor, destructor and preresume.
 * Why not vzalloc: for a cache of terabytes the words are gigabytes, and asking
 * for them must fail rather than have processes killed.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "tandem.h"

void tandem_engine_free(struct tandem *t)
{
	struct td_engine *e = &t->engine;

	vfree(e->words);
	vfree(e->sets);
	kvfree(e->buckets);
	kvfree(t->locks);
	free_percpu(e->counters);
	e->words = NULL;
	e->sets = NULL;
	e->buckets = NULL;
	t->locks = NULL;
	e->counters = NULL;
}

int tandem_engine_alloc(struct tandem *t)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN |
			  __GFP_RETRY_MAYFAIL;
	struct td_engine *e = &t->engine;
	struct td_layout layout;
	u32 i;

	td_super_layout(&t->super,
			bdev_logical_block_size(t->ssd->bdev) >> SECTOR_SHIFT,
			&layout);
	e->nr_buckets = td_engine_buckets(&layout);
	e->words = __vmalloc(array_size(layout.slots, sizeof(*e->words)), gfp);
	e->sets = __vmalloc(array_size(layout.slots >> layout.way_shift,
				       sizeof(*e->sets)), gfp);
	e->buckets = kvmalloc_array(e->nr_buckets, sizeof(*e->buckets), gfp);
	t->locks = kvmalloc_array(e->nr_buckets, sizeof(*t->locks), gfp);
	e->counters = __alloc_percpu(TD_NR_COUNTERS * sizeof(u64), sizeof(u64));
	if (!e->words || !e->sets || !e->buckets || !t->locks ||
	    !e->counters) {
		tandem_engine_free(t);
		return -ENOMEM;
	}
	for (i = 0; i < e->nr_buckets; i++)
		spin_lock_init(&t->locks[i]);
	td_engine_init(e, &layout, t->args.mode);
	return 0;
}
