// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The words of the table line behind the two devices, and those of a message;
 * TARGET.rst is the grammar.
 *
 * Invariant: after 0 every required argument was given once and is in range.
 * Threads: constructor and messages; touches nothing but its arguments.
 */
#include <linux/kernel.h>
#include <linux/string.h>
#include <tandem-compat.h>

#include "args.h"

static int parse_uuid(const char *word, struct td_identity *id, char **why)
{
	if (strlen(word) != 2 * TD_UUID_BYTES ||
	    hex2bin(id->uuid, word, TD_UUID_BYTES)) {
		*why = "uuid must be 32 hex digits";
		return -EINVAL;
	}
	return 0;
}

static int parse_origin_id(const char *word, struct td_identity *id, char **why)
{
	size_t digits = strlen(word);

	if (digits < 2 || digits > 2 * TD_ORIGIN_ID_BYTES || digits % 2 ||
	    hex2bin(id->origin_id, word, digits / 2)) {
		*why = "origin_id must be 2 to 128 hex digits, an even number";
		return -EINVAL;
	}
	id->origin_id_bytes = digits / 2;
	return 0;
}

static const char *const modes[] = {
	[TD_WRITETHROUGH] = "writethrough",
	[TD_WRITEAROUND] = "writearound",
	[TD_WRITEBACK] = "writeback",
};

const char *tandem_mode_name(enum td_mode mode)
{
	return modes[mode];
}

static int parse_mode(const char *word, enum td_mode *mode)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(modes); i++) {
		if (strcmp(word, modes[i]))
			continue;
		*mode = i;
		return 0;
	}
	return -EINVAL;
}

static bool parse_seconds(const char *word, struct tandem_limit *limit)
{
	return !kstrtouint(word, 10, &limit->seconds) && limit->seconds &&
	       limit->seconds <= TANDEM_DIRTY_SECONDS_MAX;
}

static bool parse_sectors(const char *word, struct tandem_limit *limit)
{
	unsigned long long sectors;

	if (kstrtoull(word, 10, &sectors) ||
	    (sectors && sectors < TANDEM_DIRTY_SECTORS_MIN))
		return false;
	limit->sectors = sectors;
	return true;
}

static bool parse_rest(const char *word, struct tandem_limit *limit)
{
	return !kstrtouint(word, 10, &limit->rest) &&
	       limit->rest <= TANDEM_REST_SECONDS_MAX;
}

static int parse_pair(const char *name, const char *value,
		      struct tandem_args *args, unsigned int *seen, char **why)
{
	static const char *const names[] = {
		"uuid", "origin_id", "format", "start", "lost", "dirty_seconds",
		"dirty_sectors", "rest_seconds", "ssd_sectors"
	};
	unsigned long long number;
	unsigned int which;

	for (which = 0; which < ARRAY_SIZE(names); which++)
		if (!strcmp(name, names[which]))
			break;
	if (which == ARRAY_SIZE(names)) {
		*why = "Unknown argument";
		return -EINVAL;
	}
	if (*seen & 1u << which) {
		*why = "Argument given twice";
		return -EINVAL;
	}
	*seen |= 1u << which;
	if (which == 0)
		return parse_uuid(value, &args->identity, why);
	if (which == 1)
		return parse_origin_id(value, &args->identity, why);
	if (which == 3) {
		args->cold = true;
		*why = "start must be cold";
		return strcmp(value, "cold") ? -EINVAL : 0;
	}
	if (which == 4) {
		*why = "lost must be a number";
		if (kstrtoull(value, 10, &number))
			return -EINVAL;
		args->lost = number;
		return 0;
	}
	if (which == 5) {
		*why = "dirty_seconds must be from 1 to 3600";
		return parse_seconds(value, &args->limit) ? 0 : -EINVAL;
	}
	if (which == 6) {
		*why = "dirty_sectors must be 0, or 2048 or more";
		return parse_sectors(value, &args->limit) ? 0 : -EINVAL;
	}
	if (which == 7) {
		*why = "rest_seconds must be from 0 to 86400";
		return parse_rest(value, &args->limit) ? 0 : -EINVAL;
	}
	if (which == 8) {
		*why = "ssd_sectors must be a number above 0";
		if (kstrtoull(value, 10, &number) || !number)
			return -EINVAL;
		args->ssd_sectors = number;
		return 0;
	}
	args->format = true;
	*why = "format must be new";
	return strcmp(value, "new") ? -EINVAL : 0;
}

int tandem_parse_args(unsigned int argc, char **argv, struct tandem_args *args,
		      char **why)
{
	unsigned int words, seen = 0, i;
	int r;

	args->limit.seconds = TANDEM_DIRTY_SECONDS;
	*why = "Invalid number of arguments";
	if (argc < 2 || kstrtouint(argv[1], 10, &words) || words != argc - 2 ||
	    words % 2)
		return -EINVAL;
	r = parse_mode(argv[0], &args->mode);
	if (r) {
		*why = "Mode must be writethrough, writearound or writeback";
		return r;
	}
	for (i = 2; i < argc; i += 2) {
		r = parse_pair(argv[i], argv[i + 1], args, &seen, why);
		if (r)
			return r;
	}
	if ((seen & 3) != 3) {
		*why = "uuid and origin_id are required";
		return -EINVAL;
	}
	return 0;
}

static int parse_flush(const char *word, enum tandem_order *order)
{
	static const char *const flush[] = {
		[TANDEM_ORDER_START] = "start",
		[TANDEM_ORDER_STOP] = "stop",
		[TANDEM_ORDER_PAUSE] = "pause",
		[TANDEM_ORDER_RESUME] = "resume",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(flush); i++) {
		if (strcmp(word, flush[i]))
			continue;
		*order = i;
		return 0;
	}
	return -EINVAL;
}

static int parse_promotion(const char *word, bool *promotes)
{
	*promotes = !strcmp(word, "on");
	return *promotes || !strcmp(word, "off") ? 0 : -EINVAL;
}

int tandem_parse_message(unsigned int argc, char **argv, struct tandem_message *message)
{
	if (argc == 1 && !strcasecmp(argv[0], "drop")) {
		message->order = TANDEM_ORDER_DROP;
		return 0;
	}
	if ((argc == 3 || argc == 4) && !strcasecmp(argv[0], "dirty_limit")) {
		message->order = TANDEM_ORDER_LIMIT;
		message->limit.rest = 0;
		return parse_seconds(argv[1], &message->limit) &&
		       parse_sectors(argv[2], &message->limit) &&
		       (argc == 3 || parse_rest(argv[3], &message->limit)) ?
			0 : -EINVAL;
	}
	if (argc != 2)
		return -EINVAL;
	if (!strcasecmp(argv[0], "loss") && !strcmp(argv[1], "recorded")) {
		message->order = TANDEM_ORDER_RECORDED;
		return 0;
	}
	if (!strcasecmp(argv[0], "mode")) {
		message->order = TANDEM_ORDER_MODE;
		return parse_mode(argv[1], &message->mode);
	}
	if (!strcasecmp(argv[0], "promotion")) {
		message->order = TANDEM_ORDER_PROMOTION;
		return parse_promotion(argv[1], &message->promotes);
	}
	if (strcasecmp(argv[0], "flush"))
		return -EINVAL;
	return parse_flush(argv[1], &message->order);
}
