/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A ring of links that lie inside what they link: no allocation, O(1) insert
 * and removal. The caller holds the ring's lock; any context.
 */
#ifndef TANDEM_LINK_H
#define TANDEM_LINK_H

#include "env.h"

struct td_link {
	struct td_link *next, *prev;
};

static inline void td_link_init(struct td_link *l)
{
	l->next = l;
	l->prev = l;
}

static inline void td_link_add_tail(struct td_link *head, struct td_link *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static inline void td_link_del(struct td_link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	td_link_init(l);
}

/* All of @from go behind all of @to; @from is empty then. */
static inline void td_link_move_all(struct td_link *to, struct td_link *from)
{
	if (from->next == from)
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	td_link_init(from);
}

#endif
