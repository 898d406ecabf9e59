// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The lives of a cache as its superblock and its samples see them: made, started,
 * used in changing modes, stopped or cut; and between two lives the disk may be
 * exchanged, or written elsewhere.
 *
 * Each write of a superblock or of samples is cut at each sector, and what is then
 * on the SSD must be believed, and say nothing wrong. The order of writes is that
 * of linux/. Index, marks and data are taken as always durable: crash.rs is for
 * them. Contents of quarters are numbers, no two writes have the same.
 */
#include "format.h"
#include "lives.h"
#include "random.h"
#include "torn.h"

/* What a start would find after a cut now. */
static void check_cut(struct world *x)
{
	struct td_samples s;
	struct td_super sb;
	enum td_super_error error = lives_super(x, &sb);

	x->cuts++;
	if (!x->made && (error == TD_SUPER_BLANK || error == TD_SUPER_DAMAGED))
		return;
	must(!error, "a cut leaves no superblock");
	must(!(sb.incompat & TD_SUPER_CLEAN) || (!x->dirty && !x->writes_back),
	     "the superblock says clean, but something is or may be dirty");
	must(!x->anew || sb.incompat & TD_SUPER_COLD,
	     "half of an index is believed");
	td_samples_choose(x->ssd[0][SAMPLES], x->ssd[1][SAMPLES], &sb, &s);
	must(!s.stopped || !x->serving,
	     "the disk may change, but a start would know it again");
	if (s.stopped && !x->elsewhere)
		must(lives_same(x, &s) == !x->exchanged,
		     "the disk is not known again, or another one is");
}

/*
 * One sector of @block may hold neither the old nor the new content. But no cut
 * leaves another program's magic, nor any content where nothing was ever
 * written.
 */
static void spoil_sector(struct world *x, u8 *block, u32 which)
{
	u8 *sector = block + which * TD_SECTOR_BYTES;
	u32 at;

	if (!*block)
		return;
	at = 8 + random_below(&x->state, TD_SECTOR_BYTES - 8);
	sector[at] ^= (u8)(1u << random_below(&x->state, 8));
	check_cut(x);
}

/*
 * The write follows a flush and is durable at its end. Returns false if the
 * power was cut.
 */
static bool store_block(struct world *x, u32 copy, enum area area, const u8 *block)
{
	u8 *at = x->ssd[copy][area];
	u8 before[TD_SUPER_BYTES];

	memcpy(before, at, sizeof(before));
	for (u32 i = 0; i <= SECTORS; i++) {
		u32 n = i * TD_SECTOR_BYTES;

		memcpy(at, block, n);
		memcpy(at + n, before + n, sizeof(before) - n);
		check_cut(x);
		if (i < SECTORS)
			spoil_sector(x, at, i);
	}
	for (u32 i = 0; i < SECTORS; i++) {
		u32 n = i * TD_SECTOR_BYTES;

		memcpy(at, block, sizeof(before));
		memcpy(at + n, before + n, TD_SECTOR_BYTES);
		check_cut(x);
	}
	memcpy(at, block, sizeof(before));
	check_cut(x);
	if (random_below(&x->state, 10))
		return true;
	x->off = true;
	for (u32 i = 0; i < SECTORS; i++)
		if (random_below(&x->state, 2))
			memcpy(at + i * TD_SECTOR_BYTES,
			       before + i * TD_SECTOR_BYTES, TD_SECTOR_BYTES);
	if (random_below(&x->state, 2))
		spoil_sector(x, at, random_below(&x->state, SECTORS));
	return false;
}

static bool write_super(struct world *x)
{
	u8 block[TD_SUPER_BYTES] __attribute__((aligned(8)));

	x->super.sequence++;
	for (u32 i = 0; i < 2; i++) {
		u32 copy = x->super_first ^ i;

		td_super_encode(&x->super, copy, block);
		if (!store_block(x, copy, SUPER, block))
			return false;
		x->made = true;
	}
	x->super_first = 0;
	x->write_super = false;
	return true;
}

