// SPDX-License-Identifier: GPL-2.0-or-later
/* The disk: where the head goes next, and the volatile cache. */
#include <linux/blk_types.h>
#include <linux/math64.h>
#include <linux/slab.h>

#include "model.h"

/* The disk: 7200 rpm, 1.5 MiB a track (180 MB/s), 8 ms for a random seek. */
#define REVOLUTION_NS	8333333ull
#define TRACK_SECTORS	3072u
#define SLACK_NS	50000ull	/* so late a sector is still caught */
#define SEEK_MIN_NS	1000000ull
#define SEEK_ROOT_NS	13000000ull	/* times the root of the part of the way */
#define WINDOW		32u
#define CACHE_SECTORS	16384u

/* A write in the volatile cache of the disk. */
struct dirty {
	struct rb_node node;	/* by sector */
	struct list_head age;	/* oldest first */
	u64 sector, arrived, number;
	u32 count;
};

static u64 transfer_ns(u32 count)
{
	return div_u64(count * REVOLUTION_NS, TRACK_SECTORS);
}

/* When the head, free at @start, is at @sector. */
static u64 there_at(const struct model *m, u64 start, u64 sector)
{
	u64 way = sector > m->head ? sector - m->head : m->head - sector;
	u64 at = start, angle, now, late;

	if (way >= TRACK_SECTORS)
		at += SEEK_MIN_NS + ((SEEK_ROOT_NS *
			int_sqrt64(div64_u64(way << 32, m->length))) >> 16);
	div64_u64_rem(at, REVOLUTION_NS, &now);
	angle = transfer_ns(do_div(sector, TRACK_SECTORS));
	late = now >= angle ? now - angle : now + REVOLUTION_NS - angle;
	return at + (late <= SLACK_NS ? 0 : REVOLUTION_NS - late);
}

/* The next write of the cache at or after @sector, or the first of all. */
static struct dirty *dirty_from(struct model *m, u64 sector)
{
	struct rb_node *node = m->dirty.rb_node;
	struct dirty *best = NULL;

