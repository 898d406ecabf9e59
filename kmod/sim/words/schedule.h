/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs a few tasks in one thread, one at a time, and lets the caller choose at
 * every access to shared memory which of them goes on.
 *
 * A task's own state follows from what it has observed, so shared memory and
 * the tasks' observations together are the state of the whole: a state met
 * before need not be followed again.
 */
#ifndef TANDEM_SIM_SCHEDULE_H
#define TANDEM_SIM_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCHEDULE_TASKS 4

/* To be called before each access to shared memory. */
void schedule_point(void);

/* Between two decisions nobody else runs: true; with real threads: false. */
extern const bool schedule_exact;

/* To be given everything that the task read; returns it. */
uint64_t schedule_observe(uint64_t value);

/* Lets others run until *flag is false, then sets it; and the reverse. */
void schedule_lock(bool *flag);
void schedule_unlock(bool *flag);

struct schedule {
	void (*run)(void *argument);
	void *arguments[SCHEDULE_TASKS];
	unsigned int count;
	const void *shared;		/* memory that they share */
	size_t shared_size;
	bool (*met)(void *context, uint64_t state); /* and remembers it */
	void *context;
	uint8_t *choices;	/* decisions: an index among those able to run */
	uint8_t *widths;	/* how many were able to run at each */
	size_t given;		/* decisions to follow; later ones are 0 */
	size_t room;
};

enum schedule_end {
	SCHEDULE_ENDED,		/* all tasks ran to their end */
	SCHEDULE_MET,		/* left off: a state met before */
	SCHEDULE_STUCK,		/* nobody can run, or too many decisions */
};

/* *taken is the number of decisions. */
enum schedule_end schedule_run(const struct schedule *schedule, size_t *taken);

#endif
