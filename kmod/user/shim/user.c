// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Gives core memory: each request and its parts, and each array of an engine,
 * are allocations of their own, so that a sanitizer sees every step beyond them
 * and every use after END.
 */
#include <stdlib.h>

#include "index.h"
#include "read.h"
#include "store.h"
#include "user.h"
#include "write.h"

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

struct tdu_load {
	struct td_load l;
	u32 sectors;
};

static struct tdu_request *request_of(struct td_req *r)
{
	return (struct tdu_request *)((char *)r - offsetof(struct tdu_request, r));
}

static void *must_have(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static void *zeroed_memory(u64 count, size_t size)
{
	return must_have(calloc(count ? count : 1, size));
}

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

static struct tdu_engine *engine_new(const struct tdu_geometry *g, u32 mode)
{
	struct tdu_engine *s = zeroed_memory(1, sizeof(*s));
	struct td_engine *e = &s->e;
	struct td_ledger *ledger = &e->ledger;
	struct td_sizes sizes;
	struct td_super sb;
	struct td_layout l;

	tdu_to_super(g, &sb);
	td_super_layout(&sb, g->block_sectors, &l);
	sizes = td_engine_sizes(&sb, &l);
	s->counters = zeroed_memory(TD_NR_COUNTERS, sizeof(*s->counters));
	e->counters = s->counters;
	e->words = zeroed_memory(sizes.words, sizeof(*e->words));
	e->sets = zeroed_memory(sizes.sets, sizeof(*e->sets));
	e->nr_buckets = (u32)sizes.buckets;
	e->buckets = zeroed_memory(sizes.buckets, sizeof(*e->buckets));
	ledger->pending = zeroed_memory(sizes.pending, sizeof(*ledger->pending));
	ledger->pending_words = zeroed_memory(sizes.pending_words,
					      sizeof(*ledger->pending_words));
	ledger->marks = zeroed_memory(sizes.marks, sizeof(*ledger->marks));
	ledger->marks_image = zeroed_memory(sizes.marks_image, 1);
	ledger->group_buffer = must_have(malloc(TD_GROUP_BYTES));
	ledger->marks_buffer = must_have(malloc(TD_BLOCK_BYTES));
	ledger->pages_buffer = must_have(malloc(TD_PAGES_BYTES));
	td_engine_init(e, &sb, &l, (enum td_mode)mode);
	return s;
}

static void engine_free(struct tdu_engine *s)
{
	struct td_ledger *ledger = &s->e.ledger;

	free(ledger->pending);
	free(ledger->pending_words);
	free(ledger->marks);
	free(ledger->marks_image);
	free(ledger->group_buffer);
	free(ledger->marks_buffer);
	free(ledger->pages_buffer);
	free(s->e.buckets);
	free(s->e.words);
	free(s->e.sets);
	free(s->counters);
	free(s);
}

static void engine_set_mode(struct tdu_engine *s, u32 mode)
{
	env_store(&s->e.mode, mode);
}

static void engine_set_limit(struct tdu_engine *s, u64 quarters)
{
	env_poke(s->e.ledger.dirty_limit, quarters);
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
		if (r->flush != s->e.urgent_round)
			f->urgent_left += frames;
	}
	f->clean_frame = s->e.clean_frame;
	f->clean_left = s->e.clean_left;
	f->region_frames = 1u << (l->mark_shift - TD_FRAME_SHIFT);
	f->regions = l->nr_marks;
}

static void mix_number(u64 *hash, u64 value)
{
	*hash = (*hash ^ value) * 0x9e3779b97f4a7c15ull;
	*hash ^= *hash >> 29;
}

static void mix_bytes(u64 *hash, const void *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		mix_number(hash, ((const u8 *)bytes)[i]);
}

