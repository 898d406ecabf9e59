// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which mapped device uses which disk and which SSD, in the whole module; and
 * which caches lost their SSD while their disk was written.
 *
 * Invariant: a device is used by one mapped device only. The same mapped device
 * may have it twice: that is a table reload, and the new table takes the index
 * over when it is resumed.
 * Threads: one mutex; constructor, destructor, preresume; status and messages,
 * which dm allows while a table is being resumed. No I/O under the mutex: one device
 * that does not answer must not hold up the others. Losses have a lock of their own,
 * since writes wait until a loss is noted.
 * Why: device-mapper claims devices for all its tables together, so opening
 * one does not exclude another table.
 */
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "tandem.h"

static DEFINE_MUTEX(tandem_registry);
static LIST_HEAD(users);

/* A cache whose lost SSD, if it comes back, holds old data. */
struct tandem_loss {
	struct list_head list;
	u8 uuid[TD_UUID_BYTES];
};

static DEFINE_SPINLOCK(losses_lock);	/* nothing inside */
static LIST_HEAD(losses);

void tandem_registry_lock(void)
{
	mutex_lock(&tandem_registry);
}

void tandem_registry_unlock(void)
{
	mutex_unlock(&tandem_registry);
}

static bool uses_device(const struct tandem *t, const struct dm_dev *dev)
{
	return t->origin->bdev == dev->bdev || t->ssd->bdev == dev->bdev;
}

int tandem_register(struct tandem *t, char **why)
{
	struct tandem *other;
	int r = 0;

	mutex_lock(&tandem_registry);
	list_for_each_entry(other, &users, registered) {
		if (other->md == t->md ||
		    (!uses_device(other, t->origin) && !uses_device(other, t->ssd)))
			continue;
		*why = "Disk or SSD already in use by another tandem device";
		r = -EBUSY;
		break;
	}
	if (!r)
		list_add(&t->registered, &users);
	mutex_unlock(&tandem_registry);
	if (r)
		return r;
	t->loss = kmalloc(sizeof(*t->loss), GFP_KERNEL);
	if (t->loss)
		return 0;
	*why = "Out of memory";
	return -ENOMEM;
}

void tandem_unregister(struct tandem *t)
{
	mutex_lock(&tandem_registry);
	list_del(&t->registered);
	mutex_unlock(&tandem_registry);
	kfree(t->loss);
}

static struct tandem_loss *loss_of(const struct tandem *t)
{
	struct tandem_loss *loss;

	list_for_each_entry(loss, &losses, list)
		if (!memcmp(loss->uuid, t->args.identity.uuid, TD_UUID_BYTES))
			return loss;
	return NULL;
}

void tandem_loss_note(struct tandem *t)
{
	spin_lock(&losses_lock);
	if (t->loss && !loss_of(t)) {
		memcpy(t->loss->uuid, t->args.identity.uuid, TD_UUID_BYTES);
		list_add(&t->loss->list, &losses);
		t->loss = NULL;
	}
	spin_unlock(&losses_lock);
}

bool tandem_loss_noted(const struct tandem *t)
{
	bool noted;

	spin_lock(&losses_lock);
	noted = loss_of(t);
	spin_unlock(&losses_lock);
	return noted;
}

void tandem_loss_forget(const struct tandem *t)
{
	struct tandem_loss *loss;

	spin_lock(&losses_lock);
	loss = loss_of(t);
	if (loss)
		list_del(&loss->list);
	spin_unlock(&losses_lock);
	kfree(loss);
}

void tandem_loss_forget_all(void)
{
	struct tandem_loss *loss, *next;

	list_for_each_entry_safe(loss, next, &losses, list)
		kfree(loss);
}

/* The table that @t replaces. Registry locked. */
static struct tandem *find_replaced(struct tandem *t)
{
	struct tandem *other;

	list_for_each_entry(other, &users, registered)
		if (other != t && other->md == t->md && other->live &&
		    other->suspended)
			return other;
	return NULL;
}

/* Is the index of @old, which @t replaces, right for @t? */
static bool index_fits(const struct tandem *old, const struct tandem *t)
{
	return td_active(&old->engine) &&
	       old->origin->bdev == t->origin->bdev &&
	       old->ssd->bdev == t->ssd->bdev &&
	       old->coarse_ssd == t->coarse_ssd &&
	       !memcmp(&old->args.identity, &t->args.identity,
		       sizeof(t->args.identity));
}

/* Does @t only begin anew what @old was? Not if it grows, which ends a drain. */
static bool is_same_cache(const struct tandem *old, const struct tandem *t)
{
	const struct td_identity *was = &old->args.identity;
	const struct td_identity *is = &t->args.identity;

	return was->origin_sectors == is->origin_sectors &&
	       !memcmp(was->uuid, is->uuid, TD_UUID_BYTES);
}

bool tandem_reloads(struct tandem *t)
{
	const struct td_identity *id = &t->args.identity;
	struct tandem *other;
	bool reloads = false;

	mutex_lock(&tandem_registry);
	list_for_each_entry(other, &users, registered)
		reloads |= other != t && other->md == t->md &&
			   (other->live || other->grown) &&
			   other->origin->bdev == t->origin->bdev &&
			   other->ssd->bdev == t->ssd->bdev &&
			   !memcmp(other->args.identity.uuid, id->uuid,
				   TD_UUID_BYTES);
	mutex_unlock(&tandem_registry);
	return reloads;
}

bool tandem_take_over(struct tandem *t)
{
	struct tandem *old;
	bool anew;

	mutex_lock(&tandem_registry);
	old = find_replaced(t);
	if (old) {
		t->disk_seq = old->disk_seq;
		t->start = old->start;
	}
	anew = old && !index_fits(old, t);
	if (anew) {
		if (is_same_cache(old, t))
			t->cleaner.flush = old->cleaner.flush;
		/* dm destroys the table next, however this resume ends. */
		tandem_engine_free(t);
		t->engine = old->engine;
		memset(&old->engine, 0, sizeof(old->engine));
		old->live = false;
	} else if (old) {
		tandem_engine_free(t);
		t->engine = old->engine;
		td_engine_moved(&t->engine);
		tandem_cleaner_inherit(t, old);
		tandem_trim_inherit(&t->trim, &old->trim);
		*t->samples = *old->samples;
		t->super = old->super;
		t->super_first = old->super_first;
		t->write_super = old->write_super;
		t->new_super = old->new_super;
		env_store(&t->engine.mode, t->args.mode);
		memset(&old->engine, 0, sizeof(old->engine));
		old->live = false;
		/* A thread that sees live may use the engine. */
		smp_store_release(&t->live, true);
	}
	anew |= !t->engine.words;
	mutex_unlock(&tandem_registry);
	return anew;
}
