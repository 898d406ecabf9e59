/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What core takes from its surroundings, in the kernel. The user-space twin is
 * core/env-user/env.h; both have the same names and meanings.
 */
#ifndef TANDEM_ENV_H
#define TANDEM_ENV_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/compiler.h>
#include <linux/crc32c.h>
#include <linux/percpu.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/types.h>
#include <asm/byteorder.h>

#define env_noinline	noinline
#define env_inline	__always_inline

/* ledger.h; some 10 us, should each slot miss the processor's cache */
#define ENV_STEP_SLOTS	32u
/* some 10 us */
#define ENV_STEP_MARKS	512u
/* marks.c; more than a file system makes between two flushes as a rule */
#define ENV_LONE_SWEEPS	8u

struct env_atomic64 {
	atomic64_t v;
};

static inline u64 env_load(const struct env_atomic64 *a)
{
	return (u64)atomic64_read(&a->v);
}

static inline void env_store(struct env_atomic64 *a, u64 v)
{
	atomic64_set(&a->v, (s64)v);
}

static inline bool env_cas(struct env_atomic64 *a, u64 *old, u64 new)
{
	return atomic64_try_cmpxchg(&a->v, (s64 *)old, (s64)new);
}

static inline u64 env_sub_return(struct env_atomic64 *a, u64 n)
{
	return (u64)atomic64_sub_return((s64)n, &a->v);
}

/* Number of the lowest bit that is set; @v is not 0. */
static inline u32 env_first_bit(u64 v)
{
	return __ffs64(v);
}

#define env_peek(x)	READ_ONCE(x)
#define env_poke(x, v)	WRITE_ONCE(x, v)

/* One array of TD_NR_COUNTERS numbers a CPU; their sum is the value. */
typedef u64 __percpu *env_counters;

static inline void env_count(env_counters c, unsigned int which, u64 delta)
{
	this_cpu_add(c[which], delta);
}

static inline u32 env_crc32c(u32 crc, const void *data, size_t len)
{
	return crc32c(crc, data, len);
}

#endif
