/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A request with private memory: job.c runs it, cleaner.c keeps some of its own.
 */
#ifndef TANDEM_JOB_H
#define TANDEM_JOB_H

#include "tandem.h"

#define TANDEM_CLEAN_BYTES	(32u << 10)	/* of a cleaning job's pages */

struct tandem_job {
	struct td_req req;
	struct tandem *t;
	struct bio *bio;	/* the user's, until it is answered; or NULL */
	struct list_head free;	/* cleaner.c */
	u64 memory_sector;	/* of the first byte of the pages */
	u32 nr_pages;
	u32 cursor;		/* of td_next_extent() */
	refcount_t refs;
	blk_status_t status;	/* of the write to the disk */
	bool fetch;		/* the SSD is being read */
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
/* Before td_begin(): the job counts as in flight. */
void tandem_job_prepare(struct tandem_job *job, struct tandem *t);

#endif
