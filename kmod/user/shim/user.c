// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Gives core memory: each request and its parts, and each array of an engine,
 * are allocations of their own, so that a sanitizer sees every step beyond them
 * and every use after END.
 */
#include <stdlib.h>

#include "index.h"
#include "store.h"
#include "user_int.h"
#include "write.h"

static bool geometry_plan(struct tdu_geometry *g)
{
	struct td_identity id = {
		.origin_id_bytes = g->origin_id_bytes,
		.origin_sectors = g->origin_sectors,
	};
	u64 sequence = g->sequence;
	struct td_super sb;

	memcpy(id.uuid, g->uuid, sizeof(id.uuid));
	memcpy(id.origin_id, g->origin_id, sizeof(id.origin_id));
	if (td_super_plan(&id, g->ssd_sectors, &sb) != TD_SUPER_OK)
		return false;
	tdu_of_super(&sb, g);
	g->sequence = sequence;
	return true;
}

static void geometry_layout(const struct tdu_geometry *g, struct td_layout *l)
{
	struct td_super sb;

	tdu_to_super(g, &sb);
	td_super_layout(&sb, g->block_sectors, l);
}

static void engine_set_mode(struct tdu_engine *s, u32 mode)
{
	env_store(&s->e.mode, mode);
}

static void engine_set_limit(struct tdu_engine *s, u64 quarters)
{
	env_poke(s->e.ledger.dirty_limit, quarters);
}

static void engine_set_promotion(struct tdu_engine *s, bool on)
{
	env_store(&s->e.promotes, on);
}

static void engine_set_stream(struct tdu_engine *s, u32 frames)
{
	s->e.stream_written = frames;
}

static void engine_facts(struct tdu_engine *s, struct tdu_facts *f)
{
	const struct td_ledger *l = &s->e.ledger;

	f->dirty = l->dirty;
	f->group = l->group;
	f->checkpoint = l->checkpoint;
	f->ring_blocks = l->ring_blocks;
	f->head = l->head;
	f->used = l->used;
	f->pending = l->nr_pending;
	f->marks_set = l->marks_set;
	f->inflight = l->inflight;
	f->state = (u32)env_load(&s->e.state);
	f->sweep_on = l->sweep_on;
	f->checkpoint_on = l->checkpoint_on;
	f->urgent = s->e.urgent.next != &s->e.urgent;
	f->urgent_frames = 0;
	f->urgent_left = 0;
	for (struct td_link *k = s->e.urgent.next; k != &s->e.urgent; k = k->next) {
		const struct td_req *r = td_req_of_gate(k);
		u64 frames = td_frame_of(r->sector + r->count - 1) + 1 -
			     td_frame_of(r->sector);

		f->urgent_frames += frames;
		if (r->round != s->e.urgent_round)
			f->urgent_left += frames;
	}
	f->clean_frame = s->e.clean_frame;
	f->clean_left = s->e.clean_left;
	f->region_frames = 1u << (l->mark_shift - TD_FRAME_SHIFT);
	f->regions = l->nr_marks;
}

static u64 engine_counter(struct tdu_engine *s, u32 which)
{
	u64 sum = 0;

	if (which >= TD_NR_SHOWN)
		return s->counters[which];
	for (u32 i = td_counter_first(which); i <= td_counter_last(which); i++)
		sum += s->counters[i];
	return sum;
}

static void engine_words(struct tdu_engine *s, u64 *out)
{
	for (u32 i = 0; i < s->e.layout.slots; i++)
		out[i] = td_word_load(&s->e.words[i]);
}

static void engine_region_slots(struct tdu_engine *s, u32 *out)
{
	for (u32 i = 0; i < s->e.ledger.nr_marks; i++)
		out[i] = s->e.ledger.marks[i].slots;
}

static u32 engine_find_slot(struct tdu_engine *s, u64 frame)
{
	return td_index_find(&s->e, frame);
}

bool tdu_clean_copy(const struct tdu_engine *s, u64 quarter, u64 *ssd_sector)
{
	return td_index_clean_copy(&s->e, quarter, ssd_sector);
}

static u64 engine_word(struct tdu_engine *s, u32 slot)
{
	return td_word_load(&s->e.words[slot]);
}

static u32 engine_group_of(struct tdu_engine *s, u64 sector)
{
	return td_group_of(&s->e.layout, sector);
}

static bool write_streams(struct tdu_engine *s, u64 sector, u32 count)
{
	return td_write_streams(&s->e, sector, count);
}

static bool write_wants_copy(struct tdu_engine *s, u64 sector, u32 count)
{
	return td_write_wants_copy(&s->e, sector, count);
}

static bool write_may_lend(struct tdu_engine *s, u64 sector, u32 count)
{
	return td_write_may_lend(&s->e, sector, count);
}

static bool write_in_place(struct tdu_engine *s, u64 sector, u32 count,
			   u32 *slot)
{
	return td_write_in_place(&s->e, sector, count, slot);
}

