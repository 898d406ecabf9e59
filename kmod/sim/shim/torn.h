/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TANDEM_SIM_TORN_H
#define TANDEM_SIM_TORN_H

#include "env.h"

/* Returns how many cuts were tried; a difference ends the program. */
u64 sim_torn(u64 seed);

/* The same for samples of the disk; returns how many there were. */
u64 sim_identity(u64 seed);

/* For places of file systems; returns how many superblocks were known. */
u64 sim_places(u64 seed);

/* For a cache that gets other sizes of its SSD; returns the cuts. */
u64 sim_resized(u64 seed);

/* For superblocks, flags and samples through several lives; returns the cuts. */
u64 sim_lives(u64 seed);

#endif
