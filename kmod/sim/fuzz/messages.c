// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Any words as a message: linux/args.c must take those of the grammar for what
 * they are, and refuse all others.
 */

#include "args.c"
#include "input.h"

static const struct {
	const char *first, *second;
	enum tandem_order order;
	enum td_mode mode;
} grammar[] = {
	{ "drop", NULL, TANDEM_ORDER_DROP, 0 },
	{ "loss", "recorded", TANDEM_ORDER_RECORDED, 0 },
	{ "mode", "writethrough", TANDEM_ORDER_MODE, TD_WRITETHROUGH },
	{ "mode", "writearound", TANDEM_ORDER_MODE, TD_WRITEAROUND },
	{ "mode", "writeback", TANDEM_ORDER_MODE, TD_WRITEBACK },
	{ "promotion", "on", TANDEM_ORDER_PROMOTION, 0 },
	{ "promotion", "off", TANDEM_ORDER_PROMOTION, 0 },
	{ "flush", "start", TANDEM_ORDER_START, 0 },
	{ "flush", "stop", TANDEM_ORDER_STOP, 0 },
	{ "flush", "pause", TANDEM_ORDER_PAUSE, 0 },
	{ "flush", "resume", TANDEM_ORDER_RESUME, 0 },
};

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	char *words[WORDS];
	unsigned int count = take_words(data, size, words);
	struct tandem_message m = { .mode = TD_WRITETHROUGH };
	int r = tandem_parse_message(count, words, &m);
	bool known = (count == 3 || count == 4) && !r &&
		     !strcasecmp(words[0], "dirty_limit");

	for (u32 i = 0; i < ARRAY_SIZE(grammar); i++) {
		unsigned int wanted = grammar[i].second ? 2 : 1;

		if (count != wanted || strcasecmp(words[0], grammar[i].first) ||
		    (grammar[i].second && strcmp(words[1], grammar[i].second)))
			continue;
		known = true;
		must(!r, "refused, though it is in the grammar");
		must(m.order == grammar[i].order, "taken for another order");
		must(m.order != TANDEM_ORDER_MODE || m.mode == grammar[i].mode,
		     "taken for another mode");
		must(m.order != TANDEM_ORDER_PROMOTION ||
		     m.promotes == !strcmp(words[1], "on"),
		     "promotion is on instead of off, or off instead of on");
	}
	must(known || r < 0, "taken, though it is not in the grammar");
	must(r || m.order != TANDEM_ORDER_LIMIT ||
	     (m.limit.seconds >= 1 && m.limit.seconds <= 3600 &&
	      (!m.limit.sectors || m.limit.sectors >= 2048) &&
	      m.limit.rest <= 86400),
	     "a limit that is out of range");
	free_words(words, count);
	return 0;
}
