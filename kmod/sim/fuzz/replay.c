// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program that gives files to a target, one after the other, to see what they reach.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* No longer than libFuzzer makes them. */
static unsigned char input[2048];

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		size_t size;

		if (!file) {
			perror(argv[i]);
			return EXIT_FAILURE;
		}
		size = fread(input, 1, sizeof(input), file);
		fclose(file);
		LLVMFuzzerTestOneInput(input, size);
	}
	return EXIT_SUCCESS;
}
