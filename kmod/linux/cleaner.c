// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The cleaner: asks core where dirty data is, and writes it back in jobs of its
 * own; obeys the user's "flush" messages; sets the pace.
 *
 * Invariants:
 *   C1  The constructor allocates all memory, so the cleaner writes dirty data
 *       back even when the machine has no memory left.
 *   C2  One job is kept for places that a request waits for.
 *   C3  The limit of dirty data is 0 while a flush is on or paused, so the amount
 *       of dirty data only falls. (Exception: the write that heals a bad block,
 *       B8 in core/writeback.c.)
 * Threads: one worker looks for dirty data; a second worker looks for the places
 * that requests wait for (freeze.c); jobs end in other workers. State is under
 * tandem.lock.
 * Why jobs of at most 32 KiB and many at once: the disk merges and sorts better
 * than the cleaner, as long as it has enough to choose from (cargo xtask bench).
 * For a while after a failure few jobs run and each takes one frame, and a frame
 * that fails is passed over until the next round. So a bad block keeps only its own
 * frame from being written back, and a dead disk is not asked all the time.
 */
#include <linux/slab.h>

#include "job.h"

#define JOB_PARTS	(TANDEM_CLEAN_BYTES >> (TD_FRAME_SHIFT + SECTOR_SHIFT))
#define RETRY_DISK	(2 * HZ)	/* after a failure */
#define RETRY_SSD	(HZ / 10)
#define CAREFUL		(10 * HZ)	/* one frame a job, after a failure */
#define CAREFUL_JOBS	4u		/* at once, meanwhile */
#define PASSES_MAX	8u		/* places with nothing to do, in a row */
#define FAST_SPAN	8000000u	/* us: how long a measurement counts */
#define DRAIN_SPAN	10000000u	/* the same for a drain: users' load varies */
#define START		4u	/* idle ms that each ms of a drain so far allows */
#define LOOKS		64u		/* with interrupts off: some 10 us */

static u32 ms_since(unsigned long then)
{
	return jiffies_to_msecs(min_t(unsigned long, jiffies - then, 60 * HZ));
}

/*
 * Is @then in the future? @then (jiffies) was set to at most @longest ahead, perhaps
 * so long ago that jiffies have wrapped around since.
 */
static bool to_come(unsigned long then, unsigned long longest)
{
	return then - jiffies - 1 < longest;
}

/* Must all dirty data go to the disk? Lock held. */
static bool is_draining(const struct tandem *t)
{
	return t->cleaner.flush == TANDEM_FLUSH_ON ||
	       env_load(&t->engine.mode) != TD_WRITEBACK;
}

/* Is a drain on or paused? Then the measurements of that drain count. */
static bool has_drain(const struct tandem *t)
{
	return t->cleaner.flush == TANDEM_FLUSH_PAUSED || is_draining(t);
}

static bool is_paused(const struct tandem_cleaner *c)
{
	return c->stopping || c->flush == TANDEM_FLUSH_PAUSED;
}

/* A hit is counted but notes no time: note when the counter has grown. Lock held. */
static void look_for_hits(struct tandem *t)
{
	struct tandem_cleaner *c = &t->cleaner;
	u64 hits;

	/* Reading all processors' counters costs too much to do for each cleaning. */
	if (!ms_since(c->hits_read))
		return;
	c->hits_read = jiffies;
	hits = tandem_counter(t, TD_C_READ_HIT);
	if (hits != c->hits) {
		c->hits = hits;
		c->hit = jiffies;
	}
}

/*
 * How long, in ms, may dirty data still wait for a disk at rest? Once the disk was woken,
 * everything goes there that was not written just now. Lock held.
 */
static u32 may_rest(const struct tandem *t)
{
	const struct tandem_cleaner *c = &t->cleaner;
	unsigned long rest = (unsigned long)t->args.limit.rest * HZ;

	if (c->works || !to_come(c->kept_since + rest, rest))
		return 0;
	return jiffies_to_msecs(c->kept_since + rest - jiffies);
}

/* Follow what may_rest() needs, once a second while there is dirty data. Lock held. */
static void follow_rest(struct tandem *t)
{
	struct tandem_cleaner *c = &t->cleaner;

	if (c->works && ms_since(c->began) < TANDEM_AWAKE)
		return;
	if (c->works || !c->was_dirty)
		c->kept_since = jiffies;
	c->works = false;
}

