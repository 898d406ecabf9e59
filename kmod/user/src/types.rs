// SPDX-License-Identifier: GPL-3.0-or-later
//! The values that core takes and returns.

/// What core wants done: bits of `TD_DO_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Actions(pub u32);

#[allow(missing_docs)]
impl Actions {
    pub const DISK: u32 = 0x01;
    pub const SSD: u32 = 0x02;
    pub const ANSWER: u32 = 0x04;
    pub const RETRY: u32 = 0x08;
    pub const END: u32 = 0x10;
    pub const PASS: u32 = 0x20;
    pub const FETCH: u32 = 0x40;
    pub const START: u32 = 0x80;
    pub const SUM: u32 = 0x100;
    pub const COPY: u32 = 0x200;
    pub const MERGE: u32 = 0x400;

    pub fn has(self, action: u32) -> bool {
        self.0 & action != 0
    }
}

/// The part of a word that the record repeats: tag, valid, dirty.
const RECORD: u64 = (1 << 44) - 1;

/// The fields of core's word, as core/word.h documents them.
#[allow(missing_docs)]
pub struct Word {
    pub tag: u64,
    pub valid: u64,
    pub dirty: u64,
    pub pins: u64,
    pub state: u64,
    pub held: bool,
    pub pending: bool,
    bits: u64,
}

impl Word {
    /// Takes these bits apart.
    pub fn of(bits: u64) -> Word {
        Word {
            tag: bits & 0xf_ffff_ffff,
            valid: bits >> 36 & 0xf,
            dirty: bits >> 40 & 0xf,
            pins: bits >> 44 & 0xfff,
            state: bits >> 58 & 3,
            held: bits >> 60 & 1 != 0,
            pending: bits >> 61 & 1 != 0,
            bits,
        }
    }

    /// What the record of the slot should say.
    pub fn record(&self) -> u64 {
        if self.valid == 0 {
            0
        } else {
            self.bits & RECORD
        }
    }

    /// How many quarters are newer than the disk.
    pub fn dirty_quarters(&self) -> u64 {
        u64::from(self.dirty.count_ones())
    }
}

/// `enum td_mode`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Mode {
    WriteThrough = 0,
    WriteAround = 1,
    WriteBack = 2,
}

/// `enum td_state`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum State {
    Active,
    Bypass,
    Stranded,
}

/// `enum td_kind`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum ReqKind {
    Read = 0,
    Write = 1,
    Discard = 2,
    Flush = 3,
    Clean = 4,
}

/// `enum td_verdict`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Verdict {
    Hit,
    Miss,
    Pass,
    Busy,
}

/// The fill that a read joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Joined {
    /// The number of the fill's request.
    pub fill: u64,
    /// Sectors of the read that the fill's memory has.
    pub count: u64,
    /// The disk has answered the fill.
    pub answered: bool,
}

/// `enum td_work_kind`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum WorkKind {
    Group,
    FlushSsd,
    FlushDisk,
    Marks,
    Pages,
    Head,
    Note,
    Trim,
    Step,
}

/// All kinds of work, in core's order.
pub const WORK_KINDS: [WorkKind; 9] = [
    WorkKind::Group,
    WorkKind::FlushSsd,
    WorkKind::FlushDisk,
    WorkKind::Marks,
    WorkKind::Pages,
    WorkKind::Head,
    WorkKind::Note,
    WorkKind::Trim,
    WorkKind::Step,
];

/// I/O of the ledger's own; sectors of the SSD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Work {
    pub kind: WorkKind,
    pub first: u64,
    pub count: u64,
    /// Of a group: the SSD is to be flushed before it.
    pub flush: bool,
}

/// `enum td_load_error`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Loaded {
    Good,
    Damaged,
    Impossible,
}

/// `enum td_seek`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Seek {
    Nowhere,
    /// Sectors of the disk; 0 sectors: to the end of the run.
    Found {
        sector: u64,
        count: u64,
    },
    Further,
}

/// Requests that may go on, with their actions.
pub type Waking = Vec<(u64, Actions)>;
