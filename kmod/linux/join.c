// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reads that miss where a fill is in flight: core says which may have the fill's data.
 *
 * Invariant: a bio is in a job's list from tandem_join(), under the lock and before core is
 * told that the disk has answered the job, until tandem_joined_done(). Until then the job
 * has its user's bio.
 * Threads: map and the job's work, in process context.
 * Why only reads of one cgroup and one priority wait: the disk may be kept from the fill's
 * user, and its pages hold nobody else up.
 */
#include "job.h"

static void answer(struct tandem_job *job, struct bio *bio)
{
	tandem_job_copy_out(job, bio, bio->bi_iter.bi_sector);
	bio_endio(bio);
}

bool tandem_join(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	u64 sector = bio->bi_iter.bi_sector;
	u32 count = bio_sectors(bio);
	struct tandem_job *job = NULL;
	unsigned long flags;
	struct td_req *r;

	if (!td_may_join(&t->engine, sector))
		return false;
	io->end = TANDEM_END_PLAIN;
	flags = tandem_lock(t);
	r = td_join_fill(&t->engine, sector, &count);
	if (r && !td_disk_answered(r) &&
	    !tandem_is_charged_like(bio, tandem_job_of(r)->bio))
		r = NULL;
	if (r) {
		if (count < bio_sectors(bio))
			dm_accept_partial_bio(bio, count);
		td_pass(&t->engine, TD_READ, count, TD_C_READ_MISSED);
		if (td_disk_answered(r)) {
			/* The pages are needed behind the lock. */
			job = tandem_job_of(r);
			refcount_inc(&job->refs);
		} else {
			/* The bio may be answered as soon as the lock is dropped. */
			io->at_disk = true;
			bio_list_add(&tandem_job_of(r)->joined, bio);
		}
	}
	tandem_unlock(t, flags);
	if (job) {
		answer(job, bio);
		tandem_job_put(job);
	}
	return r;
}

/* The disk may have failed in another part of the frame: @bio asks for its own part. */
static void read_alone(struct tandem *t, struct bio *bio)
{
	tandem_to_disk(t, bio, tandem_io_of(bio));
	tandem_submit_for_user(t, bio);
}

void tandem_joined_done(struct tandem_job *job, bool ok)
{
	struct bio *bio;

	while ((bio = bio_list_pop(&job->joined)) != NULL) {
		if (ok)
			answer(job, bio);
		else
			read_alone(job->t, bio);
	}
}