static void mix_request(u64 *hash, struct td_req *r)
{
	mix_number(hash, request_of(r)->id);
	mix_number(hash, r->sector << 32 | r->count);
	/* The number of a round says nothing. */
	mix_number(hash, r->sweep << 32 |
		  (r->kind == TD_FLUSH || r->kind == TD_CLEAN ? (u32)r->flush : 0));
	mix_number(hash, (u64)r->fresh << 32 | (u32)r->nr_parts << 16 |
		  (u32)r->holds << 8 | r->phase);
	mix_number(hash, (u64)r->pending << 32 | (u32)r->woken << 16 |
		  (u32)r->then << 8 | r->gates);
	mix_number(hash, r->writeback | r->no_writeback << 1 | r->counted << 2 |
		  r->failed << 3 | r->ssd_failed << 4 | r->uncleaned << 5 |
		  r->drops << 6);
	for (u32 i = 0; i < r->nr_parts; i++)
		mix_number(hash, (u64)r->parts[i].slot << 32 | r->parts[i].mask |
			  (u32)r->parts[i].held << 8 |
			  (u32)r->parts[i].cancelled << 9);
}

static void mix_gates(u64 *hash, const struct td_link *ring, size_t offset)
{
	mix_number(hash, 1);
	for (struct td_link *k = ring->next; k != ring; k = k->next)
		mix_request(hash, (struct td_req *)((char *)k - offset));
}

