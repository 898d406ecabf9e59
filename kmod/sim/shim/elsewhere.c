// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The disk between two lives of a cache: other systems write to it, or another disk is
 * in its place. And what the next start makes of it, by core's rule.
 */
#include "format.h"
#include "lives.h"
#include "random.h"
#include "torn.h"

/* The bytes of a quarter whose content is @number. */
static void fill_quarter(const struct world *x, u8 *bytes, u64 quarter, u32 number)
{
	for (u32 i = 0; i < TD_SUPER_BYTES; i += sizeof(number))
		memcpy(bytes + i, &number, sizeof(number));
	if (quarter || !x->traceless)
		return;
	memcpy(bytes + 3, "EXFAT   ", 8);
	memcpy(bytes + 510, "\x55\xaa", 2);
}

struct td_probe lives_probe(const struct world *x, struct td_samples *s, bool compares)
{
	u8 bytes[TD_SUPER_BYTES];
	struct td_probe p;
	u64 sector;

	td_probe_begin(&p, s, compares);
	while (td_probe_next(&p, &sector)) {
		u64 quarter = sector / TD_QUARTER_SECTORS;

		must(quarter < QUARTERS, "a sample beyond the disk");
		fill_quarter(x, bytes, quarter, x->disk[quarter]);
		td_probe_feed(&p, bytes);
	}
	return p;
}

bool lives_same(const struct world *x, struct td_samples *s)
{
	struct td_probe p = lives_probe(x, s, true);

	return td_probe_end(&p) == TD_DISK_SAME;
}

enum td_super_error lives_super(const struct world *x, struct td_super *sb)
{
	enum td_super_error error = td_super_choose(x->ssd[0][SUPER],
						    x->ssd[1][SUPER], sb);

	return error ? error : td_super_match(sb, &x->id, SSD_SECTORS);
}

enum td_start lives_judge(struct world *x)
{
	struct td_past past = {
		.stopped = x->samples.stopped,
		.dirty = x->dirty,
		.left = x->left,
	};
	u8 bytes[TD_SUPER_BYTES];
	struct td_probe p;
	enum td_start start;

	td_samples_at_start(&x->samples, x->super.origin_sectors);
	for (u32 i = 0; !past.stopped && i < x->samples.count; i++) {
		u64 quarter = x->samples.sample[i].quarter;
		const struct quarter *q = &x->cached[quarter];

		if (!q->valid || q->dirty)
			continue;
		fill_quarter(x, bytes, quarter, q->content);
		td_sample_know(&x->samples, i, bytes);
	}
	p = lives_probe(x, &x->samples, true);
	past.verdict = td_probe_end(&p);
	past.traceless = p.traceless;
	must(past.traceless == x->traceless, "the boot sector is not seen");
	start = td_start_judge(&past);
	must(start != TD_START_CHANGED && start != TD_START_DIVERGED ?
	     !x->exchanged || x->dropped : x->exchanged || x->elsewhere,
	     "the right disk is taken for another, or another one for the right one");
	must(start == TD_START_WARM || x->exchanged || x->elsewhere || x->left ||
	     x->traceless || !past.stopped,
	     "the start is cold for no reason");
	return start;
}

/*
 * Between two lives the disk is written elsewhere, and the next start must be cold whatever
 * it compares: at any place; or at a place that it compares.
 */
static void write_elsewhere(struct world *x, bool clean)
{
	const u32 fixed[] = { 0, 1, 4, 16, 256, 260, 272, QUARTERS - 2, QUARTERS - 1 };
	bool blind = x->left || x->traceless || clean ||
		     random_below(&x->state, 2);
	u32 quarter = random_below(&x->state, QUARTERS);
	const struct quarter *q;

	if (!blind)
		quarter = fixed[random_below(&x->state, 9)];
	q = &x->cached[quarter];
	if (!blind && (!q->valid || q->dirty))
		return;
	x->elsewhere = blind;
	x->exchanged |= !blind;
	x->disk[quarter] = ++x->last;
}

void lives_exchange(struct world *x)
{
	/* The journal is written so often that it must be sampled. */
	bool journal = x->to_journal * TD_HOT_MAX > x->to_disk;
	struct td_samples s;
	struct td_super sb;
	bool stopped;

	lives_super(x, &sb);
	td_samples_choose(x->ssd[0][SAMPLES], x->ssd[1][SAMPLES], &sb, &s);
	stopped = s.stopped;
	memcpy(x->own, x->disk, sizeof(x->own));
	x->next = random_below(&x->state, 2);
	x->left = stopped && !random_below(&x->state, 8);
	if (!stopped || x->left || x->traceless) {
		/* If nothing is dirty, the copies may be given up before they are compared. */
		write_elsewhere(x, sb.incompat & TD_SUPER_CLEAN);
		return;
	}
	switch (random_below(&x->state, 6)) {
	case 0:
		for (u32 i = 0; i < QUARTERS; i++)
			x->disk[i] = ++x->last;
		break;
	case 1:
		if (!journal)
			return;
		memcpy(x->disk, x->older, sizeof(x->disk));
		break;
	case 2:
		x->disk[random_below(&x->state, 2)] = ++x->last;
		break;
	default:
		return;
	}
	x->exchanged = true;
}
