/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The user-space env of core, with a decision of the scheduler before every
 * atomic access and a note of what the access showed.
 */
#ifndef TANDEM_SIM_WORDS_ENV_H
#define TANDEM_SIM_WORDS_ENV_H

#define env_load plain_load
#define env_store plain_store
#define env_cas plain_cas
#define env_sub_return plain_sub_return
#include "env-user/env.h"
#undef env_load
#undef env_store
#undef env_cas
#undef env_sub_return

#include "../schedule.h"

static inline u64 env_load(const struct env_atomic64 *a)
{
	schedule_point();
	return schedule_observe(plain_load(a));
}

static inline void env_store(struct env_atomic64 *a, u64 v)
{
	schedule_point();
	plain_store(a, v);
}

static inline bool env_cas(struct env_atomic64 *a, u64 *old, u64 new)
{
	bool done;

	schedule_point();
	done = plain_cas(a, old, new);
	schedule_observe(done);
	schedule_observe(*old);
	return done;
}

static inline u64 env_sub_return(struct env_atomic64 *a, u64 n)
{
	schedule_point();
	return schedule_observe(plain_sub_return(a, n));
}

#endif
