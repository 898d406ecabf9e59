/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading the SSD in order, before the reader asks for it. Process context, one
 * thread; they sleep, and allocate nothing but tandem_ahead_alloc().
 */
#ifndef TANDEM_AHEAD_H
#define TANDEM_AHEAD_H

#include "load.h"
#include "tandem.h"

struct tandem_ahead;

/* NULL: no memory. */
struct tandem_ahead *tandem_ahead_alloc(struct tandem *t);
/* Waits for what is under way. */
void tandem_ahead_free(struct tandem_ahead *a);
/*
 * @sectors, at most TD_LOAD_BYTES, from @sector on, or NULL if they cannot be
 * read. They are the caller's until the next call, also to be written to. It
 * is likely that he asks for what is behind them next, up to @until.
 */
void *tandem_ahead_read(struct tandem_ahead *a, u64 sector, u32 sectors,
			u64 until);

#endif
