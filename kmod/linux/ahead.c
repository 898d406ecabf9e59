// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reading the SSD in order, before the reader asks: while core checks one part of
 * the index, the next parts are being read.
 *
 * Invariants:
 *   A1  The parts that are kept lie one behind the other. An answer is copied from
 *       parts that were read without an error; if that is not possible, the
 *       answer is read as if no part had been read ahead.
 *   A2  Reading ahead starts only behind a whole buffer that could be read, not
 *       while the reader goes block by block around an unreadable place.
 *   A3  Nothing is read beyond the sector up to which the reader will ask (@until).
 * Threads: one; reads complete in interrupts.
 * Why a copy: a group of the journal may cross the end of one answer, and then the
 * next request begins before that end.
 * Why bios of its own and no worker: a new worker needs memory, the device may be
 * suspended, and reclaim of memory may wait for the device.
 */
#include <linux/completion.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "ahead.h"

#define LOAD_SECTORS	(TD_LOAD_BYTES >> SECTOR_SHIFT)
#define PARTS		5u	/* one is in use, the others under way */
#define LOOK_AGAIN	(30 * HZ)	/* so that no wait looks like a hang */

/* Without memory for a part only the start is slower. */
#define GFP_PART	(GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN)

struct part {
	struct bio bio;
	struct bio_vec vecs[TANDEM_LOAD_PAGES];
	struct completion done;
	void *buffer;
	u64 sector;
	u32 sectors;		/* 0: nothing is kept in it */
	bool under_way;
	bool failed;
};

struct tandem_ahead {
	struct tandem *t;
	void *answer;		/* the caller's until the next call */
	u64 next;		/* sector where the next part begins */
	u32 first;		/* the part with the lowest sector */
	u32 nr_parts;
	struct part *parts[PARTS];
};

static struct part *nth_part(struct tandem_ahead *a, u32 n)
{
	return a->parts[(a->first + n) % a->nr_parts];
}

static u64 end_of(const struct part *p)
{
	return p->sector + p->sectors;
}

static void part_endio(struct bio *bio)
{
	struct part *p = bio->bi_private;

	complete(&p->done);
}

static void begin_part(struct tandem_ahead *a, struct part *p, u32 sectors)
{
	p->sector = a->next;
	p->sectors = sectors;
	p->under_way = true;
	a->next += sectors;
	reinit_completion(&p->done);
	bio_init(&p->bio, a->t->ssd->bdev, p->vecs, TANDEM_LOAD_PAGES,
		 REQ_OP_READ | REQ_META);
	p->bio.bi_iter.bi_sector = p->sector;
	p->bio.bi_private = p;
	p->bio.bi_end_io = part_endio;
	tandem_bio_add(&p->bio, p->buffer, sectors << SECTOR_SHIFT);
	submit_bio(&p->bio);
}

/* Wait for @p. True: @p was read without an error. */
static bool await_part(struct part *p)
{
	if (!p->under_way)
		return !p->failed;
	while (!wait_for_completion_io_timeout(&p->done, LOOK_AGAIN))
		;
	p->failed = p->bio.bi_status;
	p->under_way = false;
	bio_uninit(&p->bio);
	invalidate_kernel_vmap_range(p->buffer, p->sectors << SECTOR_SHIFT);
	return !p->failed;
}

static void drop_parts(struct tandem_ahead *a)
{
	u32 i;

	for (i = 0; i < a->nr_parts; i++) {
		await_part(a->parts[i]);
		a->parts[i]->sectors = 0;
	}
}

/* Keep nothing of what lies before @sector: the reader does not go back. */
static void forget_before(struct tandem_ahead *a, u64 sector)
{
	struct part *p = nth_part(a, 0);

	while (p->sectors && end_of(p) <= sector) {
		await_part(p);
		p->sectors = 0;
		a->first = (a->first + 1) % a->nr_parts;
		p = nth_part(a, 0);
	}
}

