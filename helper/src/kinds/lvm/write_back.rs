// SPDX-License-Identifier: GPL-3.0-or-later
//! Has LVM write a cache back, and keep it. LVM does so before it changes the mode of a cache to write-through; then the mode
//! is put back. LVM keeps the mode over a restart of the machine, and so is the note on the mode kept.
//!
//! LVM ends its own state of writing back, the policy `cleaner`, also when it is interrupted. A program of LVM that was killed, and a
//! power cut, leave it in force. Only a write-back that is not interrupted ends it then.

use super::lines::{Pool, Shown, blocks_left, knows, shown};
use super::tools::{ask, file, lvm, tail, unit};
use crate::host::device_mapper::{DeviceMapper, blocking};
use crate::host::systemd::program::{self, Program, State};
use crate::kinds::notes::{self, Note};
use crate::kinds::system::Remover;
use crate::kinds::{failed, mapping};
use crate::machine::dm::control::Control;
use crate::machine::dm::table::DM_CACHE;
use crate::model::removal::{OtherProgress, OtherRemoval};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tandem_api::{DataState, Failure, OtherMode, OtherState};

/// LVM as what writes its caches back.
pub(in crate::kinds) struct WriteBack;

/// A mode of a cache, as LVM keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum CacheMode {
    Writethrough,
    Writeback,
    Passthrough,
}

impl CacheMode {
    pub(super) const ALL: [Self; 3] = [Self::Writethrough, Self::Writeback, Self::Passthrough];

    /// LVM's word for the mode.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Writethrough => "writethrough",
            Self::Writeback => "writeback",
            Self::Passthrough => "passthrough",
        }
    }

    fn shown(self) -> OtherMode {
        match self {
            Self::Writethrough => OtherMode::Writethrough,
            Self::Writeback => OtherMode::Writeback,
            Self::Passthrough => OtherMode::Off,
        }
    }
}

/// What has to be known later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Before {
    /// The mode before the first change.
    mode: CacheMode,
    /// The cache that it is the mode of.
    pool: Pool,
    /// Whether the disk had everything at some moment since.
    drained: bool,
}

impl Before {
    /// `mode` and `pool`: those of now. A write-back of the same cache that was not ended has left its own mode.
    fn of(mode: CacheMode, pool: Pool, earlier: Option<&Note>) -> Self {
        let of_then = earlier.and_then(|note| note.before::<Self>().ok());
        let of_then = of_then.filter(|then| mode == CacheMode::Writethrough && then.pool == pool);
        Self {
            mode: of_then.map_or(mode, |then| then.mode),
            pool,
            drained: false,
        }
    }
}

/// The programs, one for each purpose. A new process finds them by their units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    /// Writes back.
    Flush,
    /// Writes back again, because a program was killed that did so.
    Again,
    /// Puts the mode back.
    Mode,
}

impl Task {
    const ALL: [Self; 3] = [Self::Flush, Self::Again, Self::Mode];

    /// The word for the task in the names of its unit and its file.
    fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Again => "again",
            Self::Mode => "mode",
        }
    }

    fn unit(self, removal: &OtherRemoval) -> String {
        unit(&format!("lvm-{}", self.name()), removal)
    }

    /// The file of what the program prints.
    fn printed(self, removal: &OtherRemoval) -> PathBuf {
        file(removal, self.name())
    }

    fn mode(self, before: Before) -> CacheMode {
        match self {
            Self::Flush | Self::Again => CacheMode::Writethrough,
            Self::Mode => before.mode,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Flush | Self::Again => "Tandem has LVM write back a cache",
            Self::Mode => "Tandem has LVM put back the mode of a cache",
        }
    }
}

/// The states of the programs, in the order of [`Task::ALL`].
type Programs = [State; 3];

fn running(programs: Programs) -> Option<Task> {
    let mut all = Task::ALL.into_iter().zip(programs);
    all.find_map(|(task, state)| (state == State::Running).then_some(task))
}

/// A cache while no program runs.
struct Seen {
    programs: Programs,
    /// What LVM says of the volume.
    volume: Shown,
    /// What the kernel says; none for a cache that is not active, or has failed.
    kernel: Option<Kernel>,
    /// The last lines that the write-back has printed.
    said: String,
}

/// A cache as the kernel has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kernel {
    mode: OtherMode,
    cleans: bool,
    unwritten: u64,
}

/// The next thing to do.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Start a program. Whether the disk has had everything is noted first.
    Start(Task, bool),
    /// Nothing: that is the end.
    End(Result<(), Box<Failure>>),
    /// Nothing that this process can do.
    Left(Box<Failure>),
}

