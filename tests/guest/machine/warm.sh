# SPDX-License-Identifier: GPL-3.0-or-later
# Run in the guest after the installation: has in memory what every scenario starts first, as it is on a desktop on
# which the programs were used before.
set -eu
programs="/usr/bin/tandem /usr/libexec/tandem-helper /usr/local/bin/tandem-e2e"
# shellcheck disable=SC2046,SC2086
cat $programs $(ldd $programs | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u) >/dev/null
cat /usr/share/fonts/opentype/cantarell/* /usr/share/icons/Adwaita/icon-theme.cache /usr/share/icons/hicolor/icon-theme.cache \
	/usr/share/glib-2.0/schemas/gschemas.compiled /usr/share/mime/mime.cache 2>/dev/null >/dev/null || true
# The root disk alone is a machine with the project installed.
sync
