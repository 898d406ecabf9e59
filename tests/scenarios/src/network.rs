// SPDX-License-Identifier: GPL-3.0-or-later
//! The slow disk is on the network: NBD and iSCSI. Both servers run in the guest itself, so what they have can be compared
//! with what the cache shows, and the network is cut by switching `lo` off.

mod off;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::time::Duration;

use tandem_guest::disks::{self, Scratch};
use tandem_guest::guest::{LONG, SHORT};
use tandem_guest::vm::{Parts, Screen, Vm};
use tandem_harness::layer::Run;

const MIB: u64 = 256;
const SSD: &str = "NETSSD01";
const TARGET: &str = "iqn.2026-01.org.example:films";
/// How long the network is cut, in seconds. The last one is longer than iSCSI waits, and takes part with `--all` only.
const CUTS: [u64; 3] = [5, 60, 600];

/// A kind of disk on the network. The scripts are commands of the shell.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// The model that the service tells.
    model: &'static str,
    /// Has the server serve `/srv/server/NAME.img`.
    serve: &'static str,
    connect: &'static str,
    /// The same for a disk that gives up at last when the connection is lost.
    patient: &'static str,
    disconnect: &'static str,
    /// Prints the kernel name of the disk for the cache.
    device: &'static str,
    /// The number of the partition with the file system; empty: the whole disk has it.
    partition: &'static str,
}

const ISCSI: &str = "iscsiadm -m node --login; until ls /sys/devices/platform/host*/session*/target*/*/block/*; do sleep 0.1; done";

const KINDS: [Kind; 2] = [
    Kind {
        name: "nbd",
        model: "NBD",
        serve: "modprobe nbd max_part=4; printf '[generic]\nport=10810\n[films]\nexportname=/srv/server/nbd.img\nflush=true\nfua=true\n' >/run/nbd.conf
printf 'label: gpt\n,,L\n' | sfdisk -q /srv/server/nbd.img; nbd-server -C /run/nbd.conf",
        connect: "until nbd-client -N films 127.0.0.1 10810 /dev/nbd0; do sleep 0.2; done; until [ -b /dev/nbd0p1 ]; do sleep 0.1; done",
        patient: "until nbd-client -timeout 60 -N films 127.0.0.1 10810 /dev/nbd0; do sleep 0.2; done; until [ -b /dev/nbd0p1 ]; do sleep 0.1; done",
        disconnect: "nbd-client -d /dev/nbd0; while [ -e /sys/block/nbd0/pid ]; do sleep 0.1; done",
        device: "echo nbd0p1",
        partition: "p1",
    },
    Kind {
        name: "iscsi",
        model: "iqn.2026-01.org.example:films LUN 0",
        serve: "systemctl start iscsid
targetcli /backstores/fileio create films /srv/server/iscsi.img write_back=false
targetcli /iscsi create TARGET
targetcli /iscsi/TARGET/tpg1/luns create /backstores/fileio/films
targetcli /iscsi/TARGET/tpg1 set attribute generate_node_acls=1 demo_mode_write_protect=0 authentication=0
iscsiadm -m discovery -t st -p 127.0.0.1",
        connect: ISCSI,
        patient: ISCSI,
        disconnect: "iscsiadm -m node --logout",
        device: "basename /sys/devices/platform/host*/session*/target*/*/block/*",
        partition: "",
    },
];

/// The file system of the server's own disk at /srv/check, while nobody is connected.
const ON_SERVER: &str = r#"loop=$(losetup --find --show --partscan /srv/server/NAME.img); udevadm settle
mkdir -p /srv/check; mount ${loop}PART /srv/check"#;
const OFF_SERVER: &str = "umount /srv/check; losetup -d $loop";
/// Makes the file system, connects, and writes the file whose reads are to be hits.
const BEGIN: &str = r#"set -e
mkdir -p /srv/server /srv/net; truncate -s 192M /srv/server/NAME.img
SERVE
loop=$(losetup --find --show --partscan /srv/server/NAME.img); udevadm settle
mke2fs -q -t ext4 ${loop}PART; losetup -d $loop
CONNECT
udevadm settle
mount -o noatime /dev/$(DEVICE) /srv/net
dd if=/dev/urandom of=/srv/net/hot bs=64k count=64 conv=fsync status=none
DEVICE"#;
/// Mounts the disk itself. The cache may be over it for a moment, when the disk is back.
const MOUNT: &str = "until mount -o noatime /dev/$(DEVICE) /srv/net; do sleep 0.1; done";
/// Ends when the mount leads through the cache.
const CACHED: &str =
    "until findmnt -no SOURCE /srv/net | grep -q mapper/tandem; do sleep 0.2; done";
/// Ends when the cache was stopped after the unmount.
const LEFT: &str =
    "umount /srv/net; while dmsetup table --target tandem | grep -q tandem; do sleep 0.2; done";
