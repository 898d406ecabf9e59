// SPDX-License-Identifier: GPL-3.0-or-later
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use super::line::Lines;
use super::session::End;
use super::*;

fn events(lines: &mut Lines, text: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    lines.feed(text, |event| events.push(event));
    events
}

fn event(kind: Kind, sector: u64, sectors: u64) -> Event {
    Event {
        kind,
        sector,
        sectors,
    }
}

const TEXT: &str = "\
block_bio_queue: 254,0 RA 12580504 + 32 [bash]
block_bio_queue: 254,0 R 8 + 8 [a [b] c]
CPU:1 [LOST 4 EVENTS]
block_bio_queue: 254,0 WS 204203632 + 128 [dd]
block_bio_queue: 254,0 FWFS 16 + 8 [jbd2/vda1-8]
block_bio_queue: 254,0 DS 24 + 4096 [fstrim]
block_bio_queue: 254,0 N 4120 + 64 [mkfs]
block_bio_queue: 254,0 WZS 4184 + 64 [mkfs]
";

fn in_text() -> Vec<Event> {
    vec![
        event(Kind::Read, 12_580_504, 32),
        event(Kind::Read, 8, 8),
        event(Kind::Write, 204_203_632, 128),
        event(Kind::Write, 16, 8),
        event(Kind::Discard, 24, 4096),
        event(Kind::Discard, 4120, 64),
        event(Kind::Discard, 4184, 64),
    ]
}

#[test]
fn lines_become_requests() {
    let mut lines = Lines::default();
    assert_eq!(events(&mut lines, TEXT.as_bytes()), in_text());
    assert_eq!(lines.lost(), 4);
}

#[test]
fn lines_may_come_in_pieces() {
    for size in 1..80 {
        let mut lines = Lines::default();
        let pieces = TEXT.as_bytes().chunks(size);
        let found: Vec<_> = pieces.flat_map(|piece| events(&mut lines, piece)).collect();
        assert_eq!(found, in_text(), "pieces of {size} bytes");
    }
}

#[test]
fn what_is_no_request_is_left_out() {
    for line in [
        "",
        "block_bio_queue: ",
        "block_bio_queue: 254,0 X 8 + 8 [x]",
        "block_bio_queue: 254,0 F 0 + 0 [x]",
        "block_bio_queue: 254,0 R 8 + 8",
        "block_bio_queue: 254,0 R 8 + [x]",
        "block_bio_queue: 254,0 R 8 - 8 [x]",
        "block_bio_queue: 254,0 R -8 + 8 [x]",
        "block_bio_queue: 254,0 R 99999999999999999999 + 8 [x]",
        "block_bio_queue: 254,0 R 8 + 8 + 8 [x]",
        "block_rq_issue: 254,0 R 4096 () 8 + 8 none,0,0 [x]",
        " block_bio_queue: 254,0 R 8 + 8 [x]",
    ] {
        let mut lines = Lines::default();
        assert_eq!(
            events(&mut lines, format!("{line}\n").as_bytes()),
            [],
            "{line}"
        );
    }
}

/// A name of a program is 15 bytes, any but 0.
#[test]
fn no_name_of_a_program_makes_a_request() {
    for name in [
        "\nblock_bio_queu",
        "\n254,0 R 8 + 8 [",
        "] R 8 + 8 [x]",
        "[\n[\n[\n[\n",
    ] {
        let text = format!("block_bio_queue: 254,0 W 16 + 8 [{name}]\n");
        let mut lines = Lines::default();
        let found = events(&mut lines, text.as_bytes());
        assert_eq!(found, [event(Kind::Write, 16, 8)], "{name:?}");
    }
    let mut lines = Lines::default();
    let odd = b"block_bio_queue: 254,0 W 16 + 8 [\xff\xfe]\n";
    assert_eq!(events(&mut lines, odd), [event(Kind::Write, 16, 8)]);
}

