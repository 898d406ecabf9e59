// SPDX-License-Identifier: GPL-3.0-or-later

use super::*;
use crate::machine::dm::status::StatusLine;
use crate::model::action::Pair;
use std::cell::{Cell, RefCell};

/// A kernel that writes a part of the dirty data at each look.
struct Fake {
    mode: Cell<Mode>,
    dirty: Cell<u64>,
    per_look: u64,
    sent: RefCell<Vec<Message>>,
    looks: Cell<u32>,
    refuses: bool,
}

impl Fake {
    fn new(dirty: u64, per_look: u64) -> Self {
        Self {
            mode: Cell::new(Mode::Writeback),
            dirty: Cell::new(dirty),
            per_look,
            sent: RefCell::default(),
            looks: Cell::new(0),
            refuses: false,
        }
    }
}

impl Kernel for Fake {
    fn status(&self, _uuid: &str) -> Option<Status> {
        let (mode, dirty) = (self.mode.get(), self.dirty.get());
        let line = format!("active - {mode} 32 1/4096 {dirty} 0");
        Some(line.parse::<StatusLine>().unwrap().status(0))
    }

    fn send_message(&self, _uuid: &str, message: Message) -> Result<(), String> {
        if self.refuses {
            return Err("refused".to_owned());
        }
        if let Message::Mode(mode) = message {
            self.mode.set(mode);
        }
        self.sent.borrow_mut().push(message);
        Ok(())
    }

    fn pause(&self) {
        self.looks.set(self.looks.get() + 1);
        self.dirty
            .set(self.dirty.get().saturating_sub(self.per_look));
    }
}

/// Writes back with this kernel, and returns the record of the cache afterwards.
fn after(kernel: &Fake, minutes: u32) -> CacheRecord {
    let folder = std::env::temp_dir().join(format!(
        "tandem-shutdown-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let store = Store::open(&folder).unwrap();
    let record = CacheRecord {
        shutdown_minutes: minutes,
        ..CacheRecord::new(Pair::nowhere(Mode::Writeback))
    };
    assert!(record.may_be_dirty);
    store.save_cache(&record).unwrap();
    write_back(&store, kernel);
    let now = store.caches().remove(0);
    std::fs::remove_dir_all(folder).unwrap();
    now
}

#[test]
fn everything_is_on_the_disk_and_write_back_goes_on_at_the_next_start() {
    let kernel = Fake::new(100, 30);
    let now = after(&kernel, 5);
    assert_eq!(kernel.looks.get(), 4);
    let expected = [
        Message::Mode(Mode::Writethrough),
        Message::Flush(Flush::Start),
        Message::Flush(Flush::Stop),
    ];
    assert_eq!(*kernel.sent.borrow(), expected);
    assert!(!now.may_be_dirty && now.waits_for_kernel);
    assert_eq!(now.pair.mode, Mode::Writethrough);
}

#[test]
fn after_the_time_the_rest_stays_on_the_ssd_and_on_record() {
    let kernel = Fake::new(100_000, 1);
    let now = after(&kernel, 2);
    assert_eq!(kernel.looks.get(), 120);
    let last = kernel.sent.borrow().last().copied();
    assert_eq!(last, Some(Message::Flush(Flush::Stop)));
    assert!(now.may_be_dirty && now.waits_for_kernel);
}

#[test]
fn nothing_is_done_for_a_cache_without_the_wish_or_that_refuses() {
    let kernel = Fake::new(100, 1);
    let now = after(&kernel, 0);
    assert!(kernel.sent.borrow().is_empty() && now.pair.mode == Mode::Writeback);
    let kernel = Fake {
        refuses: true,
        ..Fake::new(100, 1)
    };
    let now = after(&kernel, 5);
    assert_eq!(kernel.looks.get(), 0);
    assert!(now.may_be_dirty && now.pair.mode == Mode::Writeback);
}