static bool set_flags(struct world *x, u32 flags)
{
	bool same = flags == x->super.incompat && !x->write_super;

	x->super.incompat = flags;
	return same || write_super(x);
}

static bool write_samples(struct world *x, bool stopped)
{
	u8 block[TD_SAMPLES_BYTES] __attribute__((aligned(8)));

	x->samples.stopped = stopped;
	x->samples.count = stopped ? x->samples.count : 0;
	x->samples.sequence++;
	for (u32 copy = 0; copy < 2; copy++) {
		td_samples_encode(&x->samples, x->super.uuid, copy, block);
		if (!store_block(x, copy, SAMPLES, block))
			return false;
	}
	return true;
}

static void drop_copies(struct world *x)
{
	must(!x->dirty, "dirty data is dropped");
	memset(x->cached, 0, sizeof(x->cached));
}

static bool make_index_anew(struct world *x)
{
	must(!x->dirty, "an index with dirty data is made anew");
	x->write_super = true;
	if (!set_flags(x, TD_SUPER_CLEAN | TD_SUPER_COLD | TD_SUPER_PARTS))
		return false;
	x->anew = true;
	drop_copies(x);
	x->off = !random_below(&x->state, 4);
	if (!x->off)
		x->anew = false;
	return !x->off;
}

/* Returns false if the start is refused or the power was cut. */
static bool load_life(struct world *x, bool writes_back)
{
	enum td_start start;
	struct td_super first, second;
	bool damaged = !random_below(&x->state, 8);

	must(!lives_super(x, &x->super), "no superblock is believed");
	x->super_first = td_super_first(x->ssd[0][SUPER], x->ssd[1][SUPER]);
	x->write_super = td_super_parse(x->ssd[0][SUPER], 0, &first) ||
			 td_super_parse(x->ssd[1][SUPER], 1, &second) ||
			 first.sequence != second.sequence;
	if (x->super.incompat & TD_SUPER_COLD)
		damaged = true;
	must(damaged || !x->anew, "half of an index is read");
	if (damaged && !(x->super.incompat & TD_SUPER_CLEAN))
		return false;
	if (damaged && !make_index_anew(x))
		return false;
	td_samples_choose(x->ssd[0][SAMPLES], x->ssd[1][SAMPLES], &x->super,
			  &x->samples);
	start = lives_judge(x);
	if (start == TD_START_DIVERGED)
		return false;
	x->dropped |= start != TD_START_WARM;
	for (u32 i = 0; i < QUARTERS; i++) {
		struct quarter *q = &x->cached[i];

		if (q->dirty)
			continue;
		if (start != TD_START_WARM)
			q->valid = false;
		must(!q->valid || q->content == x->disk[i],
		     "a copy that is older than the disk is believed");
		if (x->exchanged || x->elsewhere)
			x->shown[i] = x->disk[i];
	}
	return true;
}

static bool start_life(struct world *x, bool writes_back)
{
	u32 flags;

	memset(&x->heat, 0, sizeof(x->heat));
	x->to_disk = x->to_journal = 0;
	if (!load_life(x, writes_back) || !write_samples(x, false))
		return false;
	flags = x->super.incompat & ~TD_SUPER_COLD;
	if (!set_flags(x, writes_back ? flags & ~TD_SUPER_CLEAN : flags))
		return false;
	x->writes_back = writes_back;
	x->exchanged = x->dropped = x->elsewhere = x->left = false;
	x->serving = true;
	return true;
}

static void disk_takes(struct world *x, u32 quarter, u32 content)
{
	x->disk[quarter] = content;
	x->to_disk++;
	x->to_journal += quarter == JOURNAL;
	td_heat_wrote(&x->heat, (u64)quarter * TD_QUARTER_SECTORS,
		      TD_QUARTER_SECTORS);
}

static void clean_quarter(struct world *x, u32 quarter)
{
	struct quarter *q = &x->cached[quarter];

	if (!q->dirty)
		return;
	q->dirty = false;
	x->dirty--;
	disk_takes(x, quarter, q->content);
}

