// SPDX-License-Identifier: GPL-3.0-or-later
//! Takes a part of the computer's memory for a cache, and gives it back. The sandbox of the service keeps sysfs read-only, so
//! `tandem-assemble memory` does it in a unit of its own.

use super::device_mapper::{CHANGE_TIMEOUT, DeviceMapper, PAUSE, step};
use super::systemd::program::{self, Program, State};
use super::traits::{Disks, Memory};
use crate::machine::kernels;
use crate::machine::memory::{self, ABSENT, NOTES};
use crate::machine::module::release;
use crate::model::action::Pair;
use crate::model::facts::Device;
use crate::model::memory::Room;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;
use tandem_api::{Failure, Kind};
use tokio::time::Instant;

const PROGRAM: &str = "/usr/libexec/tandem-assemble";
/// Longest wait for the program. It waits for udev's programs for some seconds itself.
const LIMIT: Duration = Duration::from_secs(30);

impl Memory for DeviceMapper {
    fn memory_for_caches(&self) -> u64 {
        // A running kernel does not get another driver of its own.
        static THERE: OnceLock<bool> = OnceLock::new();
        let there = || *THERE.get_or_init(|| kernels::has_zram(Path::new("/"), &release()));
        let room = crate::waiting(|| memory::room().filter(|_| there()));
        room.map_or(0, |room| room.total / 2)
    }

    fn memory_room(&self) -> Option<Room> {
        crate::waiting(memory::room)
    }
}

impl DeviceMapper {
    /// Makes the memory of a cache, empty, and returns the device. Memory that is in use stays as it is.
    ///
    /// # Errors
    /// `MemoryUnable` (`absent`), `StepFailed`, `ServiceUnavailable`.
    pub(super) async fn make_memory(&self, pair: &Pair) -> Result<Device, Failure> {
        let bytes = pair.ssd.text.size.to_string();
        self.run(pair, &["make", &pair.uuid, &bytes]).await?;
        // udev and UDisks2 see the device a moment later, and its size again a moment later.
        let begun = Instant::now();
        loop {
            match self.facts().await?.same_hardware(&pair.ssd) {
                Some(device) => return Ok(device.clone()),
                None if begun.elapsed() > CHANGE_TIMEOUT => {
                    return Err(step("UDisks2 does not show the memory"));
                }
                None => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Gives the memory of a cache back. Nothing is done if the cache has none.
    ///
    /// # Errors
    /// `StepFailed` while the memory is in use, `ServiceUnavailable`.
    pub(super) async fn give_back_memory(&self, pair: &Pair) -> Result<(), Failure> {
        self.run(pair, &["give-back", &pair.uuid]).await
    }

    async fn run(&self, pair: &Pair, task: &[&str]) -> Result<(), Failure> {
        let output = Path::new(NOTES).with_extension("told");
        let mut words = vec![PROGRAM, "memory"];
        words.extend(task);
        let asked = Program {
            unit: &format!("tandem-memory-{}.service", pair.uuid),
            task: "Tandem takes memory for a cache, or gives it back",
            words: &words,
            output: &output,
        };
        match program::run(&self.connection, &asked, LIMIT).await? {
            State::Ended(Some(0)) => Ok(()),
            State::Ended(Some(status)) if status == i32::from(ABSENT) => {
                Err(Failure::new(Kind::MemoryUnable).name("absent"))
            }
            other => {
                let said = crate::waiting(|| std::fs::read_to_string(&output)).unwrap_or_default();
                Err(step(&format!("{}: {other:?}: {}", asked.unit, said.trim())))
            }
        }
    }
}
