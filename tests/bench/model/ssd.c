// SPDX-License-Identifier: GPL-2.0-or-later
/* The SSD: which channel takes a request, and when the bus has carried it. */
#include <linux/blk_types.h>

#include "model.h"

/* The SSD: 0.1 ms for a read, 80000 of them a second, 500 MB/s. */
#define SSD_READ_NS	100000ull
#define SSD_WRITE_NS	30000ull
#define SSD_FLUSH_NS	100000ull

void model_ssd_takes(struct model *m, struct model_io *io)
{
	u64 at = io->arrived + COMMAND_NS, *channel = m->channel;
	u32 i;

	if (!io->count) {
		model_answer_at(m, io, m->unflushed ? at + SSD_FLUSH_NS : at);
		m->unflushed = false;
		return;
	}
	for (i = 1; i < CHANNELS; i++)
		if (m->channel[i] < *channel)
			channel = &m->channel[i];
	if (io->op == REQ_OP_READ) {
		at = max(io->arrived, *channel) + SSD_READ_NS;
	} else {
		at = max(io->arrived, *channel) + SSD_WRITE_NS;
		if (io->fua)
			at += SSD_FLUSH_NS;
		else
			m->unflushed = true;
	}
	*channel = at;
	m->wire = max(m->wire, at) + io->count * WIRE_NS;
	model_answer_at(m, io, m->wire);
}
