/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What map.c (each bio, reads, hits) and write.c (writes and flushes) share. */
#ifndef TANDEM_MAP_H
#define TANDEM_MAP_H

#include "job.h"

/* Requests that are not answered in the first step: is this one to be measured? In map. */
static inline void tandem_measure(struct tandem *t, struct tandem_io *io)
{
	io->since = 0;
	if (unlikely(tandem_latency_turn(t->engine.counters)))
		tandem_latency_begin(io);
}

/*
 * Sectors of the bio that lie in its first run; map cuts it there. (dm would cut
 * at max_io_len, but also at the longest request of the disk, in the middle of a
 * frame, and the rest would meet the frame being filled.)
 */
static inline u32 tandem_in_run(const struct tandem *t, const struct bio *bio)
{
	u32 run = td_run_sectors(&t->engine.layout);
	u32 left = run - ((u32)bio->bi_iter.bi_sector & (run - 1));

	return min(left, bio_sectors(bio));
}

/*
 * The most sectors of a request that takes a slot for each of its frames: core needs some
 * 15 us for so many, with interrupts off (cargo run -p tandem-engine-bench -- scale).
 */
#define TANDEM_TAKES	1024u	/* sectors; a power of two */

/* Of the bio's first @count sectors, those up to a multiple of TANDEM_TAKES. */
static inline u32 tandem_may_take(const struct bio *bio, u32 count)
{
	u32 left = TANDEM_TAKES -
		   ((u32)bio->bi_iter.bi_sector & (TANDEM_TAKES - 1));

	return min(left, count);
}

/* The bytes of a segment's length that are no whole block of the SSD. */
static inline u32 tandem_segment_mask(const struct tandem *t)
{
	return (t->engine.layout.block_mask << SECTOR_SHIFT) | (SECTOR_SIZE - 1);
}

/* As tandem_segments_fit(), of any number of segments. Any context. */
bool tandem_each_segment_fits(const struct tandem *t, const struct bio *bio,
			      const struct bvec_iter *from);

/*
 * An SSD with large blocks cannot split a bio inside one, and some SSDs refuse pieces
 * that are no whole sectors: each segment of @bio in @from must be whole blocks. The disk
 * may take smaller ones, so the user need not know.
 */
static inline bool tandem_segments_fit(const struct tandem *t, const struct bio *bio,
				       const struct bvec_iter *from)
{
	struct bio_vec bv = mp_bvec_iter_bvec(bio->bi_io_vec, *from);

	/* Most bios are one segment. */
	if (likely(bv.bv_len == from->bi_size))
		return !(bv.bv_len & tandem_segment_mask(t));
	return tandem_each_segment_fits(t, bio, from);
}

/*
 * Does the SSD take the pages of the write @bio as they are? Not if the SSD computes
 * checksums of pages (stable_ssd): the cached device has the disk's limits
 * (tandem_iterate_devices()), so the user may change a page during the write, which such an
 * SSD would fail. Nor if a segment is no whole block. A failed write would make the SSD
 * count as lost, so such an SSD, and such a write, gets copies.
 */
static inline bool tandem_fits_ssd(const struct tandem *t, const struct bio *bio)
{
	return !t->stable_ssd && tandem_segments_fit(t, bio, &bio->bi_iter);
}

/* @bio went to the SSD, which failed: as it was, for another device. @iter: on the disk. */
static inline void tandem_take_back(struct tandem *t, struct bio *bio,
				    const struct bvec_iter *iter)
{
	bio->bi_iter = *iter;
	bio->bi_status = BLK_STS_OK;
	bio->bi_opf &= ~REQ_POLLED;
	bio->bi_cookie = BLK_QC_T_NONE;
	/* What the SSD's queue noted for itself. */
	bio_clear_flag(bio, BIO_QOS_THROTTLED);
	bio_clear_flag(bio, BIO_QOS_MERGED);
	/* A lower device that split the bio counted this down. */
	atomic_set(&bio->__bi_remaining, 1);
	/* Whoever was interrupted here does not pay for it. */
	bio_set_dev(bio, t->origin->bdev);
	tandem_charge_nobody(bio);
}

/* @bio goes to the disk, and core has nothing of it. Returns a DM_MAPIO code. Any context. */
static inline int tandem_pass(struct tandem *t, struct bio *bio, struct tandem_io *io)
{
	io->end = TANDEM_END_PLAIN;
	tandem_to_disk(t, bio, io);
	return tandem_wait_for_record(t, bio) ? DM_MAPIO_SUBMITTED :
		DM_MAPIO_REMAPPED;
}

/*
 * What td_begin() said of a request with private memory; tandem_carry_on() came first.
 * In map.
 */
static inline int tandem_job_begun(struct tandem *t, struct bio *bio,
				   struct tandem_io *io, struct tandem_job *job,
				   u32 todo)
{
	if (todo & TD_DO_PASS) {
		tandem_job_free(job);
		return tandem_pass(t, bio, io);
	}
	tandem_job_start(job, todo);
	return DM_MAPIO_SUBMITTED;
}

/* write.c, in map; @bio has data, or is a discard. Returns a DM_MAPIO code. */
int tandem_map_write(struct tandem *t, struct bio *bio, struct tandem_io *io,
		     enum td_kind kind);
/* The same for a flush. */
int tandem_map_flush(struct tandem *t, struct bio *bio, struct tandem_io *io);
/*
 * bulk.c, in map: begin a discard of more than one run; cuts @bio in front of a multiple of
 * TANDEM_BULK_RUNS. True: *@code is a DM_MAPIO code. False: there is one run only, no
 * memory, or each run is better a request of its own.
 */
#define TANDEM_BULK_RUNS	1024u
bool tandem_map_bulk(struct tandem *t, struct bio *bio, struct tandem_io *io, int *code);
/*
 * The disk has answered the bio of @b, with @error, which may be changed. False: the bio is
 * answered later, or was already. Any context.
 */
bool tandem_bulk_done(struct tandem_bulk *b, blk_status_t *error);
/*
 * map.c, in map: send @bio to the SSD, without a copy, if all of it is dirty there. True:
 * *@code is a DM_MAPIO code. False: nothing was done.
 */
bool tandem_map_in_place(struct tandem *t, struct bio *bio, struct tandem_io *io,
			 int *code);
/*
 * write.c: the disk has carried out, or failed, a write without private memory. False:
 * the bio is answered later by tandem_tracked_woken(), or was already. Any context.
 */
bool tandem_tracked_done(struct tandem *t, struct td_req *r, bool ok);
/* The same for a lent write at the SSD; may change @error, which is the bio's answer. */
bool tandem_lent_done(struct tandem *t, struct bio *bio, struct tandem_io *io,
		      blk_status_t *error);

#endif