/* How many jobs may be in flight now. *again: ms after which to ask again. Lock held. */
static u32 jobs_allowed(const struct tandem *t, u32 *again)
{
	const struct tandem_cleaner *c = &t->cleaner;
	const struct td_ledger *l = &t->engine.ledger;
	struct tandem_pace pace = {
		.dirty = l->dirty,
		.full = max(tandem_pace_full(l->dirty, l->dirty_limit),
			    tandem_pace_full(l->places, l->places_limit)),
		.disk_idle = atomic_read(&t->foreground) ? 0 :
			     ms_since(READ_ONCE(t->disk_used)),
		.ssd_idle = ms_since(c->hit),
		.write_idle = ms_since(READ_ONCE(t->written)),
		.rest = may_rest(t),
		.drain = is_draining(t),
		.paused = is_paused(c),
	};

	/* When a drain begins, it is not known yet which users will use the disk. */
	if (pace.drain)
		pace.disk_idle = min(pace.disk_idle, START * ms_since(c->drain_since));
	return tandem_pace(&pace, again);
}

/* Bring both measurements up to date. Lock held. */
static void measure_cleaning(struct tandem *t)
{
	const struct td_ledger *l = &t->engine.ledger;
	struct tandem_cleaner *c = &t->cleaner;
	u64 places = l->places_cleaned - c->places_seen;
	u64 us = jiffies_to_usecs(jiffies - c->since);

	if (c->inflight && c->full_speed)
		tandem_pace_add(&c->fast, us, places);
	/* Before the first place is clean, the disk may still write its own cache. */
	if (c->drain_has_cleaned && !is_paused(c) && (l->dirty || places))
		c->drain_us += us;
	else if (is_draining(t) && places)
		c->drain_has_cleaned = true;
	/* Many jobs end together: a span that ends between them would mean nothing. */
	if (places && c->drain_us) {
		tandem_pace_add(&c->drain, c->drain_us, places);
		c->drain_us = 0;
	}
	c->since = jiffies;
	c->places_seen = l->places_cleaned;
}

/* A drain begins: measurements of earlier drains do not count. Lock held. */
static void forget_drain(struct tandem_cleaner *c)
{
	c->drain = (struct tandem_span) { .longest = DRAIN_SPAN };
	c->drain_us = 0;
	c->drain_since = jiffies;
	c->drain_has_cleaned = false;
}

static void set_dirty_limit(struct tandem *t)
{
	struct td_ledger *l = &t->engine.ledger;
	const struct tandem_limit *user = &t->args.limit;
	u64 all = (u64)t->engine.layout.slots * 4;
	u64 limit = all - all / 4;

	if (user->sectors)
		limit = min(limit, user->sectors >> TD_QUARTER_SHIFT);
	env_poke(l->dirty_limit, t->cleaner.flush != TANDEM_FLUSH_OFF ? 0 : limit);
	l->places_limit = tandem_pace_places(tandem_pace_place_us(&t->cleaner.fast),
					     user->seconds);
}

u64 tandem_cleaner_seconds(const struct tandem *t)
{
	const struct tandem_cleaner *c = &t->cleaner;
	const struct td_ledger *l = &t->engine.ledger;
	unsigned long since = READ_ONCE(c->since);
	bool drains = has_drain(t);
	u64 us = c->drain_us;

	if (!tandem_pace_known(drains ? &c->drain : &c->fast))
		return 0;
	if (!drains)
		return tandem_pace_seconds(l->places, 0, 0, c->fast);
	/* Without the lock @since may be later than the jiffies that are read here. */
	if (c->drain_has_cleaned && !is_paused(c))
		us += jiffies_to_usecs(max_t(long, jiffies - since, 0));
	return tandem_pace_seconds(l->places, c->inflight, us, c->drain);
}

/* What came of the attempt to begin one job. */
enum cleaning_start {
	CLEANING_BEGUN,
	CLEANING_PASSED,	/* core had nothing to clean at the place */
	CLEANING_FURTHER,	/* the search for a place goes on in the next call */
	CLEANING_NO_PLACE,
};

/* Where is a place to clean? @goes_on: the last answer was CLEANING_FURTHER. Lock held. */
static enum td_seek find_dirty(struct tandem *t, bool more, bool goes_on, u64 *sector,
			       u32 *count)
{
	enum td_seek seek = td_clean_seek(&t->engine, more, goes_on, LOOKS, sector,
					  count);

	/* A frame recorded from now on may lie behind this round's position. */
	t->cleaner.waits_for_record |= more && seek != TD_SEEK_FOUND;
	return seek;
}

/*
 * Begin one job, if one of @places is to be cleaned. @last: the result of the call
 * before. *again: ms after which to look again; 0: an event says so. Process context.
 */
static enum cleaning_start begin_cleaning(struct tandem *t, enum tandem_places places,
					  enum cleaning_start last, u32 *again)
{
	struct tandem_cleaner *c = &t->cleaner;
	enum td_seek seek = TD_SEEK_NOWHERE;
	enum cleaning_start begun = CLEANING_NO_PLACE;
	struct tandem_job *job = NULL;
	struct td_list woken;
	unsigned long flags;
	u32 count, allowed, todo = 0;
	bool urgent = places == TANDEM_AWAITED_PLACES, careful, more;
	u64 sector;

