// SPDX-License-Identifier: GPL-3.0-or-later
//! The service's connection to the system bus, with a bound on the calls that zbus itself answers.
//!
//! zbus answers calls of the standard interfaces (introspection, properties, peer) in a task for each call. A task keeps
//! its reply until the bus takes the reply, so a flood of such calls takes memory without a limit. This connection
//! passes at most [`MAX_ANSWERS`] of these calls to zbus at a time. Further calls wait here: a waiting call has no
//! reply yet and takes some hundred bytes. The bus limits the number of calls of a connection that have no reply.
//!
//! All other messages pass at once. An answer may need a reply of the bus, so the connection never stops reading.

use async_trait::async_trait;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use zbus::Connection;
use zbus::address::{Address, Transport, transport::UnixSocket};
use zbus::connection::socket::{ReadHalf, Split, WriteHalf};
use zbus::message::{Flags, Message, Type};

/// Calls that zbus answers at a time.
const MAX_ANSWERS: usize = 32;
/// Calls that wait; more than all connections of one user may have without a reply (256 connections, 128 calls each).
const MAX_WAITING: usize = 65_536;
/// After this time an answer does not count any more: an answer that hangs must not keep all others waiting.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// The interfaces that zbus answers itself.
const STANDARD: [&str; 3] = [
    "org.freedesktop.DBus.Introspectable",
    "org.freedesktop.DBus.Peer",
    "org.freedesktop.DBus.Properties",
];

/// Connects to the system bus.
///
/// # Errors
/// If the bus cannot be reached, or refuses the connection.
pub async fn system() -> zbus::Result<Connection> {
    let address = Address::system()?;
    let Transport::Unix(unix) = address.transport() else {
        return Err(zbus::Error::Unsupported);
    };
    let UnixSocket::File(path) = unix.path() else {
        return Err(zbus::Error::Unsupported);
    };
    let (read, write) = UnixStream::connect(path).await?.into_split();
    let answers = Arc::new(Answers::default());
    let reader = Reader {
        source: Source::Handshake(Some(Socket(read))),
        waiting: VecDeque::new(),
        answers: answers.clone(),
    };
    let writer = Writer {
        socket: write,
        answers,
    };
    let split =
        Split::<Box<dyn ReadHalf>, Box<dyn WriteHalf>>::new(Box::new(reader), Box::new(writer));
    zbus::connection::Builder::socket(split).build().await
}

/// A call that zbus answers.
#[derive(Debug)]
struct Call {
    /// Unique bus name of the caller.
    sender: String,
    serial: u32,
    since: Instant,
}

/// The calls that zbus answers now.
#[derive(Debug, Default)]
struct Answers {
    /// A caller may use a serial twice, so this is no map.
    open: Mutex<Vec<Call>>,
    /// Notified after each answer.
    answered: Notify,
}

impl Answers {
    fn open(&self) -> MutexGuard<'_, Vec<Call>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call until it is answered. Returns false if too many calls are open.
    fn begin(&self, call: &Message) -> bool {
        let mut open = self.open();
        if open.len() >= MAX_ANSWERS {
            open.retain(|call| call.since.elapsed() < ANSWER_LIMIT);
        }
        if open.len() >= MAX_ANSWERS {
            return false;
        }
        let header = call.header();
        open.push(Call {
            sender: header
                .sender()
                .map(|name| name.to_string())
                .unwrap_or_default(),
            serial: header.primary().serial_num().get(),
            since: Instant::now(),
        });
        true
    }

    /// Notes that a message was sent.
    fn sent(&self, message: &Message) {
        let header = message.header();
        let (Some(receiver), Some(serial)) = (header.destination(), header.reply_serial()) else {
            return;
        };
        let mut open = self.open();
        let answers = |call: &Call| call.serial == serial.get() && call.sender == receiver.as_str();
        if let Some(call) = open.iter().position(answers) {
            open.swap_remove(call);
            self.answered.notify_one();
        }
    }
}

/// Whether zbus itself answers a message.
fn is_standard(message: &Message) -> bool {
    let header = message.header();
    let interface = header.interface().map(|name| name.as_str());
    message.message_type() == Type::MethodCall
        && interface.is_some_and(|name| STANDARD.contains(&name))
}

