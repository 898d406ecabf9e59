/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A request in flight, the actions that the engine asks for, and lists of requests that an
 * event woke. Which action follows which event: engine.h.
 */
#ifndef TANDEM_REQUEST_H
#define TANDEM_REQUEST_H

#include "link.h"

enum td_kind {
	TD_READ,
	TD_WRITE,
	TD_DISCARD,	/* and zero-outs */
	TD_FLUSH,
	TD_CLEAN,
};

/* Actions: bits of what td_begin() and the *_done() functions return. */
#define TD_DO_DISK	0x01u	/* disk I/O of the span; tell td_disk_done() */
#define TD_DO_SSD	0x02u	/* write all extents; tell td_ssd_done() once */
#define TD_DO_ANSWER	0x04u	/* answer the user, EIO if td_failed() */
#define TD_DO_RETRY	0x08u	/* read the user's own range from the disk */
#define TD_DO_END	0x10u	/* core has forgotten the request: free it */
#define TD_DO_PASS	0x20u	/* core keeps nothing: send it to the disk as it is */
#define TD_DO_FETCH	0x40u	/* read all extents; tell td_ssd_done() once */
#define TD_DO_START	0x80u	/* call td_start() */
#define TD_DO_SUM	0x100u	/* call td_summed(); comes alone, never by td_woken() */
/* Core has forgotten the request: begin again with a copy; alone, never by td_woken(). */
#define TD_DO_COPY	0x200u
#define TD_DO_MERGE	0x400u	/* read what edge.h says; comes alone, never by td_woken() */

/*
 * One frame of a request that has a slot. Immutable from the request's first
 * action on, but for the last three fields (lock held).
 */
struct td_part {
	u32 slot;
	u8 frame;	/* offset from the request's first frame */
	u8 from, to;	/* sectors of the frame to be moved */
	u8 mask;	/* quarters to be published, or cleaned */
	bool held;	/* the slot's pins must drain before it is written */
	bool cancelled;
};

/*
 * A request in flight, in the caller's memory; core uses it from td_begin() until
 * END (or PASS). The fields are core's, but for those marked "caller" and those that
 * td_req_init() sets. @next links the request in a td_list, and is the caller's
 * after the caller took the request from the list.
 */
struct td_req {
	struct td_link link;	/* its bucket's ring */
	struct td_link gate;	/* waits for a sweep, a mark or a cleaning */
	struct td_link flush_gate;	/* waits for a flush of the disk */
	struct td_req *next;
	u64 sector;		/* the user's range; a cleaning's span */
	u64 reach;		/* caller, of a discard: requests side by side follow up
				 * to here, and marks are set ahead; 0: none
				 */
	u64 span_sector;	/* what is read from or written to the disk */
	u64 sweep;		/* number of the sweep that it waits for */
	u64 summing;		/* SUM: quarter of the disk */
	u64 round;		/* of an urgent write: the one that last looked at it */
	u32 count;
	u32 span_count;
	u32 fresh;		/* quarters that it made dirty, and is writing */
	u32 bucket;
	struct td_part *parts;	/* room for max_parts, or NULL: no copy */
	u8 max_parts;
	u8 nr_parts;
	u8 holds;		/* parts that are held */
	u8 kind;
	u8 phase;
	u8 pending;
	u8 woken;		/* actions that it was woken with */
	u8 then;		/* actions when its sweep is done */
	u8 gates;		/* of a flush: those that are closed */
	u8 asks;		/* edges whose rest is being read (edge.h) */
	u8 rests;		/* edges whose rest is in the memory */
	bool fua;		/* caller */
	bool whole;		/* caller, of a flush: what was forgotten is durable, too */
	bool no_memory;		/* caller: a copy was wanted but there is none */
	bool stream;		/* caller: td_write_streams(), so there is no copy */
	bool lent;		/* caller: one part, but no copy. What the user has goes to
				 * one device alone: to the SSD, or, if that fails, the disk
				 */
	bool writeback;		/* goes to the SSD alone */
	bool durable;		/* its write to the SSD is to have FUA (B10) */
	bool no_writeback;	/* write-back failed: to the disk */
	bool no_rest;		/* caller, or the disk cannot: no rest is read */
	bool uncleaned;		/* its cleaning failed: no limit holds it (B8) */
	bool counted;		/* in its region's inflight */
	bool drops;		/* a discard that drops dirty quarters */
	bool failed;		/* EIO, or the disk's answer to a fill */
	bool ssd_failed;
};

/*
 * Set up @r in memory that need not be zeroed. @parts NULL: no private
 * memory, unless the write is lent; a TD_READ or TD_CLEAN always has parts. The caller
 * then sets fua, whole, no_memory, stream and lent.
 */
void td_req_init(struct td_req *r, enum td_kind kind, u64 sector, u32 count,
		 struct td_part *parts, u32 max_parts);

/* Must the request be answered with EIO? Valid with ANSWER. No lock. */
static inline bool td_failed(const struct td_req *r)
{
	return r->failed;
}

/* Must the SSD write of @r be durable when it has ended (FUA)? No lock; from SSD on. */
static inline bool td_stores_durably(const struct td_req *r)
{
	return r->durable;
}

/* Requests that an event woke; td_woken() has their actions. */
struct td_list {
	struct td_req *head;
	struct td_req **tail;
};

void td_list_init(struct td_list *list);
/* NULL when empty. The list is the calling thread's own; no lock. */
struct td_req *td_list_pop(struct td_list *list);

/* Actions of a request taken from a td_list. No lock. */
u32 td_woken(const struct td_req *r);

#endif
