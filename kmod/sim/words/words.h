/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scenarios of concurrent operations on one word (core/word.h), each to be run
 * under every schedule.
 */
#ifndef TANDEM_SIM_WORDS_H
#define TANDEM_SIM_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum words_end {
	WORDS_GOOD,
	WORDS_MET,	/* left off in a state met before */
	WORDS_WRONG,	/* *why says what */
};

uint32_t words_scenarios(void);
const char *words_scenario_name(uint32_t scenario);

/* As schedule_run(), with the scenario's tasks and checks. */
uint32_t words_scenario_run(uint32_t scenario, uint8_t *choices,
			    uint8_t *widths, size_t given, size_t room,
			    bool (*met)(void *context, uint64_t state),
			    void *context, size_t *taken, const char **why);

/*
 * The same for real threads: reset, let each task run once, each in a thread of
 * its own, then ask what was wrong (NULL: nothing).
 */
void words_reset(uint32_t scenario);
uint32_t words_tasks(uint32_t scenario);
void words_task(uint32_t scenario, uint32_t task);
const char *words_wrong(void);

#endif
