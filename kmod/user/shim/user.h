/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Core in user space, as a table of functions. The rescue program uses the core that it
 * was linked with; the simulator also loads builds that it made later: of a seeded bug,
 * or under sanitizers. src/ffi.rs has the same declarations; keep them together.
 */
#ifndef TANDEM_USER_H
#define TANDEM_USER_H

#include "engine.h"
#include "load.h"
#include "start.h"
#include "super.h"

#define TDU_API_VERSION	26

struct tdu_engine;

/* A td_req with its parts and the caller's number for it. */
struct tdu_request;

/* A td_load with the last buffer that it asked for. */
struct tdu_load;

struct tdu_woken {
	u64 id;
	u32 actions;
};

/* Requests that a call woke. */
struct tdu_list {
	struct tdu_woken *woken;
	u64 room;
	u64 count;
};

/* What the driver and the checks want to know of the ledger. */
struct tdu_facts {
	u64 dirty;
	u64 group;
	u64 checkpoint;
	u32 ring_blocks;
	u32 head;
	u32 used;
	u32 pending;
	u32 marks_set;
	u32 inflight;
	u32 state;
	/* of urgent writes; of those that were not looked at in this round */
	u64 urgent_frames;
	u64 urgent_left;
	u64 clean_frame;
	u64 clean_left;
	u32 regions;
	u32 region_frames;
	bool sweep_on;
	bool checkpoint_on;
	bool urgent;
};

