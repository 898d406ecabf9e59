// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Superblocks and samples. The caller reads and writes the blocks.
 *
 * Threads: no shared state; any thread.
 */
#include "user.h"

void tdu_to_super(const struct tdu_geometry *g, struct td_super *sb)
{
	memset(sb, 0, sizeof(*sb));
	memcpy(sb->uuid, g->uuid, sizeof(sb->uuid));
	memcpy(sb->origin_id, g->origin_id, sizeof(sb->origin_id));
	sb->origin_id_bytes = g->origin_id_bytes;
	sb->incompat = g->parts ? TD_SUPER_PARTS : 0;
	sb->sequence = g->sequence;
	sb->origin_sectors = g->origin_sectors;
	sb->ssd_sectors = g->ssd_sectors;
	sb->run_shift = g->run_shift;
	sb->way_shift = g->way_shift;
	sb->groups = g->groups;
	sb->made_groups = g->made_groups ? g->made_groups : g->groups;
	if (sb->made_groups != sb->groups)
		sb->incompat |= TD_SUPER_RESIZED;
	sb->journal = g->journal;
	sb->checkpoint = g->checkpoint;
	sb->intent = g->intent;
	sb->data = g->data;
}

void tdu_of_super(const struct td_super *sb, struct tdu_geometry *g)
{
	memcpy(g->uuid, sb->uuid, sizeof(g->uuid));
	memcpy(g->origin_id, sb->origin_id, sizeof(g->origin_id));
	g->origin_id_bytes = sb->origin_id_bytes;
	g->parts = !!(sb->incompat & TD_SUPER_PARTS);
	g->sequence = sb->sequence;
	g->origin_sectors = sb->origin_sectors;
	g->ssd_sectors = sb->ssd_sectors;
	g->run_shift = sb->run_shift;
	g->way_shift = sb->way_shift;
	g->groups = sb->groups;
	g->made_groups = sb->made_groups;
	g->journal = sb->journal;
	g->checkpoint = sb->checkpoint;
	g->intent = sb->intent;
	g->data = sb->data;
}

u32 tdu_super_choose(const u8 *first, const u8 *second, struct tdu_geometry *g,
		     u32 *flags, struct td_retired *retired)
{
	struct td_super sb;
	enum td_super_error error = td_super_choose(first, second, &sb);

	if (error != TD_SUPER_OK)
		return error;
	tdu_of_super(&sb, g);
	*flags = sb.incompat;
	*retired = sb.retired;
	return TD_SUPER_OK;
}

u32 tdu_super_match(const struct tdu_geometry *found,
		    const struct tdu_geometry *wanted)
{
	struct td_super sb;
	struct td_identity id = {
		.origin_id_bytes = wanted->origin_id_bytes,
		.origin_sectors = wanted->origin_sectors,
	};

	memcpy(id.uuid, wanted->uuid, sizeof(id.uuid));
	memcpy(id.origin_id, wanted->origin_id, sizeof(id.origin_id));
	tdu_to_super(found, &sb);
	return td_super_match(&sb, &id, wanted->ssd_sectors);
}

bool tdu_super_is_sound(const u8 *bytes, u32 copy)
{
	struct td_super sb;

	return td_super_parse(bytes, copy, &sb) == TD_SUPER_OK;
}

void tdu_super_write(const struct tdu_geometry *g, u32 flags,
		     const struct td_retired *retired, u32 copy, u8 *bytes)
{
	struct td_super sb;

	tdu_to_super(g, &sb);
	sb.incompat |= flags;
	sb.retired = *retired;
	td_super_encode(&sb, copy, bytes);
}

void tdu_samples_choose(const u8 *first, const u8 *second,
			const struct tdu_geometry *g, struct td_samples *s)
{
	struct td_super sb;

	tdu_to_super(g, &sb);
	td_samples_choose(first, second, &sb, s);
}

void tdu_samples_pick(const struct tdu_engine *engine,
		      const struct tdu_geometry *g, struct td_samples *s)
{
	static const struct td_heat cold;

	td_samples_pick(engine ? tdu_heat(engine) : &cold,
			engine ? tdu_read_heat(engine) : NULL,
			g->origin_sectors, s);
}

u32 tdu_samples_probe(struct td_samples *s, bool compares, tdu_quarter_fn read,
		      void *context)
{
	u8 bytes[TD_QUARTER_SECTORS * 512u];
	struct td_probe p;
	u64 sector;

	td_probe_begin(&p, s, compares);
	while (td_probe_next(&p, &sector))
		td_probe_feed(&p, read(context, sector, bytes) ? bytes : NULL);
	return td_probe_end(&p);
}

void tdu_samples_at_start(const struct tdu_engine *engine, const struct tdu_geometry *g,
			  struct td_samples *s, tdu_quarter_fn read, void *context)
{
	u8 bytes[TD_QUARTER_SECTORS * 512u];
	u64 sector;

	td_samples_at_start(s, g->origin_sectors);
	for (u32 i = 0; !s->stopped && i < s->count; i++)
		if (tdu_clean_copy(engine, s->sample[i].quarter, &sector) &&
		    read(context, sector, bytes))
			td_sample_know(s, i, bytes);
}

void tdu_sums_of(const u8 *quarter, u32 *sums)
{
	td_sums_of(quarter, sums);
}

bool tdu_samples_show_uses(const u8 *first, const u8 *btrfs, u64 origin_sectors)
{
	struct td_places p;

	td_places_find(&p, first, btrfs, origin_sectors >> TD_QUARTER_SHIFT);
	return p.format == TD_FORMAT_EXT || p.format == TD_FORMAT_BTRFS;
}

void tdu_samples_write(const struct td_samples *s, const struct tdu_geometry *g,
		       u32 copy, u8 *bytes)
{
	td_samples_encode(s, g->uuid, copy, bytes);
}
