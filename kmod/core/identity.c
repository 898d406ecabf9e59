// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples and traces of the disk: how they are stored, how they are compared.
 *
 * Invariant: samples count only if the newest sound copy says STOPPED; the cache
 * writes RUNNING before it may change the disk. Traces always count.
 * Threads: pure functions on the caller's memory; heat is guarded by the lock.
 * Why the quarters written most often: a mount of a file system elsewhere writes its
 * superblock and its journal. These are what this cache's users wrote most often,
 * wherever they lie, also inside an encrypted volume.
 */
#include "format.h"
#include "identity.h"
#include "places.h"

#define MAGIC		0x32304c504d534454ull	/* "TDSMPL02", as bytes */
#define MAGIC_OF_CRCS	0x31304c504d534454ull	/* "TDSMPL01" */
#define CRC_SEED	0xffffffffu
#define QUARTER_BYTES	(TD_QUARTER_SECTORS * TD_SECTOR_BYTES)
#define STATE_RUNNING	1u
#define STATE_STOPPED	2u
#define NR_FIXED	9u	/* samples that are always taken */
#define FIRST_MIB	256u	/* quarter where a first partition begins */
#define FLAG_SURE	1u

struct disk_sample {
	__le64 quarter;
	__le32 sum;		/* 0 if running */
	__le32 heat;
};

struct disk_trace {
	__le64 quarter;
	__le32 was[TD_QUARTER_SECTORS];
	__le32 will[TD_QUARTER_SECTORS];
};

struct disk_samples {
	__le64 magic;
	__le32 crc;		/* of all behind it */
	__le32 state;
	__le64 sequence;
	__le32 copy;
	__le32 count;
	struct disk_sample sample[TD_SAMPLES_MAX];
	__le32 flags;
	__le32 traces;
	__le32 mark;
	__le32 head;
	struct disk_trace trace[TD_TRACES_MAX];
	u8 zero[TD_SAMPLES_BYTES - 48 - TD_SAMPLES_MAX * 16 -
		TD_TRACES_MAX * 72];
};

_Static_assert(sizeof(struct disk_samples) == TD_SAMPLES_BYTES, "one block");

/*
 * A checksum of content. Not crc32c: a block that ends with its own crc32c, as ext4's
 * superblock and folders do, has the same crc32c whatever is in it. No content of one word
 * has the sum of another one's, but for the 32 bits that are left out at the end.
 */
static u32 content_sum(const u8 *data, u32 bytes)
{
	u64 h = bytes;
	__le64 word;

	for (u32 i = 0; i < bytes; i += sizeof(word)) {
		memcpy(&word, data + i, sizeof(word));
		h = (h ^ le64_to_cpu(word)) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 32;
	}
	return (u32)h;
}

/* The sum that the notes @s have of content. */
static u32 noted_sum(const struct td_samples *s, const u8 *data, u32 bytes)
{
	return s->of_crcs ? ~env_crc32c(CRC_SEED, data, bytes) :
			    content_sum(data, bytes);
}

static u32 samples_checksum(const struct disk_samples *d, const u8 *uuid)
{
	size_t from = offsetof(struct disk_samples, state);
	u32 crc = env_crc32c(CRC_SEED, uuid, TD_UUID_BYTES);

	return ~env_crc32c(crc, (const u8 *)d + from, sizeof(*d) - from);
}

static void encode_trace(const struct td_trace_sums *t, struct disk_trace *d)
{
	d->quarter = cpu_to_le64(t->quarter);
	for (u32 i = 0; i < TD_QUARTER_SECTORS; i++) {
		d->was[i] = cpu_to_le32(t->was[i]);
		d->will[i] = cpu_to_le32(t->will[i]);
	}
}

void td_samples_encode(const struct td_samples *s, const u8 *uuid, u32 copy,
		       void *block)
{
	struct disk_samples *d = block;

	memset(d, 0, sizeof(*d));
	d->magic = cpu_to_le64(MAGIC);
	d->state = cpu_to_le32(s->stopped ? STATE_STOPPED : STATE_RUNNING);
	d->sequence = cpu_to_le64(s->sequence);
	d->copy = cpu_to_le32(copy);
	d->count = cpu_to_le32(s->count);
	for (u32 i = 0; i < s->count; i++) {
		d->sample[i].quarter = cpu_to_le64(s->sample[i].quarter);
		d->sample[i].sum = cpu_to_le32(s->stopped ? s->sample[i].sum : 0);
		d->sample[i].heat = cpu_to_le32(s->sample[i].heat);
	}
	d->flags = cpu_to_le32(s->sure ? FLAG_SURE : 0);
	d->traces = cpu_to_le32(s->traces);
	d->mark = cpu_to_le32(s->mark);
	d->head = cpu_to_le32(s->head);
	for (u32 i = 0; i < s->traces; i++)
		encode_trace(&s->trace[i], &d->trace[i]);
	d->crc = cpu_to_le32(samples_checksum(d, uuid));
}

