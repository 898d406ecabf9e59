/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of linux/ share: the target's instance, its bios' data, jobs.
 *
 * linux/ executes what core decides. Locks, outermost first:
 *	tandem.super_lock (mutex): superblocks after the constructor, and the
 *		mode, with I/O of this SSD
 *	tandem_registry (mutex, registry.c): constructor, destructor, preresume,
 *		status, messages
 *	tandem.drop_lock (mutex): one caller at a time forgets all groups
 *	tandem.lock (spinlock, interrupts off): core's lock, and the fields that are
 *		marked "lock" below; no I/O is submitted under it
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
#include "trim_pace.h"

#define DM_MSG_PREFIX "tandem"

struct tandem_ahead;
struct tandem_job;
struct tandem_loss;
struct tandem_probe;

/* The ledger's own I/O of one kind. At most one of each kind is under way. */
struct tandem_work {
	struct td_work work;
	struct tandem *t;
	struct bio bio;
	struct bio_vec vec;
	struct work_struct done;
};

/* At most a second, in jiffies: a timer of this length may be late by an eighth. */
#define TANDEM_SECOND	(HZ - HZ / 8)

/* The last order that the user gave by a message "flush ...". */
enum tandem_flush { TANDEM_FLUSH_OFF, TANDEM_FLUSH_ON, TANDEM_FLUSH_PAUSED };

#define TANDEM_CLEANS	256	/* cleaning jobs */

/* Jobs that are kept for the next request, by their memory: of a quarter, of a frame. */
enum tandem_spare { TANDEM_SPARE_QUARTER, TANDEM_SPARE_FRAME, TANDEM_SPARES };

/* The part that writes dirty data back to the disk; cleaner.c. Under tandem.lock. */
struct tandem_cleaner {
	struct delayed_work work;	/* of frozen_wq */
	struct delayed_work urgent;	/* for requests that wait */
	struct list_head free;		/* jobs that are not in use */
	struct tandem_job *jobs[TANDEM_CLEANS];
	u32 inflight;
	enum tandem_flush flush;
	bool stopping;			/* a suspend began: urgent places only */
	bool waits_for_record;		/* found no place: look again after a group */
	bool was_dirty;			/* a tick ago, or when a drain began a job */
	unsigned long kept_since;	/* jiffies: no dirty data is older */
	unsigned long began;		/* jiffies: the last job began; see @works */
	bool works;			/* a job began since @kept_since */
	u64 hits;			/* sectors read from the SSD so far */
	unsigned long hits_read;	/* jiffies: @hits was read last */
	unsigned long hit;		/* jiffies: @hits was last seen to grow */
	unsigned long not_before;	/* jiffies: no job before; after a failure */
	unsigned long careful;		/* jiffies: until then one frame a job */
	unsigned long since;		/* jiffies: both spans were updated last */
	u64 places_seen;		/* ledger.places_cleaned at @since */
	struct tandem_span fast;	/* cleaning at full speed */
	struct tandem_span drain;	/* a drain, with all users' load on the disk */
	u64 drain_us;			/* of the drain, since the last clean place */
	unsigned long drain_since;	/* jiffies: the drain began */
	bool drain_has_cleaned;		/* a place, so the speed can be measured */
	bool full_speed;		/* the last look kept the disk busy */
};

/* Each lane takes one kind of bios for the disk; submit.c. */
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
};

struct tandem {
	struct dm_dev *origin;		/* in front, for each hit reads them */
	struct dm_dev *ssd;
	struct dm_target *ti;
	unsigned long written;		/* jiffies: last write; changed once a jiffy */
	struct td_engine engine;
	spinlock_t lock;		/* core's */

	struct workqueue_struct *wq;
	struct workqueue_struct *frozen_wq;	/* freeze.c: I/O that the clock begins */
	struct workqueue_struct *disk_wq;	/* of the lanes and of trim_submit */
	struct tandem_lane lanes[TANDEM_LANES];
	struct work_struct watch;	/* runs while such I/O is under way */
	bool watched;			/* lock: @watch runs */
	atomic_t jobs;			/* in flight */
	atomic_t bulk_runs;		/* runs of discards in flight (bulk.c) */
	atomic_t merges;		/* writes that read a rest now (job_io.c) */
	atomic_long_t pages;		/* private pages in use */
	struct tandem_job *spares[TANDEM_SPARES];	/* for the next small request (job.c) */
	wait_queue_head_t idle;		/* jobs became 0, or the cache's own I/O ended */
	unsigned long disk_used;	/* jiffies: a user's request last left the disk */
	atomic_t foreground;		/* users' requests at the disk, or in a lane */

