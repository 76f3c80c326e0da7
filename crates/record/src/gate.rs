//! What is read of a recording at all: regular files of a bounded size, and
//! rows that the writer would not have refused.
//!
//! A recording can come from anywhere, and its checksums keep accidents away,
//! not intent. So nothing is believed that would cost a reader more than the
//! recording of an honest machine does.

use std::io::{self, Read as _};
use std::path::Path;

use laggard_model::{Activation, Batch, Nanos};

/// A step above this (104 days) is no measurement; sums of squares stay exact.
pub(crate) const LONGEST_STEP_NS: u64 = 1 << 53;
/// The largest number that every column can hold.
const LARGEST: u64 = i64::MAX.cast_unsigned();
/// No recording is longer: ten years. Answers take time in proportion to it.
const LONGEST_RECORDING: Nanos = Nanos::from_secs(10 * 366 * 86_400);

/// A number that is larger than any that is written.
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

/// How large a row's numbers may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    expiry_ns: u64,
}

/// The last instant of a recording that began at `start`.
pub(crate) fn latest(start: Nanos) -> Nanos {
    (start + LONGEST_RECORDING).min(Nanos::from_ns(LARGEST))
}

impl Limits {
    /// Of a recording that began at `start`.
    pub(crate) fn since(start: Nanos) -> Self {
        Self {
            expiry_ns: latest(start).ns(),
        }
    }

    /// The first row of a batch with a number that is too large. Columns that
    /// were not read are passed over.
    pub(crate) fn check(self, batch: &Batch) -> Option<TooLarge> {
        let above = |values: &[u64], limit: u64| values.iter().any(|&value| value > limit);
        let is_step = |&ns: &u64| ns > LONGEST_STEP_NS && ns != Batch::ABSENT;
        // Whole columns first: that is quick, and mostly all.
        if !above(&batch.seq, LARGEST)
            && !above(&batch.expiry_ns, self.expiry_ns)
            && !batch.step_ns.iter().any(|steps| steps.iter().any(is_step))
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

    /// As [`Limits::check`], of one activation.
    pub(crate) fn check_one(self, row: usize, one: &Activation) -> Option<TooLarge> {
        let steps = one.steps.iter().flatten().map(|step| step.ns());
        let step = steps.max();
        self.too_large(
            (row, one.line.0),
            Some(&one.seq),
            Some(&one.expiry.ns()),
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
            ("the sequence number", seq, LARGEST),
            ("the expiry", expiry, self.expiry_ns),
            ("a stage's time", step, LONGEST_STEP_NS),
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

/// Reads a regular file, unless it is larger than it can rightly be. What is
/// no regular file (a pipe, a device) is not waited for.
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
