// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A hash of an engine's state: two engines with different numbers differ in what they
 * will do. Requests count by the caller's ids, since their addresses mean nothing.
 */
#include "user_int.h"

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
	mix_number(hash, tdu_request_of(r)->id);
	mix_number(hash, r->sector << 32 | r->count);
	/* The number of a round says nothing. */
	mix_number(hash, r->sweep);
	mix_number(hash, (u64)r->fresh << 32 | (u32)r->nr_parts << 16 |
			 (u32)r->holds << 8 | r->phase);
	mix_number(hash, (u64)r->pending << 32 | (u32)r->woken << 16 |
			 (u32)r->then << 8 | r->gates);
	mix_number(hash, r->writeback | r->no_writeback << 1 | r->counted << 2 |
			 r->failed << 3 | r->ssd_failed << 4 | r->uncleaned << 5 |
			 r->drops << 6 | r->no_rest << 7 | (u32)r->asks << 8 |
			 (u32)r->rests << 16 | (u64)r->durable << 32);
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

u64 tdu_digest(struct tdu_engine *s)
{
	const struct td_engine *e = &s->e;
	const struct td_ledger *l = &e->ledger;
	size_t gate = offsetof(struct td_req, gate);
	struct td_sizes sizes = td_engine_sizes(&l->super, &e->layout);
	u64 hash = env_load(&e->promotes) << 16 | env_load(&e->mode) << 8 |
		   env_load(&e->state);

	for (u32 i = 0; i < e->layout.slots; i++)
		mix_number(&hash, td_word_load(&e->words[i]) & ~TD_W_RECENCY);
	for (u32 i = 0; i < e->nr_buckets; i++)
		mix_gates(&hash, &e->buckets[i].reqs,
			  offsetof(struct td_req, link));
	mix_gates(&hash, &l->sweep_waiters, gate);
	mix_gates(&hash, &l->next_sweep_waiters, gate);
	mix_gates(&hash, &l->to_record, gate);
	mix_gates(&hash, &l->recording, gate);
	mix_gates(&hash, &l->flush_waiters, offsetof(struct td_req, flush_gate));
	mix_gates(&hash, &l->next_flush_waiters, offsetof(struct td_req, flush_gate));
	for (u32 i = 0; i < TD_MARK_BLOCKS_MAX; i++)
		mix_gates(&hash, &l->mark_waiters[i], gate);
	mix_gates(&hash, &l->mark_writing, gate);
	mix_gates(&hash, &l->clear_waiters, gate);
	mix_gates(&hash, &e->urgent, gate);
	mix_bytes(&hash, &e->retired, sizeof(e->retired));
	for (u32 i = 0; i < TD_SUSPECTS; i++)
		mix_number(&hash, env_load(&e->suspects[i]));
	mix_number(&hash, env_load(&e->disk_reads));
	mix_number(&hash, e->clean_frame);
	mix_number(&hash, e->clean_left << 1 | e->clean_unrecorded);
	mix_bytes(&hash, e->trim.freed, sizes.freed * sizeof(*e->trim.freed));
	mix_number(&hash, (u64)e->trim.next << 32 | e->trim.looks);
	mix_number(&hash, e->trim.most);
	mix_number(&hash, (u64)e->trim.first << 32 | e->trim.slots);
	mix_bytes(&hash, l->pending, sizes.pending * 8);
	mix_bytes(&hash, l->marks, sizes.marks * sizeof(*l->marks));
	mix_bytes(&hash, l->marks_image, sizes.marks_image);
	mix_number(&hash, l->dirty_limit << 1 | l->ssd_unflushed);
	/* Behind the pointers all is numbers; links lie between them. */
	mix_bytes(&hash, &l->nr_marks, offsetof(struct td_ledger, sweep_waiters) -
			 offsetof(struct td_ledger, nr_marks));
	mix_bytes(&hash, &l->flush_begun, offsetof(struct td_ledger, flush_waiters) -
			 offsetof(struct td_ledger, flush_begun));
	mix_bytes(&hash, &l->marks_set, offsetof(struct td_ledger, mark_waiters) -
			 offsetof(struct td_ledger, marks_set));
	mix_bytes(&hash, &l->checkpoint, offsetof(struct td_ledger, whole_waiters) -
			 offsetof(struct td_ledger, checkpoint));
	mix_gates(&hash, &l->whole_waiters, gate);
	return hash;
}
