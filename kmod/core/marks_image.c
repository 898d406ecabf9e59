// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The image of the intent marks: the bits that the SSD has, or will have when the block
 * that they lie in is written next.
 *
 * Invariant:
 *   M8  A bit of td_ledger.marks_words is 1 if and only if one of its 64 marks is 1 in the
 *       image. td_ledger.marks_set is the count of the marks that are.
 *
 * Threads: the engine's lock, or the only thread that loads.
 */
#include "ledger_int.h"

static u8 *image_block(const struct td_ledger *l, u32 block)
{
	return l->marks_image + (size_t)block * TD_BLOCK_BYTES;
}

void td_image_set(struct td_ledger *l, u32 region)
{
	td_marks_set(image_block(l, region / TD_BLOCK_MARKS), region % TD_BLOCK_MARKS);
	l->marks_words[region / 4096] |= 1ull << region / 64 % 64;
	l->marks_set++;
}

void td_image_reset(struct td_ledger *l, u32 region)
{
	u8 *image = image_block(l, region / TD_BLOCK_MARKS);

	td_marks_reset(image, region % TD_BLOCK_MARKS);
	if (!td_marks_get64(image, region % TD_BLOCK_MARKS & ~63u))
		l->marks_words[region / 4096] &= ~(1ull << region / 64 % 64);
	l->marks_set--;
}

u32 td_image_next(const struct td_ledger *l, u32 region)
{
	while (region < l->nr_marks) {
		u64 some = l->marks_words[region / 4096] >> region / 64 % 64;

		if (some & 1) {
			u32 i = region % TD_BLOCK_MARKS;

			some = td_marks_get64(image_block(l, region / TD_BLOCK_MARKS),
					      i & ~63u) >> i % 64;
			if (some)
				return region + env_first_bit(some);
			region = (region | 63) + 1;
		} else if (some) {
			region = (region & ~63u) + env_first_bit(some) * 64;
		} else {
			region = (region | 4095) + 1;
		}
	}
	return l->nr_marks;
}

void td_image_copy(struct td_ledger *l, u32 block)
{
	memcpy(l->marks_buffer, image_block(l, block), TD_BLOCK_BYTES);
	td_marks_seal(l->marks_buffer, l->super.uuid, block);
}
