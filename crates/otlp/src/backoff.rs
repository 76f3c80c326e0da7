//! Wait between two attempts after a failure.

use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};

/// Upper limit of the first wait.
const FIRST_LIMIT: Duration = Duration::from_secs(1);
/// Maximum wait without a request of the collector.
const MAX_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Maximum wait that a collector can request.
const MAX_REQUESTED: Duration = Duration::from_secs(60 * 60);
/// Minimum wait, so that a collector that refuses at once does not cause a busy loop.
const MIN_WAIT: Duration = Duration::from_millis(100);

/// Exponential backoff with full jitter: a random time up to the limit, which doubles each time,
/// so that many machines do not retry at the same time (M. Brooker, "Exponential Backoff And
/// Jitter", 2015).
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns the wait after another failure, which is at least `requested`, the time
    /// that the collector asked for.
    pub(crate) fn wait(&mut self, requested: Option<Duration>) -> Duration {
        let wait = jittered(self.limit(), random());
        self.failures = self.failures.saturating_add(1);
        let requested = requested.unwrap_or_default().min(MAX_REQUESTED);
        wait.max(MIN_WAIT).max(requested)
    }

    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }

    fn limit(&self) -> Duration {
        let doubled = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        FIRST_LIMIT.saturating_mul(doubled).min(MAX_LIMIT)
    }
}

/// Returns a random fraction of `limit`.
fn jittered(limit: Duration, random: u32) -> Duration {
    limit.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Returns a random number. Without random numbers of the system, the maximum wait is acceptable.
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
    fn limit_doubles_up_to_the_maximum_and_restarts_after_a_success() {
        let mut backoff = Backoff::default();
        let mut limits = Vec::new();
        for _ in 0..40 {
            limits.push(backoff.limit().as_secs());
            let wait = backoff.wait(None);
            assert!(wait >= MIN_WAIT && wait <= MAX_LIMIT);
        }

        assert_eq!(limits[..10], [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(limits[39], 300);
        backoff.succeeded();
        assert_eq!(backoff.limit(), FIRST_LIMIT);
    }

    #[test]
    fn wait_is_a_random_fraction_of_the_limit() {
        let limit = Duration::from_secs(8);

        assert_eq!(jittered(limit, 0), Duration::ZERO);
        assert_eq!(jittered(limit, u32::MAX), limit);
        assert_eq!(jittered(limit, u32::MAX / 2).as_secs(), 3);
    }

    #[test]
    fn requested_wait_is_kept_up_to_an_hour() {
        let wait = |seconds| Backoff::default().wait(Some(Duration::from_secs(seconds)));

        assert_eq!(wait(30), Duration::from_secs(30));
        assert_eq!(wait(u64::MAX), MAX_REQUESTED);
    }
}