#[test]
fn a_line_without_end_takes_no_memory() {
    let mut lines = Lines::default();
    for _ in 0..1000 {
        assert_eq!(events(&mut lines, &[b'x'; 4096]), []);
    }
    assert!(lines.capacity() <= 1024);
    // The rest of it is left out as well.
    let text = format!("{TEXT}\n{TEXT}");
    let (_, behind) = text.split_once('\n').unwrap();
    assert_eq!(events(&mut lines, text.as_bytes()).len(), 13);
    assert_eq!(events(&mut lines, behind.as_bytes()).len(), 13);
}

#[test]
fn a_filter_names_the_disk_as_the_kernel_does() {
    let watched = Watched {
        major: 254,
        minor: 16,
        sectors: 2048..4096,
    };
    assert_eq!(watched.filter(), "dev == 266338320 && nr_sector > 0");
    let place = watched.instance(Path::new("/t"));
    assert_eq!(place, Path::new("/t/instances/tandem-254-16-2048"));
}

/// A watch whose trace is written by the test.
fn of_text(sectors: Range<u64>) -> (Watch, std::os::unix::net::UnixStream) {
    let (kernel, pipe) = std::os::unix::net::UnixStream::pair().unwrap();
    pipe.set_nonblocking(true).unwrap();
    let watched = Watched {
        major: 254,
        minor: 0,
        sectors,
    };
    (Watch::reading(pipe.into(), watched, None).unwrap(), kernel)
}

/// All requests that are there, without their times.
fn read_all(watch: &mut Watch) -> Vec<Event> {
    let mut requests = Vec::new();
    while watch.read(&mut requests).unwrap() {}
    let event = |r: &Request| event(r.kind, r.sector, r.sectors);
    requests.iter().map(event).collect()
}

#[tokio::test]
async fn a_partition_gets_its_own_requests() {
    use std::io::Write;
    let (mut watch, mut kernel) = of_text(8..204_203_632);
    kernel.write_all(TEXT.as_bytes()).unwrap();
    let own = [
        event(Kind::Read, 12_580_496, 32),
        event(Kind::Read, 0, 8),
        event(Kind::Write, 8, 8),
        event(Kind::Discard, 16, 4096),
        event(Kind::Discard, 4112, 64),
        event(Kind::Discard, 4176, 64),
    ];
    assert_eq!(read_all(&mut watch), own);
    assert_eq!(watch.lost(), 4);
    // A program that another test starts just now has a copy of the socket, which a drop leaves open.
    kernel.shutdown(std::net::Shutdown::Write).unwrap();
    let end = watch.read(&mut Vec::new());
    assert!(end.is_err(), "the end of the trace");
}

/// A session of two hours that gets `TEXT` at its begin and, a second before its end, `TEXT` again. Returns the advisor and
/// the states that were saved meanwhile.
async fn session_of_two_hours(end: End) -> (tandem_advisor::Advisor, Vec<Vec<u8>>) {
    use std::io::Write;
    use std::sync::{Arc, Mutex};
    let (mut watch, mut kernel) = of_text(0..DISK);
    let advisor = Mutex::new(tandem_advisor::Advisor::new(DISK).unwrap());
    let saved = Arc::new(Mutex::new(Vec::new()));
    let states = saved.clone();
    kernel.write_all(TEXT.as_bytes()).unwrap();
    let (send, ended) = tokio::sync::oneshot::channel();
    let save = move |state| states.lock().unwrap().push(state);
    let run = session::run(&mut watch, &advisor, save, ended);
    let ends = async {
        tokio::time::sleep(std::time::Duration::from_secs(7201)).await;
        // The session waits for a few seconds more before it reads a few requests.
        kernel.write_all(TEXT.as_bytes()).unwrap();
        send.send(end).unwrap();
    };
    let (result, ()) = tokio::join!(run, ends);
    result.unwrap();
    let saved = std::mem::take(&mut *saved.lock().unwrap());
    (advisor.into_inner().unwrap(), saved)
}

const DISK: u64 = 1 << 30;

