// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A disk or an SSD as far as time goes: each request is carried out at once on
 * a RAM disk, and answered when the device that is modelled would answer it.
 *
 *	<start> <length> model <RAM disk> disk|ssd
 *
 * disk: one head above a spinning platter. A request costs a seek that grows
 * with the root of the distance, the wait for its sector to come round, and
 * the transfer; what follows the last read is read ahead. Of up to WINDOW
 * requests in the queue the nearest in time goes first. Writes go to a volatile
 * cache, and from there to the platter when no read waits, when a flush does,
 * or when the cache is half full. The distance is taken as a part of the length
 * of the table, so a small RAM disk seeks like a large disk.
 * A discard takes DISCARD_NS for a sector, and changes nothing.
 * ssd: CHANNELS requests at a time, one bus; volatile cache.
 *
 * For test kernels with exact virtual time only: a request that overwrites data
 * that is still in the modelled cache pays for both.
 *
 * Locks: model.lock (interrupts off) guards all of struct model; requests are
 * answered without it.
 */
#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/rbtree.h>
#include <linux/slab.h>

#define DM_MSG_PREFIX "model"

/* The disk: 7200 rpm, 1.5 MiB a track (180 MB/s), 8 ms for a random seek. */
#define REVOLUTION_NS	8333333ull
#define TRACK_SECTORS	3072u
#define SLACK_NS	50000ull	/* so late a sector is still caught */
#define SEEK_MIN_NS	1000000ull
#define SEEK_ROOT_NS	13000000ull	/* times the root of the part of the way */
#define WINDOW		32u
#define CACHE_SECTORS	16384u
#define DISCARD_NS	3500ull		/* 1000 of them: 16 GiB in 0.12 s */

/* The SSD: 0.1 ms for a read, 80000 of them a second, 500 MB/s. */
#define CHANNELS	8u
#define SSD_READ_NS	100000ull
#define SSD_WRITE_NS	30000ull
#define SSD_FLUSH_NS	100000ull

/* Both: 550 MB/s on the wire, and the time to take a command in. */
#define WIRE_NS		930ull		/* for a sector */
#define COMMAND_NS	20000ull
#define MAX_SECTORS	2560u

/* What dm keeps for us with each bio. */
struct model_io {
	struct list_head list;	/* waiting, flushes or timed */
	u64 sector, arrived, finish;
	u64 after;		/* a flush waits for writes up to this number */
	u32 count;
	unsigned int op;
	bool fua;
	bool arrived_once;
};

/* A write in the volatile cache of the disk. */
struct dirty {
	struct rb_node node;	/* by sector */
	struct list_head age;	/* oldest first */
	u64 sector, arrived, number;
	u32 count;
};

struct model {
	struct dm_dev *dev;
	u64 length;
	bool ssd;

	spinlock_t lock;
	struct hrtimer timer;
	struct list_head timed;		/* by finish */

	u64 channel[CHANNELS], wire;	/* free from then on */
	bool unflushed;

	struct list_head waiting, flushes;
	struct model_io *reading;	/* under the head, or */
	struct dirty *writing;
	u64 free_at, head;		/* when and at which sector */
	u64 ahead, ahead_at;		/* read ahead from here since then */
	struct rb_root dirty;
	struct list_head ages;
	u32 dirty_sectors;
	u64 number;
};

static struct bio *bio_of(struct model_io *io)
{
	return dm_bio_from_per_bio_data(io, sizeof(*io));
}

/* Answer @io at @finish. */
static void answer_at(struct model *m, struct model_io *io, u64 finish)
{
	struct model_io *other;

	io->finish = finish;
	list_for_each_entry_reverse(other, &m->timed, list)
		if (other->finish <= finish)
			break;
	list_add(&io->list, &other->list);
}

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
		answer_at(m, m->reading, m->free_at + COMMAND_NS);
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
		answer_at(m, io, m->free_at + COMMAND_NS);
	}
}

