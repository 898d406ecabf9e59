/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For tests in C: a difference ends the program. */
#ifndef TANDEM_SIM_CHECK_H
#define TANDEM_SIM_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "env.h"

static inline void must(bool condition, const char *why)
{
	if (!condition) {
		fprintf(stderr, "%s\n", why);
		abort();
	}
}

static inline void *zeroed(u64 count, size_t size)
{
	void *memory = calloc(count, size);

	must(memory, "no memory");
	return memory;
}

#endif
