/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of linux/ share: the target's instance, its bios' data, jobs.
 *
 * linux/ executes what core decides. Locks, outermost first:
 *	tandem.super_lock (mutex): superblocks after the constructor, and the
 *		mode, with I/O of this SSD
 *	tandem_registry (mutex, registry.c): constructor, destructor, preresume,
 *		status, messages
 *	tandem.lock (spinlock, interrupts off): core's lock, and what is said to
 *		be under it below; no I/O is submitted under it
 *	tandem.deferred_lock, tandem_lane.lock (spinlocks, interrupts off): nothing
 *		inside
 */
#ifndef TANDEM_LINUX_H
#define TANDEM_LINUX_H

#include <linux/bio.h>
#include <linux/completion.h>
#include <linux/device-mapper.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "args.h"
#include "engine.h"
#include "identity.h"
#include "latency.h"
#include "pace.h"

#define DM_MSG_PREFIX "tandem"

struct tandem_job;
struct tandem_loss;
struct tandem_probe;

/* The ledger's own I/O of one kind, of which one is under way at most. */
struct tandem_work {
	struct td_work work;
	struct tandem *t;
	struct bio bio;
	struct bio_vec vec;
	struct work_struct done;
};

/* A second at most: a timer of so many jiffies may be late by an eighth. */
#define TANDEM_SECOND	(HZ - HZ / 8)

/* What the user said by the messages "flush ...". */
enum tandem_flush { TANDEM_FLUSH_OFF, TANDEM_FLUSH_ON, TANDEM_FLUSH_PAUSED };

#define TANDEM_CLEANS	256	/* cleaning jobs */

/* Who writes dirty data back to the disk; cleaner.c. All under tandem.lock. */
struct tandem_cleaner {
	struct delayed_work work;	/* of frozen_wq */
	struct delayed_work urgent;	/* for requests that wait */
	struct list_head free;		/* jobs that are not in use */
	struct tandem_job *jobs[TANDEM_CLEANS];
	u32 inflight;
	enum tandem_flush flush;
	bool stopping;			/* a suspend began: urgent places only */
	bool starved;			/* what is dirty is not recorded yet */
	bool was_dirty;			/* raise an event when nothing is any more */
	u64 hits;			/* sectors read from the SSD so far */
	unsigned long hits_read;	/* jiffies: looked at */
	unsigned long hit;		/* jiffies: there had been more */
	unsigned long not_before;	/* jiffies; after a failure */
	unsigned long careful;		/* jiffies; until then by single frames */
	unsigned long since;		/* jiffies: the spans were brought up to date */
	u64 places_seen;		/* of ledger.places_cleaned, by then */
	struct tandem_span fast;	/* cleaning at full speed */
	struct tandem_span drain;	/* draining, whoever else is at the disk */
	u64 drain_us;			/* of it, since the last place was clean */
	unsigned long drain_since;	/* jiffies */
	bool drain_moves;		/* something has been cleaned by it */
	bool full_speed;
};

/* Whose bios for the disk a lane takes; submit.c. */
enum tandem_lane_id {
	TANDEM_LANE_OWN,	/* cleanings, flushes of the disk */
	TANDEM_LANE_DIRECT,	/* users' reads and direct writes */
	TANDEM_LANE_THROTTLED,	/* users' buffered writes and discards */
	TANDEM_LANES
};

/* Bios for the disk, and the worker that submits them. */
struct tandem_lane {
	spinlock_t lock;	/* interrupts off; guards bios */
	struct bio_list bios;
	struct work_struct work;
	bool own;		/* TANDEM_LANE_OWN */
};

struct tandem {
	struct td_engine engine;
	spinlock_t lock;		/* core's */
	struct dm_dev *origin;
	struct dm_dev *ssd;
	struct dm_target *ti;

