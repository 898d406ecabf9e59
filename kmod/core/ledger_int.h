/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between ledger.c, marks.c, marks_image.c, checkpoint.c, flush.c and the engine. Lock
 * held in all of them.
 */
#ifndef TANDEM_LEDGER_INT_H
#define TANDEM_LEDGER_INT_H

#include "engine.h"
#include "store.h"

/* Gates of a flush (td_req.gates). */
#define TD_GATE_SWEEP	1u
#define TD_GATE_FLUSH	2u
#define TD_GATE_CLEAR	4u
#define TD_GATE_WHOLE	8u	/* all that was forgotten at once is recorded (P4) */

void td_ledger_init(struct td_engine *e, const struct td_super *sb);

/* All rings are empty. */
void td_ledger_empty_rings(struct td_ledger *l);

/* td_work_next() may have work from now on. */
static inline void td_ledger_due(struct td_engine *e)
{
	env_store(&e->due, 1);
}

/* @r, which is in no gate, goes on with @actions. */
void td_wake(struct td_list *woken, struct td_req *r, u32 actions);

/*
 * Must @r wait for sweep r->sweep? True: it will be woken with @then.
 */
bool td_ledger_waits(struct td_engine *e, struct td_req *r, u32 then);
/* A sweep that begins after now is needed. Returns its number. */
u64 td_ledger_want_sweep(struct td_engine *e);

/*
 * The cleaning or discard @r has changed the disk, and the disk was flushed since: a
 * group records that, then @r ends.
 */
void td_ledger_record(struct td_engine *e, struct td_req *r);
/* Is @r's record under way, so that its quarters may not be dirty on the SSD? */
static inline bool td_recording(const struct td_req *r)
{
	return r->phase == TD_PHASE_RECORDING;
}

/* td_ledger.group_phase */
enum {
	TD_GROUP_NONE,
	TD_GROUP_SLOTS,		/* its slots are being put */
	TD_GROUP_REQUESTS,	/* its cleanings and discards are being put */
	TD_GROUP_WRITTEN,	/* under way, or durable and being applied to memory */
};

/* Groups */
bool td_group_next(struct td_engine *e, struct td_work *w);
/*
 * The group is durable; or, if it had no entry, the SSD was flushed. True: call it again,
 * some records are not applied to memory yet.
 */
bool td_group_done(struct td_engine *e, struct td_list *woken);
/* td_work_fill() of a group. */
void td_group_fill(const struct td_engine *e, const struct td_work *w);

/* flush.c: flushes of both devices */
u32 td_flush_begin(struct td_engine *e, struct td_req *r);
bool td_flush_next(struct td_engine *e, struct td_work *w);
/* True: call it again, some that waited for the flush are not told yet. */
bool td_flush_done(struct td_engine *e, bool ok, struct td_list *woken);
/* Gate @gate of flush @r is open; the last one answers @r, by @woken. */
void td_flush_gate(struct td_engine *e, struct td_req *r, u32 gate,
		   struct td_list *woken);
/* A flush of the disk that begins after now is needed. */
void td_flush_want(struct td_engine *e);
/* The cleaning @r has written the disk: @r goes on when the disk has been flushed. */
void td_flush_cleaning(struct td_engine *e, struct td_req *r);
/* A cleaning will not write the disk. */
void td_flush_cleaning_ended(struct td_engine *e);
/* A discard that drops dirty quarters is done on the disk: it goes on as a cleaning does. */
void td_flush_discard(struct td_engine *e, struct td_req *r);

/* marks.c */
void td_marks_init(struct td_engine *e);
/* The SSD has the mark of @region. */
void td_marks_loaded(struct td_ledger *l, u32 region);
/*
 * A request that may write to its region begins, ends. From the beginning on no
 * flush waits for marks to be cleared (F5).
 */
void td_marks_enter(struct td_engine *e, struct td_req *r, struct td_list *woken);
void td_marks_leave(struct td_engine *e, struct td_req *r, bool wrote_disk);
/* The disk has to be flushed once more before the region of @r is durable there. */
void td_marks_unflushed(struct td_engine *e, const struct td_req *r);
/* Is the mark of @r's region durable? */
bool td_marks_is_set(const struct td_engine *e, const struct td_req *r);
/*
 * Is @r alone in its region, and is all recorded that was written there? Then a mark
 * costs more than it saves: the next flush would have to clear the mark.
 */
