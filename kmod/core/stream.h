/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Recognises sequential streams among requests that miss.
 */
#ifndef TANDEM_STREAM_H
#define TANDEM_STREAM_H

#include "engine.h"

/*
 * A read asks for frames @first..@last. True: the read continues a stream of at least a
 * MiB. No lock, any context.
 */
bool td_stream_seen(struct td_engine *e, u64 first, u64 last);

#endif
