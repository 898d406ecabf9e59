// SPDX-License-Identifier: GPL-2.0-or-later
/* Torn writes from some seeds (shim/torn.c), as a program of their own. */
#include "../shim/torn.h"

int main(void)
{
	for (u64 seed = 0; seed < 4; seed++)
		sim_torn(seed);
	return 0;
}