	struct workqueue_struct *wq;
	struct workqueue_struct *frozen_wq;	/* freeze.c: what the clock begins */
	struct workqueue_struct *disk_wq;	/* of the lanes */
	struct tandem_lane lanes[TANDEM_LANES];
	struct work_struct watch;	/* runs while anything is under way */
	bool watched;			/* lock: it does */
	atomic_t jobs;			/* in flight */
	atomic_long_t pages;		/* private pages in use */
	wait_queue_head_t idle;		/* jobs became 0, or it came to rest */
	unsigned long disk_used;	/* jiffies: a user's request last left the disk */
	atomic_t foreground;		/* users' requests at the disk, or in a lane */
	unsigned long written;		/* jiffies: last write */

	spinlock_t deferred_lock;	/* guards both lists */
	struct bio_list unprotected;	/* writes past a lost SSD that wait */
	bool unrecorded;		/* the loss is not on record yet */
	struct delayed_work recorded;	/* from now on it counts as such */
	struct td_list deferred_reqs;	/* woken: actions in td_woken() */
	struct work_struct deferred;
	struct work_struct event;
	struct work_struct retired;	/* notes retired slots in the superblocks */

	struct tandem_work *works;	/* TD_WORK_KINDS of them */
	struct work_struct meta;	/* submits the ledger's I/O */
	struct delayed_work tick;
	u32 works_on;			/* lock: in flight, with what follows */
	bool halted;			/* lock: no work is taken from the ledger */
	bool ticking;			/* lock: tick is queued */
	bool told;			/* lock: the event of a failure was raised */
	struct td_req settle;		/* the flush of a stop */
	struct completion settled;

	struct tandem_cleaner cleaner;

	struct td_samples *samples;	/* identity_io.c */
	void *samples_buffer;
	struct tandem_probe *probe;
	struct tandem_args args;
	struct td_super super;
	struct tandem_loss *loss;	/* registry.c: to note a lost SSD in */
	struct mutex super_lock;	/* see above */
	bool loaded;			/* the engine was fed with the index */
	int load_error;			/* in vain, until another table is loaded */
	u32 super_first;		/* copy that is written first */
	bool write_super;		/* at preresume */
	bool new_super;			/* no copy is on the SSD yet */
	bool grown;			/* the SSD knows a smaller disk */
	bool noted;			/* super_lock: until a stop, what may be dirty */
	bool coarse_ssd;		/* its blocks are larger than the disk's */
	bool stable_ssd;		/* no page may change while it is written */
	bool suspended;
	bool live;			/* was resumed, and has its engine still */
	struct list_head registered;
	struct mapped_device *md;
};

/* What our end_io has to do with a bio. */
enum tandem_end {
	TANDEM_END_PLAIN,	/* nothing */
	TANDEM_END_HIT,		/* unpin one slot; read the disk if it failed */
	TANDEM_END_HITS,	/* the same with more than one slot, or measured */
	TANDEM_END_HOME,	/* a write like a hit: unpin one slot */
	TANDEM_END_HOME_TIMED,	/* the same, measured */
	TANDEM_END_TRACKED,	/* tell core: a write without private memory */
};

/* Data that dm keeps for us with each bio. */
struct tandem_io {
	enum tandem_end end;
	bool at_disk;		/* was it there? Set only if it is measured */
	bool foreground;	/* PLAIN, TRACKED: counted in tandem.foreground */
	u64 since;		/* ns: when it came; 0: not measured; not with HIT, HOME */
	union {
		struct {
			u32 slots;
			struct td_word *word;	/* of the first slot */
			u64 dirty;		/* as in struct td_look */
			struct bvec_iter iter;	/* on the disk */
		} hit;
		struct td_req req;
	};
};

/* @bio: as dm gave it to map. */
static inline struct tandem_io *tandem_io_of(struct bio *bio)
{
	return dm_per_bio_data(bio, sizeof(struct tandem_io));
}

/* engine calls; meta_io.c */
static inline unsigned long tandem_lock(struct tandem *t)
	__acquires(t->lock)
{
	unsigned long flags;

	spin_lock_irqsave(&t->lock, flags);
	return flags;
}

