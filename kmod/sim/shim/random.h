/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Random numbers that one seed repeats (splitmix64), for tests in C. */
#ifndef TANDEM_SIM_RANDOM_H
#define TANDEM_SIM_RANDOM_H

#include "env.h"

static inline u64 random_number(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static inline u32 random_below(u64 *state, u32 n)
{
	return (u32)(random_number(state) >> 33) % n;
}

#endif