static void parse_trace(const struct disk_trace *d, struct td_trace_sums *t)
{
	t->quarter = le64_to_cpu(d->quarter);
	for (u32 i = 0; i < TD_QUARTER_SECTORS; i++) {
		t->was[i] = le32_to_cpu(d->was[i]);
		t->will[i] = le32_to_cpu(d->will[i]);
	}
}

static bool parse_traces(const struct disk_samples *d, u64 quarters,
			 struct td_samples *s)
{
	s->sure = le32_to_cpu(d->flags) & FLAG_SURE;
	s->traces = le32_to_cpu(d->traces);
	s->mark = le32_to_cpu(d->mark);
	s->head = le32_to_cpu(d->head);
	if (s->traces > TD_TRACES_MAX || (s->sure && !s->traces))
		return false;
	for (u32 i = 0; i < s->traces; i++) {
		parse_trace(&d->trace[i], &s->trace[i]);
		if (s->trace[i].quarter >= quarters)
			return false;
	}
	return true;
}

bool td_samples_parse(const void *block, const u8 *uuid, u32 copy,
		      u64 origin_sectors, struct td_samples *s)
{
	const struct disk_samples *d = block;
	u64 quarters = origin_sectors >> TD_QUARTER_SHIFT;
	u32 state = le32_to_cpu(d->state);
	u64 magic = le64_to_cpu(d->magic);

	if ((magic != MAGIC && magic != MAGIC_OF_CRCS) ||
	    le32_to_cpu(d->crc) != samples_checksum(d, uuid) ||
	    le32_to_cpu(d->copy) != copy ||
	    (state != STATE_RUNNING && state != STATE_STOPPED))
		return false;
	memset(s, 0, sizeof(*s));
	s->of_crcs = magic == MAGIC_OF_CRCS;
	s->sequence = le64_to_cpu(d->sequence);
	s->stopped = state == STATE_STOPPED;
	s->count = le32_to_cpu(d->count);
	if (s->count > TD_SAMPLES_MAX)
		return false;
	for (u32 i = 0; i < s->count; i++) {
		s->sample[i].quarter = le64_to_cpu(d->sample[i].quarter);
		s->sample[i].sum = le32_to_cpu(d->sample[i].sum);
		s->sample[i].heat = le32_to_cpu(d->sample[i].heat);
		s->sample[i].unknown = !s->stopped;
		if (s->sample[i].quarter >= quarters)
			return false;
	}
	return parse_traces(d, quarters, s);
}

static u64 sequence_of(const void *block)
{
	return le64_to_cpu(((const struct disk_samples *)block)->sequence);
}

void td_samples_choose(const void *first, const void *second,
		       const struct td_super *sb, struct td_samples *s)
{
	const void *const blocks[] = { first, second };
	bool both = first && second;
	/* The newer one, if it is sound; else the other one. */
	u32 newer = both ? sequence_of(second) > sequence_of(first) : !first;

	for (u32 i = 0; i < 2; i++) {
		if (!blocks[newer ^ i] ||
		    !td_samples_parse(blocks[newer ^ i], sb->uuid, newer ^ i,
				      sb->origin_sectors, s))
			continue;
		/* The other one may be newer, and its writes may be on the disk. */
		if (!both && !s->stopped) {
			s->traces = 0;
			s->sure = false;
		}
		return;
	}
	memset(s, 0, sizeof(*s));
}

static void add_sample(struct td_samples *s, u64 quarter, bool unknown)
{
	for (u32 i = 0; i < s->count; i++)
		if (s->sample[i].quarter == quarter)
			return;
	if (s->count == TD_SAMPLES_MAX)
		return;
	s->sample[s->count++] = (struct td_sample) {
		.quarter = quarter,
		.unknown = unknown,
	};
}

static void add_fixed(struct td_samples *s, u64 origin_sectors, bool unknown)
{
	u64 quarters = origin_sectors >> TD_QUARTER_SHIFT;
	/*
	 * Partition tables at both ends; superblocks of a volume and of one in a
	 * first partition at 1 MiB: ext4, XFS, NTFS, LUKS at its start, LUKS
	 * again at 16 KiB, btrfs at 64 KiB; NTFS, RAID at its end. No quarter that
	 * may be free: discarded blocks may read differently each time.
	 */
	const u64 fixed[NR_FIXED] = {
		0, 1, 4, 16, FIRST_MIB, 260, 272, quarters - 2, quarters - 1,
	};

	for (u32 i = 0; i < NR_FIXED; i++)
		if (fixed[i] < quarters)
			add_sample(s, fixed[i], unknown);
}

static void add_hot(struct td_samples *s, const struct td_heat *heat, u32 kind,
		    u64 quarters)
{
	for (u32 i = 0; i < TD_HOT_MAX; i++) {
		u32 before = s->count;

		if (!heat->count[i] || heat->quarter[i] >= quarters)
			continue;
		add_sample(s, heat->quarter[i], false);
		if (s->count > before)
			s->sample[before].heat = kind |
						 (heat->count[i] & ~TD_HEAT_READ);
	}
}