	spinlock_t deferred_lock;	/* guards both lists */
	struct bio_list unprotected;	/* writes past a lost SSD, until the record */
	bool unrecorded;		/* the loss of the SSD is not on record yet */
	struct delayed_work recorded;	/* takes the loss as recorded */
	struct td_list deferred_reqs;	/* woken: actions in td_woken() */
	struct work_struct deferred;
	struct work_struct event;
	struct work_struct retired;	/* of frozen_wq: notes retired slots in the superblocks */

	struct tandem_work *works;	/* TD_WORK_KINDS of them */
	struct work_struct meta;	/* submits the ledger's I/O */
	struct delayed_work tick;
	struct work_struct look;	/* of frozen_wq: reads watched places of the disk */
	void *look_buffer;
	u32 works_on;			/* lock: works in flight (meta_io.c, D4) */
	bool halted;			/* lock: no work is taken from the ledger */
	bool ticking;			/* lock: tick is queued */
	bool failure_reported;		/* lock: the event of a failure was raised */
	struct td_req durable_flush;	/* of tandem_make_durable() */
	struct completion durable_flush_done;

	struct tandem_cleaner cleaner;
	struct tandem_trim trim;	/* lock */
	struct work_struct trim_submit;	/* of disk_wq */

	struct td_samples *samples;	/* identity_io.c */
	void *samples_buffer;
	struct tandem_probe *probe;
	struct tandem_args args;
	struct td_super super;
	struct tandem_loss *loss;	/* registry.c: memory to note a lost SSD in */
	struct mutex super_lock;	/* see above */
	struct mutex drop_lock;		/* see above */
	bool loaded;			/* the engine was fed with the index */
	int load_error;			/* the start failed; stays for this table */
	u32 super_first;		/* copy that is written first */
	bool write_super;		/* a copy is missing or old: preresume writes */
	bool new_super;			/* no copy is on the SSD yet */
	bool grown;			/* the SSD's superblock has a smaller disk */
	bool resizes;			/* until the end of preresume: args.ssd_sectors counts */
	u64 disk_seq;			/* diskseq of the disk that the index is of; 0: none */
	enum td_start start;		/* of the last start; for status */
	bool owns_super;		/* super_lock: from preresume to the stop */
	bool coarse_ssd;		/* SSD's blocks are larger than the disk's */
	bool stable_ssd;		/* no page may change while it is written */
	bool suspended;
	bool live;			/* was resumed, and still has its engine */
	struct list_head registered;
	struct mapped_device *md;
};

/* Work that tandem_end_io() must do for a bio. */
enum tandem_end {
	TANDEM_END_PLAIN,	/* nothing for core */
	TANDEM_END_HIT,		/* unpin one slot; read the disk if the SSD failed */
	TANDEM_END_HITS,	/* the same with more than one slot, or measured */
	TANDEM_END_HOME,	/* a write in place (core/write.h): unpin one slot */
	TANDEM_END_HOME_TIMED,	/* the same, measured */
	TANDEM_END_TRACKED,	/* tell core: a write without private memory */
	TANDEM_END_LENT,	/* the same, at the SSD */
	TANDEM_END_BULK,	/* tell core of all runs of a discard */
};

/* Data that dm keeps for this target with each bio. */
struct tandem_io {
	enum tandem_end end;
	bool at_disk;		/* went to the disk; valid only if measured */
	bool foreground;	/* PLAIN, TRACKED, BULK: counted in tandem.foreground */
	bool disk_read;		/* PLAIN: tell core by td_disk_read_ends() */
	u64 since;		/* ns: arrival; 0: not measured; unset with HIT, HOME */
	union {
		struct {
			u32 slots;
			struct td_word *word;	/* of the first slot */
			u64 dirty;		/* as in struct td_look */
			struct bvec_iter iter;	/* on the disk */
		} hit;
		struct {
			struct td_req req;
			struct td_part lent_part;
			struct bvec_iter lent_iter;	/* LENT: on the disk */
		};
		struct tandem_bulk *bulk;
	};
};

/* @bio: as dm gave it to map. */
static inline struct tandem_io *tandem_io_of(struct bio *bio)
{
	return dm_per_bio_data(bio, sizeof(struct tandem_io));
}

