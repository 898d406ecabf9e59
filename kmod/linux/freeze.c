// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * I/O that the clock begins, and the machine's hibernation.
 *
 * Invariants:
 *   Z1  Only works of the freezable queue (frozen_wq) begin I/O that no request
 *       asks for. The other queue completes that I/O, and does all that requests
 *       need.
 *   Z2  When frozen_wq is frozen, no such I/O is under way, so its results in
 *       memory are in the snapshot.
 * Threads: any worker.
 * Why Z2: after the snapshot the kernel writes the image, with the devices at work.
 * If the SSD got a record then, the restored memory would not know of that record:
 * the cache would write dirty data in place over data that is recorded clean.
 * Why a separate work (watch) waits, and not the work that began the I/O: freezing
 * waits for running works, and the clock must not stand still until the I/O that it
 * began has ended. If the queue is frozen before watch runs, watch is held back; so
 * the work that began the I/O waits until watch runs or the I/O has ended.
 */
#include "tandem.h"
#include "tandem-compat.h"

/*
 * Is no such I/O under way? Then the watch ends. The flag is cleared under the lock,
 * so I/O that began before is seen.
 */
static bool watch_ends(struct tandem *t)
{
	unsigned long flags = tandem_lock(t);
	bool rest = tandem_own_io_ended_locked(t);

	WRITE_ONCE(t->watched, !rest);
	tandem_unlock(t, flags);
	return rest;
}

static void watch_work(struct work_struct *work)
{
	struct tandem *t = container_of(work, struct tandem, watch);
	unsigned long flags = tandem_lock(t);

	WRITE_ONCE(t->watched, true);
	tandem_unlock(t, flags);
	wake_up(&t->idle);
	wait_event_idle(t->idle, watch_ends(t));
}

void tandem_freeze_watch(struct tandem *t)
{
	if (READ_ONCE(t->watched) || tandem_own_io_ended(t))
		return;
	queue_work(t->frozen_wq, &t->watch);
	wait_event_idle(t->idle, READ_ONCE(t->watched) || tandem_own_io_ended(t));
}

bool tandem_own_io_ended(struct tandem *t)
{
	unsigned long flags = tandem_lock(t);
	bool rest = tandem_own_io_ended_locked(t);

	tandem_unlock(t, flags);
	return rest;
}

void tandem_freeze_init(struct tandem *t)
{
	INIT_WORK(&t->watch, watch_work);
}

int tandem_freeze_alloc(struct tandem *t)
{
	t->frozen_wq = alloc_workqueue("tandem_clock", WQ_MEM_RECLAIM |
				       WQ_HIGHPRI | WQ_FREEZABLE |
				       TANDEM_WQ_PERCPU, 0);
	return t->frozen_wq ? 0 : -ENOMEM;
}