static void disk_takes(struct model *m, struct model_io *io)
{
	u64 soon = io->arrived + COMMAND_NS + io->count * WIRE_NS;

	if (!io->count) {
		if (list_empty(&m->ages)) {
			answer_at(m, io, soon);
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
		answer_at(m, io, max(soon, read + COMMAND_NS));
	} else if (io->op == REQ_OP_READ ||
		   io->fua || m->dirty_sectors + io->count > CACHE_SECTORS ||
		   !dirty_add(m, io)) {
		list_add_tail(&io->list, &m->waiting);
	} else {
		answer_at(m, io, soon);
	}
	head_start(m);
}

static void ssd_takes(struct model *m, struct model_io *io)
{
	u64 at = io->arrived + COMMAND_NS, *channel = m->channel;
	u32 i;

	if (!io->count) {
		answer_at(m, io, m->unflushed ? at + SSD_FLUSH_NS : at);
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
	answer_at(m, io, m->wire);
}

/* Set the timer for what comes next. */
static void wait_for_next(struct model *m)
{
	u64 next = U64_MAX;

	if (m->reading || m->writing)
		next = m->free_at;
	if (!list_empty(&m->timed))
		next = min(next, list_first_entry(&m->timed, struct model_io, list)->finish);
	if (next != U64_MAX)
		hrtimer_start(&m->timer, ns_to_ktime(next), HRTIMER_MODE_ABS_SOFT);
}

static enum hrtimer_restart model_tick(struct hrtimer *timer)
{
	struct model *m = container_of(timer, struct model, timer);
	struct model_io *io, *next;
	unsigned long flags;
	LIST_HEAD(due);
	u64 now;

	spin_lock_irqsave(&m->lock, flags);
	now = ktime_get_ns();
	while ((m->reading || m->writing) && m->free_at <= now) {
		head_done(m);
		head_start(m);
	}
	while (!list_empty(&m->timed)) {
		io = list_first_entry(&m->timed, struct model_io, list);
		if (io->finish > now)
			break;
		list_move_tail(&io->list, &due);
	}
	wait_for_next(m);
	spin_unlock_irqrestore(&m->lock, flags);
	list_for_each_entry_safe(io, next, &due, list)
		bio_endio(bio_of(io));
	return HRTIMER_NORESTART;
}

/* The RAM disk is not asked: it would look for each page. */
static int discard(struct model *m, struct model_io *io, u32 count)
{
	unsigned long flags;

	io->arrived_once = true;
	spin_lock_irqsave(&m->lock, flags);
	answer_at(m, io, ktime_get_ns() + COMMAND_NS +
		  div_u64(count * DISCARD_NS, 1000));
	wait_for_next(m);
	spin_unlock_irqrestore(&m->lock, flags);
	return DM_MAPIO_SUBMITTED;
}

static int model_map(struct dm_target *ti, struct bio *bio)
{
	struct model *m = ti->private;
	struct model_io *io = dm_per_bio_data(bio, sizeof(*io));

	io->op = bio_op(bio);
	if (io->op == REQ_OP_DISCARD)
		return discard(m, io, bio_sectors(bio));
	if (io->op != REQ_OP_READ && io->op != REQ_OP_WRITE)
		return DM_MAPIO_KILL;
	io->sector = bio->bi_iter.bi_sector;
	io->count = bio_sectors(bio);
	io->fua = bio->bi_opf & REQ_FUA;
	io->arrived_once = false;
	bio_set_dev(bio, m->dev->bdev);
	return DM_MAPIO_REMAPPED;
}

/* The RAM disk has done it: answer when the time has come. */
static int model_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error)
{
	struct model *m = ti->private;
	struct model_io *io = dm_per_bio_data(bio, sizeof(*io));
	unsigned long flags;

	if (*error || io->arrived_once)
		return DM_ENDIO_DONE;
	io->arrived_once = true;
	spin_lock_irqsave(&m->lock, flags);
	io->arrived = ktime_get_ns();
	if (m->ssd)
		ssd_takes(m, io);
	else
		disk_takes(m, io);
	wait_for_next(m);
	spin_unlock_irqrestore(&m->lock, flags);
	return DM_ENDIO_INCOMPLETE;
}

static int model_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct model *m;
	int r;

	if (argc != 2 || (strcmp(argv[1], "disk") && strcmp(argv[1], "ssd"))) {
		ti->error = "Usage: <RAM disk> disk|ssd";
		return -EINVAL;
	}
	m = kzalloc(sizeof(*m), GFP_KERNEL);
	if (!m)
		return -ENOMEM;
	r = dm_get_device(ti, argv[0], dm_table_get_mode(ti->table), &m->dev);
	if (r) {
		ti->error = "Cannot open the RAM disk";
		kfree(m);
		return r;
	}
	m->ssd = !strcmp(argv[1], "ssd");
	m->length = ti->len;
	m->dirty = RB_ROOT;
	spin_lock_init(&m->lock);
	INIT_LIST_HEAD(&m->timed);
	INIT_LIST_HEAD(&m->waiting);
	INIT_LIST_HEAD(&m->flushes);
	INIT_LIST_HEAD(&m->ages);
	hrtimer_init(&m->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	m->timer.function = model_tick;
	ti->private = m;
	ti->num_flush_bios = 1;
	ti->flush_supported = true;
	ti->num_discard_bios = m->ssd ? 0 : 1;
	ti->discards_supported = !m->ssd;
	ti->per_io_data_size = sizeof(struct model_io);
	return 0;
}

static void model_dtr(struct dm_target *ti)
{
	struct model *m = ti->private;
	struct dirty *d, *next;

	hrtimer_cancel(&m->timer);
	/* What is being written is still the oldest or younger, in the list. */
	list_for_each_entry_safe(d, next, &m->ages, age)
		kfree(d);
	dm_put_device(ti, m->dev);
	kfree(m);
}

static int model_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn,
				 void *data)
{
	struct model *m = ti->private;

	return fn(ti, m->dev, 0, ti->len, data);
}

/* A request may be as large as with a disk; a RAM disk wants smaller ones. */
static void model_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	limits->max_hw_sectors = MAX_SECTORS;
	limits->max_sectors = MAX_SECTORS;
}

static struct target_type model_target = {
	.name = "model",
	.version = {1, 0, 0},
	.module = THIS_MODULE,
	.ctr = model_ctr,
	.dtr = model_dtr,
	.map = model_map,
	.end_io = model_end_io,
	.iterate_devices = model_iterate_devices,
	.io_hints = model_io_hints,
};
module_dm(model);

MODULE_DESCRIPTION("Timing of a disk or an SSD over a RAM disk, for tests");
MODULE_AUTHOR("The Tandem authors");
MODULE_LICENSE("GPL");
