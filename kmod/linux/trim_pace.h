/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When the SSD is trimmed: arithmetic without I/O. The caller holds tandem.lock.
 */
#ifndef TANDEM_TRIM_PACE_H
#define TANDEM_TRIM_PACE_H

#include "env.h"

struct tandem_trim {
	s64 left;		/* ns that trims may take still; below 0: they took longer */
	u32 lanes;		/* the most for the next trim */
	u32 long_ones;		/* trims of one lane in a row that took long */
	bool off;		/* no trim any more */
};

/* @can: the SSD takes discards. */
void tandem_trim_init(struct tandem_trim *trim, bool can);
/* A second has passed, or an eighth less. */
void tandem_trim_tick(struct tandem_trim *trim);
/* May a trim begin? */
static inline bool tandem_trim_may(const struct tandem_trim *trim)
{
	return !trim->off && trim->left > 0;
}

/* A trim took @ns; or, not @ok, the SSD refused it. */
void tandem_trim_ended(struct tandem_trim *trim, bool ok, u64 ns);

#endif
