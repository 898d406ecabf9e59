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
static unsigned long go;	/* turn that may run: 1.. */
static unsigned long finished;	/* tasks that ended, over all turns */
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
		while (__atomic_load_n(&go, __ATOMIC_ACQUIRE) < turn)
			sched_yield();
		words_task(scenario, (uint32_t)(uintptr_t)task);
		__atomic_fetch_add(&finished, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static const char *play(void)
{
	uint32_t tasks = words_tasks(scenario);
	pthread_t threads[SCHEDULE_TASKS];
	const char *wrong = NULL;

	go = 0;
	finished = 0;
	for (uintptr_t i = 0; i < tasks; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i))
			return "cannot start a thread";
	for (unsigned long turn = 1; turn <= rounds; turn++) {
		words_reset(scenario);
		__atomic_store_n(&go, turn, __ATOMIC_RELEASE);
		while (__atomic_load_n(&finished, __ATOMIC_ACQUIRE) < turn * tasks)
			sched_yield();
		if (!wrong)
			wrong = words_wrong();
	}
	for (uint32_t i = 0; i < tasks; i++)
		pthread_join(threads[i], NULL);
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
