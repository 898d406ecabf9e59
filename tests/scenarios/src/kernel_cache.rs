// SPDX-License-Identifier: GPL-3.0-or-later
//! A kernel that cannot load the module: dm-cache serves the cache. The service is killed in its jobs, the SSD is pulled out,
//! the disk is changed without its cache, and the machine is switched off and on.

use anyhow::{Result, ensure};

use super::kept::{BOOT, KeptMachine, Wiring};
use super::scene::machine_with_root;
use tandem_guest::disks::{self, Scratch};
use tandem_guest::guest::{LONG, SHORT};
use tandem_guest::vm::{Parts, Vm};
use tandem_harness::layer::Run;

/// Size of each disk in MiB.
const MIB: u64 = 256;
/// Serial numbers of the disk and of the SSD.
const SERIALS: [&str; 2] = ["KCDISK01", "KCSSD001"];

/// The case that begins with a machine of its own.
const BY_FSTAB: &str =
    "a disk of fstab: warm after a restart, and right after a start without its SSD";
/// Blocks of 64 KiB that the files of the disk in fstab need at least.
const BLOCKS: u64 = 200;

/// Script that prints how many blocks of dm-cache hold copies.
pub(crate) const USED: &str = "set -- $(dmsetup status --target cache); echo ${8%/*}";
/// Begins a script on a machine that cannot load the module.
pub(crate) const WITHOUT_MODULE: &str = r#"rmmod dm_tandem 2>/dev/null || true
find /lib/modules/$(uname -r) -name 'dm-tandem.ko*' -delete
depmod
"#;
/// The file system is on a partition that is smaller than the disk, so that it can grow.
const MAKE: &str = r#"set -e
printf 'label: gpt\n,128M,L\n' | sfdisk -q /dev/DISK
udevadm settle
mke2fs -q -t ext4 /dev/DISK1
mkdir -p /srv/films
mount /dev/DISK1 /srv/films
for n in 1 2 3 4; do dd if=/dev/urandom of=/srv/films/$n bs=1M count=8 conv=fsync status=none; done
(cd /srv/films; sha256sum 1 2 3 4 >/root/sums)"#;
/// Without the module dm-tandem is refused, and each mode of dm-cache but write-through. At the next start it can serve as well.
const REFUSED: &str = r#"set -e
refused() { code=0; tandemctl plan --erase-ssd "$@" DISK1 SSD || code=$?; [ $code = 3 ]; }
tandemctl plan --erase-ssd --kernel-cache DISK1 SSD
tandemctl plan --erase-ssd --kernel-cache --at-next-start DISK1 SSD
if tandemctl create --yes --erase-ssd DISK1 SSD; then exit 1; fi
refused --kernel-cache --mode writeback
refused --kernel-cache --mode writearound
if dmsetup ls | grep -q -e tandem -e TDPART; then exit 1; fi"#;
/// Sets the cache up. In the middle of it the service is killed once: then nothing is left, and the disk is as before.
const CREATE: &str = r#"set -e
CREATED & job=$!
for _ in $(seq 400); do dmsetup ls | grep -q TDPART && break; done
systemctl kill --signal KILL tandem.service
[ -n "$(ls /var/lib/tandem/jobs)" ]
kill $job || true; wait $job || true
systemctl start tandem
for _ in $(seq 300); do
	[ -z "$(ls /var/lib/tandem/jobs 2>/dev/null)" ] && findmnt /srv/films >/dev/null && break
	sleep 0.2
done
SUMS
if ! findmnt -no SOURCE /srv/films | grep mapper/tandem; then
	if dmsetup ls | grep -e tandem -e TDPART; then exit 1; fi
	CREATED
