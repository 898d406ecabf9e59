/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The simulator's checks in C as a table of functions, so that those of a core that
 * was built later are found beside it. src/checks.rs has the same declarations; keep
 * them together.
 */
#ifndef TANDEM_SIM_CHECKS_H
#define TANDEM_SIM_CHECKS_H

#include "start.h"

struct sim_full;

struct sim_checks {
	/* torn.h */
	u64 (*torn)(u64 seed);
	u64 (*identity)(u64 seed);
	u64 (*lives)(u64 seed);
	u64 (*places)(u64 seed);
	u64 (*resized)(u64 seed);
	/* full.c: the index of a full cache, a part of it as the SSD has it. */
	struct sim_full *(*full_new)(const struct tdu_geometry *geometry);
	void (*full_read)(const struct sim_full *full, u64 sector, u32 sectors,
			  u8 *bytes);
	void (*full_free)(struct sim_full *full);
	/* words/words.h */
	u32 (*scenarios)(void);
	const char *(*scenario_name)(u32 scenario);
	u32 (*scenario_run)(u32 scenario, u8 *choices, u8 *widths, size_t given,
			    size_t room, bool (*met)(void *context, u64 state),
			    void *context, size_t *taken, const char **why);
};

const struct sim_checks *tandem_sim_checks(void);

struct sim_full *sim_full_new(const struct tdu_geometry *g);
void sim_full_read(const struct sim_full *f, u64 sector, u32 sectors, u8 *bytes);
void sim_full_free(struct sim_full *f);

#endif
