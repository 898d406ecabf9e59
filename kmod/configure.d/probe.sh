#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# probe.sh OUTPUT FLAGS PROBE.c... : compile each probe; the kernel's flags are
# in one word, since some of them carry quotes.
set -eu
output=$1 flags=$2
shift 2
{
	echo "/* Generated from configure.d; what this kernel has. */"
	for probe; do
		name=$(basename "$probe" .c | tr a-z- A-Z_)
		if eval "$CC $flags" -DMODULE -DKBUILD_MODNAME='\"probe\"' \
			-DKBUILD_BASENAME='\"probe\"' -fsyntax-only \
			'"$probe"' >/dev/null 2>&1; then
			echo "#define HAVE_$name 1"
		fi
	done
	cat "$(dirname "$0")/compat.h.in"
} >"$output"