void td_samples_pick(const struct td_heat *written, const struct td_heat *read,
		     u64 origin_sectors, struct td_samples *s)
{
	u64 quarters = origin_sectors >> TD_QUARTER_SHIFT;

	s->of_crcs = false;
	s->count = 0;
	s->traces = 0;
	s->sure = false;
	add_fixed(s, origin_sectors, false);
	add_hot(s, written, 0, quarters);
	if (read)
		add_hot(s, read, TD_HEAT_READ, quarters);
}

/* Where a file system may say what it is. */
static const u64 boot[] = { TD_HOME_FIRST, TD_HOME_BTRFS, FIRST_MIB };

static bool is_boot(u64 quarter)
{
	return quarter == boot[0] || quarter == boot[1] || quarter == boot[2];
}

void td_samples_at_start(struct td_samples *s, u64 origin_sectors)
{
	if (!s->stopped) {
		add_fixed(s, origin_sectors, true);
		return;
	}
	for (u32 i = 0; i < 3; i++)
		if (boot[i] < origin_sectors >> TD_QUARTER_SHIFT)
			add_sample(s, boot[i], true);
}

void td_sample_know(struct td_samples *s, u32 at, const void *quarter)
{
	s->sample[at].sum = noted_sum(s, quarter, QUARTER_BYTES);
	s->sample[at].unknown = false;
}

void td_probe_begin(struct td_probe *p, struct td_samples *s, bool compares)
{
	memset(p, 0, sizeof(*p));
	p->samples = s;
	p->compares = compares;
}

bool td_probe_next(const struct td_probe *p, u64 *sector)
{
	const struct td_samples *s = p->samples;
	u32 traces = p->compares ? s->traces : 0;
	u64 quarter;

	if (p->at >= s->count + traces)
		return false;
	if (p->at < s->count)
		quarter = s->sample[p->at].quarter;
	else
		quarter = s->trace[p->at - s->count].quarter;
	*sector = quarter << TD_QUARTER_SHIFT;
	return true;
}

/* Each sector may have either of its two contents. */
static bool is_as_noted(const struct td_samples *s, const struct td_trace_sums *t,
			const u8 *quarter)
{
	for (u32 i = 0; i < TD_QUARTER_SECTORS; i++) {
		u32 sum = noted_sum(s, quarter + i * TD_SECTOR_BYTES,
				    TD_SECTOR_BYTES);

		if (sum != t->was[i] && sum != t->will[i])
			return false;
	}
	return true;
}

void td_probe_feed(struct td_probe *p, const void *quarter)
{
	u32 at = p->at++;
	struct td_sample sample;
	u32 sum;

	if (!quarter) {
		/* The quarter may be that of a file system that is recognized. */
		p->recognized |= at < p->samples->count &&
				 is_boot(p->samples->sample[at].quarter);
		return;
	}
	if (at >= p->samples->count) {
		at -= p->samples->count;
		p->traces++;
		p->differs |= !is_as_noted(p->samples, &p->samples->trace[at],
					   quarter);
		return;
	}
	sample = p->samples->sample[at];
	if (sample.quarter == TD_HOME_FIRST || sample.quarter == FIRST_MIB)
		p->traceless |= td_places_boot(quarter);
	p->recognized |= td_places_recognize(sample.quarter, quarter);
	if (sample.unknown)
		return;
	sum = noted_sum(p->samples, quarter, QUARTER_BYTES);
	if (p->compares) {
		p->readable++;
		p->differs |= sum != sample.sum;
		return;
	}
	sample.sum = sum;
	p->samples->sample[p->readable++] = sample;
}

enum td_verdict_of_disk td_probe_end(struct td_probe *p)
{
	if (!p->compares) {
		p->samples->count = p->readable;
		p->samples->stopped = true;
		return TD_DISK_SAME;
	}
	p->proven = p->samples->sure && p->traces == p->samples->traces;
	if (p->differs)
		return TD_DISK_CHANGED;
	return p->readable || p->traces ? TD_DISK_SAME : TD_DISK_UNKNOWN;
}

enum td_start td_start_judge(const struct td_past *past)
{
	if (past->verdict == TD_DISK_CHANGED)
		return past->dirty ? TD_START_DIVERGED : TD_START_CHANGED;
	if (past->left)
		return TD_START_LEFT;
	if (past->proven)
		return TD_START_WARM;
	if (past->traceless)
		return TD_START_TRACELESS;
	/* A use of such a file system may have changed nothing but its own places. */
	if (!past->stopped || past->recognized ||
	    past->verdict == TD_DISK_UNKNOWN)
		return TD_START_UNPROVEN;
	return TD_START_WARM;
}

u32 td_sum_of(const void *sector)
{
	return content_sum(sector, TD_SECTOR_BYTES);
}

void td_sums_of(const void *quarter, u32 *sums)
{
	for (u32 i = 0; i < TD_QUARTER_SECTORS; i++)
		sums[i] = td_sum_of((const u8 *)quarter + i * TD_SECTOR_BYTES);
}
