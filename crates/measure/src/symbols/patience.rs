//! Time that is left to wait for something, less when the user ends laggard.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for all that waits once laggard is to end.
const AFTER_INTERRUPTION: Duration = Duration::from_millis(700);
/// Interval between two looks at whether laggard is to end.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Limit on waiting, which becomes shorter when laggard is to end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    interrupted_at: Option<Instant>,
}

impl Patience {
    /// Time left until `until`, or until [`AFTER_INTERRUPTION`] after `interrupted` was set. `None`:
    /// there is none.
    pub(super) fn left(&mut self, until: Instant, interrupted: &AtomicBool) -> Option<Duration> {
        let now = Instant::now();
        if self.interrupted_at.is_none() && interrupted.load(Ordering::Relaxed) {
            self.interrupted_at = Some(now);
        }
        let end = match self.interrupted_at {
            Some(at) => until.min(at + AFTER_INTERRUPTION),
            None => until,
        };
        end.checked_duration_since(now)
            .filter(|left| !left.is_zero())
    }

    /// Whether the time ran out because laggard is to end.
    pub(super) const fn is_interrupted(&self) -> bool {
        self.interrupted_at.is_some()
    }
}
