// SPDX-License-Identifier: GPL-3.0-or-later
//! The device above the cache, which hands each request on to it and logs when it came and when it was done.
//!
//! By asynchronous I/O, because a write that is to be durable then reaches the cache as FUA and nothing else; from any
//! other call the kernel would flush after it.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::ptr::null_mut;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, ensure};
use tandem_record_log::Device;

use super::log::Log;
use super::nbd::{Request, Verb, readable};
use crate::bench::aio::{Event, Request as Iocb, check};
use crate::io::{self, Buffer};

const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FDSYNC: u16 = 3;
/// `IOCB_FLAG_RESFD`: the end of the request is told to an eventfd.
const TELL: u32 = 1;
/// `RWF_DSYNC`
const DSYNC: u32 = 2;
/// Requests that may be in flight; more than the kernel sends.
const DEPTH: usize = 512;

/// A request with its number in the log.
type Numbered = (Request, Option<u32>);

/// A request on its way.
struct Flying {
    request: Request,
    number: Option<u32>,
    buffer: Buffer,
    // The kernel knows its address.
    iocb: Box<Iocb>,
}

/// The server.
pub struct Above {
    cached: Arc<File>,
    socket: UnixStream,
    answers: Arc<Mutex<UnixStream>>,
    log: Log,
    context: u64,
    told: OwnedFd,
    flying: HashMap<u64, Flying>,
    next: u64,
}

fn end(
    log: &Log,
    answers: &Mutex<UnixStream>,
    (request, number): (&Request, Option<u32>),
    result: std::result::Result<&[u8], &str>,
) -> Result<()> {
    match result {
        Ok(_) => log.end(number),
        Err(error) => log.mark(&format!("error {error}")),
    }
    let mut socket = answers.lock().unwrap_or_else(PoisonError::into_inner);
    request.answer(&mut socket, result.is_ok(), result.unwrap_or_default())
}

/// Carries out, one after the other, what asynchronous I/O does not know.
fn zero_all(
    requests: &Receiver<Numbered>,
    cached: &File,
    log: &Log,
    answers: &Mutex<UnixStream>,
) -> Result<()> {
    for (request, number) in requests {
        let done = io::discard(cached, request.offset, request.length as u64);
        let error = done.map_err(|error| format!("{error:#}"));
        let result = error.as_ref().map(|()| &[][..]).map_err(String::as_str);
        end(log, answers, (&request, number), result)?;
    }
    Ok(())
}

impl Above {
    /// Serves `socket` from the device `cached`.
    pub fn new(cached: File, socket: UnixStream, log: Log) -> Result<Self> {
        let mut context = 0_u64;
        // SAFETY: the kernel writes one number to `context`.
        check(unsafe { libc::syscall(libc::SYS_io_setup, DEPTH, &raw mut context) })?;
        // SAFETY: a new descriptor that nobody else has.
        let told = unsafe {
            let fd = libc::eventfd(0, libc::EFD_NONBLOCK);
            ensure!(fd >= 0, "cannot make an eventfd");
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Self {
            cached: Arc::new(cached),
            answers: Arc::new(Mutex::new(socket.try_clone()?)),
            socket,
            log,
            context,
            told,
            flying: HashMap::new(),
            next: 0,
        })
    }

    /// Serves until the device is ended.
    pub fn serve(mut self) -> Result<()> {
        let (zeroes, zeroing) = self.start_zeroing();
        loop {
            let [request, ended] = readable([self.socket.as_raw_fd(), self.told.as_raw_fd()], -1)?;
            if ended {
                self.collect()?;
            }
            if request {
                let request = Request::read(&mut self.socket)?;
                if request.verb == Verb::Disconnect {
                    break;
                }
                let number = self.log.begin(Device::Top, &request)?;
                if request.verb == Verb::Zero {
                    zeroes.send((request, number))?;
                } else {
                    self.submit(request, number)?;
                }
            }
        }
        // The kernel still waits for these, and writes into their buffers.
        while !self.flying.is_empty() {
            readable([self.told.as_raw_fd()], -1)?;
            self.collect()?;
        }
        drop(zeroes);
        zeroing
            .join()
            .ok()
            .context("the thread for discards panicked")?
    }

    fn start_zeroing(&self) -> (Sender<Numbered>, JoinHandle<Result<()>>) {
        let (sender, requests) = channel();
        let (cached, log, answers) = (
            Arc::clone(&self.cached),
            self.log.clone(),
            Arc::clone(&self.answers),
        );
        let thread = thread::spawn(move || zero_all(&requests, &cached, &log, &answers));
        (sender, thread)
    }

    fn submit(&mut self, request: Request, number: Option<u32>) -> Result<()> {
        let buffer = match request.verb {
            Verb::Write => Buffer::of(&request.data)?,
            _ => Buffer::new(request.length)?,
        };
        let flush = request.verb == Verb::Flush;
        let mut iocb = Box::new(Iocb {
            data: self.next,
            rw_flags: if request.fua { DSYNC } else { 0 },
            opcode: match request.verb {
                Verb::Read => PREAD,
                Verb::Flush => FDSYNC,
                _ => PWRITE,
            },
            fd: self.cached.as_raw_fd().cast_unsigned(),
            buffer: if flush { 0 } else { buffer.address() as u64 },
            length: if flush { 0 } else { request.length as u64 },
            offset: if flush { 0 } else { request.offset },
            flags: TELL,
            eventfd: self.told.as_raw_fd().cast_unsigned(),
            ..Iocb::default()
        });
        let one: [*mut Iocb; 1] = [&raw mut *iocb];
        let flying = Flying {
            request,
            number,
            buffer,
            iocb,
        };
        self.flying.insert(self.next, flying);
        self.next += 1;
        // SAFETY: request and buffer stay in `flying`, where they are, until its event came.
        let result = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, one.as_ptr()) };
        ensure!(check(result)? == 1, "the cached device takes no request");
        Ok(())
    }

    fn collect(&mut self) -> Result<()> {
        let mut count = 0_u64;
        // SAFETY: an eventfd gives 8 bytes, or nothing if somebody else was first.
        unsafe { libc::read(self.told.as_raw_fd(), (&raw mut count).cast(), 8) };
        let mut events = [Event::default(); 64];
        loop {
            // SAFETY: room for as many events as said; null waits for as long as it takes, but none need be there.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.context,
                    0,
                    events.len(),
                    events.as_mut_ptr(),
                    null_mut::<libc::timespec>(),
                )
            };
            let got = check(result)?;
            for event in &events[..got] {
                let flying = self.flying.remove(&event.data).context("unknown request")?;
                debug_assert_eq!(flying.iocb.data, event.data);
                let Flying {
                    request,
                    number,
                    buffer,
                    ..
                } = flying;
                let all = request.verb == Verb::Flush || event.result == request.length as i64;
                let error = format!("{} of a request at {}", event.result, request.offset);
                let data = match request.verb {
                    Verb::Read => &buffer[..request.length],
                    _ => &[],
                };
                let result = match event.result {
                    0.. if all => Ok(data),
                    _ => Err(error.as_str()),
                };
                end(&self.log, &self.answers, (&request, number), result)?;
            }
            if got < events.len() {
                return Ok(());
            }
        }
    }
}
