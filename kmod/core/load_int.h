/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files of a load: load.c reads, load_slots.c checks the slots. */
#ifndef TANDEM_LOAD_INT_H
#define TANDEM_LOAD_INT_H

#include "load.h"

/* The load ends with @error, if it did not fail before. */
static inline void td_load_fail(struct td_load *l, enum td_load_error error)
{
	if (l->error == TD_LOAD_OK)
		l->error = error;
}

/* Check and count the slots of the next groups of slots, from l->at on. */
void td_load_check_slots(struct td_load *l);

/* Drop the clean quarters of the retired slot @slot, after all slots were counted. */
void td_load_drop_retired(struct td_load *l, u32 slot);

#endif
