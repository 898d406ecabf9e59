/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Recognises sequential streams: of reads that miss, and of writes. Each kind has a table
 * of its own.
 */
#ifndef TANDEM_STREAM_H
#define TANDEM_STREAM_H

#include "engine.h"

/* A stream of reads: a MiB, in frames. */
#define TD_STREAM_READ		64u
/*
 * A stream of writes: 8 MiB, so that a photo that is written is cached, for somebody
 * will look at it.
 */
#define TD_STREAM_WRITTEN	512u
/* In write-back: 32 MiB, since somebody may wait until so much has been saved. */
#define TD_STREAM_BACK_SHIFT	2

/*
 * A request asks for frames @first..@last. True: it continues a stream of at least
 * @enough frames. No lock, any context.
 */
bool td_stream_seen(struct td_engine *e, struct td_streams *s, u64 enough, u64 first,
		    u64 last);

/* A flush came: the streams of @s count half of their length. Lock held. */
static inline void td_stream_flushed(struct td_streams *s)
{
	env_poke(s->flushes, s->flushes + 1);
}

#endif