	td_list_init(&woken);
	flags = tandem_lock(t);
	/* Another table may have the engine by now. */
	if (t->halted) {
		tandem_unlock_cleaner(t, flags);
		return CLEANING_NO_PLACE;
	}
	look_for_hits(t);
	allowed = jobs_allowed(t, again);
	careful = to_come(c->careful, CAREFUL);
	more = !urgent &&
	       c->inflight < (careful ? min(allowed, CAREFUL_JOBS) : allowed);
	/* The pace does not apply to places that requests wait for. */
	if (urgent)
		*again = 0;
	else
		c->waits_for_record = false;
	measure_cleaning(t);
	c->full_speed = allowed >= TANDEM_IDLE_SPEED;
	if (to_come(c->not_before, RETRY_DISK))
		*again = max(jiffies_to_msecs(c->not_before - jiffies), 1u);
	else if (!list_empty(&c->free))
		seek = find_dirty(t, more, last == CLEANING_FURTHER, &sector, &count);
	/* With no free job: the next job that ends looks again. */
	if (seek == TD_SEEK_FURTHER) {
		begun = CLEANING_FURTHER;
	} else if (seek == TD_SEEK_FOUND) {
		job = list_first_entry(&c->free, struct tandem_job, free);
		tandem_job_prepare(job, t);
		td_req_init(&job->req, TD_CLEAN, sector, count, tandem_job_parts(job),
			    careful ? 1 : JOB_PARTS);
		todo = td_begin(&t->engine, &job->req, &woken);
		job->memory_sector = job->req.span_sector;
		begun = todo & TD_DO_PASS ? CLEANING_PASSED : CLEANING_BEGUN;
	}
	if (begun == CLEANING_BEGUN) {
		list_del_init(&job->free);
		c->inflight++;
		c->works = true;
		c->began = jiffies;
		/* The end of a drain is an event, also before the first tick. */
		c->was_dirty |= is_draining(t);
	}
	tandem_unlock_cleaner(t, flags);
	if (begun == CLEANING_BEGUN)
		tandem_job_start(job, todo);
	else if (begun == CLEANING_PASSED)
		tandem_job_ended(t);
	tandem_carry_on(t, &woken);
	return begun;
}

/* Returns after how many ms to look again; 0: tandem_cleaner_kick() says when. */
static u32 begin_cleanings(struct tandem *t, enum tandem_places places)
{
	u32 passes = 0, again = 0;
	enum cleaning_start begun = CLEANING_NO_PLACE;

	do {
		begun = begin_cleaning(t, places, begun, &again);
		if (begun == CLEANING_BEGUN)
			passes = 0;
		else if (begun == CLEANING_PASSED)
			passes++;
		cond_resched();
	} while (begun != CLEANING_NO_PLACE && passes < PASSES_MAX);
	/* Quarters that are dirty but not recorded are recorded within a second. */
	return passes ? 100 : again;
}

static void clean_work(struct work_struct *work)
{
	struct tandem *t = container_of(to_delayed_work(work), struct tandem,
					cleaner.work);
	u32 again = begin_cleanings(t, TANDEM_ALL_PLACES);

	if (again)
		queue_delayed_work(t->frozen_wq, &t->cleaner.work,
				   msecs_to_jiffies(again) + 1);
	tandem_freeze_watch(t);
}

static void urgent_work(struct work_struct *work)
{
	struct tandem *t = container_of(to_delayed_work(work), struct tandem,
					cleaner.urgent);
	u32 again = begin_cleanings(t, TANDEM_AWAITED_PLACES);

	if (again)
		queue_delayed_work(t->wq, &t->cleaner.urgent,
				   msecs_to_jiffies(again) + 1);
}

void tandem_cleaner_kick(struct tandem *t)
{
	mod_delayed_work(t->frozen_wq, &t->cleaner.work, 0);
}

void tandem_cleaner_kick_urgent(struct tandem *t)
{
	mod_delayed_work(t->wq, &t->cleaner.urgent, 0);
}

void tandem_cleaner_failed(struct tandem *t, const struct td_req *r,
			   enum tandem_device device)
{
	struct tandem_cleaner *c = &t->cleaner;
	unsigned long flags = tandem_lock(t);

	c->careful = jiffies + CAREFUL;
	if (r->max_parts == 1) {
		c->not_before = jiffies + (device == TANDEM_DISK ? RETRY_DISK : RETRY_SSD);
		td_clean_skip_to(&t->engine, r->sector + TD_FRAME_SECTORS);
	}
	tandem_unlock_cleaner(t, flags);
}

