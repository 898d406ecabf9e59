// SPDX-License-Identifier: GPL-2.0-or-later
/* 6.12.y, 6.17: per-CPU workqueues must say so */
#include <linux/workqueue.h>

struct workqueue_struct *probe(void);
struct workqueue_struct *probe(void)
{
	return alloc_workqueue("probe", WQ_PERCPU, 0);
}
