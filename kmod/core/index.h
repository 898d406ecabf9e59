/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The index and the policy: which slot holds a frame, which slot it may get.
 */
#ifndef TANDEM_INDEX_H
#define TANDEM_INDEX_H

#include "engine.h"

#define TD_NO_SLOT	0xffffffffu
#define TD_NO_WAY	TD_NO_SLOT

/* How far td_index_take() may go for a slot. */
enum td_take {
	TD_TAKE_FREE,	/* a durably free one only */
	TD_TAKE_COLD,	/* or, for a new frame, one of those on trial */
	TD_TAKE_ANY,	/* or any that no request uses just now */
};

/* The slot whose word has @frame's tag. Lock held for a lasting answer. */
u32 td_index_find(const struct td_engine *e, u64 frame);
/*
 * As td_index_find(); if no slot holds @frame, *@near is the slot of the frame before it, if
 * that is of the same run, else TD_NO_SLOT.
 */
u32 td_index_find_near(const struct td_engine *e, u64 frame, u32 *near);
/*
 * The next slot with the tag of a frame from @first to @last, which lie in one run, or
 * TD_NO_SLOT; in any order. *@cursor is 0 at first. The caller may give up slots
 * meanwhile, but take none. Lock held.
 */
u32 td_index_next(const struct td_engine *e, u64 first, u64 last, u32 *cursor);

/* Can all of @want of @frame be read now? No lock; a hint. */
bool td_index_readable(const struct td_engine *e, u64 frame, unsigned int want);

/*
 * Is a clean copy of @quarter of the disk on the SSD, outside marked regions? Then it
 * lies at *ssd_sector, and the disk must be equal there. No request in flight.
 */
bool td_index_clean_copy(const struct td_engine *e, u64 quarter, u64 *ssd_sector);

/*
 * Of a slot that is FREE: does no record, durable or under way, name anything there, and can
 * none that is still to be written? Lock held.
 */
bool td_index_names_nothing(const struct td_engine *e, u32 slot);

/* Is there a free slot for @frame? No lock; a hint. */
bool td_index_has_room(const struct td_engine *e, u64 frame);
/* Or one that td_index_take() may give up? Lock held; readers pin and unpin. A hint. */
bool td_index_has_way(const struct td_engine *e, u64 frame);

/*
 * Take a slot for @frame, which has none: BUSY, nothing valid. @near: a slot
 * of the same run; its way is tried first, or TD_NO_SLOT. *sweep is raised to
 * the number of the sweep that must be done before data is written there; not
 * at all if the slot was durably free. Lock held.
 */
u32 td_index_take(struct td_engine *e, u64 frame, u32 near, enum td_take how_far,
		  u64 *sweep);

/*
 * Which sweep must be done before data is written to @slot, which a request in
 * flight took before? 0: none. Lock held.
 */
u64 td_index_join_sweep(const struct td_engine *e, u32 slot);

/*
 * Operations on words (word.h) that also keep the counts and note the slot as
 * pending. Lock held.
 */
/* td_index_forget() for all quarters, when all groups are forgotten (P4). */
void td_index_forget_at_once(struct td_engine *e, u32 slot);
/* td_index_note_free() while a drop is not on record. */
void td_index_note_dropped(struct td_engine *e, u64 first, u64 last);
/*
 * Frames @first to @last were written, or are about to get slots: the next sweep records
 * the free slots whose records may name them (P4). Lock held.
 */
static inline void td_index_note_free(struct td_engine *e, u64 first, u64 last)
{
	if (unlikely(e->ledger.sweeping))
		td_index_note_dropped(e, first, last);
}

u64 td_index_own(struct td_engine *e, u32 slot, unsigned int forget, bool hold);
void td_index_publish(struct td_engine *e, u32 slot, unsigned int valid,
		      unsigned int dirty);
void td_index_disown(struct td_engine *e, u32 slot, unsigned int valid,
		     unsigned int dirty);
u64 td_index_forget(struct td_engine *e, u32 slot, unsigned int mask);
void td_index_clean(struct td_engine *e, u32 slot, unsigned int mask);
/* Quarters of @mask, all dirty, were discarded; a durable record says so. */
void td_index_drop(struct td_engine *e, u32 slot, unsigned int mask);
/* Quarters of @mask are no longer valid, nor dirty. */
void td_index_give_up(struct td_engine *e, u32 slot, unsigned int mask);

#endif
