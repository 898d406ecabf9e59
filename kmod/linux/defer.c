// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Work that completions must leave to process context: to continue woken requests,
 * and to raise an event. Also: writes that wait until the loss of the SSD is on
 * record.
 *
 * Invariant: each entry of a list here belongs to a bio or job in flight, so dm or
 * tandem_jobs_wait() waits for it before the target goes away.
 * Threads: any context adds; one worker takes.
 * Why lists of bios and requests: a waiting bio has no memory but its own.
 */
#include "tandem.h"

static void defer_work(struct work_struct *work)
{
	struct tandem *t = container_of(work, struct tandem, deferred);
	struct td_list reqs;

	spin_lock_irq(&t->deferred_lock);
	td_list_init(&reqs);
	if (t->deferred_reqs.head)
		reqs = t->deferred_reqs;
	td_list_init(&t->deferred_reqs);
	spin_unlock_irq(&t->deferred_lock);
	tandem_carry_on(t, &reqs);
}

/*
 * A write that goes past a lost SSD must not be answered before the service has
 * recorded the loss where the record outlives a restart; else the old SSD could be
 * used again as if it were current. If no service answers, the write goes on after
 * a second.
 */
bool tandem_wait_for_record(struct tandem *t, struct bio *bio)
{
	unsigned long flags;
	bool waits;

	if (likely(!READ_ONCE(t->unrecorded)) || !op_is_write(bio_op(bio)))
		return false;
	spin_lock_irqsave(&t->deferred_lock, flags);
	waits = t->unrecorded;
	if (waits)
		bio_list_add(&t->unprotected, bio);
	spin_unlock_irqrestore(&t->deferred_lock, flags);
	return waits;
}

static void recorded_work(struct work_struct *work)
{
	struct tandem *t = container_of(to_delayed_work(work), struct tandem,
					recorded);
	struct bio_list bios;
	struct bio *bio;

	tandem_loss_note(t);
	spin_lock_irq(&t->deferred_lock);
	WRITE_ONCE(t->unrecorded, false);
	bios = t->unprotected;
	bio_list_init(&t->unprotected);
	spin_unlock_irq(&t->deferred_lock);
	while ((bio = bio_list_pop(&bios)))
		tandem_submit_for_user(t, bio);
}

int tandem_loss_recorded(struct tandem *t)
{
	if (env_load(&t->engine.state) != TD_BYPASS)
		return -EINVAL;
	mod_delayed_work(t->wq, &t->recorded, 0);
	return 0;
}

static void event_work(struct work_struct *work)
{
	struct tandem *t = container_of(work, struct tandem, event);

	switch (env_load(&t->engine.state)) {
	case TD_BYPASS:
		tandem_loss_note(t);
		DMERR("%s: the SSD failed; every request goes to the disk now",
		      dm_table_device_name(t->ti->table));
		break;
	case TD_STRANDED:
		DMERR("%s: the SSD failed with data on it that the disk has not; writes fail now",
		      dm_table_device_name(t->ti->table));
		break;
	}
	dm_table_event(t->ti->table);
}

void tandem_defer_init(struct tandem *t)
{
	spin_lock_init(&t->deferred_lock);
	bio_list_init(&t->unprotected);
	td_list_init(&t->deferred_reqs);
	INIT_WORK(&t->deferred, defer_work);
	INIT_DELAYED_WORK(&t->recorded, recorded_work);
	INIT_WORK(&t->event, event_work);
}

void tandem_defer_exit(struct tandem *t)
{
	flush_work(&t->deferred);
	flush_work(&t->event);
}

void tandem_defer_woken(struct tandem *t, struct td_list *woken)
{
	unsigned long flags;

	spin_lock_irqsave(&t->deferred_lock, flags);
	*t->deferred_reqs.tail = woken->head;
	t->deferred_reqs.tail = woken->tail;
	spin_unlock_irqrestore(&t->deferred_lock, flags);
	td_list_init(woken);
	queue_work(t->wq, &t->deferred);
}