fi
CACHED
SUMS
tandemctl status
tandemctl --json list | tr -d ' \n' | grep '"others":\[\]' >/dev/null"#;
/// Hits are served: after some reads the second look finds them.
const HITS: &str = r#"set -e
for _ in 1 2 3 4; do SUMS; done
set -- $(dmsetup status --target cache)
echo "$@"
hits=$9
SUMS
set -- $(dmsetup status --target cache)
echo "$@"
[ $9 -gt $hits ] && [ ${15} = 0 ]"#;
/// The cache is stopped and its disk noted as at the end of a shutdown. Its next start has its copies.
const KEPT: &str = r#"set -e
ENDED
systemctl start tandem
until dmsetup ls --target cache | grep -q tandem; do sleep 0.2; done
WARM
until mount /dev/mapper/tandem-* /srv/films 2>/dev/null; do sleep 0.2; done
SUMS"#;
/// The disk is changed without its cache after such a stop: the cache does not serve its old copies.
const CHANGED: &str = r#"set -e
ENDED
mount /dev/DISK1 /srv/films
dd if=/dev/urandom of=/srv/films/1 bs=1M count=8 conv=notrunc,fsync status=none
(cd /srv/films; sha256sum 1 2 3 4 >/root/sums)
umount /srv/films
systemctl start tandem
until dmsetup ls --target cache | grep -q tandem; do sleep 0.2; done
COLD
until mount /dev/mapper/tandem-* /srv/films 2>/dev/null; do sleep 0.2; done
CACHED
SUMS; SUMS"#;
/// The SSD was pulled out under the mounted file system. Until the service lets it go, dm-cache answers with errors, which the
/// file system may note.
const PULLED: &str = r#"set -e
until dmsetup table | grep tandem | grep -q linear; do sleep 0.2; done
SUMS
dd if=/dev/urandom of=/srv/films/2 bs=1M count=8 conv=notrunc,fsync status=none
(cd /srv/films; sha256sum 1 2 3 4 >/root/sums)
tandemctl status
if dmsetup ls | grep TDPART; then exit 1; fi"#;
/// It is back: the cache uses it again, without its old copies.
const BACK: &str = r#"set -e
until dmsetup ls --target cache | grep -q tandem; do sleep 0.2; done
SUMS; SUMS
dmsetup status --target cache"#;
/// The partition grows with its file system, while it is mounted.
const GROWN: &str = r#"set -e
echo ',200M' | sfdisk -q -N 1 --no-reread --force /dev/DISK || true
partx -u /dev/DISK
want=$(cat /sys/class/block/DISK1/size)
[ $want = 409600 ]
for _ in $(seq 150); do [ "$(blockdev --getsz /dev/mapper/tandem-*)" = $want ] && break; sleep 0.2; done
[ "$(blockdev --getsz /dev/mapper/tandem-*)" = $want ]
resize2fs /dev/mapper/tandem-*
SUMS
dd if=/dev/urandom of=/srv/films/5 bs=1M count=60 conv=fsync status=none
dmsetup status --target cache"#;
/// After a start of the machine.
const STARTED: &str = r#"set -e
until dmsetup ls --target cache | grep -q tandem; do sleep 0.2; done
BEGINNING
mkdir -p /srv/films
until findmnt /srv/films || mount /dev/mapper/tandem-* /srv/films 2>/dev/null; do sleep 0.2; done
SUMS; SUMS
set -- $(dmsetup status --target cache); echo "$@"
tandemctl status"#;
/// Removed under a program that uses the file system, with a killed service in between.
const REMOVED: &str = r#"set -e
sleep 1000 </srv/films/3 & user=$!
tandemctl remove --yes & job=$!
for _ in $(seq 400); do [ -n "$(ls /var/lib/tandem/jobs 2>/dev/null)" ] && break; done
systemctl kill --signal KILL tandem.service
[ -n "$(ls /var/lib/tandem/jobs)" ]
wait $job || true
systemctl start tandem
for _ in $(seq 300); do
	[ -z "$(ls /var/lib/tandem/jobs 2>/dev/null)" ] && dmsetup table | grep tandem | grep -q linear && break
	tandemctl remove --yes || true
	sleep 0.5