/// Cuts the network for SECONDS, while one program writes and another reads what is on the SSD.
const CUT: &str = r#"set -e
rm -f /run/sums /run/stop /run/failed; touch /run/sums
for _ in 1 2 3; do dd if=/srv/net/hot of=/dev/null bs=64k iflag=direct status=none; done
( cd /srv/net; n=0
while [ ! -e /run/stop ]; do
	n=$((n + 1))
	dd if=/dev/urandom of=w.SECONDS.$((n % 400)) bs=16k count=4 conv=fsync status=none 2>/run/failed || exit 0
	sha256sum w.SECONDS.$((n % 400)) >/run/sum
	grep -v " w.SECONDS.$((n % 400))\$" /run/sums >/run/sums.new || true
	cat /run/sum >>/run/sums.new; mv /run/sums.new /run/sums
done ) & writer=$!
until [ $(wc -l </run/sums) -ge 5 ]; do sleep 0.1; done
busybox ip link set lo down
begin=$(date +%s); reads=0; longest=0
until [ $(($(date +%s) - begin)) -ge SECONDS ]; do
	at=$(date +%s%N)
	dd if=/srv/net/hot of=/dev/null bs=64k iflag=direct status=none
	took=$((($(date +%s%N) - at) / 1000000)); [ $took -le $longest ] || longest=$took
	reads=$((reads + 1)); sleep 0.2
done
saved=$(cksum </run/sums)
busybox ip link set lo up
until [ "$(cksum </run/sums)" != "$saved" ] || [ -s /run/failed ]; do sleep 0.2; done
touch /run/stop; wait $writer
echo "reads $reads longest $longest ms; failed: $(cat /run/failed)"
[ $reads -ge 2 ]"#;
/// Compares what was saved with what the server has.
const SAVED: &str = r#"set -e
LEFT
DISCONNECT
ON_SERVER
(cd /srv/check; sha256sum --check --quiet /run/sums)
OFF_SERVER
e2fsck -fn $(loop=$(losetup --find --show --partscan /srv/server/NAME.img); udevadm settle; echo ${loop}PART)
losetup -D
CONNECT"#;
/// The disk is mounted soon after it is back each time: before, while and after the service puts the cache over it. At the
/// end a program uses the disk by then, and the disk gets the cache when it was unmounted.
const AT_ONCE: &str = r#"set -e
for wait in 0 1 2 3 4; do
LEFT
DISCONNECT
CONNECT
sleep $wait
MOUNT
CACHED
done
LEFT
systemctl stop tandem
MOUNT
sleep 1000 </srv/net/hot & user=$!
systemctl start tandem
until tandemctl status | grep -q 'Something else was using'; do sleep 0.2; done
[ "$(findmnt -no SOURCE /srv/net)" = /dev/$(DEVICE) ]
kill $user; wait $user || true
umount /srv/net
# A mount at the same place within the same look of the service would be the old one.
while tandemctl status | grep -q 'Something else was using'; do sleep 0.2; done
MOUNT
CACHED
JOURNAL"#;
/// What the service says of all that.
const JOURNAL: &str = "journalctl --no-pager -o short-monotonic -u tandem | tail -30";
/// Another computer changes the file while the cache is not over the disk. The file has the same place and length then.
const ELSEWHERE: &str = r#"set -e
MOUNT
CACHED
for _ in 1 2 3; do dd if=/srv/net/hot of=/dev/null bs=64k iflag=direct status=none; done
LEFT
DISCONNECT
ON_SERVER
dd if=/dev/urandom of=/srv/check/hot bs=64k count=64 conv=notrunc,fsync status=none
sha256sum </srv/check/hot >/run/changed
OFF_SERVER
CONNECT
udevadm settle
MOUNT
CACHED
dmsetup status --target tandem
dd if=/srv/net/hot bs=64k iflag=direct status=none | sha256sum | diff - /run/changed"#;

