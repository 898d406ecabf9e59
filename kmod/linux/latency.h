/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long requests take from map to end_io: one in 64 of each CPU is measured, in
 * one histogram for requests that the SSD alone served and one for requests that
 * went to the disk.
 */
#ifndef TANDEM_LATENCY_H
#define TANDEM_LATENCY_H

#include "counters.h"
#include "env.h"

#define TANDEM_LATENCY_EVERY	64u	/* a power of two */
#define TANDEM_LATENCY_BUCKETS	18u

/*
 * Behind core's counters lie the number of requests (TURNS), which decides which
 * request is measured, and the buckets of both histograms.
 */
enum tandem_latency_counter {
	TANDEM_C_TURNS = TD_NR_COUNTERS,
	TANDEM_C_SSD_US,
	TANDEM_C_DISK_US = TANDEM_C_SSD_US + TANDEM_LATENCY_BUCKETS,
	TANDEM_NR_COUNTERS = TANDEM_C_DISK_US + TANDEM_LATENCY_BUCKETS
};

/* Is this request to be measured? Yes also for each CPU's first. Any context. */
static inline bool tandem_latency_turn(env_counters c)
{
	return this_cpu_inc_return(c[TANDEM_C_TURNS]) %
		TANDEM_LATENCY_EVERY == 1;
}

/*
 * The bucket of a request that took @us microseconds: bucket b counts requests below
 * the bound of b and not below the bound of b - 1.
 */
u32 tandem_latency_bucket(u64 us);
/* Upper bound of @bucket in microseconds; 0: the last bucket, which has none. */
u32 tandem_latency_bound(u32 bucket);

#endif