done
dmsetup table | grep tandem | grep linear
if dmsetup ls | grep TDPART; then exit 1; fi
SUMS
kill $user; wait $user || true
umount /srv/films
while name=$(dmsetup ls | sed -n 's/^\(tandem-[^ 	]*\).*/\1/p') && [ -n "$name" ]; do dmsetup remove --retry $name || true; sleep 0.2; done
mount /dev/DISK1 /srv/films
SUMS
umount /srv/films
e2fsck -fp /dev/DISK1 || [ $? = 1 ]
e2fsck -fn /dev/DISK1
tandemctl --json plan --erase-ssd DISK1 SSD 2>&1 | head -c 300
if blkid -p /dev/SSD | grep tandem; then exit 1; fi"#;
/// What a shutdown does with the mappings and the disk.
const ENDED: &str = r#"systemctl stop tandem
umount /srv/films
number() { dd if=/dev/DISK1 bs=4096 count=1 iflag=direct status=none | od -An -t u$1 -j $2 -N $1 | tr -d ' '; }
uuid=$(dmsetup info -c --noheadings -o uuid | sed -n 's/^TANDEM-//p')
set -- $(dmsetup table --target cache)
now=$(sed 's/[.].*/000000/' /proc/uptime)
echo '{"time":'$now',"caches":[{"uuid":"'$uuid'","disk":"'$7'","ssd":"'$(cat /sys/class/block/SSD/dev)'","sectors":'$3',"mounted":{"time":'$(number 4 1068)',"count":'$(number 2 1076)'}}]}' >/run/tandem/in-force.json
for name in $(dmsetup ls | sed -n 's/^\(tandem-[^ 	]*\|TDPART-[^ 	]*\).*/\1/p' | sort -r); do dmsetup remove --retry $name; done
/usr/libexec/tandem-assemble note
[ ! -e /run/tandem/in-force.json ]"#;
/// No other program removes the mappings at a shutdown then.
const ALONE: &str = r#"mkdir -p /run/systemd/system/blk-availability.service.d
printf '[Service]\nExecStop=\n' >/run/systemd/system/blk-availability.service.d/nothing.conf
systemctl daemon-reload"#;
/// A script for these devices.
fn script(text: &str, names: &[String; 2]) -> String {
    let words = [
        (
            "CACHED",
            "findmnt -no SOURCE /srv/films | grep mapper/tandem",
        ),
        (
            "SUMS",
            "{ echo 3 >/proc/sys/vm/drop_caches; (cd /srv/films && sha256sum --check --quiet /root/sums); }",
        ),
        (
            "CREATED",
            "tandemctl create --yes --erase-ssd --kernel-cache DISK1 SSD",
        ),
        ("ENDED", ENDED),
        ("WARM", "BEGUN; [ ${8%/*} -gt 100 ]"),
        ("COLD", "BEGUN; [ ${8%/*} -lt 100 ]"),
        (
            "BEGUN",
            r#"set -- $(dmsetup status --target cache); echo "$@""#,
        ),
        ("DISK", &names[0]),
        ("SSD", &names[1]),
    ];
    words.iter().fold(text.to_owned(), |text, (word, with)| {
        text.replace(word, with)
    })
}

/// Runs the layer.
pub fn run(run: &mut Run) -> Result<()> {
    if run.wants(BY_FSTAB) {
        let done = by_fstab(run);
        run.check(BY_FSTAB, done);
    }
    if run.is_done() {
        return Ok(());
    }
    let parts = Parts::get(run.cx)?;
    let scratch = Scratch::new()?;
    let (dir, mut vm) = machine_with_root(run, &parts, &scratch)?;
    let [disk, ssd] = [(SERIALS[0], 0, false), (SERIALS[1], 1, true)].map(|(serial, n, is_ssd)| {
        disks::empty(
            scratch.path(),
            serial,
            0x5000_c500_0000_0300 + n,
            MIB,
            is_ssd,
        )
    });
    let (disk, ssd) = (disk?, ssd?);
    vm.plug(&disk)?;
    vm.plug(&ssd)?;
    let names = [vm.device(SERIALS[0])?, vm.device(SERIALS[1])?];
    let step = |vm: &mut Vm, name: &str, text: &str, run: &mut Run| {
        checked(vm, &names, name, text, run);
    };
    run.note(
        &vm.agent
            .sh(&format!("{WITHOUT_MODULE}{}", script(MAKE, &names)), LONG)?,
    );
    step(&mut vm, "without the module", REFUSED, run);
    step(&mut vm, "set up, with a killed service", CREATE, run);
    step(&mut vm, "hits are served from the SSD", HITS, run);
    step(&mut vm, "a stop in order keeps the copies", KEPT, run);
    // promise 13: vm-kernel-cache/what was changed without the cache is read
    step(
        &mut vm,
        "what was changed without the cache is read",
        CHANGED,
        run,
    );
    step(&mut vm, "the disk grows in use", GROWN, run);
    vm.unplug(&ssd)?;
    step(
        &mut vm,
        "the SSD is pulled out under a mounted file system",
        PULLED,
        run,
    );
    vm.plug_again(&ssd)?;
    step(&mut vm, "the SSD is back", BACK, run);
    run.note(&vm.off_by("systemctl poweroff")?);
    let started = |run: &Run| -> Result<(Vm, [String; 2])> {
        let mut vm = Vm::power_on(run.cx, &parts, &dir)?;
        vm.up(BOOT)?;
        vm.plug(&disk)?;
        vm.plug(&ssd)?;
        let names = [vm.device(SERIALS[0])?, vm.device(SERIALS[1])?];
        Ok((vm, names))
    };
    let begins = |with: &str| STARTED.replace("BEGINNING", with);
    let (mut vm, names) = started(run)?;
    let name = "the machine was switched off in order: the cache starts warm";
    checked(&mut vm, &names, name, &begins("WARM"), run);
    vm.agent.sh(ALONE, SHORT)?;
    run.note(&vm.off_by("systemctl poweroff")?);
    let (mut vm, names) = started(run)?;
    let name = "so it does where systemd alone removes the mapping";
    checked(&mut vm, &names, name, &begins("WARM"), run);
    // Without a stop.
    drop(vm);
    let (mut vm, names) = started(run)?;
    let name = "the power was cut: the cache starts empty";
    checked(&mut vm, &names, name, &begins("COLD"), run);
    let name = "removed in use, with a killed service";
    checked(&mut vm, &names, name, REMOVED, run);
    Ok(())
}

