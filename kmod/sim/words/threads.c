// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The scenarios of words.c by real threads, for the race detector: a program of
 * its own. Argument: how often each scenario runs.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "schedule.h"
#include "words.h"

const bool schedule_exact;

static unsigned long rounds;
/* Waits without a processor: on a busy machine each yield costs the turns of others. */
static pthread_barrier_t begin, end;	/* of a turn; all tasks and play() */
static uint32_t scenario;

void schedule_point(void)
{
	static __thread uint32_t seed;

	/* Now and then another thread, where there are few processors. */
	seed = seed * 1664525u + 1013904223u + (uint32_t)(uintptr_t)&seed;
	if (seed >> 29 == 0)
		sched_yield();
}

uint64_t schedule_observe(uint64_t value)
{
	return value;
}

void schedule_lock(bool *flag)
{
	bool free = false;

	while (!__atomic_compare_exchange_n(flag, &free, true, false,
					    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		free = false;
		sched_yield();
	}
}

void schedule_unlock(bool *flag)
{
	__atomic_store_n(flag, false, __ATOMIC_RELEASE);
}

/* Nobody takes decisions here; words_scenario_run() is not called. */
enum schedule_end schedule_run(const struct schedule *schedule, size_t *taken)
{
	(void)schedule;
	*taken = 0;
	return SCHEDULE_STUCK;
}

static void *work(void *task)
{
	for (unsigned long turn = 1; turn <= rounds; turn++) {
		pthread_barrier_wait(&begin);
		words_task(scenario, (uint32_t)(uintptr_t)task);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

static const char *play(void)
{
	uint32_t tasks = words_tasks(scenario);
	pthread_t threads[SCHEDULE_TASKS];
	const char *wrong = NULL;

	if (pthread_barrier_init(&begin, NULL, tasks + 1) ||
	    pthread_barrier_init(&end, NULL, tasks + 1))
		return "cannot make a barrier";
	for (uintptr_t i = 0; i < tasks; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i))
			return "cannot start a thread";
	for (unsigned long turn = 1; turn <= rounds; turn++) {
		words_reset(scenario);
		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&end);
		if (!wrong)
			wrong = words_wrong();
	}
	for (uint32_t i = 0; i < tasks; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&begin);
	pthread_barrier_destroy(&end);
	return wrong;
}

int main(int argc, char **argv)
{
	rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
	for (scenario = 0; scenario < words_scenarios(); scenario++) {
		const char *wrong = play();

		if (wrong) {
			fprintf(stderr, "%s: %s\n",
				words_scenario_name(scenario), wrong);
			return 1;
		}
	}
	return 0;
}
