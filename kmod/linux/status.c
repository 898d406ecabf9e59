// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What dmsetup status, table and message show and do; TARGET.rst is the
 * grammar.
 *
 * Invariant: when no request is in flight the counters add up.
 * Threads: dm calls at any time, also while a table takes over another's engine,
 * hence the registry's lock; counters are read while they move.
 */
#include <linux/sched.h>

#include "tandem.h"

u64 tandem_counter(const struct tandem *t, unsigned int which)
{
	unsigned int i;
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		for (i = td_counter_first(which); i <= td_counter_last(which); i++)
			sum += per_cpu_ptr(t->engine.counters, cpu)[i];
	return sum;
}

static const char *mode_name(const struct tandem *t)
{
	return env_load(&t->engine.mode) == TD_WRITETHROUGH ? "writethrough" :
		"writearound";
}

static void status_info(const struct tandem *t, char *result,
			unsigned int maxlen)
{
	const struct td_engine *e = &t->engine;
	unsigned int sz = 0, i;
	bool active;

	/* A table that was replaced has nothing left to tell. */
	if (!e->words) {
		DMEMIT("suspended - %s %u 0/0 0 0", mode_name(t),
		       TD_FRAME_SECTORS);
		return;
	}
	active = td_active(e);
	DMEMIT("%s %s %s %u %llu/%u 0 %u",
	       t->suspended ? "suspended" : active ? "active" : "bypass",
	       active ? "-" : "ssd-error", mode_name(t), TD_FRAME_SECTORS,
	       active ? tandem_counter(t, TD_C_USED) : 0ull, e->layout.slots,
	       2 * TD_NR_SHOWN);
	for (i = 0; i < TD_NR_SHOWN; i++)
		DMEMIT(" %s %llu", td_counter_name(i), tandem_counter(t, i));
}

static void status_table(const struct tandem *t, char *result,
			 unsigned int maxlen)
{
	const struct td_identity *id = &t->args.identity;
	unsigned int sz = 0;

	DMEMIT("%s %s %s 4 uuid %*phN origin_id %*phN", t->origin->name,
	       t->ssd->name, mode_name(t), TD_UUID_BYTES, id->uuid,
	       (int)id->origin_id_bytes, id->origin_id);
}

void tandem_status(struct dm_target *ti, status_type_t type,
		   unsigned int flags, char *result, unsigned int maxlen)
{
	const struct tandem *t = ti->private;

	switch (type) {
	case STATUSTYPE_INFO:
		tandem_registry_lock();
		status_info(t, result, maxlen);
		tandem_registry_unlock();
		break;
	case STATUSTYPE_TABLE:
		status_table(t, result, maxlen);
		break;
	case STATUSTYPE_IMA:
		*result = '\0';
		break;
	}
}

static void drop(struct tandem *t)
{
	struct td_engine *e = &t->engine;
	u32 group;

	for (group = 0; group < e->layout.groups; group++) {
		spinlock_t *lock = &t->locks[group & (e->nr_buckets - 1)];

		spin_lock_irq(lock);
		td_forget_group(e, group);
		spin_unlock_irq(lock);
		cond_resched();
	}
}

int tandem_message(struct dm_target *ti, unsigned int argc, char **argv,
		   char *result, unsigned int maxlen)
{
	struct tandem *t = ti->private;
	enum td_mode mode;

	if (argc == 1 && !strcasecmp(argv[0], "drop")) {
		tandem_registry_lock();
		drop(t);
		tandem_registry_unlock();
		return 0;
	}
	if (argc != 2 || strcasecmp(argv[0], "mode"))
		return -EINVAL;
	if (!strcmp(argv[1], "writethrough"))
		mode = TD_WRITETHROUGH;
	else if (!strcmp(argv[1], "writearound"))
		mode = TD_WRITEAROUND;
	else
		return -EINVAL;
	tandem_registry_lock();
	t->args.mode = mode;
	env_store(&t->engine.mode, mode);
	tandem_registry_unlock();
	dm_table_event(ti->table);
	return 0;
}
