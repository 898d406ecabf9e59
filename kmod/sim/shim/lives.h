/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lives of a cache: lives.c has the cache, elsewhere.c what happens to its disk. */
#ifndef SIM_LIVES_H
#define SIM_LIVES_H

#include "check.h"
#include "identity.h"

#define QUARTERS	600u
#define LIVES		30u
#define SSD_SECTORS	53248u
#define JOURNAL		333u	/* of a file system: written most often */
#define SECTORS		(TD_SUPER_BYTES / TD_SECTOR_BYTES)

enum area { SUPER, SAMPLES };

struct quarter {
	u32 content;
	bool valid, dirty;
};

struct world {
	u64 state;			/* state of the random numbers */
	u64 cuts;
	struct td_identity id;
	u8 ssd[2][2][TD_SUPER_BYTES] __attribute__((aligned(8)));	/* copy, area */
	u32 disk[QUARTERS];
	u32 own[QUARTERS];		/* content of the right disk, while another is in place */
	u32 older[QUARTERS];		/* content at an earlier life, as a disk image has it */
	u32 shown[QUARTERS];		/* content that users have to see */
	struct quarter cached[QUARTERS];
	u32 dirty;
	u32 last;			/* content that was written last */
	bool made;			/* the first superblock is on the SSD */
	bool anew;			/* half of a new index is on the SSD */
	bool traceless;			/* the disk begins with a boot sector of exFAT */
	bool exchanged;			/* the disk is not the one of the last life */
	bool elsewhere;			/* the disk was written where no sample may be */
	bool left;			/* the disk was away while it was mapped */
	bool next;			/* the next life is in write-back */
	bool dropped;			/* the copies of the exchanged disk were given up */
	bool serving;			/* requests are served: the disk may change */
	bool off;			/* the power is gone */
	/* the memory of the module */
	struct td_super super;
	struct td_samples samples;
	struct td_heat heat;
	bool writes_back;
	bool write_super;
	u32 super_first;
	u32 to_disk, to_journal;	/* writes of this life */
};

/* Read the samples @s of the disk; the caller ends the probe. */
struct td_probe lives_probe(const struct world *x, struct td_samples *s, bool compares);
/* Do the samples @s know the disk again? */
bool lives_same(const struct world *x, struct td_samples *s);
/* What a start finds on the SSD. */
enum td_super_error lives_super(const struct world *x, struct td_super *sb);
/* How the start with x->samples must go on. */
enum td_start lives_judge(struct world *x);
/* Between two lives the disk may be exchanged, or written elsewhere. */
void lives_exchange(struct world *x);

#endif