void tandem_cleaner_ended(struct tandem *t, struct tandem_job *job)
{
	struct tandem_cleaner *c = &t->cleaner;
	unsigned long flags = tandem_lock(t);
	bool last;

	measure_cleaning(t);
	c->inflight--;
	list_add_tail(&job->free, &c->free);
	last = tandem_own_io_ended_locked(t);
	tandem_unlock(t, flags);
	tandem_cleaner_kick(t);
	if (last)
		wake_up(&t->idle);
}

void tandem_cleaner_tick(struct tandem *t)
{
	struct tandem_cleaner *c = &t->cleaner;
	u64 dirty = t->engine.ledger.dirty;

	measure_cleaning(t);
	if (!has_drain(t))
		forget_drain(c);
	set_dirty_limit(t);
	if (!dirty && c->was_dirty && is_draining(t))
		queue_work(t->wq, &t->event);
	follow_rest(t);
	c->was_dirty = dirty;
	if (dirty)
		tandem_cleaner_kick(t);
}

void tandem_cleaner_allow(struct tandem *t, enum tandem_places places)
{
	unsigned long flags = tandem_lock(t);

	measure_cleaning(t);
	t->cleaner.stopping = places == TANDEM_AWAITED_PLACES;
	set_dirty_limit(t);
	tandem_unlock_cleaner(t, flags);
	if (places == TANDEM_ALL_PLACES)
		tandem_cleaner_kick(t);
}

void tandem_cleaner_cancel(struct tandem *t)
{
	cancel_delayed_work_sync(&t->cleaner.work);
	cancel_delayed_work_sync(&t->cleaner.urgent);
}

void tandem_cleaner_wait(struct tandem *t)
{
	/* A worker that began to look before the stop may still begin jobs. */
	tandem_cleaner_cancel(t);
	tandem_jobs_wait(t);
	tandem_cleaner_cancel(t);
}

int tandem_cleaner_order(struct tandem *t, enum tandem_order order)
{
	struct tandem_cleaner *c = &t->cleaner;
	unsigned long flags = tandem_lock(t);
	int r = 0;

	measure_cleaning(t);
	if (order == TANDEM_ORDER_START && !has_drain(t))
		forget_drain(c);
	if (order == TANDEM_ORDER_START)
		c->flush = TANDEM_FLUSH_ON;
	else if (order == TANDEM_ORDER_STOP)
		c->flush = TANDEM_FLUSH_OFF;
	else if (c->flush == TANDEM_FLUSH_OFF)
		r = -EINVAL;
	else if (order == TANDEM_ORDER_PAUSE)
		c->flush = TANDEM_FLUSH_PAUSED;
	else
		c->flush = TANDEM_FLUSH_ON;
	set_dirty_limit(t);
	tandem_unlock_cleaner(t, flags);
	tandem_cleaner_kick(t);
	return r;
}

void tandem_cleaner_limit(struct tandem *t, const struct tandem_limit *limit)
{
	unsigned long flags = tandem_lock(t);

	t->args.limit = *limit;
	set_dirty_limit(t);
	tandem_unlock_cleaner(t, flags);
	tandem_cleaner_kick(t);
}

void tandem_cleaner_inherit(struct tandem *t, const struct tandem *old)
{
	t->cleaner.flush = old->cleaner.flush;
	t->cleaner.fast = old->cleaner.fast;
	t->cleaner.was_dirty = old->cleaner.was_dirty;
	t->cleaner.places_seen = t->engine.ledger.places_cleaned;
	t->cleaner.since = jiffies;
	forget_drain(&t->cleaner);
}

int tandem_cleaner_alloc(struct tandem *t)
{
	struct tandem_cleaner *c = &t->cleaner;
	u32 i;

	for (i = 0; i < TANDEM_CLEANS; i++) {
		c->jobs[i] = tandem_job_alloc(DIV_ROUND_UP(TANDEM_CLEAN_BYTES, PAGE_SIZE),
					      JOB_PARTS, GFP_KERNEL);
		if (!c->jobs[i])
			return -ENOMEM;
		list_add_tail(&c->jobs[i]->free, &c->free);
	}
	return 0;
}

void tandem_cleaner_free(struct tandem *t)
{
	u32 i;

	for (i = 0; i < TANDEM_CLEANS; i++)
		if (t->cleaner.jobs[i])
			tandem_job_release(t->cleaner.jobs[i]);
}

void tandem_cleaner_init(struct tandem *t)
{
	struct tandem_cleaner *c = &t->cleaner;

	INIT_DELAYED_WORK(&c->work, clean_work);
	INIT_DELAYED_WORK(&c->urgent, urgent_work);
	INIT_LIST_HEAD(&c->free);
	c->fast = tandem_pace_span(TANDEM_PACE_GUESS, FAST_SPAN);
	forget_drain(c);
	c->hit = jiffies;
	c->hits_read = jiffies;
	c->not_before = jiffies;
	c->careful = jiffies;
	c->since = jiffies;
	c->kept_since = jiffies;
	c->stopping = true;
}
