// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A device that takes as long to suspend as it is told.
 *
 * When devices are suspended, all is frozen that can be, as while a hibernation
 * writes its image; what is not frozen goes on meanwhile. (The kernel's own pause,
 * pm_test_delay, keeps a single processor busy before Linux 6.13.)
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/pm.h>
#include <linux/time64.h>

static unsigned int seconds;
module_param(seconds, uint, 0644);
MODULE_PARM_DESC(seconds, "how long it takes to suspend");

static int sleeper_suspend(struct device *dev)
{
	unsigned long us = seconds * USEC_PER_SEC;

	/* Exactly: what a long msleep() adds is worth many requests. */
	usleep_range(us, us + 1);
	return 0;
}

static const struct dev_pm_ops sleeper_ops = {
	.suspend = sleeper_suspend,
};

static struct platform_driver sleeper_driver = {
	.driver = {
		.name = "tandem-sleeper",
		.pm = &sleeper_ops,
	},
};

static struct platform_device *sleeper;

static int __init sleeper_init(void)
{
	int r = platform_driver_register(&sleeper_driver);

	if (r)
		return r;
	sleeper = platform_device_register_simple("tandem-sleeper", -1, NULL, 0);
	if (!IS_ERR(sleeper))
		return 0;
	platform_driver_unregister(&sleeper_driver);
	return PTR_ERR(sleeper);
}

static void __exit sleeper_exit(void)
{
	platform_device_unregister(sleeper);
	platform_driver_unregister(&sleeper_driver);
}

module_init(sleeper_init);
module_exit(sleeper_exit);
MODULE_DESCRIPTION("A device that takes long to suspend");
MODULE_LICENSE("GPL");
