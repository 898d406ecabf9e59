/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Core as a table of functions, so that the simulator can run the core that it
 * was linked with, or one that it built later: a mutant, or one under
 * sanitizers. src/ffi.rs has the same declarations; keep them together.
 */
#ifndef TANDEM_SIM_SHIM_H
#define TANDEM_SIM_SHIM_H

#include "engine.h"
#include "load.h"
#include "super.h"

#define SIM_API_VERSION	12

struct sim_engine;

/* A td_req with its parts and the simulator's number for it. */
struct sim_request;

/* A td_load with the last buffer that it asked for. */
struct sim_load;

struct sim_full;

/* What a superblock says, in sectors; regions as in struct td_super. */
struct sim_geometry {
	u64 origin_sectors;
	u64 ssd_sectors;
	struct td_region journal, checkpoint, intent, data;
	u32 block_sectors;
	u32 groups;
	u32 run_shift;
	u32 way_shift;
};

struct sim_woken {
	u64 id;
	u32 actions;
};

/* Requests that a call woke. */
struct sim_list {
	struct sim_woken *woken;
	u64 room;
	u64 count;
};

/* What the driver and the checks want to know of the ledger. */
struct sim_facts {
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

struct sim_api {
	u32 version;
	u32 shown;	/* TD_NR_SHOWN */
	u32 used;	/* TD_C_USED */
	u32 why_memory_read;
	u32 why_memory_write;
	const char *(*counter_name)(unsigned int which);
	/* torn.h */
	u64 (*torn)(u64 seed);
	u64 (*identity)(u64 seed);
	u64 (*lives)(u64 seed);
	/* Fills all but origin_sectors, ssd_sectors and block_sectors. */
	bool (*plan)(struct sim_geometry *geometry);
	void (*layout)(const struct sim_geometry *geometry,
		       struct td_layout *layout);
	struct sim_engine *(*engine_new)(const struct sim_geometry *geometry,
					 u32 mode);
	void (*engine_free)(struct sim_engine *engine);
	void (*set_mode)(struct sim_engine *engine, u32 mode);
	void (*set_limit)(struct sim_engine *engine, u64 quarters);
	void (*facts)(struct sim_engine *engine, struct sim_facts *facts);
	/* Of all of core's memory but counters and policy: equal states have equal ones. */
	u64 (*digest)(struct sim_engine *engine);
	u64 (*counter)(struct sim_engine *engine, u32 which);
	void (*words)(struct sim_engine *engine, u64 *words);
	u32 (*group_of)(struct sim_engine *engine, u64 sector);
	u32 (*read_look)(struct sim_engine *engine, u64 sector, u32 count,
			 struct td_look *look);
	bool (*write_wants_copy)(struct sim_engine *engine, u64 sector,
				 u32 count);
	bool (*write_in_place)(struct sim_engine *engine, u64 sector, u32 count,
			       u32 *slot);
	bool (*write_home)(struct sim_engine *engine, u64 sector, u32 count,
			   u32 *slot);
	void (*write_home_done)(struct sim_engine *engine, bool ok);
	void (*span_of)(struct sim_engine *engine, u32 kind, u64 sector,
			u32 count, struct td_span *span);
	void (*pass)(struct sim_engine *engine, u32 kind, u32 count, u32 why);
	/*
	 * @parts 0: without private memory, unless it is a read; @no_memory:
	 * there should have been some.
	 */
	struct sim_request *(*request_new)(u64 id, u32 kind, u64 sector,
					   u32 count, u32 parts, bool no_memory,
					   bool fua);
	void (*request_free)(struct sim_request *request);
	void (*request_span)(const struct sim_request *request, u64 *sector,
			     u32 *count);
	bool (*request_failed)(const struct sim_request *request);
	/* Those with @list fill it and set its count. */
	u32 (*begin)(struct sim_engine *engine, struct sim_request *request,
		     struct sim_list *list);
	u32 (*start)(struct sim_engine *engine, struct sim_request *request,
		     struct sim_list *list);
	u32 (*disk_done)(struct sim_engine *engine, struct sim_request *request,
			 bool ok, struct sim_list *list);
	u32 (*ssd_done)(struct sim_engine *engine, struct sim_request *request,
			bool ok, struct sim_list *list);
	bool (*next_extent)(struct sim_engine *engine,
			    const struct sim_request *request, u32 *cursor,
			    struct td_extent *extent);
	bool (*unpin)(struct sim_engine *engine, u32 slot);
	u32 (*drained)(struct sim_engine *engine, u64 sector, u32 slot,
		       u64 *owner, struct sim_list *list);
	/* enum td_seek */
	u32 (*clean_seek)(struct sim_engine *engine, bool all, bool on,
			  u32 looks, u64 *sector, u32 *count);
	/* Fills @ids with the writes that wait for a cleaning. */
	u64 (*urgent)(struct sim_engine *engine, u64 *ids, u64 room);
	bool (*fail)(struct sim_engine *engine, struct sim_list *list);
	bool (*hit_failed)(struct sim_engine *engine, u64 sector, u32 count,
			   u32 slot, u64 dirty, struct sim_list *list);
	/* At most TD_RETIRED_MAX slots, in ascending order. */
	void (*set_retired)(struct sim_engine *engine, const u32 *slots,
			    u32 count);
	u32 (*retired)(struct sim_engine *engine, u32 *slots);
	void (*forget_group)(struct sim_engine *engine, u32 group);
	bool (*work_due)(struct sim_engine *engine);
	/* Kinds are numbered as td_work_kind. */
	bool (*work_next)(struct sim_engine *engine, u32 *kind, u64 *sector,
			  u32 *sectors, struct sim_list *list);
	/* Copies what the work of @kind, which is under way, is to write. */
	void (*work_bytes)(struct sim_engine *engine, u32 kind, u32 from,
			   u32 sectors, u8 *bytes);
	void (*work_done)(struct sim_engine *engine, u32 kind, bool ok,
			  struct sim_list *list);
	void (*tick)(struct sim_engine *engine);
	struct sim_load *(*load_new)(struct sim_engine *engine);
	bool (*load_next)(struct sim_load *load, u64 *sector, u32 *sectors);
	/* @bytes NULL: could not be read. */
	void (*load_feed)(struct sim_load *load, const u8 *bytes);
	/* enum td_load_error; frees. */
	u32 (*load_end)(struct sim_load *load);
	/* *bytes: TD_LOAD_BYTES that last until the next call. */
	bool (*format_next)(const struct sim_geometry *geometry, u32 step,
			    u64 *sector, u32 *sectors, const u8 **bytes);
	/* full.c: the index of a full cache, a part of it as the SSD has it. */
	struct sim_full *(*full_new)(const struct sim_geometry *geometry);
	void (*full_read)(const struct sim_full *full, u64 sector, u32 sectors,
			  u8 *bytes);
	void (*full_free)(struct sim_full *full);
	/* start.h */
	u32 (*super_read)(const u8 *first, const u8 *second, u64 origin_sectors,
			  u64 ssd_sectors, struct sim_geometry *geometry,
			  u32 *flags);
	bool (*super_is_sound)(const u8 *bytes, u32 copy);
	void (*super_write)(const struct sim_geometry *geometry, u32 flags,
			    u32 copy, u8 *bytes);
	u32 (*samples_compare)(const u8 *first, const u8 *second,
			       const struct sim_geometry *geometry,
			       void (*read)(void *context, u64 sector, u8 *bytes),
			       void *context);
	void (*samples_write)(const struct sim_geometry *geometry, bool stopped,
			      u32 copy,
			      void (*read)(void *context, u64 sector, u8 *bytes),
			      void *context, u8 *bytes);
	/* words/words.h */
	u32 (*scenarios)(void);
	const char *(*scenario_name)(u32 scenario);
	u32 (*scenario_run)(u32 scenario, u8 *choices, u8 *widths, size_t given,
			    size_t room, bool (*met)(void *context, u64 state),
			    void *context, size_t *taken, const char **why);
};

const struct sim_api *tandem_sim_api(void);

void sim_to_super(const struct sim_geometry *g, struct td_super *sb);
struct sim_full *sim_full_new(const struct sim_geometry *g);
void sim_full_read(const struct sim_full *f, u64 sector, u32 sectors, u8 *bytes);
void sim_full_free(struct sim_full *f);

#endif
