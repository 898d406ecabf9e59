// SPDX-License-Identifier: GPL-2.0-or-later
/* Loads an index in user space, and formats a new cache. */
#include "load.h"
#include "user_int.h"

struct tdu_load {
	struct td_load l;
	u32 sectors;
};

struct tdu_load *tdu_load_begin(struct tdu_engine *s)
{
	struct tdu_load *load = tdu_must_have(malloc(sizeof(*load)));

	td_load_begin(&load->l, &s->e);
	load->sectors = 0;
	return load;
}

bool tdu_load_next(struct tdu_load *load, u64 *sector, u32 *sectors)
{
	bool more = td_load_next(&load->l, sector, sectors);

	load->sectors = more ? *sectors : 0;
	return more;
}

void tdu_load_feed(struct tdu_load *load, const u8 *bytes)
{
	u8 *buffer = NULL;

	if (bytes) {
		buffer = tdu_must_have(malloc(load->sectors * 512ull + !load->sectors));
		memcpy(buffer, bytes, load->sectors * 512ull);
	}
	td_load_feed(&load->l, buffer);
	free(buffer);
}

u32 tdu_load_end(struct tdu_load *load)
{
	u32 error = td_load_end(&load->l);

	free(load);
	return error;
}

bool tdu_format_next(const struct tdu_geometry *g, u32 step, u64 *sector,
		     u32 *sectors, const u8 **bytes)
{
	static _Thread_local u8 buffer[TD_LOAD_BYTES];
	struct td_super sb;

	tdu_to_super(g, &sb);
	*bytes = buffer;
	return td_format_next(&sb, step, sector, sectors, buffer);
}
