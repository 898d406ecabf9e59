// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A small table of where each stream would go on.
 *
 * An entry: bits 0-35 the frame expected next, 36-51 frames seen in a row (it
 * saturates). 0 is an empty entry, as frame 0 is never expected next.
 *
 * Invariant: none that matters: an entry is one word, and a lost update costs
 * a stream being seen later.
 * Threads: any, without a lock.
 * Why second chances: random requests come between the requests of a stream. Each
 * only halves the length in the entry that its hash chooses, so a stream outlives many
 * of them, while the entry of a single request is replaced at once.
 */
#include "stream.h"

#define LENGTH_SHIFT	36
#define LENGTH_MAX	0xffffull
#define STREAM_FRAMES	64ull

bool td_stream_seen(struct td_engine *e, u64 first, u64 last)
{
	u64 frames = last - first + 1;
	struct env_atomic64 *entry;
	u64 v, length;

	for (u32 i = 0; i < TD_STREAMS; i++) {
		u64 next;

		v = env_load(&e->streams[i]);
		next = v & TD_W_TAG;
		if (!v || (first != next && first + 1 != next))
			continue;
		/* The last frame may be asked for again, in smaller pieces. */
		if (last + 1 == next)
			return (v >> LENGTH_SHIFT) >= STREAM_FRAMES;
		length = (v >> LENGTH_SHIFT) + last + 1 - next;
		if (length > LENGTH_MAX)
			length = LENGTH_MAX;
		env_store(&e->streams[i],
			  ((last + 1) & TD_W_TAG) | length << LENGTH_SHIFT);
		if ((v >> LENGTH_SHIFT) < STREAM_FRAMES &&
		    length >= STREAM_FRAMES)
			env_count(e->counters, TD_C_STREAMS, 1);
		return length >= STREAM_FRAMES;
	}
	entry = &e->streams[td_hash(first) >> 60];
	v = env_load(entry);
	length = v >> LENGTH_SHIFT;
	if (length > 1)
		env_store(entry, (v & TD_W_TAG) | (length / 2) << LENGTH_SHIFT);
	else
		env_store(entry, ((last + 1) & TD_W_TAG) |
			  frames << LENGTH_SHIFT);
	return false;
}
