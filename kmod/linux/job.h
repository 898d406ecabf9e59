/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A request with private memory: job.c makes it, job_io.c runs it, cleaner.c keeps some
 * of its own.
 */
#ifndef TANDEM_JOB_H
#define TANDEM_JOB_H

#include "edge.h"
#include "tandem.h"

#define TANDEM_CLEAN_BYTES	(32u << 10)	/* of a cleaning job's pages */
#define TANDEM_FRAME_PAGES	DIV_ROUND_UP(TD_FRAME_SECTORS << SECTOR_SHIFT, PAGE_SIZE)

struct tandem_job {
	struct td_req req;
	struct tandem *t;
	struct bio *bio;	/* the user's, until it is answered; or NULL */
	struct bio_list joined;	/* of a read: join.c */
	struct list_head free;	/* cleaner.c */
	u64 memory_sector;	/* of the first byte of the pages */
	u32 nr_pages;
	u32 cursor;		/* of td_next_extent() */
	refcount_t refs;
	blk_status_t status;	/* of the write to the disk */
	bool fetch;		/* the SSD is being read */
	bool merging;		/* disk_bio reads the rest of a quarter (edge.h) */
	u32 disk_left;		/* what core said in a completion, for disk_work, */
	u32 ssd_left;		/* for ssd_work */
	struct work_struct disk_work;		/* disk_bio completed */
	struct work_struct ssd_work;		/* ssd_bio completed */
	struct work_struct drained_work;	/* the slots' last pin is gone */
	struct bio disk_bio;
	struct bio ssd_bio;
	struct bio_vec pages[];	/* each a whole page; then the parts */
};

static inline struct tandem_job *tandem_job_of(struct td_req *r)
{
	return container_of(r, struct tandem_job, req);
}

static inline struct td_part *tandem_job_parts(struct tandem_job *job)
{
	return (struct td_part *)&job->pages[job->nr_pages];
}

/* Memory for @pages pages and @parts parts; NULL if there is none. */
struct tandem_job *tandem_job_alloc(u32 pages, u32 parts, gfp_t gfp);
/* Free @job and its pages; @job is not in flight. */
void tandem_job_release(struct tandem_job *job);
/* Drop a reference (J2). Any context; J3. */
void tandem_job_put(struct tandem_job *job);
/* Copy the pages, from @sector of the disk on, to the bio @user. Process context. */
void tandem_job_copy_out(struct tandem_job *job, struct bio *user, u64 sector);

/* job_io.c */
/* Before td_begin(): the job counts as in flight. */
void tandem_job_prepare(struct tandem_job *job, struct tandem *t);

/* job.c and job_io.c: what map, write.c and the workers call */

/* A job for the user's @bio; NULL: no memory just now. Never sleeps. */
struct tandem_job *tandem_job_new(struct tandem *t, struct bio *bio,
				  enum td_kind kind, u64 sector, u32 count);
struct td_req *tandem_job_req(struct tandem_job *job);
/* The destructor, with no job in flight. */
void tandem_job_free_spares(struct tandem *t);
/* Free @job before td_begin() took its request, or after td_begin() returned PASS. */
void tandem_job_free(struct tandem_job *job);
/*
 * Carry out the actions @todo of td_begin() (0: the request waits), and drop the
 * caller's reference to the job. Process context; map calls it after
 * tandem_carry_on(), since the thread may sleep until the disk takes the bio.
 */
void tandem_job_start(struct tandem_job *job, u32 todo);
/* The same in a worker, which may not submit to the disk. Appends to @woken. */
void tandem_job_go_on(struct tandem_job *job, u32 todo, struct td_list *woken);
/*
 * If @todo is SUM, do what it says, before tandem_carry_on(). Returns what to do then.
 * Process context; lock not held.
 */
u32 tandem_job_sum(struct tandem_job *job, u32 todo, struct td_list *woken);
/* Carry out what td_woken() says. Process context. */
void tandem_job_woken(struct td_req *r, struct td_list *woken);
/* td_drained() said SSD or FETCH for @r. Any context. */
void tandem_job_drained(struct td_req *r);
/*
 * join.c, in map: is the read @bio, which misses, answered from the memory of a fill that is
 * in flight? True: the bio, or a first part that dm was told of, is answered, or will be.
 */
bool tandem_join(struct tandem *t, struct bio *bio, struct tandem_io *io);
/* The disk has answered the read @job: so are the bios that joined. Process context. */
void tandem_joined_done(struct tandem_job *job, bool ok);
/* A job that tandem_job_prepare() counted is over. Any context. */
void tandem_job_ended(struct tandem *t);
/*
 * Waits until no job is in flight, and until no completion of an ended request uses
 * the target; process context, no new bios. Sleeps.
 */
void tandem_jobs_wait(struct tandem *t);

#endif
