// SPDX-License-Identifier: GPL-2.0-or-later
/* Requests that users make since Linux 6.18 only, made here for every kernel. */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "pieces.h"

#define FIRST	256

int testdisk_pieces(struct block_device *bdev, enum req_op op, u64 sector, u8 fill)
{
	struct bio_vec vecs[2];
	struct page *pages[2];
	struct bio bio;
	int r = -ENOMEM;

	pages[0] = alloc_page(GFP_NOIO);
	pages[1] = alloc_page(GFP_NOIO);
	if (!pages[0] || !pages[1])
		goto out;
	memset(page_address(pages[0]), op == REQ_OP_WRITE ? fill : ~fill, PAGE_SIZE);
	memset(page_address(pages[1]), op == REQ_OP_WRITE ? fill : ~fill, PAGE_SIZE);
	bio_init(&bio, bdev, vecs, 2, op);
	bio.bi_iter.bi_sector = sector;
	__bio_add_page(&bio, pages[0], FIRST, 0);
	__bio_add_page(&bio, pages[1], 4096 - FIRST, 0);
	r = submit_bio_wait(&bio);
	bio_uninit(&bio);
	if (!r && op == REQ_OP_READ &&
	    (memchr_inv(page_address(pages[0]), fill, FIRST) ||
	     memchr_inv(page_address(pages[1]), fill, 4096 - FIRST)))
		r = -EILSEQ;
out:
	if (pages[0])
		__free_page(pages[0]);
	if (pages[1])
		__free_page(pages[1]);
	return r;
}
