// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Any words as the arguments of a table line: linux/args.c must accept or
 * refuse, with a reason, and what it accepts must be complete.
 *
 * Input: the words with a zero after each.
 */
#include <stdio.h>
#include <stdlib.h>

#include "args.c"

#define WORDS 64

static void must(bool condition, const char *why)
{
	if (!condition) {
		fprintf(stderr, "%s\n", why);
		abort();
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct tandem_args *args;
	unsigned int count = 0;
	char *words[WORDS];
	char *why = NULL;
	size_t at = 0;
	int r;

	/* Each word in memory of its own, so that a step beyond it is seen. */
	while (at < size && count < WORDS) {
		size_t length = strnlen((const char *)data + at, size - at);

		words[count] = malloc(length + 1);
		memcpy(words[count], data + at, length);
		words[count++][length] = 0;
		at += length + 1;
	}
	args = calloc(1, sizeof(*args));
	r = tandem_parse_args(count, words, args, &why);
	if (r) {
		must(r < 0 && why && *why, "refused without a reason");
	} else {
		must(count >= 6 && count <= 8, "accepted with words too few or too many");
		must(args->identity.origin_id_bytes >= 1 &&
		     args->identity.origin_id_bytes <= TD_ORIGIN_ID_BYTES,
		     "accepted without an origin_id");
		must(args->mode == TD_WRITETHROUGH || args->mode == TD_WRITEAROUND,
		     "accepted without a mode");
	}
	free(args);
	while (count)
		free(words[--count]);
	return 0;
}
