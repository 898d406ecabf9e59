// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Gives core memory: each request and its parts are allocations of their own,
 * so that a sanitizer sees every step beyond them and every use after END.
 */
#include "shim.h"

#include <stdlib.h>

#include "../words/words.h"
#include "read.h"

struct sim_engine {
	struct td_engine e;
	u64 *counters;
};

struct sim_request {
	struct td_req r;
	struct td_part *parts;
	u64 id;
};

static struct sim_request *of(struct td_req *r)
{
	return (struct sim_request *)((char *)r - offsetof(struct sim_request, r));
}

static void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static bool plan(u64 origin_sectors, u64 ssd_sectors, u32 block_sectors,
		 struct td_layout *layout)
{
	struct td_identity id = {
		.uuid = { 1 }, .origin_id = { 1 }, .origin_id_bytes = 1,
		.origin_sectors = origin_sectors,
	};
	struct td_super sb;

	if (td_super_plan(&id, ssd_sectors, &sb) != TD_SUPER_OK)
		return false;
	td_super_layout(&sb, block_sectors, layout);
	return true;
}

static struct sim_engine *engine_new(const struct td_layout *layout, u32 mode)
{
	struct sim_engine *s = must(calloc(1, sizeof(*s)));

	s->counters = must(calloc(TD_NR_COUNTERS, sizeof(*s->counters)));
	s->e.words = must(calloc(layout->slots, sizeof(*s->e.words)));
	s->e.sets = must(calloc(layout->slots >> layout->way_shift, sizeof(*s->e.sets)));
	s->e.nr_buckets = td_engine_buckets(layout);
	s->e.buckets = must(calloc(s->e.nr_buckets, sizeof(*s->e.buckets)));
	s->e.counters = s->counters;
	td_engine_init(&s->e, layout, (enum td_mode)mode);
	return s;
}

static void engine_free(struct sim_engine *s)
{
	free(s->e.buckets);
	free(s->e.words);
	free(s->e.sets);
	free(s->counters);
	free(s);
}

static void set_mode(struct sim_engine *s, u32 mode)
{
	env_store(&s->e.mode, mode);
}

static bool active(struct sim_engine *s)
{
	return td_active(&s->e);
}

static u64 counter(struct sim_engine *s, u32 which)
{
	u64 sum = 0;

	for (u32 i = td_counter_first(which); i <= td_counter_last(which); i++)
		sum += s->counters[i];
	return sum;
}

static u64 word(struct sim_engine *s, u32 slot)
{
	return td_word_load(&s->e.words[slot]);
}

static u32 group_of(struct sim_engine *s, u64 sector)
{
	return td_group_of(&s->e.layout, sector);
}

static u32 bucket_of(struct sim_engine *s, u64 sector)
{
	return td_bucket_of(&s->e, sector);
}

static u32 read_look(struct sim_engine *s, u64 sector, u32 count,
		     struct td_look *look)
{
	u32 slot;

	if (!td_read_home(&s->e, sector, count, &slot))
		return td_read_look(&s->e, sector, count, look);
	*look = (struct td_look) {
		.count = count, .slot = slot, .slots = 1,
		.ssd_sector = td_sector_in(&s->e.layout, slot, sector),
	};
	return TD_HIT;
}

static bool write_wants_copy(struct sim_engine *s, u64 sector, u32 count)
{
	return td_write_wants_copy(&s->e, sector, count);
}

static void span_of(struct sim_engine *s, u32 kind, u64 sector, u32 count,
		    struct td_span *span)
{
	*span = td_span_of(&s->e, (enum td_kind)kind, sector, count);
}

static void pass(struct sim_engine *s, u32 kind, u32 count, u32 why)
{
	td_pass(&s->e, (enum td_kind)kind, count, (enum td_counter)why);
}