static bool write_home(struct tdu_engine *s, u64 sector, u32 count, u32 *slot)
{
	return td_write_home(&s->e, sector, count, slot) ||
	       td_write_elsewhere(&s->e, sector, count, slot);
}

static void write_home_done(struct tdu_engine *s, bool ok)
{
	td_write_home_done(&s->e, ok);
}

static void span_of(struct tdu_engine *s, u32 kind, u64 sector, u32 count,
		    struct td_span *span)
{
	*span = td_span_of(&s->e, (enum td_kind)kind, sector, count);
}

static void engine_pass(struct tdu_engine *s, u32 kind, u32 count, u32 why)
{
	td_pass(&s->e, (enum td_kind)kind, count, (enum td_counter)why);
}

static struct tdu_request *request_new(u64 id, u32 kind, u64 sector, u32 count,
				       u32 parts, bool no_memory, bool stream,
				       bool lent, bool fua)
{
	struct tdu_request *q = tdu_must_have(malloc(sizeof(*q)));

	q->id = id;
	q->parts = NULL;
	if (parts || kind == TD_READ)
		q->parts = tdu_must_have(malloc(parts * sizeof(*q->parts)));
	td_req_init(&q->r, (enum td_kind)kind, sector, count, q->parts, parts);
	q->r.no_memory = no_memory;
	q->r.stream = stream;
	q->r.lent = lent;
	q->r.fua = fua;
	q->r.whole = fua && kind == TD_FLUSH;
	return q;
}

static void request_free(struct tdu_request *q)
{
	free(q->parts);
	free(q);
}

static void request_span(const struct tdu_request *q, u64 *sector, u32 *count)
{
	*sector = q->r.span_sector;
	*count = q->r.span_count;
}

static bool request_failed(const struct tdu_request *q)
{
	return td_failed(&q->r);
}

void tdu_report_woken(struct td_list *from, struct tdu_list *to)
{
	struct td_req *r;

	for (to->count = 0; (r = td_list_pop(from)) != NULL; to->count++) {
		if (to->count == to->room)
			abort();
		to->woken[to->count].id = tdu_request_of(r)->id;
		to->woken[to->count].actions = td_woken(r);
	}
}

static u32 request_begin(struct tdu_engine *s, struct tdu_request *q,
			 struct tdu_list *list)
{
	struct td_list woken;
	u32 actions;

	td_list_init(&woken);
	actions = td_begin(&s->e, &q->r, &woken);
	tdu_report_woken(&woken, list);
	return actions;
}

static u32 request_start(struct tdu_engine *s, struct tdu_request *q,
			 struct tdu_list *list)
{
	struct td_list woken;
	u32 actions;

	td_list_init(&woken);
	actions = td_start(&s->e, &q->r, &woken);
	tdu_report_woken(&woken, list);
	return actions;
}

static u32 request_disk_done(struct tdu_engine *s, struct tdu_request *q, bool ok,
			     struct tdu_list *list)
{
	struct td_list woken;
	u32 actions;

	td_list_init(&woken);
	actions = td_disk_done(&s->e, &q->r, ok, &woken);
	tdu_report_woken(&woken, list);
	return actions;
}

static u32 request_ssd_done(struct tdu_engine *s, struct tdu_request *q, bool ok,
			    struct tdu_list *list)
{
	struct td_list woken;
	u32 actions;

	td_list_init(&woken);
	actions = td_ssd_done(&s->e, &q->r, ok, &woken);
	tdu_report_woken(&woken, list);
	return actions;
}

static bool request_next_extent(struct tdu_engine *s, const struct tdu_request *q,
				u32 *cursor, struct td_extent *extent)
{
	return td_next_extent(&s->e, &q->r, cursor, extent);
}

static bool request_stores_durably(const struct tdu_request *q)
{
	return td_stores_durably(&q->r);
}

static bool engine_unpin(struct tdu_engine *s, u32 slot)
{
	return td_word_unpin(&s->e.words[slot]);
}

static u32 engine_drained(struct tdu_engine *s, u64 sector, u32 slot, u64 *owner,
			  struct tdu_list *list)
{
	u32 bucket = td_bucket_of(&s->e, sector);
	struct td_req *r = NULL;
	struct td_list woken;
	u32 actions;

	td_list_init(&woken);
	actions = td_drained(&s->e, bucket, slot, &r, &woken);
	*owner = r ? tdu_request_of(r)->id : 0;
	tdu_report_woken(&woken, list);
	return actions;
}

static u32 clean_seek(struct tdu_engine *s, bool all, bool on, u32 looks,
		      u64 *sector, u32 *count)
{
	return td_clean_seek(&s->e, all, on, looks, sector, count);
}

static u64 engine_urgent_writes(struct tdu_engine *s, u64 *ids, u64 room)
{
	u64 count = 0;

	for (struct td_link *k = s->e.urgent.next; k != &s->e.urgent; k = k->next) {
		if (count == room)
			abort();
		ids[count++] = tdu_request_of(td_req_of_gate(k))->id;
	}
	return count;
}

