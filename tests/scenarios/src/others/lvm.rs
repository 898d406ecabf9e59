// SPDX-License-Identifier: GPL-3.0-or-later
//! A cache of LVM is written back alone, and stays in write-back: also if the service is killed or the work is canceled meanwhile.

/// What the scripts share. LVM keeps the group for itself while it writes back, so nothing asks it then.
pub(super) const SHARED: &str = r#"set -e
volume=films/my-movies mapping=films-my--movies place=/srv/0 notes=/var/lib/tandem/modes
mode() { lvs --noheadings -o cache_mode $volume | tr -d ' '; }
dirty() { dmsetup status $mapping | awk '{ print $14 }'; }
fill() {
	for _ in 1 2 3; do
		dd if=/dev/urandom of=$place/more bs=64k count=160 conv=notrunc,fsync status=none
		[ "$(dirty)" -le 80 ] || break
	done
	sha256sum $place/file $place/more >/root/sums-lvm
	dmsetup status $mapping
	[ "$(dirty)" -gt 8 ]
}
begin() {
	tandemctl flush $volume & job=$!
	for _ in $(seq 400); do
		if dmsetup table $mapping | grep -q cleaner; then return 0; fi
		sleep 0.05
	done
	return 1
}
# Nobody writes, but the file system may for a moment.
clean() {
	for _ in $(seq 10); do
		if [ "$(dirty)" = 0 ]; then return 0; fi
		sleep 0.2
	done
	return 1
}
followed() {
	for _ in $(seq 300); do
		[ -n "$(ls $notes 2>/dev/null)" ] || break
		tandemctl list >/dev/null || true
		sleep 0.2
	done
	[ -z "$(ls $notes 2>/dev/null)" ]
}
as_before() {
	[ "$(mode)" = writeback ]
	dmsetup table $mapping
	dmsetup table $mapping | grep -q ' writeback '
	if dmsetup table $mapping | grep cleaner; then return 1; fi
	if systemctl list-units --all --no-legend 'tandem-lv*' | grep .; then return 1; fi
	echo 3 >/proc/sys/vm/drop_caches
	sha256sum --check --quiet /root/sums-lvm
}
"#;

