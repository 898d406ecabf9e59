// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Histograms of how long requests take.
 *
 * Invariant: of the requests that are counted one in TANDEM_LATENCY_EVERY is
 * measured, whatever its size and wherever it is served; so the numbers of one
 * histogram can be compared with each other and with those of the other.
 * Threads: any; each CPU has numbers of its own.
 * Why a sample: reading the clock twice costs as much as half of what a hit costs
 * us. The others pay for one addition, and nothing when they end.
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
