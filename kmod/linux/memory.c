// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The engine's memory: words, sets, buckets, bits of pending slots, marks, the
 * ledger's buffers, counters.
 *
 * Invariant: either all of it is there or none.
 * Threads: constructor, destructor and preresume.
 * Why not vzalloc: for a cache of terabytes the words are gigabytes, and asking
 * for them must fail rather than make the kernel kill processes. The ledger's
 * buffers come from kmalloc, since one request writes each of them whole.
 * Why an index that is made anew keeps its memory: the device is suspended then, and
 * reclaim of memory may have to wait for it.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "tandem.h"

#define GFP_ENGINE	(GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN | \
			 __GFP_RETRY_MAYFAIL)

void tandem_memory_free(struct td_engine *e)
{
	struct td_ledger *l = &e->ledger;

	vfree(e->words);
	vfree(e->sets);
	kvfree(e->buckets);
	kvfree(l->pending);
	kvfree(l->pending_words);
	kvfree(l->pending_tops);
	kvfree(l->pages);
	kvfree(l->marks);
	kvfree(l->marks_image);
	kfree(l->group_buffer);
	kfree(l->marks_buffer);
	kfree(l->pages_buffer);
	kfree(e->watch.buffer);
	kvfree(e->trim.freed);
	free_percpu(e->counters);
	memset(e, 0, sizeof(*e));
}

void tandem_engine_free(struct tandem *t)
{
	tandem_memory_free(&t->engine);
}

static void *zeroed_array(u64 count, size_t size)
{
	if (count > SIZE_MAX / size)
		return NULL;
	return kvmalloc(count * size, GFP_ENGINE);
}

/* The sizes of what the superblock asks for. */
static struct td_sizes needed_sizes(const struct tandem *t, struct td_layout *layout)
{
	td_super_layout(&t->super,
			bdev_logical_block_size(t->ssd->bdev) >> SECTOR_SHIFT,
			layout);
	return td_engine_sizes(&t->super, layout);
}

int tandem_engine_alloc(struct tandem *t)
{
	struct td_engine *e = &t->engine;
	struct td_ledger *l = &e->ledger;
	struct td_layout layout;
	struct td_sizes sizes = needed_sizes(t, &layout);

	e->nr_buckets = sizes.buckets;
	e->words = __vmalloc(array_size(sizes.words, sizeof(*e->words)),
			     GFP_ENGINE);
	e->sets = __vmalloc(array_size(sizes.sets, sizeof(*e->sets)),
			    GFP_ENGINE);
	e->buckets = zeroed_array(sizes.buckets, sizeof(*e->buckets));
	l->pending = zeroed_array(sizes.pending, sizeof(*l->pending));
	l->pending_words = zeroed_array(sizes.pending_words, sizeof(*l->pending_words));
	l->pending_tops = zeroed_array(sizes.pending_tops, sizeof(*l->pending_tops));
	l->pages = zeroed_array(sizes.pages, sizeof(*l->pages));
	l->marks = zeroed_array(sizes.marks, sizeof(*l->marks));
	l->marks_image = zeroed_array(sizes.marks_image, 1);
	l->group_buffer = kmalloc(TD_GROUP_BYTES, GFP_ENGINE);
	l->marks_buffer = kmalloc(TD_BLOCK_BYTES, GFP_ENGINE);
	l->pages_buffer = kmalloc(TD_PAGES_BYTES, GFP_ENGINE);
	e->watch.buffer = kmalloc(TD_SAMPLES_BYTES, GFP_ENGINE);
	e->trim.freed = zeroed_array(sizes.freed, sizeof(*e->trim.freed));
	e->counters = __alloc_percpu(TANDEM_NR_COUNTERS * sizeof(u64),
				     sizeof(u64));
	if (!e->words || !e->sets || !e->buckets || !l->pending ||
	    !l->pending_words || !l->pending_tops || !l->pages || !l->marks ||
	    !l->marks_image || !l->group_buffer || !l->marks_buffer ||
	    !l->pages_buffer || !e->watch.buffer || !e->trim.freed || !e->counters) {
		tandem_engine_free(t);
		return -ENOMEM;
	}
	td_engine_init(e, &t->super, &layout, t->args.mode);
	return 0;
}

/* Zero @bytes, which may be gigabytes. */
static void zero_array(void *array, u64 bytes)
{
	const u64 step = 16u << 20;
	u64 at;

	for (at = 0; at < bytes; at += step) {
		memset(array + at, 0, min(step, bytes - at));
		cond_resched();
	}
}

/* Empty the index in its own memory. False: there is no memory, or other sizes are needed. */
static bool empty_in_place(struct tandem *t)
{
	struct td_engine *e = &t->engine;
	struct td_ledger *l = &e->ledger;
	struct td_layout layout;
	struct td_sizes sizes = needed_sizes(t, &layout), has;
	int cpu;

	if (!e->words)
		return false;
	has = td_engine_sizes(&l->super, &e->layout);
	if (memcmp(&sizes, &has, sizeof(sizes)))
		return false;
	zero_array(e->words, sizes.words * sizeof(*e->words));
	zero_array(e->sets, sizes.sets * sizeof(*e->sets));
	zero_array(l->pending, sizes.pending * sizeof(*l->pending));
	zero_array(l->pending_words, sizes.pending_words * sizeof(*l->pending_words));
	zero_array(l->pending_tops, sizes.pending_tops * sizeof(*l->pending_tops));
	zero_array(l->pages, sizes.pages * sizeof(*l->pages));
	zero_array(l->marks, sizes.marks * sizeof(*l->marks));
	zero_array(l->marks_image, sizes.marks_image);
	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(e->counters, cpu), 0,
		       TANDEM_NR_COUNTERS * sizeof(u64));
	td_engine_init(e, &t->super, &layout, t->args.mode);
	return true;
}

int tandem_engine_anew(struct tandem *t)
{
	unsigned int noio = memalloc_noio_save();
	/* What the user has switched off stays so, also when the disk has grown. */
	bool promotes = !t->engine.words || td_promotes(&t->engine);
	int r = 0;

	/* Status may be looking at it. */
	tandem_registry_lock();
	if (!empty_in_place(t)) {
		tandem_engine_free(t);
		r = tandem_engine_alloc(t);
	}
	if (!r)
		env_store(&t->engine.promotes, promotes);
	tandem_registry_unlock();
	memalloc_noio_restore(noio);
	return r;
}