/// What is tried, in this order, while the disk is slow: it needs many seconds for what [`SHARED`] saves.
pub(super) const TRIED: [[&str; 2]; 4] = [
    [
        "LVM: a cache is written back and stays in write-back",
        r#"lvchange -q -y --cachemode writeback $volume
fill
tandemctl flush $volume
clean
as_before
[ -z "$(ls $notes)" ]
if tandemctl flush mail/box; then exit 1; fi
lvs --noheadings -o segtype mail/box | grep -q writecache"#,
    ],
    [
        "LVM: the next service follows a write-back and puts the mode back",
        r#"fill
begin
ls $notes/*.json
systemctl kill --signal KILL tandem.service
wait $job || true
followed
clean
as_before"#,
    ],
    [
        "LVM: a service that starts long after the write-back puts the mode back",
        r#"fill
begin
kill -KILL $job
wait $job || true
pid=$(systemctl show --property MainPID --value tandem.service)
systemctl mask --runtime tandem.service
kill -KILL $pid
systemctl stop tandem.service || true
for _ in $(seq 600); do if [ "$(mode)" = writethrough ]; then break; fi; sleep 0.2; done
[ "$(mode)" = writethrough ]
ls $notes/*.json
systemctl unmask --runtime tandem.service
systemctl reset-failed tandem.service || true
tandemctl list
followed
as_before"#,
    ],
    [
        "LVM: a canceled write-back leaves the cache in write-back",
        r#"fill
begin
id=$(dmsetup info -c --noheadings -o uuid $mapping)
path=
for each in $(busctl --list tree org.tandemcache.Tandem1 | grep -E '/jobs/[0-9]+$'); do
	of=$(busctl get-property org.tandemcache.Tandem1 "$each" org.tandemcache.Tandem1.Job CacheUuid || true)
	if [ "$of" = "s \"$id\"" ]; then path=$each; fi
done
[ -n "$path" ]
busctl call org.tandemcache.Tandem1 "$path" org.tandemcache.Tandem1.Job Cancel
if wait $job; then echo "the write-back was not canceled"; exit 1; fi
as_before
[ -z "$(ls $notes)" ]
lvchange -q -y --cachemode writethrough $volume"#,
    ],
];

/// Script that prints the last hour of a cache of LVM and of one of bcache, as soon as the service has looked twice.
pub(super) const HISTORY: &str = r#"set -e
for name in films/my-movies bcache0; do
	for _ in $(seq 60); do
		told=$(tandemctl --json history $name)
		if echo "$told" | grep -q '"start_us"'; then break; fi
		sleep 1
	done
	tandemctl history $name >/root/history
	cat /root/history
	# After the lines of the cache and of the columns.
	sed -n 3p /root/history | grep '/s'
done"#;

/// Size in MiB of the SSD of [`LARGE`].
pub(super) const LARGE_MIB: u64 = 264 << 10;
/// A cache of 256 GiB. LVM takes a volume of that size only with larger blocks than its own.
pub(super) const LARGE: &str = r#"set -e
vgcreate -q large /dev/DISK /dev/SSD
lvcreate -q -y -n data -l 100%PVS large /dev/DISK
lvcreate -q -y -n fast -L 256G large /dev/SSD
convert() { lvconvert -q -y --type cache --cachevol fast "$@" --cachemode writeback large/data; }
if convert; then exit 1; fi
convert --chunksize 512k
mke2fs -q -t ext4 /dev/large/data
mkdir -p /srv/large
mount /dev/large/data /srv/large
dd if=/dev/urandom of=/srv/large/file bs=64k count=64 conv=fsync status=none
sha256sum /srv/large/file >/root/sums-large
for _ in $(seq 150); do
	told=$(tandemctl --json list | tr -d ' \n')
	if echo "$told" | grep -q '"name":"large/data"'; then break; fi
	sleep 0.2
done
bytes=$(echo "$told" | sed 's/"name":"large\/data".*//; s/.*"cache_bytes":\([0-9]*\).*/\1/')
echo "$bytes bytes"
[ "$bytes" -gt 270000000000 ]
tandemctl flush large/data
tandemctl remove --yes large/data
[ "$(lvs --noheadings -o segtype large/data | tr -d ' ')" = linear ]
echo 3 >/proc/sys/vm/drop_caches
sha256sum --check --quiet /root/sums-large
umount /srv/large"#;

/// An SSD that takes no more writes while its cache is written back to a slow disk: the metadata cannot be committed, and the cache fails. LVM by
/// itself would remove the cache, give up what the disk lacks, and say success. Once the SSD works again, all is there.
pub(super) const FAILING: &str = r#"set -e
modprobe dm-flakey
# The label of LVM is seen through the mapping alone.
sectors=$(($(blockdev --getsz /dev/SSD) - 2048))
dmsetup create failing --table "0 $sectors linear /dev/SSD 2048"
vgcreate -q risky /dev/DISK /dev/mapper/failing
lvcreate -q -y -n data -l 100%PVS risky /dev/DISK
lvcreate -q -y -n fast -L 64M risky /dev/mapper/failing
lvconvert -q -y --type cache --cachevol fast --cachemode writeback risky/data
mke2fs -q -t ext4 /dev/risky/data
mkdir -p /srv/risky
mount /dev/risky/data /srv/risky
for _ in 1 2 3; do dd if=/dev/urandom of=/srv/risky/file bs=64k count=160 conv=notrunc,fsync status=none; done
sha256sum /srv/risky/file >/root/sums-risky
[ "$(dmsetup status risky-data | awk '{ print $14 }')" -gt 8 ]
for _ in $(seq 150); do
	if tandemctl list | grep -q risky/data; then break; fi
	sleep 0.2
done
swap() { dmsetup suspend --noflush --nolockfs failing; dmsetup load failing --table "$1"; dmsetup resume failing; }
tandemctl remove --yes risky/data >/root/said 2>&1 & job=$!
for _ in $(seq 400); do
	if dmsetup table risky-data | grep -q cleaner; then break; fi
	sleep 0.05
done
dmsetup table risky-data | grep cleaner
[ "$(dmsetup status risky-data | awk '{ print $14 }')" -gt 8 ]
swap "0 $sectors flakey /dev/SSD 2048 0 3600 1 error_writes"
if wait $job; then cat /root/said; exit 1; fi
cat /root/said
grep 'not yet on the hard disk' /root/said
dmsetup status risky-data
swap "0 $sectors linear /dev/SSD 2048"
[ "$(lvs --noheadings -o segtype risky/data | tr -d ' ')" = cache ]
umount /srv/risky
vgchange -q -an risky
vgchange -q -ay risky
mount /dev/risky/data /srv/risky
sha256sum --check --quiet /root/sums-risky
umount /srv/risky"#;
/// The same cache with an SSD that works, and a disk that is not slow: dm-cache may count all blocks as dirty by now.
pub(super) const WORKING: &str = r#"set -e
tandemctl remove --yes risky/data
[ "$(lvs --noheadings -o segtype risky/data | tr -d ' ')" = linear ]
e2fsck -fp /dev/risky/data || [ $? = 1 ]
mount /dev/risky/data /srv/risky
sha256sum --check --quiet /root/sums-risky
umount /srv/risky"#;
