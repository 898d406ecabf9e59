// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples of a small disk in memory: taken at a stop, compared at a start.
 */
#include "check.h"
#include "format.h"
#include "identity.h"
#include "places.h"
#include "random.h"
#include "torn.h"

#define QUARTERS	3000u
#define QUARTER_BYTES	4096u

struct experiment {
	u64 state;
	struct td_super super;
	u8 *disk;
	u8 copies[2][TD_SAMPLES_BYTES] __attribute__((aligned(8)));
	struct td_heat heat;
};

static bool is_sampled(const struct td_samples *s, u64 quarter)
{
	for (u32 i = 0; i < s->count; i++)
		if (s->sample[i].quarter == quarter)
			return true;
	return false;
}

static enum td_verdict_of_disk probe_samples(struct experiment *x, struct td_samples *s,
					     bool compares, u64 unreadable,
					     struct td_probe *p)
{
	u64 sector;
	u32 reads = 0;

	td_probe_begin(p, s, compares);
	while (td_probe_next(p, &sector)) {
		must(++reads <= TD_SAMPLES_MAX, "too many reads of the disk");
		must(sector + TD_QUARTER_SECTORS <= x->super.origin_sectors,
		     "a sample beyond the disk");
		td_probe_feed(p, sector >> TD_QUARTER_SHIFT == unreadable ? NULL :
			      x->disk + sector * TD_SECTOR_BYTES);
	}
	return td_probe_end(p);
}

/* Both copies are written; a cut may fall anywhere. */
static void store_samples(struct experiment *x, struct td_samples *s, bool cuts)
{
	u8 block[TD_SAMPLES_BYTES] __attribute__((aligned(8)));
	struct td_samples before, found;

	td_samples_choose(x->copies[0], x->copies[1], &x->super, &before);
	s->sequence = before.sequence + 1;
	for (u32 copy = 0; copy < 2; copy++) {
		u32 sectors = TD_SAMPLES_BYTES / TD_SECTOR_BYTES;

		td_samples_encode(s, x->super.uuid, copy, block);
		for (u32 i = 0; i < sectors; i++) {
			bool same = !memcmp(x->copies[copy], block, sizeof(block));

			td_samples_choose(x->copies[0], x->copies[1], &x->super,
					  &found);
			must(!cuts || copy || same ||
			     found.sequence == before.sequence,
			     "a torn block counts");
			must(!cuts || !copy || found.sequence == s->sequence,
			     "the first copy does not count");
			memcpy(x->copies[copy] + i * TD_SECTOR_BYTES,
			       block + i * TD_SECTOR_BYTES, TD_SECTOR_BYTES);
		}
	}
	td_samples_choose(x->copies[0], x->copies[1], &x->super, &found);
	must(found.sequence == s->sequence && found.stopped == s->stopped &&
	     found.count == s->count, "stored, it differs");
	for (u32 i = 0; i < found.count; i++)
		must(found.sample[i].quarter == s->sample[i].quarter &&
		     found.sample[i].heat == s->sample[i].heat &&
		     (found.sample[i].unknown ||
		      found.sample[i].sum == s->sample[i].sum), "a sample differs");
}

static enum td_verdict_of_disk compare_with(struct experiment *x, u64 unreadable,
					    struct td_probe *p)
{
	struct td_samples s;

	td_samples_choose(x->copies[0], x->copies[1], &x->super, &s);
	return probe_samples(x, &s, true, unreadable, p);
}

static enum td_verdict_of_disk compare_disk(struct experiment *x, u64 unreadable)
{
	struct td_probe p;

	return compare_with(x, unreadable, &p);
}

/* May the disk have a file system each use of which must have changed its own places? */
static bool may_be_recognized(struct experiment *x, u64 unreadable)
{
	struct td_probe p;

	compare_with(x, unreadable, &p);
	return p.recognized;
}

static void check_damaged_samples(struct experiment *x)
{
	u32 copy = random_below(&x->state, 2);
	u32 bit = random_below(&x->state, TD_SAMPLES_BYTES * 8);
	u64 sectors = x->super.origin_sectors;
	struct td_samples s;
	u8 uuid[TD_UUID_BYTES];

	memcpy(uuid, x->super.uuid, sizeof(uuid));
	uuid[random_below(&x->state, TD_UUID_BYTES)] ^= 1;
	must(!td_samples_parse(x->copies[copy], uuid, copy, sectors, &s),
	     "another cache's samples count");
	must(!td_samples_parse(x->copies[copy], x->super.uuid, 1 - copy, sectors,
			       &s), "the other copy counts");
	must(td_samples_parse(x->copies[copy], x->super.uuid, copy, sectors, &s),
	     "what was written does not count");
	must(!td_samples_parse(x->copies[copy], x->super.uuid, copy, 8, &s) ||
	     !s.count, "samples beyond the disk");
	x->copies[copy][bit / 8] ^= (u8)(1u << bit % 8);
	must(!td_samples_parse(x->copies[copy], x->super.uuid, copy, sectors, &s),
	     "damaged, they count");
	x->copies[copy][bit / 8] ^= (u8)(1u << bit % 8);
}

