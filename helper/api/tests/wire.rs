// SPDX-License-Identifier: GPL-3.0-or-later
//! What travels arrives as it left, and the words are those of the documentation.

use tandem_api::*;
use zbus::wire::{LE, serialized::Context, to_bytes};
use zbus::{DBusError, Message};

fn device() -> DeviceText {
    DeviceText {
        model: "WD Blue".into(),
        size: 1 << 40,
        name: "sda1".into(),
        ..DeviceText::none()
    }
}

#[test]
fn a_failure_arrives_whole_in_an_error_reply() {
    let call = Message::method_call("/x", "Plan")
        .interface("a.B")
        .build(&())
        .unwrap();
    let user = FileUser {
        pid: 7,
        command: "bash".into(),
        uid: 1000,
        user: "anna".into(),
    };
    let sent = Failure::new(Kind::FilesystemBusy)
        .device(&device())
        .mount_points(vec!["/media/data".into()])
        .users(vec![user])
        .sizes(1, 2)
        .name("n")
        .data(DataState::Restored)
        .detail("busy");
    let reply = sent.create_reply(&call.header()).unwrap();
    assert_eq!(
        reply.header().error_name().unwrap().as_str(),
        "org.tandemcache.Tandem1.Error.FilesystemBusy"
    );
    let error = zbus::Error::from(reply);
    assert_eq!(Failure::from_zbus(&error), Some(sent));
}

#[test]
fn an_error_of_another_service_is_no_failure_of_ours() {
    let call = Message::method_call("/x", "Plan")
        .interface("a.B")
        .build(&())
        .unwrap();
    let reply = Message::error(&call.header(), "org.other.Error")
        .build(&("text",))
        .unwrap();
    let error = zbus::Error::from(reply);
    assert_eq!(Failure::from_zbus(&error), None);
    assert_eq!(Failure::from(error).kind, Kind::ServiceUnavailable);
}

#[test]
fn enums_travel_as_their_words() {
    fn check<T>(all: &[T])
    where
        T: serde::Serialize
            + serde::de::DeserializeOwned
            + zbus::Type
            + ToString
            + std::str::FromStr
            + PartialEq
            + std::fmt::Debug,
        T::Err: std::fmt::Debug,
    {
        for value in all {
            let bytes = to_bytes(Context::new(LE, 0), value).unwrap();
            let text: String = bytes.deserialize().unwrap().0;
            assert_eq!(text, value.to_string());
            assert_eq!(&text.parse::<T>().unwrap(), value);
            let back: T = bytes.deserialize().unwrap().0;
            assert_eq!(&back, value);
        }
    }
    check(Mode::ALL);
    check(CacheState::ALL);
    check(JobKind::ALL);
    check(ModuleState::ALL);
    check(ModuleProblem::ALL);
    check(SigningKey::ALL);
    check(StepKind::ALL);
    check(WarningKind::ALL);
    check(Kind::ALL);
    check(Trust::ALL);
    check(DataState::ALL);
    check(WatchState::ALL);
    check(Verdict::ALL);
    check(ModeRefusal::ALL);
    check(Target::ALL);
    assert!("write-back".parse::<Mode>().is_err());
}

#[test]
fn a_watch_arrives_as_it_left() {
    let point = |bytes| AdvicePoint {
        bytes,
        reads_permille: 412,
        reads_error: 21,
        bytes_permille: 377,
        bytes_error: 18,
    };
    let sent = vec![DiskWatch {
        id: "0123456789abcdef0123456789abcdef".into(),
        disk: device(),
        state: WatchState::Away,
        since: 1_700_000_000,
        watched_seconds: 86_400,
        reads: 70_000,
        read_bytes: 1 << 33,
        sequential_bytes: 1 << 30,
        writes: 30_000,
        written_bytes: 1 << 32,
        lost: 7,
        verdict: Verdict::Helps,
        wait_seconds: 0,
        enough_bytes: 1 << 35,
        points: vec![point(1 << 29), point(1 << 30)],
    }];
    let bytes = to_bytes(Context::new(LE, 0), &sent).unwrap();
    let back: Vec<DiskWatch> = bytes.deserialize().unwrap().0;
    assert_eq!(back, sent);
}

#[test]
fn hit_rate_starts_anew_with_the_counters() {
    let at = |requested, hit| Sample {
        read: Direction {
            requested,
            hit,
            ..Direction::default()
        },
        ..Sample::default()
    };
    assert_eq!(at(200, 150).read_hit_rate_since(&at(100, 100)), Some(0.5));
    assert_eq!(at(100, 50).read_hit_rate_since(&at(100, 50)), None);
    assert_eq!(at(10, 5).read_hit_rate_since(&at(100, 50)), None);
}