/* meta_io.c: the lock, and what follows calls of core. Take the lock. Any context. */
static inline unsigned long tandem_lock(struct tandem *t)
	__acquires(t->lock)
{
	unsigned long flags;

	spin_lock_irqsave(&t->lock, flags);
	return flags;
}

/*
 * Drop the lock; then start the clock, raise a failure's event and wake the cleaner
 * for urgent places, where the calls under the lock made that necessary. Any context.
 */
void tandem_unlock(struct tandem *t, unsigned long flags)
	__releases(t->lock);
/* tandem_unlock() for the cleaner itself, which it does not wake. Any context. */
void tandem_unlock_cleaner(struct tandem *t, unsigned long flags)
	__releases(t->lock);
/*
 * After a call of core: continue the requests in @woken, which it empties, and
 * submit the ledger's I/O. Process context; lock not held.
 */
void tandem_carry_on(struct tandem *t, struct td_list *woken);
/* A worker calls tandem_carry_on() for @woken, which is emptied. Any context. */
void tandem_carry_on_later(struct tandem *t, struct td_list *woken);
/*
 * The SSD failed a write: the state becomes bypass or stranded, and an event is
 * raised, once. Appends to @woken. Any context; lock not held.
 */
void tandem_ssd_failed(struct tandem *t, struct td_list *woken);
/* 0 or -ENOMEM; tandem_meta_free() either way. */
int tandem_meta_init(struct tandem *t);
void tandem_meta_free(struct tandem *t);
/* All acknowledged data and the index become durable. False: a flush failed. Sleeps. */
bool tandem_make_durable(struct tandem *t);
/*
 * With no request in flight: tandem_meta_halt() waits for the ledger's I/O and stops
 * clock and works, and tandem_meta_start() starts them again. Both sleep.
 */
void tandem_meta_halt(struct tandem *t);
void tandem_meta_start(struct tandem *t);

/* defer.c: work that completions leave to process context */
void tandem_defer_init(struct tandem *t);
void tandem_defer_exit(struct tandem *t);
/*
 * @bio is about to go to the disk. True: @bio is a write past a lost SSD, and the
 * loss is not on record yet; @bio is kept and submitted later. Any context.
 */
bool tandem_wait_for_record(struct tandem *t, struct bio *bio);
/* Message "loss recorded": 0, or -EINVAL if the state is not bypass. Any context. */
int tandem_loss_recorded(struct tandem *t);
/* Start these requests later; empties @woken. Any context. */
void tandem_defer_woken(struct tandem *t, struct td_list *woken);

/* submit.c: bios for the disk that a worker submits, not the user's thread */
void tandem_submit_init(struct tandem *t);
/* 0 or -ENOMEM. */
int tandem_submit_alloc(struct tandem *t);
/* @bio, of a user's request, goes to the disk: a worker submits it. Any context. */
void tandem_submit_for_user(struct tandem *t, struct bio *bio);
/* A worker submits @bio, of a cleaning or a flush of the disk. Any context. */
void tandem_submit_own(struct tandem *t, struct bio *bio);
/* Give @bio, just initialised, the cgroup and the priority of @user. Any context. */
void tandem_charge_user(struct bio *bio, struct bio *user);
/* Does the disk treat both bios of users, which map has noted, alike? Any context. */
bool tandem_is_charged_like(const struct bio *bio, const struct bio *other);
/*
 * @bio, just initialised, is the cache's own: it gets the root cgroup and the
 * highest best-effort priority. The cgroup and priority of the submitting thread
 * must not hold it up, for requests of other users may wait for it. Any context.
 */
void tandem_charge_nobody(struct bio *bio);
/*
 * In map, in the user's thread: note in @bio, as dm gave it, the thread's cgroup
 * and, if the user chose no priority, the thread's priority. Another thread may
 * submit @bio, or a job's bio in its place. @first: the device where @bio probably goes
 * first; to change that costs more.
 */
void tandem_note_user(struct bio *bio, struct dm_dev *first);

/* cleaner.c: dirty data goes to the disk */
void tandem_cleaner_init(struct tandem *t);
/* 0 or -ENOMEM; tandem_cleaner_free() either way. */
int tandem_cleaner_alloc(struct tandem *t);
void tandem_cleaner_free(struct tandem *t);
/* Look now for dirty data to clean. Any context, lock held or not. */
void tandem_cleaner_kick(struct tandem *t);
/* Look now for places that requests wait for; also while frozen_wq is frozen. */
void tandem_cleaner_kick_urgent(struct tandem *t);
/*
 * Cancel both works, with no job in flight. tandem_cleaner_kick() and
 * tandem_cleaner_kick_urgent() queue them anew. Sleeps.
 */