/* Also sets going what the calls under the lock made necessary. Any context. */
void tandem_unlock(struct tandem *t, unsigned long flags)
	__releases(t->lock);
/* The same for the cleaner, who knows that there is something to clean. */
void tandem_unlock_cleaner(struct tandem *t, unsigned long flags)
	__releases(t->lock);
/*
 * After a call of core: let go on who may, and submit the ledger's I/O. Empties
 * @woken. Process context.
 */
void tandem_carry_on(struct tandem *t, struct td_list *woken);
/* The same, from a worker. Any context. */
void tandem_carry_on_later(struct tandem *t, struct td_list *woken);
/* The SSD failed a write: bypass or stranded, and an event, once. Any context. */
void tandem_ssd_failed(struct tandem *t, struct td_list *woken);
/* 0 or -ENOMEM; tandem_meta_free() either way. */
int tandem_meta_init(struct tandem *t);
void tandem_meta_free(struct tandem *t);
/* All that is acknowledged or cached becomes durable, or fails. Sleeps. */
bool tandem_settle(struct tandem *t);
/* No request is in flight: let the ledger rest; and wake it again. Sleep. */
void tandem_meta_halt(struct tandem *t);
void tandem_meta_go(struct tandem *t);

/* job.c: requests with private memory */

/* NULL: no memory just now. Any context; map calls it. */
struct tandem_job *tandem_job_new(struct tandem *t, struct bio *bio,
				  enum td_kind kind, u64 sector, u32 count);
struct td_req *tandem_job_req(struct tandem_job *job);
/* As dm gave it to map: @bio itself, or the bio for which a job has @bio. */
struct bio *tandem_user_bio(struct bio *bio);
/* Before td_begin() took it, or after it returned PASS. */
void tandem_job_free(struct tandem_job *job);
/*
 * Carry out what td_begin() returned, nothing if it waits, and give up the
 * caller's hold on the job. Process context; in map after tandem_carry_on(), since
 * the thread may sleep until the disk takes the bio.
 */
void tandem_job_start(struct tandem_job *job, u32 todo);
/* Carry out what td_woken() says. Process context. */
void tandem_job_woken(struct td_req *r, struct td_list *woken);
/* td_drained() said SSD or FETCH for @r. Any context. */
void tandem_job_drained(struct td_req *r);
/* Waits until no job is in flight; process context, no new bios. */
void tandem_jobs_wait(struct tandem *t);

/* defer.c: what completions leave to process context */
void tandem_defer_init(struct tandem *t);
void tandem_defer_exit(struct tandem *t);
/*
 * @bio is to go to the disk past a lost SSD. If that is not on record yet, a write
 * has to wait: true, and it is kept and submitted later. Any context.
 */
bool tandem_wait_for_record(struct tandem *t, struct bio *bio);
/* "loss recorded": 0, or -EINVAL if none is known. Any context. */
int tandem_loss_recorded(struct tandem *t);
/* Start these requests later; empties @woken. Any context. */
void tandem_defer_woken(struct tandem *t, struct td_list *woken);

/* submit.c: bios for the disk that the thread of their user does not submit */
void tandem_submit_init(struct tandem *t);
/* 0 or -ENOMEM. */
int tandem_submit_alloc(struct tandem *t);
/* @bio, of a user's request, goes to the disk: a worker submits it. Any context. */
void tandem_submit_for_user(struct tandem *t, struct bio *bio);
/* The same for a cleaning or a flush of the disk. Any context. */
void tandem_submit_own(struct tandem *t, struct bio *bio);
/*
 * @bio, just initialised, does what @user asks for: cgroup and priority are those
 * of @user. Any context.
 */
void tandem_charge_user(struct bio *bio, struct bio *user);
/*
 * @bio, just initialised, is the cache's own. Whatever thread submits it, neither
 * that thread's cgroup nor its priority may hold it up, for other users may wait for
 * it, too. Any context.
 */
