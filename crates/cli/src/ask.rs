//! Which recordings are asked, as arguments and the environment say.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use laggard_answer::{Ask, every_cpu};

/// How many threads read, instead of one on each CPU. What a command says
/// does not depend on it: that is what it is for, in tests.
const THREADS: &str = "LAGGARD_THREADS";

/// Asks the recordings in these folders.
pub(crate) fn of(dirs: &[PathBuf]) -> Ask {
    Ask {
        threads: threads(),
        ..Ask::of(dirs)
    }
}

/// How many threads read a recording.
pub(crate) fn threads() -> NonZeroUsize {
    let asked = std::env::var(THREADS).ok();
    asked
        .and_then(|threads| threads.parse().ok())
        .unwrap_or_else(every_cpu)
}