	while (node) {
		struct dirty *d = rb_entry(node, struct dirty, node);

		if (d->sector >= sector) {
			best = d;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return best ? best : rb_entry_safe(rb_first(&m->dirty), struct dirty, node);
}

static bool dirty_add(struct model *m, struct model_io *io)
{
	struct rb_node **link = &m->dirty.rb_node, *parent = NULL;
	struct dirty *d = kmalloc(sizeof(*d), GFP_ATOMIC);

	if (!d)
		return false;
	d->sector = io->sector;
	d->count = io->count;
	d->arrived = io->arrived;
	d->number = ++m->number;
	while (*link) {
		parent = *link;
		link = d->sector < rb_entry(parent, struct dirty, node)->sector ?
			&parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&d->node, parent, link);
	rb_insert_color(&d->node, &m->dirty);
	list_add_tail(&d->age, &m->ages);
	m->dirty_sectors += d->count;
	return true;
}

/* The request of the queue that the head reaches first. */
static struct model_io *nearest_waiting(struct model *m, u64 *best)
{
	struct model_io *io, *found = NULL;
	u32 looked = 0;

	list_for_each_entry(io, &m->waiting, list) {
		u64 at = there_at(m, max(m->free_at, io->arrived), io->sector);

		if (!found || at < *best) {
			found = io;
			*best = at;
		}
		if (++looked == WINDOW)
			break;
	}
	return found;
}

/* The write of the cache that the head, going up, reaches first. */
static struct dirty *nearest_dirty(struct model *m, u64 *best)
{
	struct dirty *d = dirty_from(m, m->head), *found = NULL;
	u32 looked;

	for (looked = 0; d && looked < WINDOW; looked++) {
		u64 at = there_at(m, max(m->free_at, d->arrived), d->sector);

		if (!found || at < *best) {
			found = d;
			*best = at;
		}
		d = rb_entry_safe(rb_next(&d->node), struct dirty, node);
	}
	return found;
}

/* Give the idle head something to do. */
static void head_start(struct model *m)
{
	u64 read_at = U64_MAX, write_at = U64_MAX;
	struct model_io *io;
	struct dirty *d = NULL;

	if (m->reading || m->writing)
		return;
	io = nearest_waiting(m, &read_at);
	if (!io || !list_empty(&m->flushes) ||
	    m->dirty_sectors > CACHE_SECTORS / 2)
		d = nearest_dirty(m, &write_at);
	if (io && (!d || read_at <= write_at)) {
		list_del(&io->list);
		m->reading = io;
		m->free_at = read_at + transfer_ns(io->count);
		m->head = io->sector + io->count;
		m->ahead = io->op == REQ_OP_READ ? m->head : 0;
		m->ahead_at = m->free_at;
	} else if (d) {
		rb_erase(&d->node, &m->dirty);
		m->writing = d;
		m->free_at = write_at + transfer_ns(d->count);
		m->head = d->sector + d->count;
		m->ahead = 0;
	}
}

/* The head is where it was to go, at m->free_at. */
static void head_done(struct model *m)
{
	struct model_io *io, *next;
	u64 oldest = U64_MAX;

	if (m->reading) {
		model_answer_at(m, m->reading, m->free_at + COMMAND_NS);
		m->reading = NULL;
		return;
	}
	list_del(&m->writing->age);
	m->dirty_sectors -= m->writing->count;
	kfree(m->writing);
	m->writing = NULL;
	if (!list_empty(&m->ages))
		oldest = list_first_entry(&m->ages, struct dirty, age)->number;
	list_for_each_entry_safe(io, next, &m->flushes, list) {
		if (io->after >= oldest)
			continue;
		list_del(&io->list);
		model_answer_at(m, io, m->free_at + COMMAND_NS);
	}
}

void model_disk_takes(struct model *m, struct model_io *io)
{
	u64 soon = io->arrived + COMMAND_NS + io->count * WIRE_NS;

	if (!io->count) {
		if (list_empty(&m->ages)) {
			model_answer_at(m, io, soon);
			return;
		}
		io->after = m->number;
		list_add_tail(&io->list, &m->flushes);
	} else if (io->op == REQ_OP_READ && m->ahead && !m->reading && !m->writing &&
		   io->sector >= m->ahead && io->sector - m->ahead < TRACK_SECTORS) {
		/* The head went on after the last read. */
		u64 end = io->sector + io->count;
		u64 read = m->ahead_at + transfer_ns(end - m->ahead);

		m->ahead = end;
		/* The head goes on, but not more than a track before its time. */
		m->ahead_at = max(read, io->arrived - REVOLUTION_NS);
		m->head = end;
		m->free_at = max(m->free_at, read);
		model_answer_at(m, io, max(soon, read + COMMAND_NS));
	} else if (io->op == REQ_OP_READ ||
		   io->fua || m->dirty_sectors + io->count > CACHE_SECTORS ||
		   !dirty_add(m, io)) {
		list_add_tail(&io->list, &m->waiting);
	} else {
		model_answer_at(m, io, soon);
	}
	head_start(m);
}

void model_disk_until(struct model *m, u64 now)
{
	while ((m->reading || m->writing) && m->free_at <= now) {
		head_done(m);
		head_start(m);
	}
}

void model_disk_init(struct model *m)
{
	m->dirty = RB_ROOT;
	INIT_LIST_HEAD(&m->waiting);
	INIT_LIST_HEAD(&m->flushes);
	INIT_LIST_HEAD(&m->ages);
}

void model_disk_free(struct model *m)
{
	struct dirty *d, *next;

	/* What is being written is still the oldest or younger, in the list. */
	list_for_each_entry_safe(d, next, &m->ages, age)
		kfree(d);
}
