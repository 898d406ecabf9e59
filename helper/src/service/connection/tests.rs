// SPDX-License-Identifier: GPL-3.0-or-later
//! A connection whose other end is in the hands of the test.

use super::*;
use futures_util::FutureExt;

const CALLER: &str = ":1.7";

fn call(interface: &str) -> Message {
    let call = Message::method_call("/", "Introspect").interface(interface);
    call.sender(CALLER).build(&()).unwrap()
}

/// A connection, and the bus's end of it.
async fn pair() -> (Reader, UnixStream) {
    let (ours, bus) = UnixStream::pair().unwrap();
    let reader = Reader {
        source: Source::Handshake(Some(Socket(ours.into_split().0))),
        waiting: VecDeque::new(),
        answers: Arc::default(),
    };
    (reader, bus)
}

async fn receive(reader: &mut Reader) -> zbus::Result<Message> {
    let (mut rest, mut fds) = (Vec::new(), Vec::new());
    reader.receive_message(1, &mut rest, &mut fds).await
}

async fn next(reader: &mut Reader) -> Message {
    let message = tokio::time::timeout(Duration::from_secs(20), receive(reader)).await;
    message.expect("no message comes").unwrap()
}

#[tokio::test]
async fn standard_calls_wait_for_answers_and_nothing_else_waits_for_them() {
    let (mut reader, mut bus) = pair().await;
    // A hostile caller uses one serial for all its calls.
    let wanted = call(STANDARD[0]);
    for _ in 0..MAX_ANSWERS + 2 {
        bus.write_all(wanted.data()).await.unwrap();
    }
    let other = call("org.tandemcache.Tandem1.Manager");
    bus.write_all(other.data()).await.unwrap();
    for _ in 0..MAX_ANSWERS {
        assert!(is_standard(&next(&mut reader).await));
    }
    assert!(!is_standard(&next(&mut reader).await));
    assert_eq!(reader.waiting.len(), 2);

    let reply = Message::method_return(&wanted.header()).build(&()).unwrap();
    reader.answers.sent(&reply);
    assert!(is_standard(&next(&mut reader).await));
    assert!(receive(&mut reader).now_or_never().is_none());
    // An answer that hangs does not count for ever.
    let since = Instant::now().checked_sub(ANSWER_LIMIT).unwrap();
    reader.answers.open()[0].since = since;
    assert!(is_standard(&next(&mut reader).await));
}

#[tokio::test]
async fn a_standard_call_without_a_reply_is_not_passed() {
    let (mut reader, mut bus) = pair().await;
    let call = Message::method_call("/", "Ping").interface(STANDARD[1]);
    let call = call.sender(CALLER).with_flags(Flags::NO_REPLY_EXPECTED);
    let ping = call.build(&()).unwrap();
    bus.write_all(ping.data()).await.unwrap();
    let signal = Message::signal("/", "org.example.Test", "Changed");
    bus.write_all(signal.build(&()).unwrap().data())
        .await
        .unwrap();
    assert_eq!(next(&mut reader).await.message_type(), Type::Signal);
}

#[tokio::test]
async fn the_end_of_the_bus_is_an_error() {
    let (mut reader, bus) = pair().await;
    drop(bus);
    assert!(receive(&mut reader).await.is_err());
}
