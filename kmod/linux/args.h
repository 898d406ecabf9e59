/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the words of a table line and of a message mean; TARGET.rst is the grammar.
 */
#ifndef TANDEM_LINUX_ARGS_H
#define TANDEM_LINUX_ARGS_H

#include "engine.h"
#include "super.h"

struct tandem_args {
	struct td_identity identity;
	enum td_mode mode;
	bool format;
	bool cold;
	u64 lost;	/* generation that ended in bypass; 0: none */
};

/* What a message asks for; the first four are "flush ...". */
enum tandem_order {
	TANDEM_ORDER_START,
	TANDEM_ORDER_STOP,
	TANDEM_ORDER_PAUSE,
	TANDEM_ORDER_RESUME,
	TANDEM_ORDER_MODE,
	TANDEM_ORDER_DROP,
	TANDEM_ORDER_RECORDED,	/* the loss of the SSD */
};

/* 0, or an error with *why set. */
int tandem_parse_args(unsigned int argc, char **argv, struct tandem_args *args,
		      char **why);
/* -EINVAL: there is no such message. @mode is set for TANDEM_ORDER_MODE. */
int tandem_parse_message(unsigned int argc, char **argv,
			 enum tandem_order *order, enum td_mode *mode);
const char *tandem_mode_name(enum td_mode mode);

#endif