enum answer_state { ANSWER_COPIED, ANSWER_NOT_AHEAD, ANSWER_UNREADABLE };

static enum answer_state copy_answer(struct tandem_ahead *a, u64 sector, u32 sectors)
{
	u64 at = sector, end = sector + sectors, n;
	u32 i;

	for (i = 0; i < a->nr_parts && at < end; i++, at += n) {
		struct part *p = nth_part(a, i);

		if (at < p->sector || at >= end_of(p))
			return ANSWER_NOT_AHEAD;
		/* A smaller request may not touch the part's unreadable block. */
		if (!await_part(p))
			return p->sector >= sector && end_of(p) <= end ?
				ANSWER_UNREADABLE : ANSWER_NOT_AHEAD;
		n = min(end_of(p), end) - at;
		memcpy(a->answer + ((at - sector) << SECTOR_SHIFT),
		       p->buffer + ((at - p->sector) << SECTOR_SHIFT),
		       n << SECTOR_SHIFT);
	}
	return at == end ? ANSWER_COPIED : ANSWER_NOT_AHEAD;
}

static enum answer_state find_answer(struct tandem_ahead *a, u64 sector, u32 sectors)
{
	enum answer_state state;

	if (!a->nr_parts)
		return ANSWER_NOT_AHEAD;
	forget_before(a, sector);
	state = copy_answer(a, sector, sectors);
	if (state != ANSWER_NOT_AHEAD || sectors != LOAD_SECTORS)
		return state;
	drop_parts(a);
	a->next = sector;
	begin_part(a, nth_part(a, 0), sectors);
	return copy_answer(a, sector, sectors);
}

void *tandem_ahead_read(struct tandem_ahead *a, u64 sector, u32 sectors,
			u64 until)
{
	enum answer_state state = find_answer(a, sector, sectors);
	u32 i;

	if (state == ANSWER_COPIED) {
		for (i = 0; i < a->nr_parts && a->next < until; i++)
			if (!nth_part(a, i)->sectors)
				begin_part(a, nth_part(a, i),
					   min_t(u64, until - a->next, LOAD_SECTORS));
		return a->answer;
	}
	drop_parts(a);
	if (state == ANSWER_UNREADABLE ||
	    tandem_ssd_io(a->t, REQ_OP_READ | REQ_META, sector, a->answer,
			  sectors << SECTOR_SHIFT))
		return NULL;
	return a->answer;
}

static struct part *part_alloc(void)
{
	struct part *p = kzalloc(sizeof(*p), GFP_PART);

	if (!p)
		return NULL;
	init_completion(&p->done);
	p->buffer = __vmalloc(TD_LOAD_BYTES, GFP_PART);
	if (!p->buffer) {
		kfree(p);
		return NULL;
	}
	return p;
}

static struct tandem_ahead *ahead_alloc(struct tandem *t)
{
	struct tandem_ahead *a = kzalloc(sizeof(*a), GFP_KERNEL);

	if (!a)
		return NULL;
	a->t = t;
	a->answer = vmalloc(TD_LOAD_BYTES);
	if (!a->answer) {
		kfree(a);
		return NULL;
	}
	while (a->nr_parts < PARTS) {
		struct part *p = part_alloc();

		if (!p)
			break;
		a->parts[a->nr_parts++] = p;
	}
	return a;
}

struct tandem_ahead *tandem_ahead_alloc(struct tandem *t)
{
	unsigned int noio = memalloc_noio_save();
	struct tandem_ahead *a = ahead_alloc(t);

	memalloc_noio_restore(noio);
	return a;
}

void tandem_ahead_free(struct tandem_ahead *a)
{
	u32 i;

	drop_parts(a);
	for (i = 0; i < a->nr_parts; i++) {
		vfree(a->parts[i]->buffer);
		kfree(a->parts[i]);
	}
	vfree(a->answer);
	kfree(a);
}
