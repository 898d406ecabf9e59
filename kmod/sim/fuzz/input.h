/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Words out of an input: it holds them with a zero after each.
 */
#ifndef TANDEM_SIM_FUZZ_INPUT_H
#define TANDEM_SIM_FUZZ_INPUT_H

#include <string.h>

#include "../shim/check.h"

#define WORDS 64

/* Each word in memory of its own, so that a step beyond it is seen. */
static unsigned int take_words(const u8 *data, size_t size, char **words)
{
	unsigned int count = 0;
	size_t at = 0;

	while (at < size && count < WORDS) {
		size_t length = strnlen((const char *)data + at, size - at);

		words[count] = malloc(length + 1);
		memcpy(words[count], data + at, length);
		words[count++][length] = 0;
		at += length + 1;
	}
	return count;
}

static void free_words(char **words, unsigned int count)
{
	while (count)
		free(words[--count]);
}

#endif
