// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Small tables of where each stream would go on.
 *
 * An entry: bits 0-35 the frame expected next, 36-51 frames seen in a row (it
 * saturates), 52-63 low bits of the number of flushes when it was last seen. 0 is an
 * empty entry, as frame 0 is never expected next.
 *
 * Invariant: an entry is loaded and stored as one word, so it is of one stream, always.
 * Two requests at once may overwrite each other's entry: a stream is seen later then,
 * which costs room on the SSD and no data.
 * Threads: any, without a lock.
 * Why second chances: random requests come between the requests of a stream. Each
 * only halves the length in the entry that its hash chooses, so a stream outlives many
 * of them, while the entry of a single request is replaced at once.
 * Why a flush halves the length: a journal or a log of transactions is written in order
 * too, but a little at a time, and somebody waits for each flush behind it. So a stream
 * of writes is one that writes much from flush to flush.
 */
#include "stream.h"

#define LENGTH_SHIFT	36
#define LENGTH_MAX	0xffffull
#define FLUSHES_SHIFT	52
#define FLUSHES_MASK	0xfffull

/* Frames in a row of the entry @v; @flushes so far. */
static u64 length_of(u64 v, u64 flushes)
{
	u64 since = (flushes - (v >> FLUSHES_SHIFT)) & FLUSHES_MASK;

	return since < 16 ? (v >> LENGTH_SHIFT & LENGTH_MAX) >> since : 0;
}

static u64 entry_of(u64 next, u64 length, u64 flushes)
{
	return (next & TD_W_TAG) | length << LENGTH_SHIFT |
	       (flushes & FLUSHES_MASK) << FLUSHES_SHIFT;
}

/* The request begins no stream that is known. */
static void seen_alone(struct td_streams *s, u64 first, u64 last, u64 flushes)
{
	struct env_atomic64 *entry = &s->entries[td_hash(first) >> 60];
	u64 v = env_load(entry);
	u64 length = length_of(v, flushes);

	if (length > 1)
		env_store(entry, entry_of(v, length / 2, flushes));
	else
		env_store(entry, entry_of(last + 1, last - first + 1, flushes));
}

/* Does the stream of entry @v go on with a request that begins in frame @first? */
static bool goes_on(u64 v, u64 first)
{
	/* The next frame is @first, or the one behind it. */
	return unlikely(((v - first) & TD_W_TAG) <= 1) && v;
}

/*
 * The number of the entry of the longest stream that goes on at @first, and *v, what it
 * holds; or TD_STREAMS. (A single request ahead of a stream has an entry that fits, too.)
 */
static u32 longest(const struct td_streams *s, u64 first, u64 flushes, u64 *v)
{
	u32 best = TD_STREAMS;

	for (u32 i = 0; i < TD_STREAMS; i++) {
		u64 other = env_load(&s->entries[i]);

		if (!goes_on(other, first) ||
		    (best != TD_STREAMS &&
		     length_of(other, flushes) <= length_of(*v, flushes)))
			continue;
		best = i;
		*v = other;
	}
	return best;
}

bool td_stream_seen(struct td_engine *e, struct td_streams *s, u64 enough, u64 first,
		    u64 last)
{
	u64 flushes = env_peek(s->flushes);
	u32 i = env_peek(s->latest);
	u64 v = env_load(&s->entries[i]);
	u64 next, was, length;

	/* A request of a long stream mostly follows one of the same stream. */
	if (!goes_on(v, first) || length_of(v, flushes) < enough) {
		i = longest(s, first, flushes, &v);
		if (i == TD_STREAMS) {
			seen_alone(s, first, last, flushes);
			return false;
		}
		env_poke(s->latest, i);
	}
	next = v & TD_W_TAG;
	was = length_of(v, flushes);
	/* The last frame may be asked for again, in smaller pieces. */
	if (last + 1 == next)
		return was >= enough;
	length = was + last + 1 - next;
	if (length > LENGTH_MAX)
		length = LENGTH_MAX;
	env_store(&s->entries[i], entry_of(last + 1, length, flushes));
	if (was < enough && length >= enough)
		env_count(e->counters, TD_C_STREAMS, 1);
	return length >= enough;
}
