// SPDX-License-Identifier: GPL-2.0-or-later
/* 6.4: hex2bin() moved out of linux/kernel.h */
#include <linux/hex.h>

int probe(u8 *to, const char *from);
int probe(u8 *to, const char *from)
{
	return hex2bin(to, from, 1);
}
