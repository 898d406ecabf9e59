// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What an engine, a request and a list are before their first use, and how much memory
 * an engine needs.
 *
 * Invariant: the caller gives the memory and zeroes it; td_engine_init() sets all else.
 * Threads: one, before the engine is in use; td_list_init(), td_list_pop() and
 * td_req_init() are called by any thread for memory of its own.
 */
#include "ledger_int.h"
#include "trim.h"

#define COUNTER_NAME(id, name) #name,
static const char *const names[] = { TD_COUNTERS(COUNTER_NAME) };

const char *td_counter_name(unsigned int which)
{
	return names[which];
}

u32 td_engine_buckets(const struct td_layout *l)
{
	u32 n = 1024;

	while (n > 1 && n > l->groups)
		n /= 2;
	return n;
}

struct td_sizes td_engine_sizes(const struct td_super *sb,
				const struct td_layout *l)
{
	u32 marks = td_mark_count(sb->origin_sectors);
	u32 pages = td_page_count(l->slots);

	return (struct td_sizes) {
		.words = l->slots,
		.sets = l->slots >> l->way_shift,
		.pending = ((u64)l->slots + 63) / 64,
		.pending_words = ((u64)l->slots + 4095) / 4096,
		.pending_tops = ((u64)l->slots + 262143) / 262144,
		.pages = pages,
		.marks = marks,
		.marks_image = (marks + TD_BLOCK_MARKS - 1) / TD_BLOCK_MARKS *
			       (u64)TD_BLOCK_BYTES,
		.buckets = td_engine_buckets(l),
		.freed = ((l->slots >> l->run_shift) + 63) / 64,
	};
}

void td_engine_init(struct td_engine *e, const struct td_super *sb,
		    const struct td_layout *l, enum td_mode mode)
{
	e->layout = *l;
	e->nr_buckets = td_engine_buckets(l);
	env_store(&e->mode, mode);
	env_store(&e->promotes, true);
	env_store(&e->state, TD_ACTIVE);
	env_store(&e->due, 0);
	env_store(&e->disk_reads, 0);
	memset(&e->reads, 0, sizeof(e->reads));
	memset(&e->writes, 0, sizeof(e->writes));
	e->stream_written = TD_STREAM_WRITTEN;
	for (u32 i = 0; i < e->nr_buckets; i++)
		td_link_init(&e->buckets[i].reqs);
	td_link_init(&e->urgent);
	e->urgent_round = 1;
	e->clean_frame = 0;
	e->clean_left = 0;
	e->clean_unrecorded = false;
	e->retired = sb->retired;
	e->retired_life = 0;
	e->suspect_next = 0;
	env_store(&e->suspected, 0);
	for (u32 i = 0; i < TD_SUSPECTS; i++)
		env_store(&e->suspects[i], 0);
	memset(&e->heat, 0, sizeof(e->heat));
	memset(&e->read_heat, 0, sizeof(e->read_heat));
	e->heat_slot = 0;
	e->trial_level = 0;
	e->trim = (struct td_trim) { .freed = e->trim.freed };
	td_trim_all(e);
	td_ledger_init(e, sb);
	td_watch_init(&e->watch);
}

void td_engine_moved(struct td_engine *e)
{
	td_link_init(&e->urgent);
	td_ledger_empty_rings(&e->ledger);
	td_link_init(&e->watch.waiters);
}

void td_list_init(struct td_list *list)
{
	list->head = NULL;
	list->tail = &list->head;
}

struct td_req *td_list_pop(struct td_list *list)
{
	struct td_req *r = list->head;

	if (r) {
		list->head = r->next;
		if (!list->head)
			list->tail = &list->head;
	}
	return r;
}

void td_req_init(struct td_req *r, enum td_kind kind, u64 sector, u32 count,
		 struct td_part *parts, u32 max_parts)
{
	memset(r, 0, sizeof(*r));
	td_link_init(&r->link);
	td_link_init(&r->gate);
	td_link_init(&r->flush_gate);
	r->kind = (u8)kind;
	r->sector = sector;
	r->count = count;
	r->span_sector = sector;
	r->span_count = count;
	r->parts = parts;
	r->max_parts = (u8)max_parts;
}
