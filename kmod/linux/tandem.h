/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of linux/ share: the target's instance, its bios' data, jobs.
 *
 * linux/ executes what core decides. Locks, outermost first:
 *	tandem_registry (mutex, registry.c): constructor, destructor, preresume,
 *		status, messages
 *	tandem.locks[bucket] (spinlock, interrupts off): core's bucket locks;
 *		never two at once, and no I/O is submitted under one
 *	tandem.deferred_lock (spinlock, interrupts off): nothing inside
 */
#ifndef TANDEM_LINUX_H
#define TANDEM_LINUX_H

#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "engine.h"
#include "super.h"

#define DM_MSG_PREFIX "tandem"

struct tandem_args {
	struct td_identity identity;
	enum td_mode mode;
	bool format;
};

struct tandem {
	struct td_engine engine;
	spinlock_t *locks;		/* core's, one for each bucket */
	struct dm_dev *origin;
	struct dm_dev *ssd;
	struct dm_target *ti;

	struct workqueue_struct *wq;
	atomic_t jobs;			/* in flight */
	atomic_long_t pages;		/* private pages in use */
	wait_queue_head_t idle;		/* jobs became 0 */

	spinlock_t deferred_lock;	/* guards the two lists */
	struct bio_list deferred_bios;	/* to submit to where they point */
	struct td_list deferred_reqs;	/* woken: actions in td_woken() */
	struct work_struct deferred;
	struct work_struct event;

	struct tandem_args args;
	struct td_super super;
	bool write_super;		/* at preresume */
	bool new_super;			/* no copy is on the SSD yet */
	bool suspended;
	bool live;			/* was resumed, and has its engine still */
	struct list_head registered;
	struct mapped_device *md;
};

/* What our end_io has to do with a bio. */
enum tandem_end {
	TANDEM_END_PLAIN,	/* nothing */
	TANDEM_END_HIT,		/* unpin one slot; read the disk if it failed */
	TANDEM_END_HITS,	/* the same with more than one slot */
	TANDEM_END_TRACKED,	/* tell core: a write without private memory */
};

/* Data that dm keeps for us with each bio. */
struct tandem_io {
	enum tandem_end end;
	union {
		struct {
			u32 slots;
			struct td_word *word;	/* of the first slot */
			struct bvec_iter iter;	/* on the disk */
		} hit;
		struct td_req req;
	};
};

/* job.c: requests with private memory */
struct tandem_job;

/* NULL: no memory just now. Any context; map calls it. */
struct tandem_job *tandem_job_new(struct tandem *t, struct bio *bio,
				  enum td_kind kind, u64 sector, u32 count);
struct td_req *tandem_job_req(struct tandem_job *job);
/* Before td_begin() took it, or after it returned PASS. */
void tandem_job_free(struct tandem_job *job);
/*
 * Carry out what td_begin() returned, nothing if it waits, and give up the
 * caller's hold on the job. Process context.
 */
void tandem_job_start(struct tandem_job *job, u32 todo);
/* Carry out what td_woken() says; a request with parts is a job's. */
void tandem_job_woken(struct td_req *r);
/* td_drained() said SSD for @r. Any context. */
void tandem_job_drained(struct td_req *r);
/* Waits until no job is in flight; process context, no new bios. */
void tandem_jobs_wait(struct tandem *t);

/* defer.c: what completions leave to process context */
void tandem_defer_init(struct tandem *t);
void tandem_defer_exit(struct tandem *t);
/* Submit @bio later, as it is. Any context. */
void tandem_defer_bio(struct tandem *t, struct bio *bio);
/* Start these requests later; empties @woken. Any context. */
void tandem_defer_woken(struct tandem *t, struct td_list *woken);
/* The SSD failed: bypass, and an event, once. Any context. */
void tandem_ssd_failed(struct tandem *t);

/* map.c: called by dm for each bio */
int tandem_map(struct dm_target *ti, struct bio *bio);
int tandem_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error);
static inline void tandem_to_disk(struct tandem *t, struct bio *bio)
{
	bio_set_dev(bio, t->origin->bdev);
}

/* args.c: 0, or an error with *why set. */
int tandem_parse_args(unsigned int argc, char **argv, struct tandem_args *args,
		      char **why);

/* super_io.c: process context, may sleep. */
int tandem_super_load(struct tandem *t, u64 ssd_sectors, char **why);
int tandem_super_write(struct tandem *t);

/* registry.c: who uses which device; engine memory handed over */
int tandem_register(struct tandem *t, char **why);
void tandem_unregister(struct tandem *t);
/* Preresume: take the index of the table that we replace, if it fits. */
void tandem_take_over(struct tandem *t);
/* While held no table takes over another's engine. */
void tandem_registry_lock(void);
void tandem_registry_unlock(void);

/* memory.c: the engine's memory */
/* 0 or -ENOMEM; on error nothing is left allocated. */
int tandem_engine_alloc(struct tandem *t);
void tandem_engine_free(struct tandem *t);

/* status.c; dm calls, process context */
void tandem_status(struct dm_target *ti, status_type_t type,
		   unsigned int flags, char *result, unsigned int maxlen);
int tandem_message(struct dm_target *ti, unsigned int argc, char **argv,
		   char *result, unsigned int maxlen);
u64 tandem_counter(const struct tandem *t, unsigned int which);

#endif