static u64 engine_digest(struct tdu_engine *s)
{
	const struct td_engine *e = &s->e;
	const struct td_ledger *l = &e->ledger;
	size_t gate = offsetof(struct td_req, gate);
	struct td_sizes sizes = td_engine_sizes(&l->super, &e->layout);
	u64 hash = env_load(&e->mode) << 8 | env_load(&e->state);

	for (u32 i = 0; i < e->layout.slots; i++)
		mix_number(&hash, td_word_load(&e->words[i]) & ~TD_W_RECENCY);
	for (u32 i = 0; i < e->nr_buckets; i++)
		mix_gates(&hash, &e->buckets[i].reqs,
			  offsetof(struct td_req, link));
	mix_gates(&hash, &l->sweep_waiters, gate);
	mix_gates(&hash, &l->to_record, gate);
	mix_gates(&hash, &l->recording, gate);
	mix_gates(&hash, &l->flush_waiters, offsetof(struct td_req, flush_gate));
	mix_gates(&hash, &l->mark_waiters, gate);
	mix_gates(&hash, &l->clear_waiters, gate);
	mix_gates(&hash, &e->urgent, gate);
	mix_bytes(&hash, &e->retired, sizeof(e->retired));
	for (u32 i = 0; i < TD_SUSPECTS; i++)
		mix_number(&hash, env_load(&e->suspects[i]));
	mix_number(&hash, env_load(&e->disk_reads));
	mix_number(&hash, e->clean_frame);
	mix_number(&hash, e->clean_left << 1 | e->clean_unrecorded);
	mix_bytes(&hash, l->pending, sizes.pending * 8);
	mix_bytes(&hash, l->marks, sizes.marks * sizeof(*l->marks));
	mix_bytes(&hash, l->marks_image, sizes.marks_image);
	/* Behind the pointers all is numbers; links lie between them. */
	mix_bytes(&hash, &l->nr_marks, offsetof(struct td_ledger, sweep_waiters) -
		  offsetof(struct td_ledger, nr_marks));
	mix_bytes(&hash, &l->flush_begun, offsetof(struct td_ledger, flush_waiters) -
		  offsetof(struct td_ledger, flush_begun));
	mix_bytes(&hash, &l->marks_wanted, offsetof(struct td_ledger, mark_waiters) -
		  offsetof(struct td_ledger, marks_wanted));
	mix_bytes(&hash, &l->checkpoint, sizeof(*l) -
		  offsetof(struct td_ledger, checkpoint));
	return hash;
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

static u32 engine_find_slot(struct tdu_engine *s, u64 frame)
{
	return td_index_find(&s->e, frame);
}

static u64 engine_word(struct tdu_engine *s, u32 slot)
{
	return td_word_load(&s->e.words[slot]);
}

static u32 engine_group_of(struct tdu_engine *s, u64 sector)
{
	return td_group_of(&s->e.layout, sector);
}

static u32 read_look(struct tdu_engine *s, u64 sector, u32 count,
		     struct td_look *look)
{
	u64 dirty;
	u32 slot;

	/* As linux/map.c asks. */
	if (!td_read_home(&s->e, sector, count, &slot, &dirty))
		return td_read_look(&s->e, sector, count, look);
	*look = (struct td_look) {
		.count = count, .slot = slot, .slots = 1,
		.ssd_sector = td_sector_in(&s->e.layout, slot, sector),
		.dirty = dirty,
	};
	return TD_HIT;
}

static void disk_read_ends(struct tdu_engine *s)
{
	td_disk_read_ends(&s->e);
}

static bool write_wants_copy(struct tdu_engine *s, u64 sector, u32 count)
{
	return td_write_wants_copy(&s->e, sector, count);
}

static bool write_in_place(struct tdu_engine *s, u64 sector, u32 count,
			   u32 *slot)
{
	return td_write_in_place(&s->e, sector, count, slot);
}

static bool write_home(struct tdu_engine *s, u64 sector, u32 count, u32 *slot)
{
	return td_write_home(&s->e, sector, count, slot);
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
				       u32 parts, bool no_memory, bool fua)
{
	struct tdu_request *q = must_have(malloc(sizeof(*q)));

	q->id = id;
	q->parts = NULL;
	if (parts || kind == TD_READ)
		q->parts = must_have(malloc(parts * sizeof(*q->parts)));
	td_req_init(&q->r, (enum td_kind)kind, sector, count, q->parts, parts);
	q->r.no_memory = no_memory;
	q->r.fua = fua;
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

static void report_woken(struct td_list *from, struct tdu_list *to)
{
	struct td_req *r;

	for (to->count = 0; (r = td_list_pop(from)) != NULL; to->count++) {
		if (to->count == to->room)
			abort();
		to->woken[to->count].id = request_of(r)->id;
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
	report_woken(&woken, list);
	return actions;
}

static u32 request_start(struct tdu_engine *s, struct tdu_request *q,
			 struct tdu_list *list)
{
	struct td_list woken;
	u32 actions;

	td_list_init(&woken);
	actions = td_start(&s->e, &q->r, &woken);
	report_woken(&woken, list);
	return actions;
}

static u32 request_disk_done(struct tdu_engine *s, struct tdu_request *q, bool ok,
			     struct tdu_list *list)
{
	struct td_list woken;
	u32 actions;

	td_list_init(&woken);
	actions = td_disk_done(&s->e, &q->r, ok, &woken);
	report_woken(&woken, list);
	return actions;
}

static u32 request_ssd_done(struct tdu_engine *s, struct tdu_request *q, bool ok,
			    struct tdu_list *list)
{
	struct td_list woken;
	u32 actions;

	td_list_init(&woken);
	actions = td_ssd_done(&s->e, &q->r, ok, &woken);
	report_woken(&woken, list);
	return actions;
}

static bool request_next_extent(struct tdu_engine *s, const struct tdu_request *q,
				u32 *cursor, struct td_extent *extent)
{
	return td_next_extent(&s->e, &q->r, cursor, extent);
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
	*owner = r ? request_of(r)->id : 0;
	report_woken(&woken, list);
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
		ids[count++] = request_of(td_req_of_gate(k))->id;
	}
	return count;
}

static bool engine_fail(struct tdu_engine *s, struct tdu_list *list)
{
	struct td_list woken;
	bool first;

	td_list_init(&woken);
	first = td_fail(&s->e, &woken);
	report_woken(&woken, list);
	return first;
}

static bool engine_hit_failed(struct tdu_engine *s, u64 sector, u32 count, u32 slot,
			      u64 dirty, struct tdu_list *list)
{
	struct td_list woken;
	bool elsewhere;

	td_list_init(&woken);
	elsewhere = td_hit_failed(&s->e, sector, count, slot, dirty, &woken);
	report_woken(&woken, list);
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

static bool work_due(struct tdu_engine *s)
{
	return td_work_due(&s->e);
}

static bool work_next(struct tdu_engine *s, u32 *kind, u64 *sector,
		      u32 *sectors, struct tdu_list *list)
{
	struct td_list woken;
	struct td_work work;
	bool any;

	td_list_init(&woken);
	any = td_work_next(&s->e, &work, &woken);
	report_woken(&woken, list);
	if (!any)
		return false;
	s->works[work.kind] = work;
	*kind = work.kind;
	*sector = work.sector;
	*sectors = work.sectors;
	return true;
}

static void work_bytes(struct tdu_engine *s, u32 kind, u32 from, u32 sectors,
		       u8 *bytes)
{
	memcpy(bytes, (u8 *)s->works[kind].buffer + from * 512ull,
	       sectors * 512ull);
}

static void work_done(struct tdu_engine *s, u32 kind, bool ok,
		      struct tdu_list *list)
{
	struct td_list woken;

	td_list_init(&woken);
	td_work_done(&s->e, &s->works[kind], ok, &woken);
	report_woken(&woken, list);
}

static void engine_tick(struct tdu_engine *s)
{
	td_tick(&s->e);
}

static struct tdu_load *load_begin(struct tdu_engine *s)
{
	struct tdu_load *load = must_have(malloc(sizeof(*load)));

	td_load_begin(&load->l, &s->e);
	load->sectors = 0;
	return load;
}

static bool load_next(struct tdu_load *load, u64 *sector, u32 *sectors)
{
	bool more = td_load_next(&load->l, sector, sectors);

	load->sectors = more ? *sectors : 0;
	return more;
}

static void load_feed(struct tdu_load *load, const u8 *bytes)
{
	u8 *buffer = NULL;

	if (bytes) {
		buffer = must_have(malloc(load->sectors * 512ull + !load->sectors));
		memcpy(buffer, bytes, load->sectors * 512ull);
	}
	td_load_feed(&load->l, buffer);
	free(buffer);
}

static u32 load_end(struct tdu_load *load)
{
	u32 error = td_load_end(&load->l);

	free(load);
	return error;
}

static bool format_next(const struct tdu_geometry *g, u32 step, u64 *sector,
			u32 *sectors, const u8 **bytes)
{
	static _Thread_local u8 buffer[TD_LOAD_BYTES];
	struct td_super sb;

	tdu_to_super(g, &sb);
	*bytes = buffer;
	return td_format_next(&sb, step, sector, sectors, buffer);
}

const struct td_heat *tdu_heat(const struct tdu_engine *s)
{
	return &s->e.heat;
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
	.engine_new = engine_new,
	.engine_free = engine_free,
	.set_mode = engine_set_mode,
	.set_limit = engine_set_limit,
	.facts = engine_facts,
	.digest = engine_digest,
	.counter = engine_counter,
	.words = engine_words,
	.find = engine_find_slot,
	.word = engine_word,
	.group_of = engine_group_of,
	.read_look = read_look,
	.disk_read_ends = disk_read_ends,
	.write_wants_copy = write_wants_copy,
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
	.next_extent = request_next_extent,
	.unpin = engine_unpin,
	.drained = engine_drained,
	.clean_seek = clean_seek,
	.urgent = engine_urgent_writes,
	.fail = engine_fail,
	.hit_failed = engine_hit_failed,
	.set_retired = engine_set_retired,
	.retired = engine_retired,
	.forget_group = forget_group,
	.work_due = work_due,
	.work_next = work_next,
	.work_bytes = work_bytes,
	.work_done = work_done,
	.tick = engine_tick,
	.load_new = load_begin,
	.load_next = load_next,
	.load_feed = load_feed,
	.load_end = load_end,
	.format_next = format_next,
	.super_choose = tdu_super_choose,
	.super_match = tdu_super_match,
	.super_is_sound = tdu_super_is_sound,
	.super_write = tdu_super_write,
	.samples_choose = tdu_samples_choose,
	.samples_pick = tdu_samples_pick,
	.samples_probe = tdu_samples_probe,
	.samples_write = tdu_samples_write,
};

const struct tdu_api *tandem_user_api(void)
{
	return &api;
}
