// SPDX-License-Identifier: GPL-3.0-or-later
//! `tandemctl rescue` on image files: what it writes, what it refuses, and what it shows to NBD clients. There is no bus.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use tandem_stage::pair::Pair;

/// A folder with the images, removed at the end.
struct Images(PathBuf);

impl Images {
    fn new(name: &str, pair: &Pair) -> Self {
        let folder = std::env::temp_dir().join(format!("tandemctl-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("disk.img"), pair.disk.as_flattened()).unwrap();
        fs::write(folder.join("ssd.img"), pair.ssd.as_flattened()).unwrap();
        Self(folder)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tandemctl"));
        let bus = "unix:path=/nonexistent";
        command
            .env("DBUS_SYSTEM_BUS_ADDRESS", bus)
            .env("LC_ALL", "C");
        command.arg("rescue").args(words).current_dir(&self.0);
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Shows the view at `view.sock`.
    fn serve(&self) -> Server {
        let words = [
            "view",
            "ssd.img",
            "disk.img",
            "--disk-serial",
            "disk.img",
            "--ssd-complete",
            "--socket",
            "view.sock",
        ];
        let mut command = self.command(&words);
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut server = Server(command.spawn().unwrap(), None);
        let mut output = BufReader::new(server.0.stdout.take().unwrap());
        let address = "nbd+unix:///?socket=view.sock";
        let mut lines = output.by_ref().lines();
        assert!(lines.any(|line| line.unwrap().contains(address)));
        server.1 = Some(output);
        server
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join(name)).unwrap()
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    let both = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8(both).unwrap()
}

#[test]
fn images_are_shown_verified_and_written_back() {
    let pair = Pair::new(11, true);
    let images = Images::new("images", &pair);
    let (disk, ssd) = (images.read("disk.img"), images.read("ssd.img"));
    let shown = images.run(&["show", "ssd.img"]);
    assert!(
        said(&shown).contains("Not yet on the hard disk: "),
        "{}",
        said(&shown)
    );
    let verified = images.run(&["verify", "ssd.img", "disk.img", "--whole"]);
    assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
    let dry = [
        "write-back",
        "ssd.img",
        "disk.img",
        "--disk-serial",
        "disk.img",
        "--ssd-complete",
        "--dry-run",
    ];
    assert!(said(&images.run(&dry)).contains("Nothing was changed."));
    for words in [
        &["write-back", "ssd.img", "disk.img", "--yes"][..],
        &[
            "write-back",
            "ssd.img",
            "disk.img",
            "--disk-serial",
            "disk.img",
            "--ssd-complete",
        ],
        // Nothing says that all of the SSD could be read.
        &[
            "write-back",
            "ssd.img",
            "disk.img",
            "--disk-serial",
            "disk.img",
            "--yes",
        ],
    ] {
        let refused = images.run(words);
        assert!(
            matches!(refused.status.code(), Some(2 | 3)),
            "{}",
            said(&refused)
        );
    }
    assert!(images.read("disk.img") == disk && images.read("ssd.img") == ssd);
    let yes = [
        "write-back",
        "ssd.img",
        "disk.img",
        "--disk-serial",
        "disk.img",
        "--ssd-complete",
        "--yes",
    ];
    let written = images.run(&yes);
    assert_eq!(written.status.code(), Some(0), "{}", said(&written));
    assert!(images.read("disk.img") == pair.shown.as_flattened());
    let again = images.run(&yes);
    assert!(said(&again).contains("Nothing to do"), "{}", said(&again));
    let json = images.run(&["show", "ssd.img", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["ssd"]["dirty_bytes"], 0);
    let refused = images.run(&["show", "disk.img", "--json"]);
    assert!(said(&refused).contains("disk.img is not the SSD of a cache. Nothing was changed."));
    let json: serde_json::Value = serde_json::from_slice(&refused.stdout).unwrap();
    let expected = serde_json::json!({ "kind": "refused", "why": "no-cache", "name": "disk.img" });
    assert_eq!(json["error"], expected);
}

#[test]
fn what_an_image_lacks_and_what_is_newer_is_not_written_over() {
    let mut pair = Pair::new(14, true);
    // The disk was used elsewhere, where a stopped cache has a sample.
    pair.disk[8][100] ^= 1;
    let images = Images::new("lacks", &pair);
    let all = pair.ssd.len() * 512;
    fs::write(images.0.join("ssd.map"), format!("0 + 1\n0 {all} +\n")).unwrap();
    let right = ["--disk-serial", "disk.img", "--ssd-map", "ssd.map", "--yes"];
    let run = |more: &[&str]| {
        let words = [&["write-back", "ssd.img", "disk.img"], &right[..], more].concat();
        images.run(&words)
    };
    let refused = run(&[]);
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    assert!(
        said(&refused).contains("--over-newer-data"),
        "{}",
        said(&refused)
    );
    assert!(images.read("disk.img") == pair.disk.as_flattened());
    let agreed = run(&["--over-newer-data"]);
    assert_eq!(agreed.status.code(), Some(0), "{}", said(&agreed));
    // Also somebody who has agreed to everything reads what it was.
    assert!(
        said(&agreed).contains("was changed while"),
        "{}",
        said(&agreed)
    );
    fs::write(images.0.join("ssd.map"), "no map\n").unwrap();
    let refused = run(&[]);
    assert!(
        said(&refused).contains("not the map of an image"),
        "{}",
        said(&refused)
    );
}

/// A server that ends with the test. It ends when nobody reads what it prints, so its output stays open.
struct Server(Child, Option<BufReader<ChildStdout>>);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn number<const N: usize>(stream: &mut UnixStream) -> [u8; N] {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// The fixed newstyle handshake as far as the size of the device.
fn connect(path: &std::path::Path) -> (UnixStream, u64) {
    let mut stream = UnixStream::connect(path).unwrap();
    assert_eq!(&number::<16>(&mut stream), b"NBDMAGICIHAVEOPT");
    assert_eq!(u16::from_be_bytes(number(&mut stream)) & 1, 1);
    stream.write_all(&3_u32.to_be_bytes()).unwrap();
    // GO for the device without a name.
    stream
        .write_all(b"IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0")
        .unwrap();
    let head: [u8; 20] = number(&mut stream);
    assert_eq!(head[12..], [0, 0, 0, 3, 0, 0, 0, 12]);
    let export: [u8; 12] = number(&mut stream);
    assert_eq!(export[11] & 2, 2, "read-only");
    let acknowledged: [u8; 20] = number(&mut stream);
    assert_eq!(acknowledged[12..], [0, 0, 0, 1, 0, 0, 0, 0]);
    (
        stream,
        u64::from_be_bytes(export[2..10].try_into().unwrap()),
    )
}

fn request(stream: &mut UnixStream, kind: u16, offset: u64, length: u32) {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(*b"handle-1");
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    stream.write_all(&bytes).unwrap();
}

fn answer(stream: &mut UnixStream) -> u32 {
    let head: [u8; 16] = number(stream);
    assert_eq!(head[..4], 0x6744_6698_u32.to_be_bytes());
    assert_eq!(&head[8..], b"handle-1");
    u32::from_be_bytes(head[4..8].try_into().unwrap())
}

#[test]
fn the_view_is_read_over_nbd_and_nothing_else() {
    let pair = Pair::new(12, false);
    let images = Images::new("view", &pair);
    let _server = images.serve();
    let (mut stream, size) = connect(&images.0.join("view.sock"));
    assert_eq!(size, pair.shown.len() as u64 * 512);
    let expected = pair.shown.as_flattened();
    let mut got = Vec::new();
    while (got.len() as u64) < size {
        // No multiple of a sector.
        let length = 100_003.min(size as usize - got.len());
        request(&mut stream, 0, got.len() as u64, length as u32);
        assert_eq!(answer(&mut stream), 0);
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).unwrap();
        got.extend(bytes);
    }
    assert!(got == expected);
    // Beyond the end; a write; and a second program meanwhile.
    for (offset, length) in [(size - 511, 512), (u64::MAX, 1), (0, u32::MAX)] {
        request(&mut stream, 0, offset, length);
        assert_eq!(answer(&mut stream), 22);
    }
    request(&mut stream, 1, 0, 512);
    stream.write_all(&[0; 512]).unwrap();
    assert_eq!(answer(&mut stream), 1);
    let (mut second, _) = connect(&images.0.join("view.sock"));
    request(&mut second, 0, 512, 512);
    assert_eq!(answer(&mut second), 0);
    assert_eq!(number::<512>(&mut second), pair.shown[1]);
    // Options that the server does not know, and long ones, end nothing but their own connection.
    let mut rude = UnixStream::connect(images.0.join("view.sock")).unwrap();
    let _ = rude.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x07\xff\xff\xff\xff");
    drop(rude);
    request(&mut stream, 3, 0, 0);
    assert_eq!(answer(&mut stream), 0);
    assert!(images.read("disk.img") == pair.disk.as_flattened());
    let writes = images.run(&[
        "write-back",
        "ssd.img",
        "disk.img",
        "--disk-serial",
        "disk.img",
        "--ssd-complete",
        "--yes",
    ]);
    assert!(said(&writes).contains("is in use"), "{}", said(&writes));
}

#[test]
fn qemu_img_reads_the_view_too() {
    if Command::new("qemu-img").arg("--version").output().is_err() {
        println!("SKIP: because qemu-img is not installed");
        return;
    }
    let pair = Pair::new(13, true);
    let images = Images::new("qemu", &pair);
    let _server = images.serve();
    let mut copy = Command::new("qemu-img");
    let from = "nbd+unix:///?socket=view.sock";
    copy.args(["convert", "-f", "raw", "-O", "raw", from, "copy.img"]);
    let copied = copy.current_dir(&images.0).output().unwrap();
    assert!(copied.status.success(), "{}", said(&copied));
    let mut copy = images.read("copy.img");
    // Programs round the length up to whole sectors of theirs.
    copy.truncate(pair.shown.len() * 512);
    assert!(copy == pair.shown.as_flattened());
}

#[test]
fn an_image_of_a_virtual_machine_that_runs_is_refused() {
    let pair = Pair::new(15, true);
    let images = Images::new("machine", &pair);
    let mut machine = Command::new("qemu-io");
    machine
        .args(["-f", "raw", "disk.img"])
        .current_dir(&images.0);
    machine.stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(machine) = machine.spawn() else {
        println!("SKIP: because qemu-io is not installed");
        return;
    };
    let mut machine = Server(machine, None);
    let mut prompt = [0; 8];
    let output = machine.0.stdout.as_mut().unwrap();
    output.read_exact(&mut prompt).unwrap();
    let yes = [
        "write-back",
        "ssd.img",
        "disk.img",
        "--ssd-complete",
        "--yes",
    ];
    let refused = images.run(&[&yes[..], &["--disk-serial", "disk.img"]].concat());
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    assert!(
        said(&refused).contains("disk.img is in use"),
        "{}",
        said(&refused)
    );
    assert!(images.read("disk.img") == pair.disk.as_flattened());
}
