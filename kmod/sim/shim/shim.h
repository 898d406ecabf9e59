/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Core as a table of functions, so that the simulator can run the core that it
 * was linked with, or one that it built later: a mutant, or one under
 * sanitizers. src/engine.rs has the same declarations; keep them together.
 */
#ifndef TANDEM_SIM_SHIM_H
#define TANDEM_SIM_SHIM_H

#include "engine.h"
#include "super.h"

#define SIM_API_VERSION	1

struct sim_engine;

/* A td_req with its parts and the simulator's number for it. */
struct sim_request;

struct sim_woken {
	u64 id;
	u32 actions;
};

struct sim_api {
	u32 version;
	u32 shown;	/* TD_NR_SHOWN */
	u32 used;	/* TD_C_USED */
	u32 why_memory_read;
	u32 why_memory_write;
	const char *(*counter_name)(unsigned int which);
	bool (*plan)(u64 origin_sectors, u64 ssd_sectors, u32 block_sectors,
		     struct td_layout *layout);
	struct sim_engine *(*engine_new)(const struct td_layout *layout,
					 u32 mode);
	void (*engine_free)(struct sim_engine *engine);
	void (*set_mode)(struct sim_engine *engine, u32 mode);
	bool (*active)(struct sim_engine *engine);
	u64 (*counter)(struct sim_engine *engine, u32 which);
	u64 (*word)(struct sim_engine *engine, u32 slot);
	u32 (*group_of)(struct sim_engine *engine, u64 sector);
	u32 (*bucket_of)(struct sim_engine *engine, u64 sector);
	u32 (*read_look)(struct sim_engine *engine, u64 sector, u32 count,
			 struct td_look *look);
	bool (*write_wants_copy)(struct sim_engine *engine, u64 sector,
				 u32 count);
	void (*span_of)(struct sim_engine *engine, u32 kind, u64 sector,
			u32 count, struct td_span *span);
	void (*pass)(struct sim_engine *engine, u32 kind, u32 count, u32 why);
	/*
	 * @parts 0: without private memory, unless it is a read; @no_memory:
	 * there should have been some.
	 */
	struct sim_request *(*request_new)(u64 id, u32 kind, u64 sector,
					   u32 count, u32 parts,
					   bool no_memory);
	void (*request_free)(struct sim_request *request);
	void (*request_span)(const struct sim_request *request, u64 *sector,
			     u32 *count);
	u32 (*begin)(struct sim_engine *engine, struct sim_request *request);
	/* The done functions fill *woken up to @room and set *count. */
	u32 (*disk_done)(struct sim_engine *engine, struct sim_request *request,
			 bool ok, struct sim_woken *woken, size_t room,
			 size_t *count);
	u32 (*ssd_done)(struct sim_engine *engine, struct sim_request *request,
			bool ok, struct sim_woken *woken, size_t room,
			size_t *count);
	bool (*next_extent)(struct sim_engine *engine,
			    const struct sim_request *request, u32 *cursor,
			    struct td_extent *extent);
	bool (*unpin)(struct sim_engine *engine, u32 slot);
	u32 (*drained)(struct sim_engine *engine, u32 bucket, u32 slot,
		       u64 *owner);
	bool (*fail)(struct sim_engine *engine);
	void (*hit_failed)(struct sim_engine *engine, u32 count);
	void (*forget_group)(struct sim_engine *engine, u32 group);
	/* words/words.h */
	u32 (*scenarios)(void);
	const char *(*scenario_name)(u32 scenario);
	u32 (*scenario_run)(u32 scenario, u8 *choices, u8 *widths, size_t given,
			    size_t room, bool (*met)(void *context, u64 state),
			    void *context, size_t *taken, const char **why);
};

const struct sim_api *tandem_sim_api(void);

#endif
