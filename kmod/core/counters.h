/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names and numbers of the counters; TARGET.rst says what each means. Sectors,
 * then events, then what status prints in other places (used: slots).
 *
 * When no request is in flight: requested = hit + missed + sum of bypassed,
 * for reads and for writes.
 */
#ifndef TANDEM_COUNTERS_H
#define TANDEM_COUNTERS_H

#define TD_COUNTERS(X) \
	X(READ_REQUESTED, read_requested) \
	X(READ_HIT, read_hit) \
	X(READ_MISSED, read_missed) \
	X(READ_BYPASSED_SEQUENTIAL, read_bypassed_sequential) \
	X(READ_BYPASSED_PROMOTION, read_bypassed_promotion) \
	X(READ_BYPASSED_BUSY, read_bypassed_busy) \
	X(READ_BYPASSED_FULL, read_bypassed_full) \
	X(READ_BYPASSED_MEMORY, read_bypassed_memory) \
	X(READ_BYPASSED_UNALIGNED, read_bypassed_unaligned) \
	X(READ_BYPASSED_FAILED, read_bypassed_failed) \
	X(WRITE_REQUESTED, write_requested) \
	X(WRITE_HIT, write_hit) \
	X(WRITE_BACK, write_back) \
	X(WRITE_MISSED, write_missed) \
	X(WRITE_BYPASSED_SEQUENTIAL, write_bypassed_sequential) \
	X(WRITE_BYPASSED_MEMORY, write_bypassed_memory) \
	X(WRITE_BYPASSED_FAILED, write_bypassed_failed) \
	X(WRITE_BYPASSED_DISCARD, write_bypassed_discard) \
	X(WRITE_BYPASSED_MODE, write_bypassed_mode) \
	X(DRAINED, drained) \
	X(TRIMMED, trimmed) \
	X(FILLS, fills) \
	X(EVICTIONS, evictions) \
	X(INVALIDATED, invalidated) \
	X(CANCELLED, cancelled) \
	X(STREAMS, streams) \
	X(WAITS, waits) \
	X(DRAINS, drains) \
	X(FLUSHES_DISK, flushes_disk) \
	X(FLUSHES_SSD, flushes_ssd) \
	X(SSD_ERRORS, ssd_errors) \
	X(DISK_ERRORS, disk_errors) \
	X(SWEEPS, sweeps) \
	X(GROUPS, groups) \
	X(MARKS_SET, marks_set) \
	X(MARKS_CLEARED, marks_cleared) \
	X(CHECKPOINTS, checkpoints) \
	X(NOTES, notes) \
	X(MERGES, merges)

enum td_counter {
#define TD_COUNTER_ENUM(id, name) TD_C_##id,
	TD_COUNTERS(TD_COUNTER_ENUM)
#undef TD_COUNTER_ENUM
	TD_NR_SHOWN,
	TD_C_USED = TD_NR_SHOWN,	/* slots with a valid quarter */
	TD_NR_COUNTERS
};

/*
 * A counter's value is the sum of what was counted from td_counter_first() to
 * td_counter_last(). That is the counter itself, but for three, which are not counted
 * by a request: read_requested and write_requested are the sums of all counters behind
 * them up to the last reason, and write_hit is the sum of copies that were updated and
 * of write_back.
 */
static inline unsigned int td_counter_first(unsigned int which)
{
	return which == TD_C_READ_REQUESTED || which == TD_C_WRITE_REQUESTED ?
		which + 1 : which;
}

static inline unsigned int td_counter_last(unsigned int which)
{
	switch (which) {
	case TD_C_READ_REQUESTED:
		return TD_C_WRITE_REQUESTED - 1;
	case TD_C_WRITE_REQUESTED:
		return TD_C_DRAINED - 1;
	case TD_C_WRITE_HIT:
		return TD_C_WRITE_BACK;
	default:
		return which;
	}
}

/* Name of a shown counter; @which < TD_NR_SHOWN. Any context, no lock. */
const char *td_counter_name(unsigned int which);

#endif