#[tokio::test(start_paused = true)]
async fn a_session_feeds_the_advisor_and_saves_it() {
    let (advisor, saved) = session_of_two_hours(End::Drained).await;
    let seen = advisor.seen();
    assert_eq!((seen.reads, seen.writes, seen.ignored), (4, 10, 0));
    assert_eq!(seen.lost, 8, "what the kernel has dropped is counted");
    assert_eq!(seen.watched_us / 60_000_000, 120);
    // One ten minutes after the requests, and one after an hour without requests.
    assert_eq!(saved.len(), 2);
    let times = saved.iter().map(|state| {
        let state = tandem_advisor::Advisor::load(state, DISK).unwrap();
        assert_eq!((state.seen().reads, state.seen().lost), (2, 4));
        state.seen().watched_us / 60_000_000
    });
    assert_eq!(times.collect::<Vec<_>>(), [10, 70]);
}

/// The requests may be those of another disk, which got the number of the watched one.
#[tokio::test(start_paused = true)]
async fn the_last_requests_of_a_disk_that_is_gone_do_not_count() {
    let (advisor, _) = session_of_two_hours(End::Dropped).await;
    assert_eq!((advisor.seen().reads, advisor.seen().lost), (2, 4));
}

/// Reads from a file system on a disk of this machine, if there is one with tracing.
#[tokio::test]
async fn requests_of_a_real_disk_are_seen() {
    let skip = |why: &str| println!("SKIP: because {why}");
    let Some(tracing) = Tracing::mounted() else {
        return skip("no root, or the kernel has no tracing");
    };
    let tracefs = tracing.folder.as_path();
    let Some((watched, file)) = a_disk() else {
        return skip("no file on a disk can be read past the page cache");
    };
    let place = watched.instance(tracefs);
    let mut watch = match Watch::start(tracefs, watched) {
        Ok(watch) => watch,
        Err(e) => return skip(&format!("tracing cannot be used: {e}")),
    };
    assert!(place.is_dir());
    let mut events: Vec<Event> = Vec::new();
    let mut block = Aligned([0; 4096]);
    let read = |event: &Event| event.kind == Kind::Read && event.sectors > 0;
    // The kernel notes a request before the read returns. More reads than one are for a full buffer of the kernel.
    for _ in 0..100 {
        rustix::io::pread(&file, &mut block.0, 0).unwrap();
        events.extend(read_all(&mut watch));
        if events.iter().any(read) {
            break;
        }
    }
    assert!(events.iter().any(read), "no read of 100 was seen");
    drop(watch);
    assert!(!place.exists(), "the instance has gone");
}

/// The kernel's tracing, mounted by this value if the machine has not mounted it.
struct Tracing {
    folder: PathBuf,
    is_ours: bool,
}

impl Tracing {
    fn mounted() -> Option<Self> {
        let usual = PathBuf::from(TRACEFS);
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        if usual.join("instances").is_dir() {
            return Some(Self {
                folder: usual,
                is_ours: false,
            });
        }
        let folder = std::env::temp_dir().join(format!("tandem-tracing-{}", std::process::id()));
        std::fs::create_dir_all(&folder).ok()?;
        let this = Self {
            folder,
            is_ours: true,
        };
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tracefs", "tracefs"]).arg(&this.folder);
        let mounted = mount.status().is_ok_and(|status| status.success());
        mounted.then_some(this)
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = std::process::Command::new("umount")
                .arg(&self.folder)
                .status();
            let _ = std::fs::remove_dir(&self.folder);
        }
    }
}

/// The unit of every disk for reads past the page cache, in bytes.
#[repr(align(4096))]
struct Aligned([u8; 4096]);

/// A disk, and the file of this program on it, for reads past the page cache.
///
/// Each such read reaches the disk. Advice to drop the pages of the file would not do: the kernel keeps the pages that a
/// linker has just written, and the mapped ones.
fn a_disk() -> Option<(Watched, std::fs::File)> {
    use std::os::unix::fs::OpenOptionsExt;

    let program = std::env::current_exe().ok()?;
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).ok()?;
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).custom_flags(direct).open(program).ok()?;
    let device = rustix::fs::fstat(&file).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let sys = format!("/sys/dev/block/{major}:{minor}");
    // A partition has the number of another disk in its requests.
    if !Path::new(&sys).join("queue").is_dir() {
        return None;
    }
    let sectors = std::fs::read_to_string(format!("{sys}/size")).ok()?;
    let watched = Watched {
        major,
        minor,
        sectors: 0..sectors.trim().parse().ok()?,
    };
    Some((watched, file))
}
