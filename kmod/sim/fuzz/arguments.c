// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Any words as the arguments of a table line: linux/args.c must accept or
 * refuse, with a reason, and what it accepts must be complete.
 */
#include "args.c"
#include "input.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	char *words[WORDS];
	unsigned int count = take_words(data, size, words);
	struct tandem_args *args = calloc(1, sizeof(*args));
	char *why = NULL;
	int r = tandem_parse_args(count, words, args, &why);

	if (r) {
		must(r < 0 && why && *why, "refused without a reason");
	} else {
		must(count >= 6 && count <= 16 && count % 2 == 0,
		     "accepted with words too few or too many");
		must(args->identity.origin_id_bytes >= 1,
		     "accepted without an origin_id");
		must(args->identity.origin_id_bytes <= TD_ORIGIN_ID_BYTES,
		     "accepted with too long an origin_id");
		must(args->limit.seconds >= 1 && args->limit.seconds <= 3600 &&
		     (!args->limit.sectors || args->limit.sectors >= 2048),
		     "accepted with a limit that is out of range");
		must(!strcmp(words[0], tandem_mode_name(args->mode)),
		     "accepted in another mode");
	}
	free(args);
	free_words(words, count);
	return 0;
}
