// SPDX-License-Identifier: GPL-3.0-or-later
//! Connections to the bus of a program that floods the service.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tandem_api::BUS_NAME;
use zbus::Message;

/// Connections of a flood.
pub const CONNECTIONS: usize = 60;
/// The user that floods the service, if the test may change its user: `nobody`.
pub const NOBODY: u32 = 65_534;

/// A call of the service.
pub fn call<'a>(
    (path, interface, member): (&'a str, &'a str, &'a str),
) -> zbus::message::Builder<'a> {
    let call = Message::method_call(path, member).interface(interface);
    call.destination(BUS_NAME)
}

/// A connection to the bus with a unique name.
pub fn connect(address: &str) -> UnixStream {
    let path = address.strip_prefix("unix:path=").unwrap();
    let path = path.split(',').next().unwrap();
    let mut stream = UnixStream::connect(path).unwrap();
    // The bus gets the user from the kernel.
    write!(stream, "\0AUTH EXTERNAL\r\nDATA\r\n").unwrap();
    let mut reader = BufReader::with_capacity(1, stream.try_clone().unwrap());
    let mut answer = String::new();
    while !answer.contains("OK") {
        assert_ne!(reader.read_line(&mut answer).unwrap(), 0, "{answer}");
    }
    write!(stream, "BEGIN\r\n").unwrap();
    let bus = "org.freedesktop.DBus";
    let hello = Message::method_call("/org/freedesktop/DBus", "Hello").interface(bus);
    let hello = hello.destination(bus);
    stream.write_all(hello.build(&()).unwrap().data()).unwrap();
    assert_eq!(answers(&mut stream, 1).len(), 1);
    stream
}

/// Reads messages until there were so many answers, or until no more answers arrive. Returns the number of bytes of each
/// answer.
pub fn answers(stream: &mut UnixStream, wanted: usize) -> Vec<u64> {
    let limit = Some(Duration::from_secs(20));
    stream.set_read_timeout(limit).unwrap();
    let mut found = Vec::new();
    while found.len() < wanted {
        let mut head = [0; 16];
        if stream.read_exact(&mut head).is_err() {
            break;
        }
        let number =
            |at: usize| u64::from(u32::from_le_bytes(head[at..at + 4].try_into().unwrap()));
        let rest = number(12).next_multiple_of(8) + number(4);
        std::io::copy(&mut (&*stream).take(rest), &mut std::io::sink()).unwrap();
        // 2 is the type of a reply, 3 the type of an error.
        if matches!(head[1], 2 | 3) {
            found.push(rest);
        }
    }
    found
}