/* A journal of @x's disk, among writes all over it. */
static void use_disk(struct experiment *x, u64 journal, u64 gone)
{
	for (u32 i = 0; i < 3000; i++) {
		u64 sector = (u64)random_below(&x->state, QUARTERS - 8) * TD_QUARTER_SECTORS;

		if (i % 20 == 0)
			sector = journal * TD_QUARTER_SECTORS;
		if (i % 20 == 1)
			sector = gone * TD_QUARTER_SECTORS;
		td_heat_wrote(&x->heat, sector, 1 + random_below(&x->state, 64));
	}
	td_heat_discarded(&x->heat, gone * TD_QUARTER_SECTORS + 3, 2);
}

/* The next life begins with what was hot in this one, although nothing is written in it. */
static void check_resumed(const struct td_samples *s, u64 journal)
{
	struct td_heat written = { .count = { 0 } }, read = { .count = { 0 } };
	struct td_samples next;

	td_heat_resume(&written, &read, s);
	td_samples_pick(&written, &read, QUARTERS * TD_QUARTER_SECTORS, &next);
	must(is_sampled(&next, journal), "a start forgets what was hot");
	must(!read.count[0], "what was written counts as read");
}

u64 sim_identity(u64 seed)
{
	struct experiment x = { .state = seed };
	u64 journal, gone, other;
	struct td_samples s;
	struct td_probe p;
	u8 *byte;

	x.super.uuid[3] = 7;
	x.super.origin_sectors = QUARTERS * TD_QUARTER_SECTORS + seed % 8;
	x.disk = zeroed(QUARTERS, QUARTER_BYTES);
	for (u32 i = 0; i < QUARTERS * QUARTER_BYTES; i += 61)
		x.disk[i] = (u8)random_number(&x.state);
	journal = 300 + random_below(&x.state, 2000);
	gone = 2400 + random_below(&x.state, 400);
	must(compare_disk(&x, -1ull) == TD_DISK_UNKNOWN, "nothing was ever written");
	use_disk(&x, journal, gone);

	memset(&s, 0, sizeof(s));
	store_samples(&x, &s, true);
	must(compare_disk(&x, -1ull) == TD_DISK_UNKNOWN, "running, the disk is known");
	td_samples_pick(&x.heat, NULL, x.super.origin_sectors, &s);
	must(is_sampled(&s, 0) && is_sampled(&s, 1) && is_sampled(&s, 16) &&
	     is_sampled(&s, QUARTERS - 1), "a superblock's place is no sample");
	must(is_sampled(&s, journal), "the journal is no sample");
	must(!is_sampled(&s, gone), "what was discarded is a sample");
	check_resumed(&s, journal);
	probe_samples(&x, &s, false, seed & 1 ? journal : -1ull, &p);
	must(is_sampled(&s, journal) == !(seed & 1), "unreadable, it is a sample");
	store_samples(&x, &s, true);
	must(compare_disk(&x, -1ull) == TD_DISK_SAME, "the disk is not known again");
	must(compare_disk(&x, 1) == TD_DISK_SAME, "a bad sector is a change");
	must(!may_be_recognized(&x, -1ull) && !may_be_recognized(&x, 1),
	     "noise is a file system");
	must(may_be_recognized(&x, TD_HOME_FIRST) && may_be_recognized(&x, TD_HOME_BTRFS),
	     "what cannot be read is no file system");
	check_damaged_samples(&x);

	do
		other = random_below(&x.state, QUARTERS);
	while (is_sampled(&s, other));
	x.disk[other * QUARTER_BYTES] ^= 1;
	must(compare_disk(&x, -1ull) == TD_DISK_SAME, "what is no sample counts");
	other = s.sample[random_below(&x.state, s.count)].quarter;
	byte = &x.disk[other * QUARTER_BYTES + random_below(&x.state, QUARTER_BYTES)];
	*byte ^= (u8)(1u << random_below(&x.state, 8));
	must(compare_disk(&x, -1ull) == TD_DISK_CHANGED, "a change is not seen");
	s.stopped = false;
	store_samples(&x, &s, true);
	must(compare_disk(&x, -1ull) == TD_DISK_UNKNOWN, "running, samples count");
	free(x.disk);
	return s.count;
}