void tandem_charge_nobody(struct bio *bio);
/*
 * In map, in the thread of the user: note in @bio, as dm gave it, the cgroup of the
 * thread and, if the user chose no priority, its priority, since another thread may
 * submit @bio or what it asks for.
 */
void tandem_note_user(struct tandem *t, struct bio *bio);

/* cleaner.c: dirty data goes to the disk */
void tandem_cleaner_init(struct tandem *t);
/* 0 or -ENOMEM; tandem_cleaner_free() either way. */
int tandem_cleaner_alloc(struct tandem *t);
void tandem_cleaner_free(struct tandem *t);
/* Look what is to be cleaned, now. Any context, lock held or not. */
void tandem_cleaner_kick(struct tandem *t);
/* The same of what requests wait for, which goes on while all else is frozen. */
void tandem_cleaner_urge(struct tandem *t);
/* No job is in flight: nobody looks any more, unless he is told to. Sleeps. */
void tandem_cleaner_cancel(struct tandem *t);
/* From presuspend on only what requests in flight wait for is cleaned. */
void tandem_cleaner_stop(struct tandem *t, bool stop);
/* No request is in flight: waits until no cleaning is. */
void tandem_cleaner_wait(struct tandem *t);
/* "flush ...": 0 or -EINVAL. Process context. */
int tandem_cleaner_order(struct tandem *t, enum tandem_order order);
/* Once a second, lock held. */
void tandem_cleaner_tick(struct tandem *t);
/* A job that was begun is free again. Process context. */
void tandem_cleaner_ended(struct tandem *t, struct tandem_job *job);
/* The disk, or the SSD, failed the cleaning @r. Process context. */
void tandem_cleaner_failed(struct tandem *t, const struct td_req *r, bool disk);
/* Seconds that it takes to write back all. A hint, no lock. */
u64 tandem_cleaner_seconds(const struct tandem *t);
/* What @old measured and was told is right for @t, too. No lock. */
void tandem_cleaner_inherit(struct tandem *t, const struct tandem *old);

/* freeze.c: hibernation */
void tandem_freeze_init(struct tandem *t);
/* 0 or -ENOMEM. */
int tandem_freeze_alloc(struct tandem *t);
/* Lock held: neither a cleaning nor the ledger's I/O is under way. */
static inline bool tandem_at_rest(const struct tandem *t)
{
	return !t->works_on && !t->cleaner.inflight;
}

/* The same, without the lock. */
bool tandem_rests(struct tandem *t);
/* At the end of a work of frozen_wq: freezing waits for what it began. */
void tandem_freeze_watch(struct tandem *t);

/* map.c: called by dm for each bio */
int tandem_map(struct dm_target *ti, struct bio *bio);
int tandem_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error);
/* Carry out what td_woken() says for a request without memory. Process context. */
void tandem_tracked_woken(struct tandem *t, struct td_req *r,
			  struct td_list *woken);
/* A user's request goes to the disk, so the cleaner keeps away from it. */
static inline void tandem_disk_enter(struct tandem *t)
{
	atomic_inc(&t->foreground);
}

static inline void tandem_disk_leave(struct tandem *t)
{
	WRITE_ONCE(t->disk_used, jiffies);
	atomic_dec(&t->foreground);
}

/* A bio that dm gave us goes to the disk; with PLAIN or TRACKED, once. */
static inline void tandem_to_disk(struct tandem *t, struct bio *bio)
{
	struct tandem_io *io = tandem_io_of(bio);

	io->at_disk = true;
	io->foreground = true;
	tandem_disk_enter(t);
	bio_set_dev(bio, t->origin->bdev);
}

/* latency.c; any context */
void tandem_latency_begin(struct tandem_io *io);
void tandem_latency_end(struct tandem *t, const struct tandem_io *io);

/* super_io.c: process context, may sleep. */
int tandem_super_load(struct tandem *t, u64 ssd_sectors, char **why);
/*
 * Once more, before the index is read: the table that is replaced may have changed
 * its mode since. After an error nothing is changed; -ESTALE: it is no longer
 * what the engine was made for.
 */
