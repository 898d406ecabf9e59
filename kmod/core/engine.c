// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The life of requests in flight: who waits for whom, and what ends when.
 *
 * Invariants, under the bucket's lock:
 *   E1  Every write (and discard) from td_begin() to END, and every fill, is in
 *       its bucket's ring, in order of arrival.
 *   E2  Of two writes that touch a common quarter the later one waits until the
 *       earlier one has ended. (Neighbours in a frame go side by side: a journal
 *       is written in blocks of 4 KiB, which the disk's queue should merge.)
 *   E3  A fill takes no frame that a write in the ring touches, waiting or not,
 *       nor one of another fill. A write that starts cancels the parts of fills
 *       that it touches: they are not published.
 *   E4  A write has unpublished every quarter that it touches before its disk
 *       write is submitted, and they stay so until it has ended.
 *   E5  A slot's SSD write is submitted only when no read is pinned that could
 *       expect the slot's former content: a slot taken from another frame had no
 *       pin when taken (W3); the first write in a slot holds it until the pins
 *       went; one that joins it there writes only if there were no pins.
 *   E6  A slot is published only when the disk holds the same data: for a fill
 *       by E3, for a write since it ends after both writes succeeded.
 *
 * Why reads are linearizable per sector: take a sector and the writes to it,
 * which E2 puts in a row W1, W2, ... A read of it goes to the disk or to a
 * pinned slot.
 *   - A disk read is as linearizable as the disk, for it happens between the
 *     read's start and end.
 *   - A hit that pinned after Wn ended returns what Wn or a later fill stored,
 *     by E6 equal to the disk's content, and no later write has been submitted
 *     to the disk when the pin was taken, or it would have unpublished it (E4).
 *     If W(n+1) starts during the hit, both overlap and the old value is
 *     right: whoever has seen the new value read it from the disk, after E4's
 *     unpublishing, so after the pin, so not before the hit began.
 *   - No hit pins between a write's unpublishing and its end (W5), so none sees
 *     data that the disk has not yet taken.
 *   - A fill of quarters that are not valid may overwrite what an old pin still
 *     reads: pinned before a discard, filled after it. The fill's data was the
 *     disk's content while that read was in flight, so it may return either.
 *
 * Threads: td_begin() and the *_done() functions under the bucket's lock.
 * Why a ring per bucket and no tree: it holds the requests in flight to 1/1024
 * of the disk, which is seldom more than one.
 */
#include "index.h"
#include "store.h"

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

void td_engine_init(struct td_engine *e, const struct td_layout *l,
		    enum td_mode mode)
{
	e->layout = *l;
	env_store(&e->mode, mode);
	env_store(&e->state, TD_ACTIVE);
	for (u32 i = 0; i < TD_STREAMS; i++)
		env_store(&e->streams[i], 0);
	for (u32 i = 0; i < e->nr_buckets; i++) {
		td_link_init(&e->buckets[i].reqs);
		e->buckets[i].clock = 0;
	}
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

static void woken_add(struct td_list *list, struct td_req *r)
{
	r->next = NULL;
	*list->tail = r;
	list->tail = &r->next;
}

void td_req_init(struct td_req *r, enum td_kind kind, u64 sector, u32 count,
		 struct td_part *parts, u32 max_parts)
{
	memset(r, 0, sizeof(*r));
	td_link_init(&r->link);
	r->kind = kind;
	r->sector = sector;
	r->count = count;
	r->span_sector = sector;
	r->span_count = count;
	r->parts = parts;
	r->max_parts = (u8)max_parts;
}

void td_pass(struct td_engine *e, enum td_kind kind, u32 count,
	     enum td_counter why)
{
	if (kind != TD_READ)
		env_count(e->counters, TD_C_WRITE_REQUESTED, count);
	env_count(e->counters, why, count);
}

static struct td_bucket *bucket_of(const struct td_engine *e,
				   const struct td_req *r)
{
	return &e->buckets[td_bucket_of(e, r->sector)];
}

/* Is a write in the ring, before @before, that shares a quarter with @r? */
static bool write_before(const struct td_bucket *b, const struct td_req *r,
			 const struct td_link *before)
{
	for (struct td_link *l = b->reqs.next; l != before; l = l->next)
		if (td_req_of(l)->kind != TD_READ && td_req_collide(td_req_of(l), r))
			return true;
	return false;
}

static u32 begin_read(struct td_engine *e, struct td_bucket *b,
		      struct td_req *r)
{
	bool stream = td_stream_seen(e, td_frame_of(r->sector),
				     td_frame_of(r->sector + r->count - 1));

	td_store_plan_fill(e, b, r, stream);
	if (!r->nr_parts) {
		td_pass(e, TD_READ, r->count, stream ?
			TD_C_READ_BYPASSED_SEQUENTIAL :
			TD_C_READ_BYPASSED_BUSY);
		return TD_DO_PASS;
	}
	td_link_add_tail(&b->reqs, &r->link);
	r->phase = TD_PHASE_ACTIVE;
	r->pending = TD_DO_DISK;
	td_pass(e, TD_READ, r->count, TD_C_READ_MISSED);
	return TD_DO_DISK;
}

/* No earlier write is in its way: make its frames unreadable, and go. */
static u32 start_write(struct td_engine *e, struct td_bucket *b,
		       struct td_req *r)
{
	td_store_plan_write(e, b, r);
	r->phase = TD_PHASE_ACTIVE;
	r->pending = TD_DO_DISK;
	if (r->nr_parts)
		r->pending |= TD_DO_SSD;
	if (r->holds)
		env_count(e->counters, TD_C_DRAINS, 1);
	return r->holds ? TD_DO_DISK : r->pending;
}

u32 td_begin(struct td_engine *e, struct td_req *r)
{
	struct td_bucket *b = bucket_of(e, r);

	if (!td_active(e)) {
		td_pass(e, r->kind, r->count, r->kind == TD_READ ?
			TD_C_READ_BYPASSED_FAILED : TD_C_WRITE_BYPASSED_FAILED);
		return TD_DO_PASS;
	}
	if (r->kind == TD_READ)
		return begin_read(e, b, r);
	env_count(e->counters, TD_C_WRITE_REQUESTED, r->count);
	td_link_add_tail(&b->reqs, &r->link);
	if (write_before(b, r, &r->link)) {
		r->phase = TD_PHASE_WAITING;
		env_count(e->counters, TD_C_WAITS, 1);
		return 0;
	}
	return start_write(e, b, r);
}

/* Out of the ring, slots given up or published; then those that waited. */
static void end(struct td_engine *e, struct td_req *r, struct td_list *woken)
{
	struct td_bucket *b = bucket_of(e, r);
	bool write = r->kind != TD_READ;

	td_link_del(&r->link);
	td_store_finish(e, b, r);
	if (!write)
		return;
	for (struct td_link *l = b->reqs.next; l != &b->reqs; l = l->next) {
		struct td_req *q = td_req_of(l);

		if (q->phase == TD_PHASE_WAITING && td_req_collide(q, r) &&
		    !write_before(b, q, l)) {
			q->woken = (u8)start_write(e, b, q);
			woken_add(woken, q);
		}
	}
}

u32 td_woken(const struct td_req *r)
{
	return r->woken;
}

u32 td_disk_done(struct td_engine *e, struct td_req *r, bool ok,
		 struct td_list *woken)
{
	r->pending &= (u8)~TD_DO_DISK;
	r->failed = !ok;
	/* A discard may fail since the disk knows none. */
	if (!ok && r->kind != TD_DISCARD)
		env_count(e->counters, TD_C_DISK_ERRORS, 1);
	if (r->kind == TD_READ) {
		if (ok && td_active(e) && td_store_wanted(r)) {
			r->pending |= TD_DO_SSD;
			return TD_DO_ANSWER | TD_DO_SSD;
		}
		end(e, r, woken);
		return (ok ? TD_DO_ANSWER : TD_DO_RETRY) | TD_DO_END;
	}
	if (r->pending)
		return TD_DO_ANSWER;
	end(e, r, woken);
	return TD_DO_ANSWER | TD_DO_END;
}

u32 td_ssd_done(struct td_engine *e, struct td_req *r, bool ok,
		struct td_list *woken)
{
	r->pending &= (u8)~TD_DO_SSD;
	r->ssd_failed = !ok;
	if (!ok)
		env_count(e->counters, TD_C_SSD_ERRORS, 1);
	if (r->pending)
		return 0;
	end(e, r, woken);
	return TD_DO_END;
}

u32 td_drained(struct td_engine *e, u32 bucket, u32 slot,
	       struct td_req **owner)
{
	struct td_link *head = &e->buckets[bucket].reqs;

	if (!td_word_unhold(&e->words[slot]))
		return 0;
	for (struct td_link *l = head->next; l != head; l = l->next) {
		struct td_req *r = td_req_of(l);

		if (!td_store_unheld(r, slot))
			continue;
		*owner = r;
		return r->holds ? 0 : TD_DO_SSD;
	}
	return 0;
}

bool td_fail(struct td_engine *e)
{
	u64 active = TD_ACTIVE;

	return env_cas(&e->state, &active, TD_BYPASS);
}

void td_forget_group(struct td_engine *e, u32 group)
{
	u32 size = 1u << (e->layout.way_shift + e->layout.run_shift);
	u32 first = group * size;
	struct td_link *head = &e->buckets[group & (e->nr_buckets - 1)].reqs;

	for (struct td_link *l = head->next; l != head; l = l->next)
		td_store_cancel(e, td_req_of(l), first, first + size - 1);
	for (u32 i = 0; i < size; i++)
		td_index_forget(e, first + i, TD_QUARTERS);
}
