// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * dmsetup status, table and message; TARGET.rst is the grammar.
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
	return tandem_mode_name(t->args.mode);
}

static const char *state_name(const struct tandem *t, enum td_state state)
{
	if (t->suspended)
		return "suspended";
	switch (state) {
	case TD_STRANDED:
		return "stranded";
	case TD_BYPASS:
		return "bypass";
	case TD_ACTIVE:
		break;
	}
	switch (t->cleaner.flush) {
	case TANDEM_FLUSH_PAUSED:
		return "paused";
	case TANDEM_FLUSH_ON:
		return "flushing";
	case TANDEM_FLUSH_OFF:
		break;
	}
	return "active";
}

static const char *reason_name(enum td_state state)
{
	switch (state) {
	case TD_STRANDED:
		return "ssd-error-dirty";
	case TD_BYPASS:
		return "ssd-error";
	case TD_ACTIVE:
		break;
	}
	return "-";
}

/* Returns the length of @result. */
static unsigned int emit_latency(struct tandem *t, const char *path,
				 unsigned int first, char *result,
				 unsigned int sz, unsigned int maxlen)
{
	unsigned int i;

	for (i = 0; i < TANDEM_LATENCY_BUCKETS; i++) {
		u32 bound = tandem_latency_bound(i);

		if (bound)
			DMEMIT(" %s_us_%u", path, bound);
		else
			DMEMIT(" %s_us_more", path);
		DMEMIT(" %llu", tandem_counter(t, first + i));
	}
	return sz;
}

static void status_info(struct tandem *t, char *result, unsigned int maxlen)
{
	const struct td_engine *e = &t->engine;
	const struct td_ledger *l = &e->ledger;
	/* The generation belongs to the state (super_io.c, next_generation()). */
	unsigned long flags = tandem_lock(t);
	enum td_state state = env_load(&e->state);
	u64 generation = t->super.sequence;
	u64 dirty = l->dirty << TD_QUARTER_SHIFT;
	unsigned int sz = 0, i;
	struct {
		const char *name;
		u64 value;
	} gauges[] = {
		{ "journal_used", l->used },
		{ "journal_total", l->ring_blocks },
		{ "drain_seconds", tandem_cleaner_seconds(t) },
		{ "marked", l->marks_set },
		{ "dirty_limit", l->dirty_limit << TD_QUARTER_SHIFT },
		{ "dirty_places", l->places },
		{ "dirty_places_limit", l->places_limit },
		{ "generation", generation },
		{ "retired", e->retired.count },
		{ "promotion", td_promotes(e) },
		{ "cold_start", t->start },
		{ "sure", e->watch.sure },
		{ "ssd_sectors", t->super.ssd_sectors },
	};

	tandem_unlock(t, flags);
	/* A table that was replaced has no engine. */
	if (!e->words) {
		DMEMIT("suspended - %s %u 0/0 0 0",
		       tandem_mode_name(t->args.mode), TD_FRAME_SECTORS);
		return;
	}
	DMEMIT("%s %s %s %u %llu/%u %llu %zu", state_name(t, state),
	       reason_name(state), mode_name(t), TD_FRAME_SECTORS,
	       state == TD_BYPASS ? 0ull :
	       tandem_counter(t, TD_C_USED), e->layout.slots, dirty,
	       2 * (TD_NR_SHOWN + ARRAY_SIZE(gauges) +
		    2 * TANDEM_LATENCY_BUCKETS));
	for (i = 0; i < TD_NR_SHOWN; i++)
		DMEMIT(" %s %llu", td_counter_name(i), tandem_counter(t, i));
	for (i = 0; i < ARRAY_SIZE(gauges); i++)
		DMEMIT(" %s %llu", gauges[i].name, gauges[i].value);
	sz = emit_latency(t, "ssd", TANDEM_C_SSD_US, result, sz, maxlen);
	emit_latency(t, "disk", TANDEM_C_DISK_US, result, sz, maxlen);
}

static void status_table(struct tandem *t, char *result, unsigned int maxlen)
{
	const struct td_identity *id = &t->args.identity;
	unsigned long flags = tandem_lock(t);
	const struct tandem_limit limit = t->args.limit;
	bool seconds = limit.seconds != TANDEM_DIRTY_SECONDS;
	unsigned int sz = 0;

	tandem_unlock(t, flags);
	DMEMIT("%s %s %s %u uuid %*phN origin_id %*phN", t->origin->name,
	       t->ssd->name, mode_name(t),
	       4 + 2 * seconds + 2 * !!limit.sectors + 2 * !!limit.rest,
	       TD_UUID_BYTES, id->uuid, (int)id->origin_id_bytes, id->origin_id);
	if (seconds)
		DMEMIT(" dirty_seconds %u", limit.seconds);
	if (limit.sectors)
		DMEMIT(" dirty_sectors %llu", limit.sectors);
	if (limit.rest)
		DMEMIT(" rest_seconds %u", limit.rest);
}

void tandem_status(struct dm_target *ti, status_type_t type,
		   unsigned int flags, char *result, unsigned int maxlen)
{
	struct tandem *t = ti->private;

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

static int change_mode(struct tandem *t, enum td_mode mode)
{
	int r = 0;

	if (mode == TD_WRITEBACK && t->coarse_ssd)
		return -EINVAL;
	mutex_lock(&t->super_lock);
	if (mode == TD_WRITEBACK)
		r = tandem_super_allow_dirty(t);
	if (!r) {
		tandem_registry_lock();
		t->args.mode = mode;
		env_store(&t->engine.mode, mode);
		tandem_registry_unlock();
	}
	mutex_unlock(&t->super_lock);
	if (!r)
		tandem_cleaner_kick(t);
	return r;
}

int tandem_message(struct dm_target *ti, unsigned int argc, char **argv,
		   char *result, unsigned int maxlen)
{
	struct tandem *t = ti->private;
	struct tandem_message message;
	int r = tandem_parse_message(argc, argv, &message);

	if (r)
		return r;
	if (message.order == TANDEM_ORDER_RECORDED)
		return tandem_loss_recorded(t);
	/*
	 * The table is not resumed yet, or its engine has moved to another table, or is being
	 * exchanged for a larger or smaller one.
	 */
	if (!smp_load_acquire(&t->live) || smp_load_acquire(&t->resizes))
		return -EBUSY;
	switch (message.order) {
	case TANDEM_ORDER_DROP:
		tandem_index_drop(t);
		return 0;
	case TANDEM_ORDER_MODE:
		r = change_mode(t, message.mode);
		break;
	case TANDEM_ORDER_LIMIT:
		tandem_cleaner_limit(t, &message.limit);
		break;
	case TANDEM_ORDER_PROMOTION:
		env_store(&t->engine.promotes, message.promotes);
		break;
	default:
		r = tandem_cleaner_order(t, message.order);
		break;
	}
	if (!r)
		dm_table_event(ti->table);
	return r;
}