void tandem_cleaner_cancel(struct tandem *t);
enum tandem_places { TANDEM_ALL_PLACES, TANDEM_AWAITED_PLACES };
/* From presuspend to resume only places that requests in flight wait for. */
void tandem_cleaner_allow(struct tandem *t, enum tandem_places places);
/* With no user's request in flight: waits until no job is in flight. Sleeps. */
void tandem_cleaner_wait(struct tandem *t);
/* Message "flush ...": 0; -EINVAL: pause or resume while no flush is on. */
int tandem_cleaner_order(struct tandem *t, enum tandem_order order);
/* The user's limit of dirty data from now on. Any context. */
void tandem_cleaner_limit(struct tandem *t, const struct tandem_limit *limit);
/* Once a second, lock held. */
void tandem_cleaner_tick(struct tandem *t);
/* @job has ended and is free again. Process context; lock not held. */
void tandem_cleaner_ended(struct tandem *t, struct tandem_job *job);
enum tandem_device { TANDEM_DISK, TANDEM_SSD };
/* The cleaning @r failed on @device. Process context. */
void tandem_cleaner_failed(struct tandem *t, const struct td_req *r,
			   enum tandem_device device);
/* Seconds to write back all dirty data; 0: not known, or none. A hint, no lock. */
u64 tandem_cleaner_seconds(const struct tandem *t);
/* @t takes over from @old the user's order and the measured speed. No lock. */
void tandem_cleaner_inherit(struct tandem *t, const struct tandem *old);

/* freeze.c: hibernation */
void tandem_freeze_init(struct tandem *t);
/* 0 or -ENOMEM. */
int tandem_freeze_alloc(struct tandem *t);
/* Lock held: neither a cleaning nor the ledger's I/O is under way. */
static inline bool tandem_own_io_ended_locked(const struct tandem *t)
{
	return !t->works_on && !t->cleaner.inflight;
}

/* As tandem_own_io_ended_locked(), but takes the lock. */
bool tandem_own_io_ended(struct tandem *t);
/*
 * At the end of a work of frozen_wq: make freezing wait for the I/O that the work
 * began. Sleeps.
 */
void tandem_freeze_watch(struct tandem *t);

/* map.c: called by dm for each bio */
int tandem_map(struct dm_target *ti, struct bio *bio);
int tandem_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error);
/* write.c: carry out what td_woken() says of a request without private memory. Process context. */
void tandem_tracked_woken(struct tandem *t, struct td_req *r,
			  struct td_list *woken);
/* bulk.c: the same of a run of a discard of many. Process context. */
void tandem_bulk_woken(struct tandem *t, struct td_req *r, struct td_list *woken);
/* Count a user's request that goes to the disk: the cleaner's pace heeds it. */
static inline void tandem_disk_enter(struct tandem *t)
{
	atomic_inc(&t->foreground);
}

static inline void tandem_disk_leave(struct tandem *t)
{
	WRITE_ONCE(t->disk_used, jiffies);
	atomic_dec(&t->foreground);
}

/* Point @bio, as dm gave it, at the disk; once for each bio, with PLAIN, TRACKED or BULK. */
static inline void tandem_to_disk(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	io->at_disk = true;
	io->foreground = true;
	tandem_disk_enter(t);
	/* tandem_note_user() did this, if the bio was not on its way to the SSD. */
	if (bio->bi_bdev != t->origin->bdev)
		bio_set_dev(bio, t->origin->bdev);
}

/* latency.c; any context */
void tandem_latency_begin(struct tandem_io *io);
void tandem_latency_end(struct tandem *t, const struct tandem_io *io);

/* super_io.c: process context, may sleep. */
int tandem_super_load(struct tandem *t, u64 ssd_sectors, char **why);
/* Constructor: can the cache get the size that the table asks for? 0, or an error with *why set. */
int tandem_super_check_size(struct tandem *t, char **why);
/*
 * Read the superblocks again before the index is read: the table that @t replaces
 * may have written them since. After an error t->super is as before; -ESTALE: the
 * engine was made for another superblock.
 */
int tandem_super_reread(struct tandem *t);
/*
 * Write both copies with the next sequence number, durably. 0 or an error; -ENODEV:
 * the SSD has failed, and nothing was written.
 */
