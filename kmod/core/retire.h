/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Slots of the SSD that cannot be read: suspected, and retired.
 */
#ifndef TANDEM_RETIRE_H
#define TANDEM_RETIRE_H

#include "engine.h"

/* Is @slot among those that failed together with others? No lock. */
bool td_suspect_listed(const struct td_engine *e, u32 slot);

static inline bool td_suspect(const struct td_engine *e, u32 slot)
{
	return unlikely(env_load(&e->suspected)) && td_suspect_listed(e, slot);
}

/* Does the list of retired slots have @slot? Lock held. */
bool td_retired_listed(const struct td_engine *e, u32 slot);

/* Is nothing to be stored in @slot any more? Lock held. */
static inline bool td_retired(const struct td_engine *e, u32 slot)
{
	return unlikely(e->retired.count) && td_retired_listed(e, slot);
}

/*
 * Data of frames @first to @last is about to be stored: forget their clean copies in
 * retired slots, so that these frames may get other slots. A frame with dirty or
 * pinned quarters stays where it is. Lock held.
 */
void td_retired_leave(struct td_engine *e, u64 first, u64 last);

#endif
