//! Reading the samples of a recording.

use std::num::NonZeroUsize;

use laggard_analyze::distribution::{Counted, Fold, Latest, Split, Tally};
use laggard_model::{Caveat, Gather, Nanos};
use laggard_record::{Columns, Figure, Recording};

/// How many threads read, instead of one on each CPU. What a command says
/// does not depend on it: that is what it is for, in tests.
const THREADS: &str = "LAGGARD_THREADS";

/// Most threads that gather late activations: each keeps up to 50 MB of them,
/// and more would not read faster from one disk.
pub(crate) const FEW: NonZeroUsize = NonZeroUsize::new(8).expect("8 is not zero");

/// Reads every sample that was kept, on `most` threads at most; what could not
/// be read is added to `shortfalls`.
pub(crate) fn gather<G: Gather>(
    recording: &Recording,
    most: NonZeroUsize,
    wanted: Columns,
    shortfalls: &mut Vec<Caveat>,
    new: impl Fn() -> G + Sync,
) -> G {
    let (gathered, short) = recording.gather(threads().min(most), wanted, new);
    shortfalls.extend(short.iter().map(Caveat::from));
    gathered
}

fn threads() -> NonZeroUsize {
    let asked = std::env::var(THREADS).ok();
    asked
        .and_then(|threads| threads.parse().ok())
        .or_else(|| std::thread::available_parallelism().ok())
        .unwrap_or(NonZeroUsize::MIN)
}

/// Counts from the histograms of a recording that kept the tail, and a time at
/// which it still ran.
pub(crate) fn stored(recording: &Recording, shortfalls: &mut Vec<Caveat>) -> (Fold, Option<Nanos>) {
    let summaries = recording.summaries();
    shortfalls.extend(summaries.shortfalls.iter().map(Caveat::from));
    let mut fold = Fold::new(recording.manifest().lines.len(), Split::Whole);
    let mut last = Latest::default();
    for stored in summaries.figures {
        let counted = match stored.figure {
            Figure::Latency => Counted::Latency,
            Figure::Missed => Counted::Missed,
            Figure::Censored => Counted::Censored,
            Figure::Thread => Counted::Thread,
            Figure::Step(stage) => Counted::Step(stage),
        };
        last.join(Latest(Some(stored.largest_at)));
        let tally = Tally::from_parts(stored.histogram, Some(stored.largest_at));
        fold.add_stored(stored.line, counted, &tally);
    }
    (fold, last.0)
}
