//! A recording with its activations counted.

use std::num::NonZeroUsize;

use laggard_analyze::distribution::{Fold, Latest, Lost, Split};
use laggard_model::{Caveat, Keep, Manifest, Nanos};
use laggard_record::{Columns, Recording};

use super::{RecordingReport, recording};
use crate::load::LoadError;
use crate::scan;

/// What has a row of its own.
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
    /// Its manifest.
    pub manifest: Manifest,
    /// What is missing from it or damaged.
    pub shortfalls: Vec<Caveat>,
    /// Its activations.
    pub fold: Fold,
    /// The latest expiry that was read; stands in for the end where the
    /// recording has none.
    pub last: Option<Nanos>,
}

/// Reads a recording and says what is in it.
///
/// # Errors
/// When minutes are asked for and the recording does not tell them apart.
pub fn report(from: &Recording, by: By) -> Result<RecordingReport, LoadError> {
    Ok(recording(measured(from, by)?, by == By::Cpu))
}

/// Reads a recording and counts its activations.
///
/// # Errors
/// When minutes are asked for and the recording does not tell them apart.
pub fn measured(from: &Recording, by: By) -> Result<Measured, LoadError> {
    let mut shortfalls: Vec<Caveat> = from.shortfalls().iter().map(Caveat::from).collect();
    let (mut fold, last) = if from.manifest().plan.keep == Keep::Tail {
        if by == By::Minute {
            return Err(LoadError::NoMinutes(from.dir().into()));
        }
        scan::stored(from, &mut shortfalls)
    } else {
        count_samples(from, by, &mut shortfalls)
    };
    let manifest = from.manifest();
    fold.set_lost(Lost::of(&manifest.counts, &manifest.losses));
    Ok(Measured {
        path: from.dir().display().to_string(),
        manifest: manifest.clone(),
        shortfalls,
        fold,
        last,
    })
}

/// Every sample, and the latest expiry.
fn count_samples(from: &Recording, by: By, shortfalls: &mut Vec<Caveat>) -> (Fold, Option<Nanos>) {
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
    let (fold, last) = scan::gather(from, NonZeroUsize::MAX, wanted, shortfalls, new);
    (fold, last.0)
}