int tandem_super_reread(struct tandem *t);
int tandem_super_write(struct tandem *t);
void tandem_super_init(struct tandem *t);
/* Has the engine retired slots that the superblocks do not name? Lock held. */
static inline bool tandem_retired_changed(const struct tandem *t)
{
	return t->engine.retired.count != t->super.retired.count;
}
/*
 * Make these the incompatible flags, durably in both copies. After an error those
 * that were there still count.
 */
int tandem_super_flags(struct tandem *t, u32 flags);
/*
 * Preresume: what has changed becomes durable; before a resume in write-back that
 * something may be dirty from now on. An error only if that was necessary.
 */
int tandem_super_resume(struct tandem *t);
/* super_lock held: the same before the mode becomes write-back. */
int tandem_super_writeback(struct tandem *t);
/* Postsuspend: nothing is in flight; @durable: all is. Nothing dirty? Note it. */
void tandem_super_stopped(struct tandem *t, bool durable);
/* Pages of TD_LOAD_BYTES (load.h), which may begin anywhere in one. */
#define TANDEM_LOAD_PAGES	(TD_LOAD_BYTES / PAGE_SIZE + 1)
/* @buffer: from kmalloc or vmalloc, at most TD_LOAD_BYTES; @bio has room. */
void tandem_bio_add(struct bio *bio, void *buffer, u32 bytes);
int tandem_ssd_io(struct tandem *t, blk_opf_t opf, u64 sector, void *buffer,
		  u32 bytes);

/* identity_io.c: process context, may sleep. 0 or an error. */
int tandem_identity_alloc(struct tandem *t);
void tandem_identity_free(struct tandem *t);
/* Compare what the last clean stop noted of the disk with the disk. */
enum td_verdict_of_disk tandem_identity_check(struct tandem *t);
/* From now on the disk may change: what was noted counts no more. */
int tandem_identity_running(struct tandem *t);
/* Everything is durable, and no request in flight: note the disk's samples. */
void tandem_identity_stopped(struct tandem *t);

/* index_io.c: process context, may sleep. 0 or an error. */
/* Write an empty index. */
int tandem_index_format(struct tandem *t);
/* Read what the last owner left; @lost: whose SSD failed, so that it counts no more. */
int tandem_index_load(struct tandem *t, bool lost);
/* Forget all that is clean. */
void tandem_index_drop(struct tandem *t);

/* registry.c: who uses which device; engine memory handed over */
int tandem_register(struct tandem *t, char **why);
void tandem_unregister(struct tandem *t);
/* Is a table of the same mapped device, devices and uuid in use? */
bool tandem_reloads(struct tandem *t);
/*
 * Preresume: take the index of the table that @t replaces, or free it if it does not
 * fit. Afterwards @t may have no index.
 */
void tandem_take_over(struct tandem *t);
/* While held no table takes over another's engine. */
void tandem_registry_lock(void);
void tandem_registry_unlock(void);
/* The SSD failed with nothing dirty, and the disk is written past it. */
void tandem_loss_note(struct tandem *t);
/* Did that happen to this cache since the module was loaded? */
bool tandem_loss_noted(const struct tandem *t);
/* It has been made good by a cold start; or by unloading the module. */
void tandem_loss_forget(const struct tandem *t);
void tandem_loss_forget_all(void);

/* memory.c: the engine's memory */
/* 0 or -ENOMEM; on error nothing is left allocated. */
int tandem_engine_alloc(struct tandem *t);
/* Preresume: an empty one, in place of what there is. The same. */
int tandem_engine_anew(struct tandem *t);
void tandem_engine_free(struct tandem *t);

/* status.c; dm calls, process context */
void tandem_status(struct dm_target *ti, status_type_t type,
		   unsigned int flags, char *result, unsigned int maxlen);
int tandem_message(struct dm_target *ti, unsigned int argc, char **argv,
		   char *result, unsigned int maxlen);
u64 tandem_counter(const struct tandem *t, unsigned int which);

#endif
