//! Iteration over all samples of a recording.

use std::num::NonZeroUsize;
use std::thread::ScopedJoinHandle;

use laggard_model::{Batch, Gather, Keep};

use crate::Shortfall;
use crate::gate::{self, Limits};
use crate::numbers::Numbers;
use crate::recording::Recording;
use crate::segment::{Columns, SegmentReader, in_batches};
use crate::table::Damage;

/// Maximum size of a segment: its rows take a megabyte.
const MAX_SEGMENT_BYTES: u64 = 256 << 20;

impl Recording {
    /// Passes every sample to `each`, in batches of a few thousand rows. Within a
    /// segment rows are sorted by line and sequence number; the last rows of an
    /// unfinished recording have the order of their recording.
    ///
    /// With `keep: tail` these are the samples of the tail only.
    pub fn scan(&self, wanted: Columns, mut each: impl FnMut(&Batch)) -> Vec<Shortfall> {
        let mut shortfalls = Vec::new();
        let mut batch = Batch::default();
        for file in &self.segments {
            if let Err(damage) = self.scan_segment(file, wanted, &mut batch, &mut each) {
                shortfalls.push(damaged(file, &damage));
            }
        }
        in_batches(&self.open_rows, each);
        shortfalls
    }

    /// Scans as [`Recording::scan`] does, on up to `threads` threads. Each reads
    /// consecutive segments into a value that `new` creates, and these values are
    /// joined in the order of the segments. The result therefore does not depend on the
    /// number or the speed of the threads.
    ///
    /// Batches of a damaged file from before the damage may be included.
    ///
    /// Every gap in a line's numbers is compared with the recorded losses; an
    /// unexplained gap is a shortfall.
    pub fn gather<G: Gather>(
        &self,
        threads: NonZeroUsize,
        wanted: Columns,
        new: impl Fn() -> G + Sync,
    ) -> (G, Vec<Shortfall>) {
        let lines = self.manifest.lines.len();
        // The gaps need the sequence numbers.
        let wanted = Columns {
            seq: true,
            ..wanted
        };
        let new = || (new(), Numbers::new(lines));
        let parts = threads.get().min(self.segments.len()).max(1);
        let part = |number: usize| {
            let cut = |number| self.segments.len() * number / parts;
            &self.segments[cut(number)..cut(number + 1)]
        };
        let work = |files: &[String]| {
            let (mut gathered, mut batch, mut shortfalls) = (new(), Batch::default(), Vec::new());
            for file in files {
                let each = |batch: &Batch| gathered.batch(batch);
                if let Err(damage) = self.scan_segment(file, wanted, &mut batch, each) {
                    shortfalls.push(damaged(file, &damage));
                }
            }
            (gathered, shortfalls)
        };
        let (mut joined, mut shortfalls) = std::thread::scope(|scope| {
            let start = |number| {
                let thread = std::thread::Builder::new();
                thread.spawn_scoped(scope, move || work(part(number)))
            };
            let others: Vec<_> = (1..parts).map(start).collect();
            let (mut gathered, mut shortfalls) = work(part(0));
            for (number, other) in (1..).zip(others) {
                let (later, short) = match other.map(ScopedJoinHandle::join) {
                    Ok(Ok(read)) => read,
                    // A panic of the caller's code is passed on.
                    Ok(Err(panic)) => std::panic::resume_unwind(panic),
                    // If no more threads can be started, this one reads all.
                    Err(_) => work(part(number)),
                };
                gathered.join(later);
                shortfalls.extend(short);
            }
            (gathered, shortfalls)
        });
        in_batches(&self.open_rows, |batch| joined.batch(batch));
        let (gathered, numbers) = joined;
        let is_whole = shortfalls.is_empty() && self.shortfalls().iter().all(is_no_end);
        if is_whole && self.manifest.plan.keep == Keep::All {
            let rows = numbers.unexplained(&self.manifest);
            if rows > 0 {
                shortfalls.push(Shortfall::Unexplained { rows });
            }
        }
        (gathered, shortfalls)
    }

    /// Reads one segment, batch by batch.
    pub(crate) fn scan_segment(
        &self,
        file: &str,
        wanted: Columns,
        batch: &mut Batch,
        mut each: impl FnMut(&Batch),
    ) -> Result<(), Damage> {
        let content = gate::read(&self.dir.join(file), MAX_SEGMENT_BYTES)?;
        let mut reader = SegmentReader::open(content, wanted, self.manifest.lines.len())?;
        let limits = Limits::since(self.manifest.clock.start_ns);
        let mut row = 0;
        while reader.next(batch)? {
            if let Some(mut too_large) = limits.check(batch) {
                too_large.row += row;
                return Err(Damage::BadValue(too_large.to_string()));
            }
            row += batch.len();
            each(batch);
        }
        Ok(())
    }
}

/// Returns whether only the end is missing, without a gap.
const fn is_no_end(shortfall: &Shortfall) -> bool {
    matches!(shortfall, Shortfall::NoEnd { .. })
}

pub(crate) fn damaged(file: &str, damage: &Damage) -> Shortfall {
    Shortfall::Damaged {
        file: file.into(),
        reason: damage.to_string(),
    }
}