static bool engine_fail(struct tdu_engine *s, struct tdu_list *list)
{
	struct td_list woken;
	bool first;

	td_list_init(&woken);
	first = td_fail(&s->e, &woken);
	tdu_report_woken(&woken, list);
	return first;
}

static bool engine_hit_failed(struct tdu_engine *s, u64 sector, u32 count, u32 slot,
			      u64 dirty, struct tdu_list *list)
{
	struct td_list woken;
	bool elsewhere;

	td_list_init(&woken);
	elsewhere = td_hit_failed(&s->e, sector, count, slot, dirty, &woken);
	tdu_report_woken(&woken, list);
	return elsewhere;
}

static void engine_set_retired(struct tdu_engine *s, const u32 *slots, u32 count)
{
	s->e.retired.count = count;
	memcpy(s->e.retired.slots, slots, count * sizeof(*slots));
}

static u32 engine_retired(struct tdu_engine *s, u32 *slots)
{
	memcpy(slots, s->e.retired.slots,
	       s->e.retired.count * sizeof(*slots));
	return s->e.retired.count;
}

static void forget_group(struct tdu_engine *s, u32 group)
{
	td_forget_group(&s->e, group);
}

static void sweep_at_once_begin(struct tdu_engine *s)
{
	td_sweep_at_once_begin(&s->e, s->counters[TD_C_USED]);
}

static void sweep_at_once_end(struct tdu_engine *s)
{
	td_sweep_at_once_end(&s->e);
}

static const struct tdu_api api = {
	.version = TDU_API_VERSION,
	.shown = TD_NR_SHOWN,
	.used = TD_C_USED,
	.why_memory_read = TD_C_READ_BYPASSED_MEMORY,
	.why_memory_write = TD_C_WRITE_BYPASSED_MEMORY,
	.counter_name = td_counter_name,
	.plan = geometry_plan,
	.layout = geometry_layout,
	.engine_new = tdu_engine_new,
	.engine_free = tdu_engine_free,
	.set_mode = engine_set_mode,
	.set_limit = engine_set_limit,
	.set_promotion = engine_set_promotion,
	.set_stream = engine_set_stream,
	.facts = engine_facts,
	.digest = tdu_digest,
	.counter = engine_counter,
	.words = engine_words,
	.region_slots = engine_region_slots,
	.find = engine_find_slot,
	.word = engine_word,
	.group_of = engine_group_of,
	.read_look = tdu_read_look,
	.disk_read_ends = tdu_disk_read_ends,
	.may_join = tdu_may_join,
	.join_fill = tdu_join_fill,
	.write_streams = write_streams,
	.write_wants_copy = write_wants_copy,
	.write_may_lend = write_may_lend,
	.write_in_place = write_in_place,
	.write_home = write_home,
	.write_home_done = write_home_done,
	.span_of = span_of,
	.pass = engine_pass,
	.request_new = request_new,
	.request_free = request_free,
	.request_span = request_span,
	.request_failed = request_failed,
	.begin = request_begin,
	.start = request_start,
	.disk_done = request_disk_done,
	.ssd_done = request_ssd_done,
	.next_rest = tdu_next_rest,
	.rest_read = tdu_rest_read,
	.next_extent = request_next_extent,
	.stores_durably = request_stores_durably,
	.unpin = engine_unpin,
	.drained = engine_drained,
	.clean_seek = clean_seek,
	.urgent = engine_urgent_writes,
	.fail = engine_fail,
	.hit_failed = engine_hit_failed,
	.set_retired = engine_set_retired,
	.retired = engine_retired,
	.forget_group = forget_group,
	.sweep_at_once_begin = sweep_at_once_begin,
	.sweep_at_once_end = sweep_at_once_end,
	.work_due = tdu_work_due,
	.work_next = tdu_work_next,
	.work_fill = tdu_work_fill,
	.work_bytes = tdu_work_bytes,
	.work_done = tdu_work_done,
	.tick = tdu_tick,
	.trim_allow = tdu_trim_allow,
	.summing = tdu_summing,
	.summed = tdu_summed,
	.watch_resume = tdu_watch_resume,
	.watch_asks = tdu_watch_asks,
	.look_begin = tdu_look_begin,
	.look_end = tdu_look_end,
	.learn_begin = tdu_learn_begin,
	.learn_end = tdu_learn_end,
	.load_new = tdu_load_begin,
	.load_next = tdu_load_next,
	.load_feed = tdu_load_feed,
	.load_end = tdu_load_end,
	.format_next = tdu_format_next,
	.super_choose = tdu_super_choose,
	.super_match = tdu_super_match,
	.super_is_sound = tdu_super_is_sound,
	.super_write = tdu_super_write,
	.samples_choose = tdu_samples_choose,
	.heat_resume = tdu_heat_resume,
	.samples_pick = tdu_samples_pick,
	.samples_probe = tdu_samples_probe,
	.samples_at_start = tdu_samples_at_start,
	.sums_of = tdu_sums_of,
	.samples_write = tdu_samples_write,
	.samples_show_uses = tdu_samples_show_uses,
};

const struct tdu_api *tandem_user_api(void)
{
	return &api;
}
