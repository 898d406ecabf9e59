#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Seen with e2fsprogs 1.47.0-2+b2 (Debian 12).
#
# ext4 with metadata_csum ends its superblock with the superblock's own crc32c. The crc32c of all 1024 bytes is then the same number
# whatever the superblock says: for each file system, and after each change. (A checksum that is appended to what it is of leaves the
# same rest; ext4 and iSCSI, btrfs and most storage software use the same polynomial.)
#
# So a program that compares crc32c sums of blocks, to see whether somebody else has used a disk, does not see that somebody has changed
# the label, the mount count or the state of the file system. Folders end with such a sum too.
#
# The script ends with 0 as long as this is so, and with 1 when it has changed. It needs Debian 12 with a network and python3, and no root.
set -eu

version=1.47.0-2+b2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download --quiet --quiet "e2fsprogs=$version"
dpkg-deb --extract ./e2fsprogs_*.deb tools
PATH=$folder/tools/sbin:$PATH

# Prints the crc32c of the superblock of a file, and a sum of another kind.
sums() {
	python3 - "$1" <<'END'
import hashlib, sys
with open(sys.argv[1], "rb") as file:
    block = file.read(2048)[1024:]
rest = 0xFFFFFFFF
for byte in block:
    rest ^= byte
    for _ in range(8):
        rest = rest >> 1 ^ (0x82F63B78 if rest & 1 else 0)
print(f"{rest ^ 0xFFFFFFFF:08x} {hashlib.sha256(block).hexdigest()[:8]}")
END
}

truncate --size=64M one two
mke2fs -q -t ext4 -O metadata_csum one
mke2fs -q -t ext4 -O metadata_csum -L other -m 0 two
{
	sums one
	tune2fs -L label -c 77 one >/dev/null
	sums one
	sums two
} >seen
cat seen
crcs=$(cut -d ' ' -f 1 seen | sort -u | wc -l)
others=$(cut -d ' ' -f 2 seen | sort -u | wc -l)
echo "e2fsprogs $version: 3 superblocks, $crcs crc32c, $others sha256"
[ "$crcs" = 1 ] && [ "$others" = 3 ]