fn next(note: &Note, before: Before, seen: &Seen) -> Next {
    let removal = &note.removal;
    let mode = match seen.volume {
        Shown::Plain => {
            // LVM has written the cache back for that.
            let why = "another program has removed the cache";
            let gone = removal.not_drained(why).data(DataState::OnDisk);
            return Next::End(Err(Box::new(gone)));
        }
        Shown::Cache(_, pool) if pool != before.pool => {
            // Its mode is the choice of the program that has made it.
            let gone = removal.not_drained("the volume has another cache now");
            return Next::End(Err(Box::new(gone)));
        }
        Shown::Cache(mode, _) => mode,
    };
    let [flush, again, put_back] = seen.programs;
    let state = |task| match task {
        Task::Flush => flush,
        Task::Again => again,
        Task::Mode => put_back,
    };
    let succeeded = [flush, again].contains(&State::Ended(Some(0)));
    let through = |kernel: Kernel| {
        kernel.mode == OtherMode::Writethrough && !kernel.cleans && kernel.unwritten == 0
    };
    // LVM changes the mode only when the disk has everything.
    let changed = mode == CacheMode::Writethrough && seen.kernel.is_none_or(through);
    let drained = before.drained || succeeded && changed;
    let cleans = seen.kernel.is_some_and(|kernel| kernel.cleans);
    let differs = |kernel: Kernel| kernel.mode != before.mode.shown();
    let task = if mode != before.mode && mode != CacheMode::Writethrough {
        // Another program has chosen it since.
        None
    } else if mode != before.mode {
        Some(Task::Mode)
    } else if cleans {
        Some(Task::Again)
    } else {
        seen.kernel.is_some_and(differs).then_some(Task::Mode)
    };
    match task {
        Some(task) if state(task) == State::Unknown => Next::Start(task, drained),
        Some(_) => {
            let failure = removal.not_drained(format_args!("not put back: {}", seen.said));
            Next::Left(Box::new(match drained {
                true => failure.data(DataState::Incomplete),
                false => failure,
            }))
        }
        None => Next::End(outcome(note, drained, flush, &seen.said).map_err(Box::new)),
    }
}

/// The end, when all is set as before.
fn outcome(note: &Note, drained: bool, flush: State, said: &str) -> Result<(), Failure> {
    match (drained, note.stopped) {
        // The request to stop may have come too late.
        (true, _) => Ok(()),
        (false, true) => Err(note.removal.cancelled().detail(said)),
        (false, false) => {
            let detail = format!("lvchange: {flush:?}\n{said}");
            Err(note.removal.not_drained(detail))
        }
    }
}

/// A cache that is not in write-back keeps nothing from the disk. After a crash the kernel writes everything to the disk all the
/// same, without a change by anybody.
fn wait(note: &Note, kernel: Option<Kernel>) -> OtherProgress {
    match kernel.map(|kernel| kernel.unwritten) {
        Some(left) if left > 0 && note.stopped => {
            OtherProgress::Ended(Err(Box::new(note.removal.cancelled())))
        }
        Some(left) if left > 0 => OtherProgress::Drains(Some(left)),
        _ => OtherProgress::Ended(Ok(())),
    }
}

/// What LVM says of a volume at this moment.
enum Told {
    /// Nothing: another program of LVM has the group for itself.
    Busy,
    /// LVM knows no such volume.
    Gone,
    Shown(Shown),
}

async fn volume(
    machine: &DeviceMapper,
    removal: &OtherRemoval,
    purpose: &str,
) -> Result<Told, Failure> {
    let columns = "lv_uuid,segtype,cache_mode,pool_lv_uuid";
    let Some(told) = ask(&machine.connection, removal, columns, purpose).await? else {
        return Ok(Told::Busy);
    };
    match shown(&told, removal.volume_uuid()) {
        Some(shown) => Ok(Told::Shown(shown)),
        None if knows(&told, removal.volume_uuid()) => Err(failed(told)),
        None => Ok(Told::Gone),
    }
}

async fn kernel(removal: &OtherRemoval) -> Result<Option<Kernel>, Failure> {
    let id = removal.id.clone();
    let read = move || {
        let control = Control::open().map_err(failed)?;
        let mut caches = control.foreign(&[DM_CACHE]).into_iter();
        let found = caches.find(|cache| cache.uuid == id);
        let told = found.and_then(|cache| mapping::told(&cache));
        let told = told.filter(|told| told.state != OtherState::Failed);
        Ok(told.map(|told| Kernel {
            mode: told.mode,
            cleans: told.state == OtherState::Cleaning,
            unwritten: told.unwritten_bytes.unwrap_or_default(),
        }))
    };
    blocking(read).await?
}

async fn programs(machine: &DeviceMapper, removal: &OtherRemoval) -> Result<Programs, Failure> {
    let mut states = [State::Unknown; 3];
    for (state, task) in states.iter_mut().zip(Task::ALL) {
        *state = program::state(&machine.connection, &task.unit(removal)).await?;
    }
    Ok(states)
}

