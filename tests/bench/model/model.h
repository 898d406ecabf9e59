/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef MODEL_H
#define MODEL_H

#include <linux/device-mapper.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/rbtree.h>

/* Both: 550 MB/s on the wire, and the time to take a command in. */
#define WIRE_NS		930ull		/* for a sector */
#define COMMAND_NS	20000ull

#define CHANNELS	8u		/* of the SSD */

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

/* All functions: model.lock held, but for model_disk_init() and model_disk_free(). */

/* Answer @io at @finish. */
void model_answer_at(struct model *m, struct model_io *io, u64 finish);

/* disk.c: @io has arrived. */
void model_disk_takes(struct model *m, struct model_io *io);
/* The head does all that it has done by @now. */
void model_disk_until(struct model *m, u64 now);
void model_disk_init(struct model *m);
void model_disk_free(struct model *m);

/* ssd.c: @io has arrived. */
void model_ssd_takes(struct model *m, struct model_io *io);

#endif
