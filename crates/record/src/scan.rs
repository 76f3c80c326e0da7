//! Going through all samples of a recording.

use std::num::NonZeroUsize;
use std::thread::ScopedJoinHandle;

use laggard_model::{Batch, Gather, Keep};

use crate::Shortfall;
use crate::gate::{self, Limits};
use crate::numbers::Numbers;
use crate::recording::Recording;
use crate::segment::{Columns, SegmentReader, in_batches};
use crate::table::Damage;

/// A segment larger than this is not ours: the rows of one take a megabyte.
const LARGEST_SEGMENT: u64 = 256 << 20;

impl Recording {
    /// Hands every sample to `each`, in batches of a few thousand rows. Within
    /// a segment rows are sorted by line and sequence number; the last rows of
    /// an unfinished recording come as they were recorded.
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

    /// As [`Recording::scan`], on up to `threads` threads: each reads segments
    /// that follow one another into something that `new` makes, and these are
    /// joined in the order of the segments. What comes out does therefore not
    /// depend on how many threads there are, nor on how fast each is.
    ///
    /// Batches of a damaged file that came before the damage may be in it.
    ///
    /// Every gap in a line's numbers is set against the losses that were
    /// written down; what they do not explain is a shortfall.
    pub fn gather<G: Gather>(
        &self,
        threads: NonZeroUsize,
        wanted: Columns,
        new: impl Fn() -> G + Sync,
    ) -> (G, Vec<Shortfall>) {
        let lines = self.manifest.lines.len();
        // The numbers are wanted for the gaps.
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
        let (mut all, mut shortfalls) = std::thread::scope(|scope| {
            let start = |number| {
                let thread = std::thread::Builder::new();
                thread.spawn_scoped(scope, move || work(part(number)))
            };
            let others: Vec<_> = (1..parts).map(start).collect();
            let (mut all, mut shortfalls) = work(part(0));
            for (number, other) in (1..).zip(others) {
                let (later, short) = match other.map(ScopedJoinHandle::join) {
                    Ok(Ok(read)) => read,
                    // What gathers panicked: that is the caller's.
                    Ok(Err(panic)) => std::panic::resume_unwind(panic),
                    // Where no more threads may be started, one reads all.
                    Err(_) => work(part(number)),
                };
                all.join(later);
                shortfalls.extend(short);
            }
            (all, shortfalls)
        });
        in_batches(&self.open_rows, |batch| all.batch(batch));
        let (all, numbers) = all;
        let is_whole = shortfalls.is_empty() && self.shortfalls().iter().all(is_no_end);
        if is_whole && self.manifest.plan.keep == Keep::All {
            let rows = numbers.unexplained(&self.manifest);
            if rows > 0 {
                shortfalls.push(Shortfall::Unexplained { rows });
            }
        }
        (all, shortfalls)
    }

    /// Reads one segment, batch by batch.
    pub(crate) fn scan_segment(
        &self,
        file: &str,
        wanted: Columns,
        batch: &mut Batch,
        mut each: impl FnMut(&Batch),
    ) -> Result<(), Damage> {
        let content = gate::read(&self.dir.join(file), LARGEST_SEGMENT)?;
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

/// Whether only the end is missing, which leaves no gap.
const fn is_no_end(shortfall: &Shortfall) -> bool {
    matches!(shortfall, Shortfall::NoEnd { .. })
}

pub(crate) fn damaged(file: &str, damage: &Damage) -> Shortfall {
    Shortfall::Damaged {
        file: file.into(),
        reason: damage.to_string(),
    }
}
