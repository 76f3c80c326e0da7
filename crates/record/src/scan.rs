//! Going through all samples of a recording.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use laggard_model::Batch;

use crate::Shortfall;
use crate::recording::{Recording, read_bounded};
use crate::segment::{SegmentReader, Wanted, in_batches};
use crate::table::Damage;

/// A segment larger than this is not ours: the rows of one take a megabyte.
const LARGEST_SEGMENT: u64 = 256 << 20;

/// What a parallel scan gave.
#[derive(Debug)]
pub struct Scanned<S> {
    /// One state per thread; together they saw every batch once.
    pub states: Vec<S>,
    /// What could not be read. Batches of a damaged file that came before the
    /// damage may have been seen.
    pub shortfalls: Vec<Shortfall>,
}

impl Recording {
    /// Hands every sample to `each`, in batches of a few thousand rows. Within
    /// a segment rows are sorted by line and sequence number; the last rows of
    /// an unfinished recording come as they were recorded.
    ///
    /// With `keep: tail` these are the samples of the tail only.
    pub fn scan(&self, wanted: Wanted, mut each: impl FnMut(&Batch)) -> Vec<Shortfall> {
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

    /// As [`Recording::scan`], on several threads. Each thread makes a state
    /// of its own and folds the batches of whole segments into it.
    pub fn scan_parallel<S: Send>(
        &self,
        threads: NonZeroUsize,
        wanted: Wanted,
        make_state: impl Fn() -> S + Sync,
        fold: impl Fn(&mut S, &Batch) + Sync,
    ) -> Scanned<S> {
        let next = AtomicUsize::new(0);
        let shortfalls = Mutex::new(Vec::new());
        let work = || {
            let (mut state, mut batch) = (make_state(), Batch::default());
            while let Some(file) = self.segments.get(next.fetch_add(1, Ordering::Relaxed)) {
                let each = |batch: &Batch| fold(&mut state, batch);
                if let Err(damage) = self.scan_segment(file, wanted, &mut batch, each) {
                    let mut shortfalls = shortfalls
                        .lock()
                        .unwrap_or_else(|poison| poison.into_inner());
                    shortfalls.push(damaged(file, &damage));
                }
            }
            state
        };
        let mut states: Vec<S> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads.get()).map(|_| scope.spawn(work)).collect();
            let mut states = vec![work()];
            for other in others {
                match other.join() {
                    Ok(state) => states.push(state),
                    // `fold` panicked: that is the caller's.
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            states
        });
        if let Some(state) = states.first_mut() {
            in_batches(&self.open_rows, |batch| fold(state, batch));
        }
        let mut shortfalls = shortfalls
            .into_inner()
            .unwrap_or_else(|poison| poison.into_inner());
        shortfalls.sort_by_key(ToString::to_string);
        Scanned { states, shortfalls }
    }

    fn scan_segment(
        &self,
        file: &str,
        wanted: Wanted,
        batch: &mut Batch,
        mut each: impl FnMut(&Batch),
    ) -> Result<(), Damage> {
        let content = read_bounded(&self.dir.join(file), LARGEST_SEGMENT)?;
        let mut reader = SegmentReader::open(content, wanted, self.manifest.lines.len())?;
        while reader.next(batch)? {
            each(batch);
        }
        Ok(())
    }
}

pub(crate) fn damaged(file: &str, damage: &Damage) -> Shortfall {
    Shortfall::Damaged {
        file: file.into(),
        reason: damage.to_string(),
    }
}
