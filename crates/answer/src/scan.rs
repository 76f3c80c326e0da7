//! Reading the samples of a recording, once and on several threads.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use laggard_analyze::distribution::{Fold, Latest, Split, Tally};
use laggard_model::{Gather, Nanos};
use laggard_record::{Columns, Recording, Shortfall};

/// Maximum number of threads that gather late activations. Each keeps up to 32 MB of them, and more
/// threads would not read faster from one disk.
pub(crate) const FEW: NonZeroUsize = NonZeroUsize::new(8).expect("8 is not zero");

/// Recordings to read, and the number of threads per recording. No answer depends on the threads.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The recordings' folders.
    pub dirs: Vec<PathBuf>,
    /// Maximum number of reading threads.
    pub threads: NonZeroUsize,
}

impl Ask {
    /// Asks these recordings, on a thread for each CPU.
    pub fn of(dirs: &[PathBuf]) -> Self {
        Self {
            dirs: dirs.to_vec(),
            threads: every_cpu(),
        }
    }
}

/// A thread for each CPU that this process may use.
pub fn every_cpu() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Data that was gathered from a recording's samples.
#[derive(Clone, Debug)]
pub struct ScanResult<G> {
    /// Data from every readable sample.
    pub gathered: G,
    /// Missing or damaged parts of the recording.
    pub shortfalls: Vec<Shortfall>,
}

/// Reads every sample that a recording kept, on `threads` threads at most: each
/// reads segments that follow one another into something that `new` makes, and
/// these are joined in their order. With `--keep tail` these are the samples of
/// the tail alone.
///
/// How many activations were later than 1 ms:
///
/// ```no_run
/// use laggard_answer::{every_cpu, scan};
/// use laggard_model::{Batch, Gather, Nanos};
/// use laggard_record::{Columns, Recording};
///
/// struct Late(u64);
///
/// impl Gather for Late {
///     fn batch(&mut self, rows: &Batch) {
///         let late = rows.iter().filter(|row| row.latency() > Nanos::from_ms(1));
///         self.0 += late.count() as u64;
///     }
///
///     fn join(&mut self, later: Self) {
///         self.0 += later.0;
///     }
/// }
///
/// let recording = Recording::open("r.laggard")?;
/// let scanned = scan(&recording, every_cpu(), Columns::all(), || Late(0));
/// println!("{} late, {:?}", scanned.gathered.0, scanned.shortfalls);
/// # Ok::<(), laggard_record::OpenError>(())
/// ```
pub fn scan<G: Gather>(
    recording: &Recording,
    threads: NonZeroUsize,
    wanted: Columns,
    new: impl Fn() -> G + Sync,
) -> ScanResult<G> {
    let (gathered, short) = recording.gather(threads, wanted, new);
    ScanResult {
        gathered,
        shortfalls: [recording.shortfalls(), &short].concat(),
    }
}

/// Returns the counts from the histograms of a recording of the tail, and a time when it still ran.
pub(crate) fn stored(
    recording: &Recording,
    shortfalls: &mut Vec<Shortfall>,
) -> (Fold, Option<Nanos>) {
    let mut fold = Fold::new(recording.manifest().lines.len(), Split::Whole);
    let mut last = Latest::default();
    shortfalls.extend(recording.each_figure(|stored| {
        last.join(Latest(Some(stored.largest_at)));
        let tally = Tally::from_parts(stored.histogram, Some(stored.largest_at));
        fold.add_stored(stored.line, stored.figure, &tally);
    }));
    shortfalls.extend(recording.each_largest(drop));
    (fold, last.0)
}
