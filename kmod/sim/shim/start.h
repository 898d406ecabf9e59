/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TANDEM_SIM_START_H
#define TANDEM_SIM_START_H

#include "shim.h"

/* A superblock and the samples behind it: @first and @second below. */
#define SIM_START_BYTES	8192u

/* Fills @bytes with the quarter of the disk that begins at @sector. */
typedef void (*sim_quarter_fn)(void *context, u64 sector, u8 *bytes);

/*
 * enum td_super_error of choosing and matching. On TD_SUPER_OK *g, but for
 * block_sectors, is what the superblock says, and *flags are its incompatible
 * flags.
 */
u32 sim_super_read(const u8 *first, const u8 *second, u64 origin_sectors,
		   u64 ssd_sectors, struct sim_geometry *g, u32 *flags);

bool sim_super_is_sound(const u8 *bytes, u32 copy);

/* Fills TD_SUPER_BYTES. */
void sim_super_write(const struct sim_geometry *g, u32 flags, u32 copy, u8 *bytes);

/* enum td_verdict_of_disk; TD_DISK_UNKNOWN unless the samples say STOPPED. */
u32 sim_samples_compare(const u8 *first, const u8 *second,
			const struct sim_geometry *g, sim_quarter_fn read,
			void *context);

/* Fills TD_SAMPLES_BYTES; reads the disk if @stopped. */
void sim_samples_write(const struct sim_geometry *g, bool stopped, u32 copy,
		       sim_quarter_fn read, void *context, u8 *bytes);

#endif
