/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When the SSD is trimmed: arithmetic without I/O. The caller holds tandem.lock.
 */
#ifndef TANDEM_TRIM_PACE_H
#define TANDEM_TRIM_PACE_H

#include "env.h"

struct tandem_trim {
	u64 began;		/* ns: the trim under way */
	s64 left;		/* ns that trims may take still; below 0: they took longer */
	u32 lanes;		/* the most for the next trim */
	u32 long_ones;		/* trims of one lane in a row that took long */
	bool off;		/* the SSD is slow at trims, or has refused one: none any more */
	bool can;		/* the SSD takes discards */
};

void tandem_trim_init(struct tandem_trim *trim, bool can);
/* @trim takes over what @old, of another table, has learned of the same SSD. */
void tandem_trim_inherit(struct tandem_trim *trim, const struct tandem_trim *old);
/* A second has passed, or an eighth less. */
void tandem_trim_tick(struct tandem_trim *trim);
/* May trims begin, now or later? */
static inline bool tandem_trims(const struct tandem_trim *trim)
{
	return trim->can && !trim->off;
}

/* May a trim begin now? */
static inline bool tandem_trim_may(const struct tandem_trim *trim)
{
	return tandem_trims(trim) && trim->left > 0;
}

/* A trim took @ns; or, not @ok, the SSD refused it. True: that was the last one. */
bool tandem_trim_ended(struct tandem_trim *trim, bool ok, u64 ns);

#endif
