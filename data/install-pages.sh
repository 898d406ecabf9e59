#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# install-pages.sh PAGES MANDIR DATADIR: installs what tandemctl-pages has written.
set -eu
pages=$1 man=${DESTDIR:-}$2 data=${DESTDIR:-}$3
install -d "$man/man1"
install -m 644 "$pages"/*.1 "$man/man1/"
for folder in "$pages"/*/; do
	language=$(basename "$folder")
	install -d "$man/$language/man1"
	install -m 644 "$folder"*.1 "$man/$language/man1/"
done
install -D -m 644 "$pages/tandemctl.bash" "$data/bash-completion/completions/tandemctl"
install -D -m 644 "$pages/_tandemctl" "$data/zsh/site-functions/_tandemctl"
install -D -m 644 "$pages/tandemctl.fish" "$data/fish/vendor_completions.d/tandemctl.fish"
