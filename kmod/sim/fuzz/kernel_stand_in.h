/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What linux/args.c needs of the kernel, in user space.
 */
#ifndef TANDEM_SIM_FUZZ_KERNEL_STAND_IN_H
#define TANDEM_SIM_FUZZ_KERNEL_STAND_IN_H

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "env.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

static inline int kernel_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* As lib/hexdump.c: reads digit by digit, stops at the first that is none. */
static inline int hex2bin(u8 *to, const char *from, size_t count)
{
	while (count--) {
		int high = kernel_digit(*from++);
		int low;

		if (high < 0)
			return -EINVAL;
		low = kernel_digit(*from++);
		if (low < 0)
			return -EINVAL;
		*to++ = (u8)(high << 4 | low);
	}
	return 0;
}

/* As lib/kstrtox.c for base 10: an optional plus, digits, a last newline. */
static inline int kstrtoull(const char *s, unsigned int base, unsigned long long *result)
{
	unsigned long long value = 0;

	if (base != 10)
		abort();
	if (*s == '+')
		s++;
	if (!*s)
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (unsigned long long)(*s - '0'), &value))
			return -ERANGE;
	if (*s == '\n')
		s++;
	if (*s)
		return -EINVAL;
	*result = value;
	return 0;
}

static inline int kstrtouint(const char *s, unsigned int base, unsigned int *result)
{
	unsigned long long value;
	int r = kstrtoull(s, base, &value);

	if (r)
		return r;
	if (value > UINT_MAX)
		return -ERANGE;
	*result = (unsigned int)value;
	return 0;
}

#endif
