// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A module with one bug of each kind that the debug kernels must report.
 *
 * Loading it with bug=<kind> makes the bug happen; a test kernel that stays
 * silent has lost a detector, and its green results would mean nothing.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>

static char *bug = "";
module_param(bug, charp, 0);
MODULE_PARM_DESC(bug, "out-of-bounds, use-after-free, shift, leak, abba, sleep, processor or warn");

static DEFINE_MUTEX(lock_a);
static DEFINE_MUTEX(lock_b);
static DEFINE_SPINLOCK(spin);

/* Read with READ_ONCE(), so that the compiler cannot know the values. */
static int offset = 64;
static int shift = 40;
static void *leaked;

static void out_of_bounds(void)
{
	char *bytes = kmalloc(64, GFP_KERNEL);

	if (bytes)
		WRITE_ONCE(bytes[READ_ONCE(offset)], 1);
	kfree(bytes);
}

static void use_after_free(void)
{
	char *bytes = kmalloc(64, GFP_KERNEL);

	kfree(bytes);
	if (bytes)
		WRITE_ONCE(bytes[8], 1);
}

static void leak(void)
{
	WRITE_ONCE(leaked, kmalloc(1000, GFP_KERNEL));
	WRITE_ONCE(leaked, NULL);
}

static void abba(void)
{
	mutex_lock(&lock_a);
	mutex_lock(&lock_b);
	mutex_unlock(&lock_b);
	mutex_unlock(&lock_a);
	mutex_lock(&lock_b);
	mutex_lock(&lock_a);
	mutex_unlock(&lock_a);
	mutex_unlock(&lock_b);
}

static void sleep_in_atomic(void)
{
	spin_lock(&spin);
	msleep(1);
	spin_unlock(&spin);
}

static int __init injector_init(void)
{
	if (!strcmp(bug, "out-of-bounds"))
		out_of_bounds();
	else if (!strcmp(bug, "use-after-free"))
		use_after_free();
	else if (!strcmp(bug, "shift"))
		WRITE_ONCE(offset, 1 << READ_ONCE(shift));
	else if (!strcmp(bug, "leak"))
		leak();
	else if (!strcmp(bug, "abba"))
		abba();
	else if (!strcmp(bug, "sleep"))
		sleep_in_atomic();
	else if (!strcmp(bug, "processor"))
		/* The thread may be on another processor at once; seen where there are several. */
		WRITE_ONCE(offset, smp_processor_id());
	else if (!strcmp(bug, "warn"))
		WARN_ON(1);
	else if (strcmp(bug, "nothing"))
		return -EINVAL;
	return 0;
}

static void __exit injector_exit(void)
{
}

module_init(injector_init);
module_exit(injector_exit);
MODULE_DESCRIPTION("Bugs that the kernel's detectors must find");
MODULE_LICENSE("GPL");