async fn start(
    machine: &DeviceMapper,
    removal: &OtherRemoval,
    task: Task,
    mode: CacheMode,
) -> Result<(), Failure> {
    let (unit, printed) = (task.unit(removal), task.printed(removal));
    notes::remove(&printed);
    // LVM asks whether a cache may be in write-back that it could not repair.
    let words = [
        lvm()?,
        "lvchange",
        "--yes",
        "--cachemode",
        mode.word(),
        &removal.name,
    ];
    let begun = Program {
        unit: &unit,
        task: task.words(),
        words: &words,
        output: &printed,
    };
    program::start(&machine.connection, &begun).await
}

async fn forget(machine: &DeviceMapper, removal: &OtherRemoval, tasks: &[Task]) {
    for task in tasks {
        program::forget(&machine.connection, &task.unit(removal)).await;
        notes::remove(&task.printed(removal));
    }
}

async fn said(removal: &OtherRemoval, task: Task) -> Result<String, Failure> {
    let printed = task.printed(removal);
    blocking(move || tail(&printed)).await
}

/// Whether LVM says that the volume has no cache any more.
///
/// # Errors
/// LVM is not there, or says what is not known.
pub(in crate::kinds) async fn is_plain(
    machine: &DeviceMapper,
    removal: &OtherRemoval,
) -> Result<bool, Failure> {
    let told = volume(machine, removal, "lvs-plain").await?;
    Ok(matches!(told, Told::Shown(Shown::Plain)))
}

#[async_trait]
impl Remover for WriteBack {
    async fn look(
        &self,
        machine: &DeviceMapper,
        removal: &OtherRemoval,
        earlier: Option<&Note>,
    ) -> Result<serde_json::Value, Failure> {
        if programs(machine, removal).await?.contains(&State::Running) {
            return Err(removal.changed("LVM is at work on the volume"));
        }
        // The name has to be that of the volume that the kernel shows.
        match volume(machine, removal, "lvs").await? {
            Told::Shown(Shown::Cache(mode, pool)) => {
                serde_json::to_value(Before::of(mode, pool, earlier)).map_err(failed)
            }
            Told::Busy => Err(removal.changed("LVM is at work on the group")),
            Told::Shown(Shown::Plain) | Told::Gone => {
                Err(removal.changed("LVM knows no such volume with a cache"))
            }
        }
    }

    async fn begin(&self, machine: &DeviceMapper, note: &Note) -> Result<(), Failure> {
        let before: Before = note.before()?;
        forget(machine, &note.removal, &Task::ALL).await;
        if before.mode != CacheMode::Writeback {
            return Ok(());
        }
        let mode = Task::Flush.mode(before);
        start(machine, &note.removal, Task::Flush, mode).await
    }

    async fn go_on(&self, machine: &DeviceMapper, note: &Note) -> Result<OtherProgress, Failure> {
        let (before, removal) = (note.before::<Before>()?, &note.removal);
        if before.mode != CacheMode::Writeback {
            return Ok(wait(note, kernel(removal).await?));
        }
        let programs = programs(machine, removal).await?;
        // `lvs` waits for a program that runs.
        if let Some(task) = running(programs) {
            return Ok(match task {
                Task::Flush | Task::Again => {
                    OtherProgress::Drains(blocks_left(&said(removal, task).await?))
                }
                Task::Mode => OtherProgress::Removes,
            });
        }
        let volume = match volume(machine, removal, "lvs").await? {
            Told::Shown(volume) => volume,
            Told::Busy if before.drained => return Ok(OtherProgress::Removes),
            Told::Busy => return Ok(OtherProgress::Drains(None)),
            Told::Gone => {
                // Or the question was interrupted, or the volume has another name now: the next process tries again.
                let gone = removal.not_drained("LVM does not know the volume any more");
                return Ok(OtherProgress::Left(Box::new(gone)));
            }
        };
        let seen = Seen {
            programs,
            volume,
            kernel: kernel(removal).await?,
            said: said(removal, Task::Flush).await?,
        };
        match next(note, before, &seen) {
            Next::Start(task, drained) => {
                note.set(&Before { drained, ..before }).map_err(failed)?;
                start(machine, removal, task, task.mode(before)).await?;
                Ok(match task {
                    Task::Flush | Task::Again => OtherProgress::Drains(None),
                    Task::Mode => OtherProgress::Removes,
                })
            }
            Next::End(end) => Ok(OtherProgress::Ended(end)),
            Next::Left(failure) => {
                // The next process tries again.
                forget(machine, removal, &[Task::Again, Task::Mode]).await;
                Ok(OtherProgress::Left(failure))
            }
        }
    }

    async fn stop(&self, machine: &DeviceMapper, note: &Note) -> Result<(), Failure> {
        match running(programs(machine, &note.removal).await?) {
            Some(task @ (Task::Flush | Task::Again)) => {
                program::interrupt(&machine.connection, &task.unit(&note.removal)).await
            }
            // To put the mode back does not take long.
            Some(Task::Mode) | None => Ok(()),
        }
    }

    async fn forget(&self, machine: &DeviceMapper, removal: &OtherRemoval) {
        forget(machine, removal, &Task::ALL).await;
    }
}

#[cfg(test)]
mod tests;
