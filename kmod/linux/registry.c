// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which mapped device uses which disk and which SSD, in the whole module.
 *
 * Invariant: a device is used by one mapped device only. The same mapped device
 * may have it twice: that is a table reload, and the new table takes the index
 * over when it is resumed.
 * Threads: one mutex; constructor, destructor, preresume; status and messages,
 * which dm lets in while a table is being resumed.
 * Why: device-mapper claims devices for all its tables together, so opening
 * one does not exclude another table.
 */
#include <linux/mutex.h>

#include "tandem.h"

static DEFINE_MUTEX(tandem_registry);
static LIST_HEAD(users);

void tandem_registry_lock(void)
{
	mutex_lock(&tandem_registry);
}

void tandem_registry_unlock(void)
{
	mutex_unlock(&tandem_registry);
}

static bool uses(const struct tandem *t, const struct dm_dev *dev)
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
		    (!uses(other, t->origin) && !uses(other, t->ssd)))
			continue;
		*why = "Disk or SSD already in use by another tandem device";
		r = -EBUSY;
		break;
	}
	if (!r)
		list_add(&t->registered, &users);
	mutex_unlock(&tandem_registry);
	return r;
}

void tandem_unregister(struct tandem *t)
{
	mutex_lock(&tandem_registry);
	list_del(&t->registered);
	mutex_unlock(&tandem_registry);
}

/* The table that @t replaces, if what it has in the index is right for @t. */
static struct tandem *predecessor(struct tandem *t)
{
	struct tandem *other;

	list_for_each_entry(other, &users, registered)
		if (other != t && other->md == t->md && other->live &&
		    other->suspended && td_active(&other->engine) &&
		    other->origin->bdev == t->origin->bdev &&
		    other->ssd->bdev == t->ssd->bdev &&
		    !memcmp(&other->args.identity, &t->args.identity,
			    sizeof(t->args.identity)))
			return other;
	return NULL;
}

void tandem_take_over(struct tandem *t)
{
	struct tandem *old;

	mutex_lock(&tandem_registry);
	old = predecessor(t);
	if (old) {
		tandem_engine_free(t);
		t->engine = old->engine;
		t->locks = old->locks;
		t->super = old->super;
		t->write_super = old->write_super;
		t->new_super = old->new_super;
		env_store(&t->engine.mode, t->args.mode);
		memset(&old->engine, 0, sizeof(old->engine));
		old->locks = NULL;
		old->live = false;
	}
	mutex_unlock(&tandem_registry);
}
