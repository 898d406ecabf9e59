// SPDX-License-Identifier: GPL-3.0-or-later
//! The saved state, so that watching goes on after a restart.
//!
//! Little-endian: magic (8 bytes), then 64-bit numbers: version, sectors of the disk, the shape, the count of rungs, what was
//! seen, the streams of the detector, and for each rung its ghost and its tallies; at last crc32c of all before, as a 64-bit
//! number. The length follows from the count of rungs. A state that this program cannot have written is refused whole.

use crate::ghost::Ghost;
use crate::ladder::{Amount, Ladder, Rung, Shape, Tally};
use crate::{Advisor, Seen};

const MAGIC: &[u8; 8] = b"TdAdvise";
/// To be raised too when core's words, sets or streams change their meaning.
const VERSION: u64 = 4;
/// Numbers above are not believed: sums of them would overflow.
const LARGEST: u64 = 1 << 62;

/// A saved state is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StateError {
    /// Not a state, or bytes of it changed.
    #[error("the saved state of the advisor is damaged")]
    Damaged,
    /// Of another version of this program.
    #[error("the saved state of the advisor is of another version")]
    Version,
    /// Of a disk of another size.
    #[error("the saved state of the advisor belongs to another disk")]
    OtherDisk,
    /// There is no memory for it.
    #[error("no memory for the advisor")]
    Memory,
}

/// The numbers of a state, taken one by one.
struct Reader<'a>(std::slice::Iter<'a, u64>);

impl Reader<'_> {
    fn number(&mut self) -> Result<u64, StateError> {
        self.0.next().copied().ok_or(StateError::Damaged)
    }

    fn count(&mut self) -> Result<u64, StateError> {
        self.number().and_then(|number| match number <= LARGEST {
            true => Ok(number),
            false => Err(StateError::Damaged),
        })
    }

    fn signed(&mut self) -> Result<i64, StateError> {
        let number = self.number()?.cast_signed();
        match number.unsigned_abs() <= LARGEST {
            true => Ok(number),
            false => Err(StateError::Damaged),
        }
    }

    fn amount(&mut self) -> Result<Amount, StateError> {
        Ok(Amount {
            sectors: self.signed()?,
            reads: self.signed()?,
        })
    }

    fn numbers(&mut self, count: usize) -> Result<&[u64], StateError> {
        let (taken, left) = self
            .0
            .as_slice()
            .split_at_checked(count)
            .ok_or(StateError::Damaged)?;
        self.0 = left.iter();
        Ok(taken)
    }
}

fn shape_numbers(shape: &Shape) -> [u64; 4] {
    let Shape {
        groups,
        rungs,
        run_shift,
        way_shift,
    } = *shape;
    [groups, rungs, run_shift, way_shift].map(u64::from)
}

impl Advisor {
    /// All that the advisor knows.
    pub fn save(&self) -> Vec<u8> {
        let Seen {
            watched_us,
            reads,
            read_sectors,
            sequential_sectors,
            writes,
            written_sectors,
            ignored,
            lost,
        } = self.seen;
        let ladder = &self.ladder;
        let mut numbers = vec![VERSION, ladder.disk_sectors()];
        numbers.extend(shape_numbers(&ladder.shape));
        numbers.push(ladder.rungs.len() as u64);
        numbers.extend([watched_us, reads, read_sectors, sequential_sectors]);
        numbers.extend([writes, written_sectors, ignored, lost]);
        numbers.extend(ladder.detector.save());
        for rung in &ladder.rungs {
            numbers.extend(rung.ghost.save());
            let tallies = rung
                .tallies
                .iter()
                .flat_map(|tally| [tally.gain, tally.missed]);
            for amount in tallies.chain([rung.missed]) {
                numbers.extend([amount.sectors, amount.reads].map(i64::cast_unsigned));
            }
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        let checksum = u64::from(crc32c::crc32c(&bytes));
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// Goes on from a state that [`Advisor::save`] gave, for a disk of so many sectors. The time between does not count.
    ///
    /// # Errors
    /// The state is damaged, of another version or of another disk.
    pub fn load(bytes: &[u8], disk_sectors: u64) -> Result<Self, StateError> {
        Self::load_shape(bytes, disk_sectors, Shape::REAL)
    }

    /// [`Advisor::load`] for [`Advisor::with_shape`].
    ///
    /// # Errors
    /// As [`Advisor::load`].
    pub fn load_shape(bytes: &[u8], disk_sectors: u64, shape: Shape) -> Result<Self, StateError> {
        let (body, checksum) = bytes
            .split_last_chunk::<8>()
            .filter(|(body, _)| body.starts_with(MAGIC))
            .ok_or(StateError::Damaged)?;
        let (words, []) = body[MAGIC.len()..].as_chunks::<8>() else {
            return Err(StateError::Damaged);
        };
        if u64::from(crc32c::crc32c(body)) != u64::from_le_bytes(*checksum) {
            return Err(StateError::Damaged);
        }
        let numbers: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let mut reader = Reader(numbers.iter());
        if reader.number()? != VERSION {
            return Err(StateError::Version);
        }
        if reader.number()? != disk_sectors {
            return Err(StateError::OtherDisk);
        }
        if reader.numbers(4)? != shape_numbers(&shape) {
            return Err(StateError::Version);
        }
        let advisor = read(&mut reader, disk_sectors, shape)?;
        match reader.0.next() {
            None => Ok(advisor),
            Some(_) => Err(StateError::Damaged),
        }
    }
}

fn read(reader: &mut Reader, disk_sectors: u64, shape: Shape) -> Result<Advisor, StateError> {
    let rungs = reader.number()?;
    let mut ladder = Ladder::new(disk_sectors, shape).ok_or(StateError::Memory)?;
    let mut count = || reader.count();
    let seen = Seen {
        watched_us: count()?,
        reads: count()?,
        read_sectors: count()?,
        sequential_sectors: count()?,
        writes: count()?,
        written_sectors: count()?,
        ignored: count()?,
        lost: count()?,
    };
    let detector = reader.numbers(ladder.detector.saved_count())?;
    ladder.detector =
        Ghost::restore(*ladder.detector.shape(), detector).ok_or(StateError::Damaged)?;
    ladder.rungs.clear();
    for at in 0..rungs {
        // More rungs than the shape has are refused here.
        let shape = shape.ghost(disk_sectors, at as usize);
        let empty = Ghost::new(shape.ok_or(StateError::Damaged)?).ok_or(StateError::Memory)?;
        let numbers = reader.numbers(empty.saved_count())?;
        let ghost = Ghost::restore(*empty.shape(), numbers).ok_or(StateError::Damaged)?;
        let mut rung = Rung::new(ghost);
        for tally in &mut rung.tallies {
            *tally = Tally {
                gain: reader.amount()?,
                missed: reader.amount()?,
            };
        }
        rung.missed = reader.amount()?;
        ladder.rungs.push(rung);
    }
    if ladder.rungs.is_empty() {
        return Err(StateError::Damaged);
    }
    Ok(Advisor {
        ladder,
        seen,
        last_us: None,
    })
}
