/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the words of a table line and of a message mean; TARGET.rst is the grammar.
 */
#ifndef TANDEM_LINUX_ARGS_H
#define TANDEM_LINUX_ARGS_H

#include "engine.h"
#include "super.h"

/* The user's limit of dirty data; the lower of the two counts. */
struct tandem_limit {
	u32 seconds;	/* that writing it back may take */
	u64 sectors;	/* 0: as much as three quarters of the cache */
	u32 rest;	/* seconds that it may wait for a disk at rest */
};

#define TANDEM_DIRTY_SECONDS		600u	/* unless the user says otherwise */
#define TANDEM_DIRTY_SECONDS_MAX	3600u
#define TANDEM_DIRTY_SECTORS_MIN	2048u
#define TANDEM_REST_SECONDS_MAX		86400u

struct tandem_args {
	struct td_identity identity;
	struct tandem_limit limit;
	enum td_mode mode;
	bool format;
	bool cold;
	u64 lost;	/* generation that ended in bypass; 0: none */
	u64 ssd_sectors;	/* of the SSD that the cache is to use; 0: as before */
};

/* What a message asks for; the first four are "flush ...". */
enum tandem_order {
	TANDEM_ORDER_START,
	TANDEM_ORDER_STOP,
	TANDEM_ORDER_PAUSE,
	TANDEM_ORDER_RESUME,
	TANDEM_ORDER_MODE,
	TANDEM_ORDER_DROP,
	TANDEM_ORDER_LIMIT,
	TANDEM_ORDER_PROMOTION,
	TANDEM_ORDER_RECORDED,	/* the loss of the SSD */
};

struct tandem_message {
	enum tandem_order order;
	enum td_mode mode;		/* TANDEM_ORDER_MODE */
	struct tandem_limit limit;	/* TANDEM_ORDER_LIMIT */
	bool promotes;			/* TANDEM_ORDER_PROMOTION */
};

/* 0, or an error with *why set. */
int tandem_parse_args(unsigned int argc, char **argv, struct tandem_args *args,
		      char **why);
/* -EINVAL: there is no such message. */
int tandem_parse_message(unsigned int argc, char **argv, struct tandem_message *message);
const char *tandem_mode_name(enum td_mode mode);

#endif
