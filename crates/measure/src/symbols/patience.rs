//! Remaining time to wait, which becomes shorter when the user interrupts laggard.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum total wait after an interruption.
const MAX_WAIT_AFTER_INTERRUPTION: Duration = Duration::from_millis(700);
/// Interval between two checks for an interruption.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Limit on waiting, which becomes shorter when the user interrupts laggard.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    interrupted_at: Option<Instant>,
}

impl Patience {
    /// Returns the time until `until`, or until [`MAX_WAIT_AFTER_INTERRUPTION`] after
    /// `interrupted` was set. `None` means that no time is left.
    pub(super) fn left(&mut self, until: Instant, interrupted: &AtomicBool) -> Option<Duration> {
        let now = Instant::now();
        if self.interrupted_at.is_none() && interrupted.load(Ordering::Relaxed) {
            self.interrupted_at = Some(now);
        }
        let end = match self.interrupted_at {
            Some(interruption) => until.min(interruption + MAX_WAIT_AFTER_INTERRUPTION),
            None => until,
        };
        end.checked_duration_since(now)
            .filter(|left| !left.is_zero())
    }

    /// Returns whether the time ran out because of an interruption.
    pub(super) const fn is_interrupted(&self) -> bool {
        self.interrupted_at.is_some()
    }
}
