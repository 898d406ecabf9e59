// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Coroutines on ucontext. Code between two decisions runs undivided: it touches
 * nothing that another task could see. That gives all behaviours of a
 * sequentially consistent machine; weaker ordering is the race detector's
 * matter (threads.c).
 */
#include "schedule.h"

#include <ucontext.h>

#define STACK_BYTES (64 * 1024)

static struct task {
	ucontext_t context;
	void *argument;
	uint64_t observed;
	const bool *waits;	/* able to run when this is NULL or false */
	bool ended;
	_Alignas(16) char stack[STACK_BYTES];
} tasks[SCHEDULE_TASKS];

const bool schedule_exact = true;

static ucontext_t scheduler;
static struct task *current;
static void (*run)(void *argument);

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
	hash ^= hash >> 29;
	hash *= 0xbf58476d1ce4e5b9ull;
	return hash ^ hash >> 32;
}

void schedule_point(void)
{
	if (!current)
		return;
	current->observed = mix(current->observed, 1);
	swapcontext(&current->context, &scheduler);
}

uint64_t schedule_observe(uint64_t value)
{
	if (current)
		current->observed = mix(current->observed, value);
	return value;
}

void schedule_lock(bool *flag)
{
	if (current) {
		current->waits = flag;
		schedule_point();
		current->waits = NULL;
	}
	*flag = true;
}

void schedule_unlock(bool *flag)
{
	*flag = false;
}

static void enter(void)
{
	run(current->argument);
	current->ended = true;
}

static unsigned int able(const struct schedule *s, struct task *list[])
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < s->count; i++)
		if (!tasks[i].ended && !(tasks[i].waits && *tasks[i].waits))
			list[count++] = &tasks[i];
	return count;
}

static uint64_t state(const struct schedule *s)
{
	const unsigned char *shared = s->shared;
	uint64_t hash = 0;

	for (unsigned int i = 0; i < s->count; i++)
		hash = mix(hash, tasks[i].observed);
	for (size_t i = 0; i < s->shared_size; i++)
		hash = mix(hash, shared[i]);
	return hash;
}

enum schedule_end schedule_run(const struct schedule *s, size_t *taken)
{
	struct task *list[SCHEDULE_TASKS];
	unsigned int width;

	run = s->run;
	for (unsigned int i = 0; i < s->count; i++) {
		struct task *t = &tasks[i];

		getcontext(&t->context);
		t->context.uc_stack.ss_sp = t->stack;
		t->context.uc_stack.ss_size = STACK_BYTES;
		t->context.uc_link = &scheduler;
		t->argument = s->arguments[i];
		t->observed = i + 1;
		t->waits = NULL;
		t->ended = false;
		makecontext(&t->context, enter, 0);
	}
	for (*taken = 0; (width = able(s, list)) > 0; (*taken)++) {
		if (*taken == s->room)
			return SCHEDULE_STUCK;
		if (*taken >= s->given) {
			if (s->met(s->context, state(s)))
				return SCHEDULE_MET;
			s->choices[*taken] = 0;
		}
		s->widths[*taken] = (uint8_t)width;
		current = list[s->choices[*taken]];
		swapcontext(&scheduler, &current->context);
		if (current->ended)
			current->observed = mix(current->observed, 2);
		current = NULL;
	}
	for (unsigned int i = 0; i < s->count; i++)
		if (!tasks[i].ended)
			return SCHEDULE_STUCK;
	return SCHEDULE_ENDED;
}
