/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading the SSD in order, before the reader asks. Process context, one thread.
 * All functions may sleep; only tandem_ahead_alloc() allocates.
 */
#ifndef TANDEM_AHEAD_H
#define TANDEM_AHEAD_H

#include "load.h"
#include "tandem.h"

struct tandem_ahead;

/* NULL: no memory. */
struct tandem_ahead *tandem_ahead_alloc(struct tandem *t);
/* Waits for the reads under way, then frees. */
void tandem_ahead_free(struct tandem_ahead *a);
/*
 * Read @sectors, at most TD_LOAD_BYTES, from @sector on. Returns the buffer, or NULL
 * if the SSD cannot read them. The buffer is the caller's until the next call; the
 * caller may write to it. The caller will probably ask for the sectors behind them
 * next, up to @until.
 */
void *tandem_ahead_read(struct tandem_ahead *a, u64 sector, u32 sectors,
			u64 until);

#endif
