//! Coordinated omission: what a closed loop did not ask.

use crate::InputError;
use crate::input::{finite, positive};

/// How many samples a back-fill may make, against memory exhaustion by an
/// interval that is absurdly small for the latencies.
const MOST: f64 = 1e8;

/// `latencies` of a closed loop, and behind each the ones that an open loop of
/// period `interval` would have seen besides (the rule of `HdrHistogram`):
/// l - interval, l - 2 interval, ... down to `interval`.
///
/// Only for legacy data: an open loop needs no correction, and rates of
/// failures per ns need none either (docs/method.md 1.2).
///
/// # Errors
/// When `interval` is not positive, a latency is not finite, or more than 1e8
/// samples would result.
pub fn backfilled(latencies: &[f64], interval: f64) -> Result<Vec<f64>, InputError> {
    positive("interval", interval)?;
    finite("latencies", latencies)?;
    let total: f64 = latencies.iter().map(|l| (l / interval).max(1.0)).sum();
    if total > MOST {
        return Err(InputError::OutOfRange {
            name: "interval",
            value: interval,
            range: "large enough that at most 1e8 samples result",
        });
    }
    let mut filled = Vec::with_capacity(latencies.len());
    for &latency in latencies {
        filled.push(latency);
        let mut rest = latency - interval;
        while rest >= interval {
            filled.push(rest);
            rest -= interval;
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/method.md 1.2: 100 ms stalls each 10 s, a 1 ms probe, P(latency > 50 ms).
    #[test]
    fn a_stall_weighs_as_much_as_its_length_after_the_correction() {
        let mut closed = vec![0.0; 9_900];
        closed.push(100.0);
        let share = |samples: &[f64]| {
            let above = samples.iter().filter(|&&l| l > 50.0).count();
            above as f64 / samples.len() as f64
        };

        let open = backfilled(&closed, 1.0).unwrap();

        assert!((share(&closed) - 1.0e-4).abs() < 1e-6);
        assert!((share(&open) - 5.0e-3).abs() < 1e-4);
    }

    #[test]
    fn an_interval_that_would_fill_the_memory_is_refused() {
        assert!(backfilled(&[1e9], 1e-3).is_err());
    }
}
