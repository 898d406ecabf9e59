#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Seen with thin-provisioning-tools 0.9.0-2 (Debian 12).
#
# A cache of dm-cache keeps in its metadata which blocks the hard disk does not have yet. LVM writes format 2 of that metadata.
# cache_restore takes such a block from a valid description and ends with 0. cache_dump of the result says that the hard disk has
# the block (dirty="false"), and ends with 0 as well. With format 1 the same two commands give the block back as it was.
#
# So whoever asks cache_dump 0.9.0 whether an LVM cache may be left out of a machine is told "yes" while data is on the SSD only.
# Version 1.1.0 (Debian 13) tells the truth.
#
# The script ends with 0 as long as this is so, and with 1 when it has changed. It needs Debian 12 with a network, and no root.
set -eu

version=0.9.0-2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download --quiet --quiet "thin-provisioning-tools=$version"
dpkg-deb --extract ./thin-provisioning-tools_*.deb tools

cat >described.xml <<'END'
<superblock uuid="" block_size="128" nr_cache_blocks="64" policy="smq" hint_width="4">
  <mappings>
    <mapping cache_block="0" origin_block="5" dirty="true"/>
    <mapping cache_block="1" origin_block="6" dirty="false"/>
  </mappings>
  <hints>
  </hints>
</superblock>
END

# Prints how many blocks are dirty after the description was written and read again.
dirty_blocks() {
	truncate --size=4M "metadata$1"
	tools/usr/sbin/cache_restore --quiet --metadata-version "$1" --input described.xml --output "metadata$1"
	tools/usr/sbin/cache_check --quiet "metadata$1"
	tools/usr/sbin/cache_dump "metadata$1" | grep --count 'dirty="true"' || true
}

first=$(dirty_blocks 1)
second=$(dirty_blocks 2)
echo "thin-provisioning-tools $version: of 1 dirty block, $first in format 1 and $second in format 2"
[ "$first" = 1 ] && [ "$second" = 0 ]
