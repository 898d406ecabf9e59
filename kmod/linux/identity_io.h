/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is the disk as the cache left it? What main.c asks identity_io.c and look_io.c. */
#ifndef TANDEM_IDENTITY_IO_H
#define TANDEM_IDENTITY_IO_H

#include "tandem.h"

/* identity_io.c: process context, may sleep. 0 or an error. */
int tandem_identity_alloc(struct tandem *t);
void tandem_identity_free(struct tandem *t);
/* The kernel gives each disk, and each medium in a drive, a number of its own. */
static inline u64 tandem_disk_seq(const struct tandem *t)
{
	return t->origin->bdev->bd_disk->diskseq;
}

/*
 * Compare the disk with the traces and the samples on the SSD, and after a crash with
 * clean copies there. @left: the disk was away while it was mapped.
 */
enum td_start tandem_identity_judge(struct tandem *t, bool left);
/* Write RUNNING to both copies: the disk may change, so no samples count; traces do. */
int tandem_identity_running(struct tandem *t);
/*
 * With all durable and no request in flight: sample the disk, write STOPPED; unless
 * nothing of the disk can be read, or the disk is another one than at the resume.
 */
void tandem_identity_stopped(struct tandem *t);

/* look_io.c: process context, may sleep. */
void tandem_look_init(struct tandem *t);
/* 0 or -ENOMEM; tandem_look_free() either way. */
int tandem_look_alloc(struct tandem *t);
void tandem_look_free(struct tandem *t);
/* Which file system is on the disk, and what do its watched places hold? Takes the lock. */
void tandem_look(struct tandem *t);

#endif
