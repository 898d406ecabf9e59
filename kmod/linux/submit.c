// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Bios for the disk that a worker submits, not the user's thread: a request that
 * waited, a cleaning, a flush of the disk, a read that failed on the SSD.
 *
 * Invariants:
 *   U1  No work of tandem.wq, which also submits the journal, the marks and the
 *       writes to the SSD, submits a bio for the disk. Such a bio goes to a lane.
 *   U2  In map a thread submits its bios for the SSD, the ledger's I/O included,
 *       before it submits its own bio for the disk. A bio for the disk of another
 *       request goes to a lane.
 *   U3  A bio in a lane belongs to a bio, a job or a work in flight, so the target
 *       stays until the bio has completed. The thread that added the bio may still
 *       be in add_bio() then: tandem_jobs_wait() waits for this thread.
 * Threads: bios are added in any context. Each lane has one worker, of a queue
 * that does nothing else.
 * Why: a submission to the disk sleeps while the disk's queue has no free tag,
 * while write-back throttling (wbt) holds back buffered writes, or while the user's
 * cgroup is over its share. A worker that sleeps there must keep nothing but other
 * bios for the disk.
 * Why three lanes: a cgroup or wbt may hold back users' requests for long, but never
 * a cleaning or a flush; and wbt holds back neither reads nor direct writes. The
 * lanes do not keep one user's request from waiting behind that of another in the
 * same lane.
 */
#include <linux/blk-cgroup.h>
#include <linux/ioprio.h>

#include "tandem.h"
#include "tandem-compat.h"

static struct bio *pop_bio(struct tandem_lane *lane)
{
	struct bio *bio;

	spin_lock_irq(&lane->lock);
	bio = bio_list_pop(&lane->bios);
	spin_unlock_irq(&lane->lock);
	return bio;
}

static void lane_work(struct work_struct *work)
{
	struct tandem_lane *lane = container_of(work, struct tandem_lane, work);
	struct bio *bio;

	/* dm counts a user's bio when map returns, so it is not counted here. */
	while ((bio = pop_bio(lane)))
		submit_bio_noacct(bio);
}

/* @first: before all others that wait in @lane. */
static void add_bio(struct tandem *t, enum tandem_lane_id id, struct bio *bio,
		    bool first)
{
	struct tandem_lane *lane = &t->lanes[id];
	unsigned long flags;

	/* The worker may take @bio, and @bio may complete, before this thread leaves. */
	rcu_read_lock();
	spin_lock_irqsave(&lane->lock, flags);
	if (first)
		bio_list_add_head(&lane->bios, bio);
	else
		bio_list_add(&lane->bios, bio);
	spin_unlock_irqrestore(&lane->lock, flags);
	queue_work(t->disk_wq, &lane->work);
	rcu_read_unlock();
}

void tandem_submit_for_user(struct tandem *t, struct bio *bio)
{
	const blk_opf_t direct = REQ_SYNC | REQ_IDLE;
	bool throttled = op_is_write(bio->bi_opf) &&
			 (bio->bi_opf & direct) != direct;

	add_bio(t, throttled ? TANDEM_LANE_THROTTLED : TANDEM_LANE_DIRECT, bio,
		false);
}

void tandem_submit_own(struct tandem *t, struct bio *bio)
{
	/* A flush covers writes that have completed; no bio in the lane has. */
	add_bio(t, TANDEM_LANE_OWN, bio, op_is_flush(bio->bi_opf));
}

void tandem_charge_user(struct bio *bio, struct bio *user)
{
	bio_clone_blkg_association(bio, user);
	bio->bi_ioprio = user->bi_ioprio;
}

bool tandem_is_charged_like(const struct bio *bio, const struct bio *other)
{
#ifdef CONFIG_BLK_CGROUP
	if (bio->bi_blkg != other->bi_blkg)
		return false;
#endif
	return bio->bi_ioprio == other->bi_ioprio;
}

void tandem_charge_nobody(struct bio *bio)
{
	bio_associate_blkg_from_css(bio, blkcg_root_css);
	bio->bi_ioprio = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 0);
}

void tandem_note_user(struct bio *bio, struct dm_dev *first)
{
	/* Here a bio gets its cgroup, by the thread; later calls keep it. */
	bio_set_dev(bio, first->bdev);
	if (IOPRIO_PRIO_CLASS(bio->bi_ioprio) == IOPRIO_CLASS_NONE)
		bio->bi_ioprio = get_current_ioprio();
}

void tandem_submit_init(struct tandem *t)
{
	unsigned int i;

	for (i = 0; i < TANDEM_LANES; i++) {
		spin_lock_init(&t->lanes[i].lock);
		bio_list_init(&t->lanes[i].bios);
		INIT_WORK(&t->lanes[i].work, lane_work);
	}
}

int tandem_submit_alloc(struct tandem *t)
{
	t->disk_wq = alloc_workqueue("tandem_disk", WQ_MEM_RECLAIM | WQ_HIGHPRI |
				     WQ_UNBOUND, 0);
	return t->disk_wq ? 0 : -ENOMEM;
}
