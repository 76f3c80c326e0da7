//! How long to wait before what failed is tried again.

use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};

/// The first wait is at most this.
const FIRST: Duration = Duration::from_secs(1);
/// The longest that is waited by itself.
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// The longest that a collector can ask for.
const ASKED_AT_MOST: Duration = Duration::from_secs(60 * 60);
/// So that a collector that refuses at once is not asked without a pause.
const LEAST: Duration = Duration::from_millis(100);

/// Exponential, with full jitter: any time between nothing and twice the limit of before,
/// so that many machines do not come back together (M. Brooker, "Exponential Backoff And
/// Jitter", 2015).
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Once more it failed: how long to wait, and no less than a collector `asked` for.
    pub(crate) fn wait(&mut self, asked: Option<Duration>) -> Duration {
        let wait = jittered(self.limit(), random());
        self.failures = self.failures.saturating_add(1);
        let asked = asked.unwrap_or_default().min(ASKED_AT_MOST);
        wait.max(LEAST).max(asked)
    }

    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }

    fn limit(&self) -> Duration {
        let doubled = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        FIRST.saturating_mul(doubled).min(LONGEST)
    }
}

/// A part of `limit`, by a random number.
fn jittered(limit: Duration, random: u32) -> Duration {
    limit.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Where the system has no random numbers, the longest wait is as good as any.
fn random() -> u32 {
    let mut bytes = [0xff; 4];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => u32::from_le_bytes(bytes),
        Err(_) => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_doubles_up_to_the_longest_and_begins_anew_after_a_success() {
        let mut backoff = Backoff::default();
        let mut limits = Vec::new();
        for _ in 0..40 {
            limits.push(backoff.limit().as_secs());
            let wait = backoff.wait(None);
            assert!(wait >= LEAST && wait <= LONGEST);
        }

        assert_eq!(limits[..10], [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(limits[39], 300);
        backoff.succeeded();
        assert_eq!(backoff.limit(), FIRST);
    }

    #[test]
    fn a_wait_is_any_part_of_the_limit() {
        let limit = Duration::from_secs(8);

        assert_eq!(jittered(limit, 0), Duration::ZERO);
        assert_eq!(jittered(limit, u32::MAX), limit);
        assert_eq!(jittered(limit, u32::MAX / 2).as_secs(), 3);
    }

    #[test]
    fn what_a_collector_asks_for_is_waited_but_no_more_than_an_hour() {
        let wait = |seconds| Backoff::default().wait(Some(Duration::from_secs(seconds)));

        assert_eq!(wait(30), Duration::from_secs(30));
        assert_eq!(wait(u64::MAX), ASKED_AT_MOST);
    }
}
