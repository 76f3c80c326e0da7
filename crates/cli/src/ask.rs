//! Recordings to read, from the arguments and the environment.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use laggard_answer::{Ask, every_cpu};

/// Variable with the number of reading threads, instead of one per CPU. The output does not depend
/// on it, which the tests check.
const THREADS: &str = "LAGGARD_THREADS";

/// Asks the recordings in these folders.
pub(crate) fn of(dirs: &[PathBuf]) -> Ask {
    Ask {
        threads: threads(),
        ..Ask::of(dirs)
    }
}

/// Returns the number of threads that read a recording.
pub(crate) fn threads() -> NonZeroUsize {
    let variable = std::env::var(THREADS).ok();
    variable
        .and_then(|threads| threads.parse().ok())
        .unwrap_or_else(every_cpu)
}