static void play_request(struct world *x)
{
	u32 quarter = random_below(&x->state, 8) ? random_below(&x->state, QUARTERS) : JOURNAL;
	struct quarter *q = &x->cached[quarter];

	if (random_below(&x->state, 2)) {
		u32 content = q->valid ? q->content : x->disk[quarter];

		must(content == x->shown[quarter], "a read shows something else");
		*q = (struct quarter) { content, true, q->dirty };
	} else if (x->writes_back && random_below(&x->state, 4)) {
		x->dirty += !q->dirty;
		*q = (struct quarter) { ++x->last, true, true };
		x->shown[quarter] = x->last;
	} else {
		clean_quarter(x, quarter);
		disk_takes(x, quarter, ++x->last);
		*q = (struct quarter) { x->last, true, false };
		x->shown[quarter] = x->last;
	}
}

/* False: the power was cut. */
static bool use_life(struct world *x)
{
	for (u32 i = random_below(&x->state, 400); i; i--) {
		play_request(x);
		if (!random_below(&x->state, 8))
			clean_quarter(x, random_below(&x->state, QUARTERS));
		if (random_below(&x->state, 100))
			continue;
		if (!x->writes_back &&
		    !set_flags(x, x->super.incompat & ~TD_SUPER_CLEAN))
			return false;
		x->writes_back = !x->writes_back;
	}
	for (u32 i = 0; !x->writes_back && i < QUARTERS; i++)
		clean_quarter(x, i);
	return random_below(&x->state, 4);
}

/* True: to its end. */
static bool stop_life(struct world *x)
{
	struct td_super sb;
	struct td_probe p;
	bool clean = !x->writes_back && !x->dirty;

	x->serving = false;
	if (clean && !(x->super.incompat & TD_SUPER_CLEAN) &&
	    !set_flags(x, x->super.incompat | TD_SUPER_CLEAN))
		return false;
	td_samples_pick(&x->heat, NULL, x->super.origin_sectors, &x->samples);
	p = lives_probe(x, &x->samples, false);
	td_probe_end(&p);
	if (!write_samples(x, true))
		return false;
	must(!lives_super(x, &sb) && (!clean || sb.incompat & TD_SUPER_CLEAN),
	     "all is clean, but the superblock does not say so");
	return true;
}

/*
 * A refused start must have written nothing, and a start with the right disk
 * must succeed.
 */
static void check_refused_start(struct world *x, const void *before)
{
	must(!memcmp(before, x->ssd, sizeof(x->ssd)), "a refused start writes");
	/* The copies that belong to another disk were given up already. */
	if ((!x->exchanged && !x->elsewhere) || x->dropped)
		return;
	memcpy(x->disk, x->own, sizeof(x->disk));
	x->exchanged = x->elsewhere = false;
}

u64 sim_lives(u64 seed)
{
	struct world *x = zeroed(1, sizeof(*x));
	u8 *before = zeroed(1, sizeof(x->ssd));
	bool stopped;
	u64 cuts;

	x->state = seed;
	x->traceless = seed % 4 == 3;
	x->id = (struct td_identity) {
		.uuid = { 1, 2, 3 },
		.origin_id_bytes = 1,
		.origin_sectors = QUARTERS * TD_QUARTER_SECTORS,
	};
	for (u32 i = 0; i < QUARTERS; i++)
		x->shown[i] = x->disk[i] = ++x->last;
	while (!x->made) {
		must(!td_super_plan(&x->id, SSD_SECTORS, &x->super), "no plan");
		write_super(x);
	}
	for (u32 life = 0; life < LIVES;) {
		u32 image[QUARTERS];

		memcpy(image, x->disk, sizeof(image));
		memcpy(before, x->ssd, sizeof(x->ssd));
		x->off = false;
		x->writes_back = false;
		if (!start_life(x, x->next)) {
			if (!x->off)
				check_refused_start(x, before);
			continue;
		}
		life++;
		stopped = use_life(x) && stop_life(x);
		if (stopped)
			memcpy(x->older, image, sizeof(image));
		x->serving = false;
		lives_exchange(x);
	}
	cuts = x->cuts;
	free(before);
	free(x);
	return cuts;
}
