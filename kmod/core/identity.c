// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples of the disk: which quarters, how they are stored, how they are compared.
 *
 * Invariant: samples count only if the newest sound copy says STOPPED; the cache
 * writes RUNNING before it may change the disk.
 * Threads: pure functions on the caller's memory; heat is guarded by the lock.
 * Why the quarters written most often: a mount of a file system elsewhere writes its
 * superblock and its journal. These are what this cache's users wrote most often,
 * wherever they lie, also inside an encrypted volume.
 */
#include "identity.h"

#define MAGIC		0x31304c504d534454ull	/* "TDSMPL01", as bytes */
#define CRC_SEED	0xffffffffu
#define STATE_RUNNING	1u
#define STATE_STOPPED	2u
#define NR_FIXED	9u	/* samples that are always taken */
#define FIRST_MIB	256u	/* quarter where a first partition begins */

struct disk_sample {
	__le64 quarter;
	__le32 crc;
	__le32 zero;
};

struct disk_samples {
	__le64 magic;
	__le32 crc;		/* of all behind it */
	__le32 state;
	__le64 sequence;
	__le32 copy;
	__le32 count;
	struct disk_sample sample[TD_SAMPLES_MAX];
	u8 zero[TD_SAMPLES_BYTES - 32 - TD_SAMPLES_MAX * 16];
};

_Static_assert(sizeof(struct disk_samples) == TD_SAMPLES_BYTES, "one block");

static u32 samples_checksum(const struct disk_samples *d, const u8 *uuid)
{
	size_t from = offsetof(struct disk_samples, state);
	u32 crc = env_crc32c(CRC_SEED, uuid, TD_UUID_BYTES);

	return ~env_crc32c(crc, (const u8 *)d + from, sizeof(*d) - from);
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
	d->count = cpu_to_le32(s->stopped ? s->count : 0);
	for (u32 i = 0; s->stopped && i < s->count; i++) {
		d->sample[i].quarter = cpu_to_le64(s->sample[i].quarter);
		d->sample[i].crc = cpu_to_le32(s->sample[i].crc);
	}
	d->crc = cpu_to_le32(samples_checksum(d, uuid));
}

bool td_samples_parse(const void *block, const u8 *uuid, u32 copy,
		      u64 origin_sectors, struct td_samples *s)
{
	const struct disk_samples *d = block;
	u32 state = le32_to_cpu(d->state);

	if (le64_to_cpu(d->magic) != MAGIC ||
	    le32_to_cpu(d->crc) != samples_checksum(d, uuid) ||
	    le32_to_cpu(d->copy) != copy ||
	    (state != STATE_RUNNING && state != STATE_STOPPED))
		return false;
	memset(s, 0, sizeof(*s));
	s->sequence = le64_to_cpu(d->sequence);
	s->stopped = state == STATE_STOPPED;
	s->count = le32_to_cpu(d->count);
	if (s->count > (s->stopped ? TD_SAMPLES_MAX : 0))
		return false;
	for (u32 i = 0; i < s->count; i++) {
		s->sample[i].quarter = le64_to_cpu(d->sample[i].quarter);
		s->sample[i].crc = le32_to_cpu(d->sample[i].crc);
		if (s->sample[i].quarter >= origin_sectors >> TD_QUARTER_SHIFT)
			return false;
	}
	return true;
}

