/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long requests take from map to end_io, one in 64 of each CPU, apart for
 * those that the SSD alone served and those that were at the disk.
 */
#ifndef TANDEM_LATENCY_H
#define TANDEM_LATENCY_H

#include "counters.h"
#include "env.h"

#define TANDEM_LATENCY_EVERY	64u	/* a power of two */
#define TANDEM_LATENCY_BUCKETS	18u

/*
 * Behind core's counters lie the number of requests, by which it is decided who is
 * measured, and the buckets of both paths.
 */
enum tandem_latency_counter {
	TANDEM_C_TURNS = TD_NR_COUNTERS,
	TANDEM_C_SSD_US,
	TANDEM_C_DISK_US = TANDEM_C_SSD_US + TANDEM_LATENCY_BUCKETS,
	TANDEM_NR_COUNTERS = TANDEM_C_DISK_US + TANDEM_LATENCY_BUCKETS
};

/* Is it this request's turn to be measured? Also that of each CPU's first. */
static inline bool tandem_latency_turn(env_counters c)
{
	return this_cpu_inc_return(c[TANDEM_C_TURNS]) %
		TANDEM_LATENCY_EVERY == 1;
}

/*
 * Which bucket @us belongs to: bucket b has what took less than the bound of b and
 * not less than that of b - 1.
 */
u32 tandem_latency_bucket(u64 us);
/* Microseconds; 0: none, for the last bucket. */
u32 tandem_latency_bound(u32 bucket);

#endif
