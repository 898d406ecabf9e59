// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Histograms of how long requests take.
 *
 * Invariant: one in TANDEM_LATENCY_EVERY of the counted requests is measured, of any
 * size and wherever it is served; so numbers can be compared within a histogram and
 * between the two.
 * Threads: any; each CPU has its own numbers.
 * Why a sample: two reads of the clock cost half as much as this module's work for
 * a hit. A request that is not measured costs one addition, and nothing at its end.
 */
#include <linux/bitops.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "tandem.h"

#define FIRST	4u	/* log2 of the first bucket's bound in microseconds */

u32 tandem_latency_bucket(u64 us)
{
	u32 bits = fls64(us);

	return bits <= FIRST ? 0 : min(bits - FIRST, TANDEM_LATENCY_BUCKETS - 1);
}

u32 tandem_latency_bound(u32 bucket)
{
	return bucket < TANDEM_LATENCY_BUCKETS - 1 ? 1u << (FIRST + bucket) : 0;
}

void tandem_latency_begin(struct tandem_io *io)
{
	/* 0 says that nothing is measured. */
	io->since = max(ktime_get_ns(), 1ull);
	io->at_disk = false;
}

void tandem_latency_end(struct tandem *t, const struct tandem_io *io)
{
	u64 us = div_u64(ktime_get_ns() - io->since, NSEC_PER_USEC);

	env_count(t->engine.counters, tandem_latency_bucket(us) +
		  (io->at_disk ? TANDEM_C_DISK_US : TANDEM_C_SSD_US), 1);
}