/// The part of the socket that the bus writes to.
#[derive(Debug)]
struct Socket(OwnedReadHalf);

#[async_trait]
impl ReadHalf for Socket {
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        Ok((self.0.read(buffer).await?, Vec::new()))
    }
}

/// Where the messages come from.
#[derive(Debug)]
enum Source {
    /// The socket, until the first message.
    Handshake(Option<Socket>),
    /// A task that reads messages from the socket. The task ends when this value is dropped.
    Task {
        messages: mpsc::Receiver<zbus::Result<Message>>,
        _task: JoinSet<()>,
    },
}

/// The messages for zbus.
#[derive(Debug)]
struct Reader {
    source: Source,
    /// Calls that are not passed to zbus yet, oldest first.
    waiting: VecDeque<Message>,
    answers: Arc<Answers>,
}

impl Reader {
    /// The oldest waiting call, if zbus may answer a call now.
    fn next_waiting(&mut self) -> Option<Message> {
        let call = self.waiting.front()?;
        self.answers.begin(call).then(|| self.waiting.pop_front())?
    }

    /// The messages of the task that reads the socket, which begins with the first message. A read of the task itself
    /// is never interrupted. `rest`: bytes of messages that came with the handshake.
    fn messages(
        &mut self,
        first: u64,
        rest: &mut Vec<u8>,
    ) -> zbus::Result<&mut mpsc::Receiver<zbus::Result<Message>>> {
        if let Source::Handshake(socket) = &mut self.source {
            let mut socket = socket
                .take()
                .ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
            let (sender, receiver) = mpsc::channel(1);
            let mut rest = std::mem::take(rest);
            let mut task = JoinSet::new();
            task.spawn(async move {
                for number in first.. {
                    let message = socket
                        .receive_message(number, &mut rest, &mut Vec::new())
                        .await;
                    let ends = message.is_err();
                    if sender.send(message).await.is_err() || ends {
                        return;
                    }
                }
            });
            self.source = Source::Task {
                messages: receiver,
                _task: task,
            };
        }
        match &mut self.source {
            Source::Task { messages, .. } => Ok(messages),
            Source::Handshake(_) => Err(io::Error::from(io::ErrorKind::NotConnected).into()),
        }
    }
}

#[async_trait]
impl ReadHalf for Reader {
    async fn receive_message(
        &mut self,
        number: u64,
        rest: &mut Vec<u8>,
        _fds: &mut Vec<OwnedFd>,
    ) -> zbus::Result<Message> {
        loop {
            if let Some(call) = self.next_waiting() {
                return Ok(call);
            }
            let answers = self.answers.clone();
            let wait = !self.waiting.is_empty();
            let messages = self.messages(number, rest)?;
            let message = tokio::select! {
                message = messages.recv() => message.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))??,
                () = answers.answered.notified(), if wait => continue,
                () = tokio::time::sleep(ANSWER_LIMIT), if wait => continue,
            };
            if !is_standard(&message) {
                return Ok(message);
            }
            let flags = message.primary_header().flags();
            // The standard calls have no effect, so a call without a reply does nothing at all.
            if !flags.contains(Flags::NO_REPLY_EXPECTED) && self.waiting.len() < MAX_WAITING {
                self.waiting.push_back(message);
            }
        }
    }

    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        match &mut self.source {
            Source::Handshake(Some(socket)) => socket.recvmsg(buffer).await,
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

/// The messages of zbus.
#[derive(Debug)]
struct Writer {
    socket: OwnedWriteHalf,
    answers: Arc<Answers>,
}

#[async_trait]
impl WriteHalf for Writer {
    async fn send_message(&mut self, message: &Message) -> zbus::Result<()> {
        self.socket.write_all(message.data()).await?;
        self.answers.sent(message);
        Ok(())
    }

    async fn sendmsg(&mut self, buffer: &[u8], _fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        self.socket.write(buffer).await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.socket.shutdown().await
    }
}

#[cfg(test)]
mod tests;