void td_samples_choose(const void *first, const void *second,
		       const struct td_super *sb, struct td_samples *s)
{
	struct td_samples other;
	bool a = td_samples_parse(first, sb->uuid, 0, sb->origin_sectors, s);
	bool b = td_samples_parse(second, sb->uuid, 1, sb->origin_sectors,
				  &other);

	if (b && (!a || other.sequence > s->sequence))
		*s = other;
	else if (!a)
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

void td_samples_pick(const struct td_heat *heat, u64 origin_sectors,
		     struct td_samples *s)
{
	s->count = 0;
	add_fixed(s, origin_sectors, false);
	for (u32 i = 0; i < TD_HOT_MAX; i++)
		if (heat->count[i] &&
		    heat->quarter[i] < origin_sectors >> TD_QUARTER_SHIFT)
			add_sample(s, heat->quarter[i], false);
}

void td_samples_at_start(struct td_samples *s, u64 origin_sectors)
{
	const u64 boot[] = { 0, FIRST_MIB };

	if (!s->stopped) {
		s->count = 0;
		add_fixed(s, origin_sectors, true);
		return;
	}
	for (u32 i = 0; i < 2; i++)
		if (boot[i] < origin_sectors >> TD_QUARTER_SHIFT)
			add_sample(s, boot[i], true);
}

void td_sample_know(struct td_sample *sample, const void *quarter)
{
	sample->crc = ~env_crc32c(CRC_SEED, quarter, TD_QUARTER_SECTORS * 512);
	sample->unknown = false;
}

/*
 * Does @quarter begin with the boot sector of exFAT, FAT or NTFS? A use of these file
 * systems may change nothing at any fixed place.
 */
static bool leaves_no_trace(const u8 *quarter)
{
	static const struct {
		u32 at;
		char name[9];
	} known[] = {
		{ 3, "EXFAT   " }, { 3, "NTFS    " }, { 82, "FAT32   " },
		{ 54, "FAT12   " }, { 54, "FAT16   " }, { 54, "FAT     " },
	};

	if (quarter[510] != 0x55 || quarter[511] != 0xaa)
		return false;
	for (u32 i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!memcmp(quarter + known[i].at, known[i].name, 8))
			return true;
	return false;
}

void td_probe_begin(struct td_probe *p, struct td_samples *s, bool compares)
{
	memset(p, 0, sizeof(*p));
	p->samples = s;
	p->compares = compares;
}

bool td_probe_next(const struct td_probe *p, u64 *sector)
{
	if (p->at >= p->samples->count)
		return false;
	*sector = p->samples->sample[p->at].quarter << TD_QUARTER_SHIFT;
	return true;
}

void td_probe_feed(struct td_probe *p, const void *quarter)
{
	struct td_sample sample = p->samples->sample[p->at++];
	u32 crc;

	if (!quarter)
		return;
	if (sample.quarter == 0 || sample.quarter == FIRST_MIB)
		p->traceless |= leaves_no_trace(quarter);
	if (sample.unknown)
		return;
	crc = ~env_crc32c(CRC_SEED, quarter, TD_QUARTER_SECTORS * 512);
	if (p->compares) {
		p->readable++;
		p->differs |= crc != sample.crc;
		return;
	}
	sample.crc = crc;
	p->samples->sample[p->readable++] = sample;
}

enum td_verdict_of_disk td_probe_end(struct td_probe *p)
{
	if (!p->compares) {
		p->samples->count = p->readable;
		p->samples->stopped = true;
		return TD_DISK_SAME;
	}
	if (p->differs)
		return TD_DISK_CHANGED;
	return p->readable ? TD_DISK_SAME : TD_DISK_UNKNOWN;
}

enum td_start td_start_judge(const struct td_past *past)
{
	if (past->verdict == TD_DISK_CHANGED)
		return past->dirty ? TD_START_DIVERGED : TD_START_CHANGED;
	if (past->left)
		return TD_START_LEFT;
	if (past->traceless)
		return TD_START_TRACELESS;
	/* In write-back alone the compared copies have to do. */
	if (!past->writes_back &&
	    (!past->stopped || past->verdict == TD_DISK_UNKNOWN))
		return TD_START_UNSTOPPED;
	return TD_START_WARM;
}

/*
 * The space-saving algorithm: a quarter that is not in the list replaces the one with
 * the lowest count and inherits that count. So no quarter that gets more than
 * 1/TD_HOT_MAX of all writes is missed.
 */
void td_heat_wrote(struct td_heat *h, u64 sector, u32 count)
{
	u64 quarter = (sector + TD_QUARTER_SECTORS - 1) >> TD_QUARTER_SHIFT;
	u32 least = 0;

	/* The first whole quarter stands for all of a large write. */
	if (quarter << TD_QUARTER_SHIFT >= sector + count)
		quarter = sector >> TD_QUARTER_SHIFT;
	for (u32 i = 0; i < TD_HOT_MAX; i++) {
		if (h->count[i] && h->quarter[i] == quarter) {
			if (h->count[i] != (u32)-1)
				h->count[i]++;
			return;
		}
		if (h->count[i] < h->count[least])
			least = i;
	}
	h->quarter[least] = quarter;
	if (h->count[least] != (u32)-1)
		h->count[least]++;
}

void td_heat_discarded(struct td_heat *h, u64 sector, u32 count)
{
	u64 first = sector >> TD_QUARTER_SHIFT;
	u64 last = (sector + count - 1) >> TD_QUARTER_SHIFT;

	for (u32 i = 0; i < TD_HOT_MAX; i++)
		if (h->quarter[i] >= first && h->quarter[i] <= last)
			h->count[i] = 0;
}
