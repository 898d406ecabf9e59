// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a start of the module reads before the index: superblocks and samples. And
 * both as the module writes them, for tests of programs that read recordings.
 *
 * The caches of these functions have the identity that sim_to_super() gives.
 */
#include "start.h"

#include <stdlib.h>

#include "identity.h"

_Static_assert(SIM_START_BYTES == TD_SUPER_BYTES + TD_SAMPLES_BYTES,
	       "samples lie behind their superblock");

u32 sim_super_read(const u8 *first, const u8 *second, u64 origin_sectors,
		   u64 ssd_sectors, struct sim_geometry *g, u32 *flags)
{
	struct td_super sb;
	enum td_super_error error = td_super_choose(first, second, &sb);
	struct sim_geometry wanted = { .origin_sectors = origin_sectors };
	struct td_super own;
	struct td_identity id;

	if (error != TD_SUPER_OK)
		return error;
	sim_to_super(&wanted, &own);
	id = (struct td_identity) {
		.origin_id_bytes = own.origin_id_bytes,
		.origin_sectors = origin_sectors,
	};
	memcpy(id.uuid, own.uuid, sizeof(id.uuid));
	memcpy(id.origin_id, own.origin_id, sizeof(id.origin_id));
	*g = (struct sim_geometry) {
		.origin_sectors = sb.origin_sectors,
		.ssd_sectors = sb.ssd_sectors,
		.journal = sb.journal,
		.checkpoint = sb.checkpoint,
		.intent = sb.intent,
		.data = sb.data,
		.block_sectors = g->block_sectors,
		.groups = sb.groups,
		.run_shift = sb.run_shift,
		.way_shift = sb.way_shift,
	};
	*flags = sb.incompat;
	return td_super_match(&sb, &id, ssd_sectors);
}

bool sim_super_is_sound(const u8 *bytes, u32 copy)
{
	struct td_super sb;

	return td_super_parse(bytes, copy, &sb) == TD_SUPER_OK;
}

void sim_super_write(const struct sim_geometry *g, u32 flags, u32 copy, u8 *bytes)
{
	struct td_super sb;

	sim_to_super(g, &sb);
	sb.incompat = flags;
	td_super_encode(&sb, copy, bytes);
}

static enum td_verdict_of_disk probe(struct td_samples *s, bool compares,
				     sim_quarter_fn read, void *context)
{
	u8 bytes[TD_QUARTER_SECTORS * 512u];
	struct td_probe p;
	u64 sector;

	td_probe_begin(&p, s, compares);
	while (td_probe_next(&p, &sector)) {
		read(context, sector, bytes);
		td_probe_feed(&p, bytes);
	}
	return td_probe_end(&p);
}

u32 sim_samples_compare(const u8 *first, const u8 *second,
			const struct sim_geometry *g, sim_quarter_fn read,
			void *context)
{
	struct td_samples s;
	struct td_super sb;

	sim_to_super(g, &sb);
	td_samples_choose(first + TD_SUPER_BYTES, second + TD_SUPER_BYTES, &sb,
			  &s);
	return s.stopped ? probe(&s, true, read, context) : TD_DISK_UNKNOWN;
}

void sim_samples_write(const struct sim_geometry *g, bool stopped, u32 copy,
		       sim_quarter_fn read, void *context, u8 *bytes)
{
	static const struct td_heat cold;
	struct td_samples s = { .sequence = 1, .stopped = stopped };
	struct td_super sb;

	sim_to_super(g, &sb);
	if (stopped) {
		td_samples_pick(&cold, sb.origin_sectors, &s);
		probe(&s, false, read, context);
		s.stopped = true;
	}
	td_samples_encode(&s, sb.uuid, copy, bytes);
}