/// Runs the layer.
pub fn run(run: &mut Run) -> Result<()> {
    let parts = Parts::get(run.cx)?;
    let (mut vm, ssd, _scratch) = machine(&parts, run)?;
    let cuts = if run.is_whole() {
        &CUTS[..]
    } else {
        &CUTS[..2]
    };
    let wanted = |kind: &&Kind| {
        let case = run.case.as_deref();
        case.is_none_or(|case| case.starts_with(kind.name))
    };
    for kind in KINDS.iter().filter(wanted).collect::<Vec<_>>() {
        if run.is_whole() {
            let name = format!(
                "{}: cut at a shutdown, which ends as without the cache",
                kind.name
            );
            if run.wants(&name) {
                let compared = off::is_no_longer(&parts, kind, run);
                run.check(&name, compared);
            }
            if run.is_done() {
                return Ok(());
            }
        }
        let created = created(&mut vm, kind, &ssd, run);
        let works = created.is_ok();
        run.check(
            &format!("{}: a cache is created, without write-back", kind.name),
            created,
        );
        if !works {
            continue;
        }
        let at_once = seen(&mut vm, &kind.script(AT_ONCE), LONG, run);
        run.check(
            &format!("{}: mounted at once, it gets its cache", kind.name),
            at_once,
        );
        if run.is_done() {
            return Ok(());
        }
        for seconds in cuts {
            let cut = kind.script(&CUT.replace("SECONDS", &seconds.to_string()));
            let limit = LONG + Duration::from_secs(3 * seconds);
            let kept = seen(&mut vm, &cut, limit, run)
                .and_then(|()| seen(&mut vm, &kind.script(SAVED), LONG, run))
                .and_then(|()| {
                    seen(
                        &mut vm,
                        &kind.script("set -e; udevadm settle; MOUNT; CACHED; JOURNAL"),
                        LONG,
                        run,
                    )
                });
            run.check(
                &format!(
                    "{}: cut for {seconds} s, hits are read and nothing is lost",
                    kind.name
                ),
                kept,
            );
            if run.is_done() {
                return Ok(());
            }
        }
        let left = seen(&mut vm, &kind.script("set -e; LEFT"), LONG, run);
        let changed = left.and_then(|()| seen(&mut vm, &kind.script(ELSEWHERE), LONG, run));
        run.check(
            &format!("{}: what another computer wrote is read", kind.name),
            changed,
        );
        let ended = "set -e; tandemctl remove --yes; umount /srv/net; DISCONNECT";
        seen(&mut vm, &kind.script(ended), LONG, run)?;
    }
    Ok(())
}

impl Kind {
    /// A script for this kind.
    fn script(&self, text: &str) -> String {
        let words = [
            ("ON_SERVER", ON_SERVER),
            ("OFF_SERVER", OFF_SERVER),
            ("LEFT", LEFT),
            ("CACHED", CACHED),
            ("MOUNT", MOUNT),
            ("JOURNAL", JOURNAL),
            ("DISCONNECT", self.disconnect),
            ("CONNECT", self.connect),
            ("SERVE", self.serve),
            ("DEVICE", self.device),
            ("NAME", self.name),
            ("PART", self.partition),
            ("TARGET", TARGET),
        ];
        words.iter().fold(text.to_owned(), |text, (word, with)| {
            text.replace(word, with)
        })
    }
}

/// A machine with an SSD, and the name of the SSD there.
fn machine(parts: &Parts, run: &Run) -> Result<(Vm, String, Scratch)> {
    let mut vm = Vm::installed(run.cx, parts, Screen::Hidden)?;
    let scratch = Scratch::new()?;
    vm.plug(&disks::empty(
        scratch.path(),
        SSD,
        0x5000_c500_0000_0300,
        MIB,
        true,
    )?)?;
    let ssd = vm.device(SSD)?;
    Ok((vm, ssd, scratch))
}

/// Connects the disk and mounts it. Returns its name.
fn began(vm: &mut Vm, kind: &Kind, run: &Run) -> Result<String> {
    let told = vm.agent.sh(&kind.script(BEGIN), LONG)?;
    run.note(&told);
    let disk = told.lines().last().context("the device is named")?;
    Ok(disk.trim().to_owned())
}

fn created(vm: &mut Vm, kind: &Kind, ssd: &str, run: &Run) -> Result<()> {
    let disk = began(vm, kind, run)?;
    let judged = vm.agent.sh("tandemctl --json list", SHORT)?;
    run.note(&judged);
    let refuse = |vm: &mut Vm, line: String| -> Result<()> {
        let ended = vm.agent.run(&line, SHORT, |_| ())?;
        run.note(&format!("{line}: {}\n{}", ended.code, ended.text));
        ensure!(ended.code == 3, "{line}: {}", ended.text);
        Ok(())
    };
    if kind.name == "nbd" {
        refuse(vm, format!("tandemctl plan --erase-ssd nbd0 {ssd}"))?;
    }
    refuse(vm, format!("tandemctl plan --erase-ssd {ssd} {disk}"))?;
    refuse(
        vm,
        format!("tandemctl plan --erase-ssd --mode writeback {disk} {ssd}"),
    )?;
    let create = format!("tandemctl create --yes --erase-ssd {disk} {ssd}");
    run.note(&vm.agent.sh(&create, LONG)?);
    let told: Value = serde_json::from_str(&vm.agent.sh("tandemctl --json status", SHORT)?)?;
    let model = told.to_string();
    ensure!(
        model.contains(kind.model),
        "the model is not {}: {model}",
        kind.model
    );
    vm.agent.sh(CACHED, LONG).map(drop)
}

/// Runs a script. After a failure the state of the machine is noted.
fn seen(vm: &mut Vm, script: &str, limit: Duration, run: &Run) -> Result<()> {
    let done = vm.agent.sh(script, limit).map(|told| run.note(&told));
    if done.is_err() {
        let told = format!(
            "{JOURNAL}; findmnt /srv/net; lsblk; dmsetup table; dmsetup status; dmesg | tail -30; exit 0"
        );
        // A script that has not ended keeps the guest from answering.
        if let Ok(told) = vm.agent.sh(&told, SHORT) {
            run.note(&told);
        }
    }
    done
}