bool td_marks_alone(const struct td_engine *e, const struct td_req *r);
/* A lone write waits for a sweep: returns its number. */
u64 td_marks_lone_sweep(struct td_engine *e);
/* No lone write has waited: a flush of a user begins, or a second has passed. */
static inline void td_marks_lone_ended(struct td_engine *e)
{
	e->ledger.lone = 0;
}
/* Have the mark of @r's region set; then @r is woken with START. */
void td_marks_wait(struct td_engine *e, struct td_req *r);
/* The write-back write @r waits for a mark: if lone writes keep coming, have more set (M5). */
void td_marks_around(struct td_engine *e, const struct td_req *r);
/* How far ahead of a stream of writes marks are set: 16 MiB. */
#define TD_AHEAD_SECTORS	32768u
/*
 * Writes or discards that follow @r are on their way up to the sector @last: have the
 * marks of the regions from @r to there set (M4), or of the first of them.
 */
void td_marks_ahead(struct td_engine *e, const struct td_req *r, u64 last);
/* Begin to look at all marks and clear those that may be cleared. */
void td_marks_clear_all(struct td_engine *e);
bool td_marks_next(struct td_engine *e, struct td_work *w,
		   struct td_list *woken);
/* True: call it again, some requests that waited for a mark are not woken yet. */
bool td_marks_done(struct td_engine *e, struct td_list *woken);
void td_marks_tick(struct td_engine *e);

/* marks_image.c: the mark of @region becomes a 1, or a 0, in the image. */
void td_image_set(struct td_ledger *l, u32 region);
void td_image_reset(struct td_ledger *l, u32 region);
/* The first region from @region on that is in the image; nr_marks: none. */
u32 td_image_next(const struct td_ledger *l, u32 region);
/* Copy block @block of the image to where it is written from. */
void td_image_copy(struct td_ledger *l, u32 block);

/* checkpoint.c */
void td_checkpoint_want(struct td_engine *e);
/* No group can be written until a checkpoint has taken effect. */
void td_checkpoint_no_room(struct td_engine *e);
bool td_checkpoint_next(struct td_engine *e, struct td_work *w);
void td_checkpoint_done(struct td_engine *e, const struct td_work *w,
			struct td_list *woken);
/* td_work_fill() of pages and heads. */
void td_checkpoint_fill(struct td_engine *e, const struct td_work *w);
/* Is all recorded that was forgotten at once? Else @r is woken when it is. */
bool td_checkpoint_whole(struct td_engine *e, struct td_req *r);

/* fail.c: the SSD failed; some requests that wait for it go on. False: none waits. */
bool td_fail_next(struct td_engine *e, struct td_list *woken);

/* watch.c */
/*
 * @r is about to write the disk. True: the notes have what it writes at watched places.
 * False: *actions is what td_start() has to return.
 */
bool td_watch_gate(struct td_engine *e, struct td_req *r, u32 *actions);
/* @r ends. */
void td_watch_leave(struct td_engine *e, const struct td_req *r);
/* A note is to be written. */
void td_watch_want(struct td_engine *e);
bool td_notes_next(struct td_engine *e, struct td_work *w);
void td_notes_done(struct td_engine *e, struct td_list *woken);
/* A flush of the disk has ended; if not @ok, the disk may lack what it covered. */
void td_watch_flushed(struct td_engine *e, bool ok, struct td_list *woken);
/* Wake the requests that wait for a note or a flush; all of them if the SSD has failed. */
void td_watch_wake(struct td_engine *e, struct td_list *woken);

/* engine.c */
/* The SSD write of write-back @r has ended (r->ssd_failed). Returns actions. */
u32 td_writeback_done(struct td_engine *e, struct td_req *r,
		      struct td_list *woken);
/* The data of @r cannot be stored, since the SSD failed; @r is woken. */
void td_writeback_failed(struct td_engine *e, struct td_req *r,
			 struct td_list *woken);
/* The cleaning @r failed and ends; the caller gives @r the action END. */
void td_clean_failed(struct td_engine *e, struct td_req *r,
		     struct td_list *woken);
/* The cleaning or discard @r cannot be recorded, or must not be: @r is woken with END. */
void td_record_failed(struct td_engine *e, struct td_req *r, struct td_list *woken);
/* Take @r out of its ring and give up its slots; wake the requests that waited for it. */
void td_end(struct td_engine *e, struct td_req *r, struct td_list *woken);

#endif
