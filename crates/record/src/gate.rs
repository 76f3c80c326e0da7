//! Limits of readable recordings: regular files of bounded size, and rows that the
//! writer would have accepted.
//!
//! A recording can come from anywhere. Its checksums detect accidents, not intent. So
//! no value is accepted that would cost a reader more than an honest recording does.

use std::io::{self, Read as _};
use std::path::Path;

use laggard_model::{Activation, Batch, Nanos};

/// Maximum step (104 days); sums of squares stay exact.
pub(crate) const MAX_STEP_NS: u64 = 1 << 53;
/// Largest number that every column can hold.
const MAX_NUMBER: u64 = i64::MAX.cast_unsigned();
/// Maximum length of a recording: ten years. Answers take time in proportion to it.
const MAX_RECORDING: Nanos = Nanos::from_secs(10 * 366 * 86_400);

/// Number that is larger than any written one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TooLarge {
    pub(crate) row: usize,
    pub(crate) line: u16,
    pub(crate) what: &'static str,
    pub(crate) value: u64,
    pub(crate) limit: u64,
}

impl std::fmt::Display for TooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {} in row {} (line {}), above the {} that can be recorded",
            self.what, self.value, self.row, self.line, self.limit
        )
    }
}

/// Limits of the numbers of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    expiry_ns: u64,
}

/// Returns the latest time in a recording that started at `start`.
pub(crate) fn latest(start: Nanos) -> Nanos {
    (start + MAX_RECORDING).min(Nanos::from_ns(MAX_NUMBER))
}

impl Limits {
    /// Returns the limits of a recording that started at `start`.
    pub(crate) fn since(start: Nanos) -> Self {
        Self {
            expiry_ns: latest(start).ns(),
        }
    }

    /// Returns the first row of a batch with a number that is too large. Columns that
    /// were not read are skipped.
    pub(crate) fn check(self, batch: &Batch) -> Option<TooLarge> {
        let is_step = |&ns: &u64| ns > MAX_STEP_NS && ns != Batch::ABSENT;
        // All bits of a column first, which is fast and usually sufficient. An absent step
        // wraps to zero.
        let above = |values: &[u64], limit: u64| {
            let bits = values.iter().fold(0, |bits, value| bits | value);
            bits > limit && values.iter().any(|&value| value > limit)
        };
        let any_step = |steps: &Vec<u64>| {
            let bits = steps.iter().fold(0, |bits, ns| bits | ns.wrapping_add(1));
            bits > MAX_STEP_NS && steps.iter().any(is_step)
        };
        if !above(&batch.seq, MAX_NUMBER)
            && !above(&batch.expiry_ns, self.expiry_ns)
            && !batch.step_ns.iter().any(any_step)
        {
            return None;
        }
        (0..batch.len()).find_map(|row| {
            let step = batch
                .step_ns
                .iter()
                .filter_map(|steps| steps.get(row))
                .find(|&ns| is_step(ns));
            self.too_large(
                (row, batch.line[row].0),
                batch.seq.get(row),
                batch.expiry_ns.get(row),
                step,
            )
        })
    }

    /// Checks one activation as [`Limits::check`] does.
    pub(crate) fn check_one(self, row: usize, activation: &Activation) -> Option<TooLarge> {
        let steps = activation.steps.iter().flatten().map(|step| step.ns());
        let step = steps.max();
        self.too_large(
            (row, activation.line.0),
            Some(&activation.seq),
            Some(&activation.expiry.ns()),
            step.as_ref(),
        )
    }

    fn too_large(
        self,
        (row, line): (usize, u16),
        seq: Option<&u64>,
        expiry: Option<&u64>,
        step: Option<&u64>,
    ) -> Option<TooLarge> {
        [
            ("the sequence number", seq, MAX_NUMBER),
            ("the expiry", expiry, self.expiry_ns),
            ("a stage's time", step, MAX_STEP_NS),
        ]
        .into_iter()
        .find_map(|(what, value, limit)| {
            value
                .filter(|&&value| value > limit)
                .map(|&value| TooLarge {
                    row,
                    line,
                    what,
                    value,
                    limit,
                })
        })
    }
}

/// Reads a regular file up to a size limit. Other files (a pipe, a device) are not
/// waited for.
pub(crate) fn read(file: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let opened = laggard_files::open_regular(file)?;
    let bytes = opened.metadata()?.len();
    if bytes > limit {
        return Err(too_many(bytes, limit));
    }
    let mut content = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
    // It may have grown since.
    opened.take(limit + 1).read_to_end(&mut content)?;
    match content.len() as u64 {
        bytes if bytes > limit => Err(too_many(bytes, limit)),
        _ => Ok(content),
    }
}

fn too_many(bytes: u64, limit: u64) -> io::Error {
    let text = format!("{bytes} bytes are more than such a file can have ({limit})");
    io::Error::new(io::ErrorKind::InvalidData, text)
}