int tandem_super_write(struct tandem *t);
void tandem_super_init(struct tandem *t);
/* Has the engine retired slots that the superblocks do not name? Lock held. */
static inline bool tandem_retired_changed(const struct tandem *t)
{
	return t->engine.retired.count != t->super.retired.count;
}
/*
 * Set the incompatible flags to @flags, durably in both copies. After an error the
 * old flags still count too, since one copy may have them.
 */
int tandem_super_set_flags(struct tandem *t, u32 flags);
/*
 * Preresume: write the superblocks if anything changed; before a resume in
 * write-back also clear the flag CLEAN. An error only if the write was necessary:
 * else one sound copy is enough.
 */
int tandem_super_resume(struct tandem *t);
/*
 * super_lock held: clear the flag CLEAN, durably, before the mode becomes write-back.
 * Nothing may become dirty before that.
 */
int tandem_super_allow_dirty(struct tandem *t);
/*
 * Postsuspend, with nothing in flight. If all is durable (@durable): note CLEAN if
 * nothing is dirty and the mode makes nothing dirty, and write new retired slots.
 */
void tandem_super_stopped(struct tandem *t, bool durable);
/* Pages that a buffer of TD_LOAD_BYTES (load.h) touches; it may begin inside a page. */
#define TANDEM_LOAD_PAGES	(TD_LOAD_BYTES / PAGE_SIZE + 1)
/* @buffer: from kmalloc or vmalloc, at most TD_LOAD_BYTES; @bio has room. */
void tandem_bio_add(struct bio *bio, void *buffer, u32 bytes);
/* Read or write @bytes at @sector of the SSD and wait. 0 or an error. Sleeps. */
int tandem_ssd_io(struct tandem *t, blk_opf_t opf, u64 sector, void *buffer,
		  u32 bytes);

/* index_io.c: process context, may sleep. 0 or an error. */
/* Write an empty index. */
int tandem_index_format(struct tandem *t);
/* Read the index by @ahead; @lost: that cache lost its SSD, so the index is made anew. */
int tandem_index_load(struct tandem *t, bool lost, struct tandem_ahead *ahead);
/* Forget all clean copies, group by group. Takes the lock. */
void tandem_index_drop(struct tandem *t);

/*
 * resize_io.c: preresume, with an engine that was taken over. The cache gets the size that
 * the table asks for, or stays as it is. An error: the SSD failed in between, and nothing
 * is dirty.
 */
int tandem_resize(struct tandem *t);

/* registry.c: which table uses which device; handing over an engine */
/* 0, -EBUSY or -ENOMEM, with *why set. Constructor. */
int tandem_register(struct tandem *t, char **why);
void tandem_unregister(struct tandem *t);
/* Is a table of the same mapped device, devices and uuid in use? */
bool tandem_reloads(struct tandem *t);
/*
 * Preresume: take over the engine of the table that @t replaces, or just the engine's
 * memory if its index does not suit @t. True: call tandem_engine_anew().
 */
bool tandem_take_over(struct tandem *t);
/* While the registry is locked no table takes over another's engine. Sleeps. */
void tandem_registry_lock(void);
void tandem_registry_unlock(void);
/* Note that this cache is in bypass: the disk gets newer than the SSD. */
void tandem_loss_note(struct tandem *t);
/* Was a loss of this cache's SSD noted since the module was loaded? */
bool tandem_loss_noted(const struct tandem *t);
/* Drop the note after a cold start; drop all notes when the module is unloaded. */
void tandem_loss_forget(const struct tandem *t);
void tandem_loss_forget_all(void);

/* memory.c: the engine's memory */
/* 0 or -ENOMEM; on error nothing is left allocated. */
int tandem_engine_alloc(struct tandem *t);
/*
 * Preresume: empty the engine; its memory is allocated anew only if there is none or
 * its sizes do not suit the superblock. 0 or -ENOMEM.
 */
int tandem_engine_anew(struct tandem *t);
void tandem_engine_free(struct tandem *t);
/* The same for an engine that is no table's any more. */
void tandem_memory_free(struct td_engine *e);

/* status.c; dm calls, process context */
void tandem_status(struct dm_target *ti, status_type_t type,
		   unsigned int flags, char *result, unsigned int maxlen);
int tandem_message(struct dm_target *ti, unsigned int argc, char **argv,
		   char *result, unsigned int maxlen);
/* Value of a counter, summed over all CPUs. A hint, no lock; the engine must stay. */
u64 tandem_counter(const struct tandem *t, unsigned int which);

#endif