/// Through the start and the shutdown of the system, with a disk that fstab names.
fn by_fstab(run: &Run) -> Result<()> {
    let mut machine = KeptMachine::new(run, Wiring::HotPlug)?;
    let serials = [machine.pair.origin.serial, machine.pair.ssd.serial];
    let [disk, ssd] = serials.map(|serial| machine.vm()?.device(serial));
    let create = format!(
        "tandemctl create --yes --erase-ssd --kernel-cache {}1 {}",
        disk?, ssd?
    );
    machine.sh(&format!("tandemctl remove --yes; {WITHOUT_MODULE}{create}"))?;
    // dm-cache takes what was read once or twice.
    for _ in 0..3 {
        machine.all_there()?;
    }
    let before = machine.sh(USED)?;
    machine.power_off(run)?;
    machine.power_on(run, true)?;
    is_warm(run, &before, &machine.sh(USED)?)?;
    let source = machine.source()?;
    ensure!(
        source.starts_with("/dev/mapper/tandem-"),
        "mounted from '{source}'"
    );
    machine.all_there()?;
    machine.power_off(run)?;
    machine.power_on(run, false)?;
    let source = machine.source()?;
    ensure!(source.starts_with("/dev/sd"), "mounted from '{source}'");
    machine.save("without-the-ssd")?;
    machine.power_off(run)?;
    machine.power_on(run, true)?;
    let source = machine.source()?;
    ensure!(
        source.starts_with("/dev/mapper/tandem-"),
        "mounted from '{source}'"
    );
    machine.all_there()?;
    machine.all_there()
}

/// Whether dm-cache has after a restart what it had before, by what [`USED`] has printed.
pub(crate) fn is_warm(run: &Run, before: &str, after: &str) -> Result<()> {
    run.note(&format!(
        "{before} blocks before the restart, {after} after"
    ));
    let [before, after]: [u64; 2] = [before.parse()?, after.parse()?];
    ensure!(before > BLOCKS, "{before} blocks hold copies");
    ensure!(
        after * 10 > before * 9,
        "{before} blocks, and {after} after the restart"
    );
    Ok(())
}

/// Runs a script for these devices as a case of the layer.
fn checked(vm: &mut Vm, names: &[String; 2], name: &str, text: &str, run: &mut Run) {
    let done = seen(vm, &script(text, names), run);
    run.check(name, done);
}

/// Runs a script. After a failure the state of the machine is noted.
fn seen(vm: &mut Vm, script: &str, run: &Run) -> Result<()> {
    let done = vm.agent.sh(script, LONG).map(|told| run.note(&told));
    if done.is_err() {
        let told = "journalctl --no-pager -o short-monotonic -u tandem | tail -40; dmsetup info -c; dmsetup table; dmsetup status; \
            findmnt /srv/films; lsblk; ls -la /var/lib/tandem/*; dmesg | tail -30; exit 0";
        run.note(&vm.agent.sh(told, SHORT)?);
    }
    done
}
