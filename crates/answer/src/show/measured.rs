//! A recording with its activations counted.

use std::num::NonZeroUsize;

use laggard_analyze::distribution::{Fold, Latest, Lost, Split};
use laggard_model::{Keep, Manifest, Nanos};
use laggard_record::{Columns, Recording, Shortfall};

use crate::load::LoadError;
use crate::scan::{self, ScanResult};

/// Grouping of the rows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum By {
    /// Each service by each route.
    Service,
    /// The same, on each CPU.
    Cpu,
    /// The same, on all CPUs, in each minute.
    Minute,
}

/// A recording with its activations counted.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The recording's folder, as the user gave it.
    pub path: String,
    pub manifest: Manifest,
    /// Missing or damaged parts.
    pub shortfalls: Vec<Shortfall>,
    /// Its activations.
    pub fold: Fold,
    /// Latest expiry that was read. It stands in for a missing end of the recording.
    pub last: Option<Nanos>,
}

/// Reads a recording, on `threads` threads at most, and counts its activations.
///
/// # Errors
/// If minutes are requested and the recording does not distinguish them.
pub fn measured(from: &Recording, by: By, threads: NonZeroUsize) -> Result<Measured, LoadError> {
    let ScanResult {
        gathered: (mut fold, last),
        shortfalls,
    } = if from.manifest().plan.keep == Keep::Tail {
        if by == By::Minute {
            return Err(LoadError::NoMinutes(from.dir().into()));
        }
        let mut shortfalls = from.shortfalls().to_vec();
        let gathered = scan::stored(from, &mut shortfalls);
        ScanResult {
            gathered,
            shortfalls,
        }
    } else {
        count_samples(from, by, threads)
    };
    let manifest = from.manifest();
    fold.set_lost(Lost::new(&manifest.counts, &manifest.losses));
    Ok(Measured {
        path: from.dir().display().to_string(),
        manifest: manifest.clone(),
        shortfalls,
        fold,
        last,
    })
}

/// Every sample, and the latest expiry.
fn count_samples(
    from: &Recording,
    by: By,
    threads: NonZeroUsize,
) -> ScanResult<(Fold, Option<Nanos>)> {
    let lines = from.manifest().lines.len();
    let split = match by {
        By::Minute => Split::Minutes {
            since: from.manifest().clock.start_ns,
        },
        By::Service | By::Cpu => Split::Whole,
    };
    let wanted = Columns {
        seq: false,
        ..Columns::all()
    };
    let new = || (Fold::new(lines, split), Latest::default());
    let ScanResult {
        gathered: (fold, last),
        shortfalls,
    } = scan::scan(from, threads, wanted, new);
    ScanResult {
        gathered: (fold, last.0),
        shortfalls,
    }
}
