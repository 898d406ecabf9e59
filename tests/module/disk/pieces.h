/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTDISK_PIECES_H
#define TESTDISK_PIECES_H

#include <linux/blk_types.h>

/*
 * Write 4096 bytes of @fill, or read 4096 bytes and compare each with @fill, at @sector of
 * @bdev, in two pieces of memory that are no whole sectors. New kernels let a user do this.
 * Returns 0, what the device answered, or -EILSEQ if a byte differs. Sleeps.
 */
int testdisk_pieces(struct block_device *bdev, enum req_op op, u64 sector, u8 fill);

#endif
