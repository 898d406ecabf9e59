// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the clock begins by itself, and the machine's hibernation.
 *
 * Invariants:
 *   Z1  Only works of the frozen queue begin I/O that no request asks for. What
 *       it leads to, and all that requests need, is done by the other queue.
 *   Z2  When that queue is frozen, none of such I/O is under way: what it became
 *       in memory is in the snapshot.
 * Threads: any worker.
 * Why Z2: the snapshot is followed by the writing of the image, with the devices at
 * work. A record that the SSD gets then is one that the memory, when it comes back,
 * does not know: it would write dirty data in place that is recorded clean.
 * Why another work that waits, and not who began it: freezing waits for works that
 * run, and the clock must not stand still until what it began has ended. But if the
 * freezing comes between, that work is held back, and so he waits himself.
 */
#include "tandem.h"
#include "tandem-compat.h"

/* The watch ends where it finds nothing: who began something before is seen. */
static bool over(struct tandem *t)
{
	unsigned long flags = tandem_lock(t);
	bool rest = tandem_at_rest(t);

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
	wait_event_idle(t->idle, over(t));
}

void tandem_freeze_watch(struct tandem *t)
{
	if (READ_ONCE(t->watched) || tandem_rests(t))
		return;
	queue_work(t->frozen_wq, &t->watch);
	wait_event_idle(t->idle, READ_ONCE(t->watched) || tandem_rests(t));
}

bool tandem_rests(struct tandem *t)
{
	unsigned long flags = tandem_lock(t);
	bool rest = tandem_at_rest(t);

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