struct tdu_api {
	u32 version;
	u32 shown;	/* TD_NR_SHOWN */
	u32 used;	/* TD_C_USED */
	u32 why_memory_read;
	u32 why_memory_write;
	const char *(*counter_name)(unsigned int which);
	/* Fills all but origin_sectors, ssd_sectors and block_sectors. */
	bool (*plan)(struct tdu_geometry *geometry);
	void (*layout)(const struct tdu_geometry *geometry,
		       struct td_layout *layout);
	struct tdu_engine *(*engine_new)(const struct tdu_geometry *geometry,
					 u32 mode);
	void (*engine_free)(struct tdu_engine *engine);
	void (*set_mode)(struct tdu_engine *engine, u32 mode);
	void (*set_limit)(struct tdu_engine *engine, u64 quarters);
	void (*set_promotion)(struct tdu_engine *engine, bool on);
	/* Frames written in a row that are a stream; in write-back four times as many. */
	void (*set_stream)(struct tdu_engine *engine, u32 frames);
	void (*facts)(struct tdu_engine *engine, struct tdu_facts *facts);
	/* A hash of core's memory but counters and policy: equal states have equal hashes. */
	u64 (*digest)(struct tdu_engine *engine);
	u64 (*counter)(struct tdu_engine *engine, u32 which);
	void (*words)(struct tdu_engine *engine, u64 *words);
	/* Slots of each of tdu_facts.regions regions, as core counts them. */
	void (*region_slots)(struct tdu_engine *engine, u32 *slots);
	/* The slot that holds @frame, or TD_NO_SLOT. */
	u32 (*find)(struct tdu_engine *engine, u64 frame);
	u64 (*word)(struct tdu_engine *engine, u32 slot);
	u32 (*group_of)(struct tdu_engine *engine, u64 sector);
	u32 (*read_look)(struct tdu_engine *engine, u64 sector, u32 count,
			 struct td_look *look);
	void (*disk_read_ends)(struct tdu_engine *engine);
	bool (*may_join)(struct tdu_engine *engine, u64 sector);
	/* True: *id is that of the fill; *count: what the fill has; *answered: by the disk. */
	bool (*join_fill)(struct tdu_engine *engine, u64 sector, u32 *count, u64 *id,
			  bool *answered);
	bool (*write_streams)(struct tdu_engine *engine, u64 sector, u32 count);
	bool (*write_wants_copy)(struct tdu_engine *engine, u64 sector,
				 u32 count);
	bool (*write_may_lend)(struct tdu_engine *engine, u64 sector, u32 count);
	bool (*write_in_place)(struct tdu_engine *engine, u64 sector, u32 count,
			       u32 *slot);
	bool (*write_home)(struct tdu_engine *engine, u64 sector, u32 count,
			   u32 *slot);
	void (*write_home_done)(struct tdu_engine *engine, bool ok);
	void (*span_of)(struct tdu_engine *engine, u32 kind, u64 sector,
			u32 count, struct td_span *span);
	void (*pass)(struct tdu_engine *engine, u32 kind, u32 count, u32 why);
	/*
	 * @parts 0: without private memory, unless it is a read; @no_memory:
	 * there should have been some; @stream: write_streams(); @lent:
	 * write_may_lend(); @fua of a flush: whole.
	 */
	struct tdu_request *(*request_new)(u64 id, u32 kind, u64 sector,
					   u32 count, u32 parts, bool no_memory,
					   bool stream, bool lent, bool fua);
	void (*request_free)(struct tdu_request *request);
	void (*request_span)(const struct tdu_request *request, u64 *sector,
			     u32 *count);
	bool (*request_failed)(const struct tdu_request *request);
	/* A function with @list fills the list and sets its count. */
	u32 (*begin)(struct tdu_engine *engine, struct tdu_request *request,
		     struct tdu_list *list);
	u32 (*start)(struct tdu_engine *engine, struct tdu_request *request,
		     struct tdu_list *list);
	u32 (*disk_done)(struct tdu_engine *engine, struct tdu_request *request,
			 bool ok, struct tdu_list *list);
	u32 (*ssd_done)(struct tdu_engine *engine, struct tdu_request *request,
			bool ok, struct tdu_list *list);
	/* MERGE: what is to be read from the disk, and then. */
	bool (*next_rest)(struct tdu_engine *engine, const struct tdu_request *request,
			  u32 *cursor, u64 *sector, u32 *count);
	u32 (*rest_read)(struct tdu_engine *engine, struct tdu_request *request,
			 bool ok, struct tdu_list *list);
	bool (*next_extent)(struct tdu_engine *engine,
			    const struct tdu_request *request, u32 *cursor,
			    struct td_extent *extent);
	/* Do the extents need FUA? */
	bool (*stores_durably)(const struct tdu_request *request);
	bool (*unpin)(struct tdu_engine *engine, u32 slot);
	u32 (*drained)(struct tdu_engine *engine, u64 sector, u32 slot,
		       u64 *owner, struct tdu_list *list);
	/* enum td_seek */
	u32 (*clean_seek)(struct tdu_engine *engine, bool all, bool on,
			  u32 looks, u64 *sector, u32 *count);
	/* Fills @ids with the writes that wait for a cleaning. */
	u64 (*urgent)(struct tdu_engine *engine, u64 *ids, u64 room);
	bool (*fail)(struct tdu_engine *engine, struct tdu_list *list);
	bool (*hit_failed)(struct tdu_engine *engine, u64 sector, u32 count,
			   u32 slot, u64 dirty, struct tdu_list *list);
	/* At most TD_RETIRED_MAX slots, in ascending order. */
	void (*set_retired)(struct tdu_engine *engine, const u32 *slots,
			    u32 count);
	u32 (*retired)(struct tdu_engine *engine, u32 *slots);
	void (*forget_group)(struct tdu_engine *engine, u32 group);
	void (*sweep_at_once_begin)(struct tdu_engine *engine);
	void (*sweep_at_once_end)(struct tdu_engine *engine);
	bool (*work_due)(struct tdu_engine *engine);
	/* Kinds are numbered as td_work_kind. */
	bool (*work_next)(struct tdu_engine *engine, u32 *kind, u64 *sector,
			  u32 *sectors, bool *flush, struct tdu_list *list);
	/* To be called before work_bytes(), once. */
	void (*work_fill)(struct tdu_engine *engine, u32 kind);
	/* Copies what the work of @kind, which is under way, is to write; nothing beyond that. */
	void (*work_bytes)(struct tdu_engine *engine, u32 kind, u32 from,
			   u32 sectors, u8 *bytes);
	/* True: to be called again. */
	bool (*work_done)(struct tdu_engine *engine, u32 kind, bool ok,
			  struct tdu_list *list);
	void (*tick)(struct tdu_engine *engine);
	void (*trim_allow)(struct tdu_engine *engine, u32 lanes);
	/* watch.h; the place of the request whose action is SUM */
	u64 (*summing)(const struct tdu_request *request);
	/* @mask: sectors of the place that are written; @sums: TD_QUARTER_SECTORS. */
	u32 (*summed)(struct tdu_engine *engine, struct tdu_request *request,
		      u32 mask, const u32 *sums, struct tdu_list *list);
	void (*watch_resume)(struct tdu_engine *engine,
			     const struct td_samples *samples, bool same);
	bool (*watch_asks)(struct tdu_engine *engine);
	bool (*look_begin)(struct tdu_engine *engine);
	/* A file system was found that changes these places with each use. */
	bool (*look_end)(struct tdu_engine *engine, const u64 *quarters, u32 count);
	bool (*learn_begin)(struct tdu_engine *engine, u64 *quarter);
	void (*learn_end)(struct tdu_engine *engine, u64 quarter, const u32 *sums);
	struct tdu_load *(*load_new)(struct tdu_engine *engine);
	bool (*load_next)(struct tdu_load *load, u64 *sector, u32 *sectors);
	/* @bytes NULL: could not be read. */
	void (*load_feed)(struct tdu_load *load, const u8 *bytes);
	/* enum td_load_error; frees. */
	u32 (*load_end)(struct tdu_load *load);
	/* *bytes: TD_LOAD_BYTES that last until the next call. */
	bool (*format_next)(const struct tdu_geometry *geometry, u32 step,
			    u64 *sector, u32 *sectors, const u8 **bytes);
	/* start.h */
	u32 (*super_choose)(const u8 *first, const u8 *second,
			    struct tdu_geometry *geometry, u32 *flags,
			    struct td_retired *retired);
	u32 (*super_match)(const struct tdu_geometry *found,
			   const struct tdu_geometry *wanted);
	bool (*super_is_sound)(const u8 *bytes, u32 copy);
	void (*super_write)(const struct tdu_geometry *geometry, u32 flags,
			    const struct td_retired *retired, u32 copy,
			    u8 *bytes);
	void (*samples_choose)(const u8 *first, const u8 *second,
			       const struct tdu_geometry *geometry,
			       struct td_samples *samples);
	/* The places that the life before has left in @s are hot. Before any request. */
	void (*heat_resume)(struct tdu_engine *engine, const struct td_samples *s);
	/* @engine NULL: nothing was written lately. */
	void (*samples_pick)(const struct tdu_engine *engine,
			     const struct tdu_geometry *geometry,
			     struct td_samples *samples);
	u32 (*samples_probe)(struct td_samples *samples, bool compares,
			     tdu_quarter_fn read, void *context);
	void (*samples_at_start)(const struct tdu_engine *engine,
				 const struct tdu_geometry *geometry,
				 struct td_samples *samples,
				 tdu_quarter_fn read, void *context);
	void (*sums_of)(const u8 *quarter, u32 *sums);
	void (*samples_write)(const struct td_samples *samples,
			      const struct tdu_geometry *geometry, u32 copy,
			      u8 *bytes);
	bool (*samples_show_uses)(const u8 *first, const u8 *btrfs,
				  u64 origin_sectors);
};

const struct tdu_api *tandem_user_api(void);

const struct td_heat *tdu_heat(const struct tdu_engine *engine);
const struct td_heat *tdu_read_heat(const struct tdu_engine *engine);
void tdu_heat_resume(struct tdu_engine *engine, const struct td_samples *s);
/* td_index_clean_copy() */
bool tdu_clean_copy(const struct tdu_engine *engine, u64 quarter, u64 *ssd_sector);

#endif