static struct sim_request *request_new(u64 id, u32 kind, u64 sector, u32 count,
				       u32 parts, bool no_memory)
{
	struct sim_request *q = must(malloc(sizeof(*q)));

	q->id = id;
	q->parts = NULL;
	if (parts || kind == TD_READ)
		q->parts = must(malloc(parts * sizeof(*q->parts)));
	td_req_init(&q->r, (enum td_kind)kind, sector, count, q->parts, parts);
	q->r.no_memory = no_memory;
	return q;
}

static void request_free(struct sim_request *q)
{
	free(q->parts);
	free(q);
}

static void request_span(const struct sim_request *q, u64 *sector, u32 *count)
{
	*sector = q->r.span_sector;
	*count = q->r.span_count;
}

static u32 begin(struct sim_engine *s, struct sim_request *q)
{
	return td_begin(&s->e, &q->r);
}

static void report(struct td_list *list, struct sim_woken *woken, size_t room,
		   size_t *count)
{
	struct td_req *r;

	for (*count = 0; (r = td_list_pop(list)) != NULL; (*count)++) {
		if (*count == room)
			abort();
		woken[*count].id = of(r)->id;
		woken[*count].actions = td_woken(r);
	}
}

static u32 disk_done(struct sim_engine *s, struct sim_request *q, bool ok,
		     struct sim_woken *woken, size_t room, size_t *count)
{
	struct td_list list;
	u32 actions;

	td_list_init(&list);
	actions = td_disk_done(&s->e, &q->r, ok, &list);
	report(&list, woken, room, count);
	return actions;
}

static u32 ssd_done(struct sim_engine *s, struct sim_request *q, bool ok,
		    struct sim_woken *woken, size_t room, size_t *count)
{
	struct td_list list;
	u32 actions;

	td_list_init(&list);
	actions = td_ssd_done(&s->e, &q->r, ok, &list);
	report(&list, woken, room, count);
	return actions;
}

static bool next_extent(struct sim_engine *s, const struct sim_request *q,
			u32 *cursor, struct td_extent *extent)
{
	return td_next_extent(&s->e, &q->r, cursor, extent);
}

static bool unpin(struct sim_engine *s, u32 slot)
{
	return td_word_unpin(&s->e.words[slot]);
}

static u32 drained(struct sim_engine *s, u32 bucket, u32 slot, u64 *owner)
{
	struct td_req *r = NULL;
	u32 actions = td_drained(&s->e, bucket, slot, &r);

	*owner = r ? of(r)->id : 0;
	return actions;
}

static bool fail(struct sim_engine *s)
{
	return td_fail(&s->e);
}

static void hit_failed(struct sim_engine *s, u32 count)
{
	td_hit_failed(&s->e, count);
}

static void forget_group(struct sim_engine *s, u32 group)
{
	td_forget_group(&s->e, group);
}

static const struct sim_api api = {
	.version = SIM_API_VERSION,
	.shown = TD_NR_SHOWN,
	.used = TD_C_USED,
	.why_memory_read = TD_C_READ_BYPASSED_MEMORY,
	.why_memory_write = TD_C_WRITE_BYPASSED_MEMORY,
	.counter_name = td_counter_name,
	.plan = plan,
	.engine_new = engine_new,
	.engine_free = engine_free,
	.set_mode = set_mode,
	.active = active,
	.counter = counter,
	.word = word,
	.group_of = group_of,
	.bucket_of = bucket_of,
	.read_look = read_look,
	.write_wants_copy = write_wants_copy,
	.span_of = span_of,
	.pass = pass,
	.request_new = request_new,
	.request_free = request_free,
	.request_span = request_span,
	.begin = begin,
	.disk_done = disk_done,
	.ssd_done = ssd_done,
	.next_extent = next_extent,
	.unpin = unpin,
	.drained = drained,
	.fail = fail,
	.hit_failed = hit_failed,
	.forget_group = forget_group,
	.scenarios = words_scenarios,
	.scenario_name = words_scenario_name,
	.scenario_run = words_scenario_run,
};

const struct sim_api *tandem_sim_api(void)
{
	return &api;
}
