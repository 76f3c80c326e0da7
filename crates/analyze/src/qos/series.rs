//! Replay of latencies measured on the stream's own period (docs/method.md 6.9).

use super::{Buffering, episodes_of};
use crate::InputError;
use crate::input::{finite, not_negative};

/// What a late job means for the next one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Carry {
    /// A latency is what is left of one blackout: the later of it and the
    /// backlog counts. For wake-up latencies.
    #[default]
    Longest,
    /// Each activation is delayed afresh, on top of the backlog (Lindley
    /// 1952). Counts one blackout once per activation: conservative.
    Sum,
}

/// What happens to a job that misses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MissPolicy {
    /// It is computed all the same.
    #[default]
    Late,
    /// It is skipped for a dummy buffer, which costs no compute time.
    Drop,
    /// The stream is primed afresh: no backlog remains.
    Reset,
}

/// A replay of latencies.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesReplay {
    /// Jobs that missed.
    pub misses: usize,
    /// Runs of consecutive misses.
    pub episodes: usize,
    /// Each job's response time, from its due start to its end.
    pub responses: Vec<f64>,
}

/// Replays `latencies`, one per buffer period in order, through `buffering`.
///
/// Blind to blackouts that begin while a job computes; the replay of
/// blackouts (`qos/failures.rs`) sees them.
///
/// # Errors
/// When a latency is negative or not finite.
pub fn replay_series(
    latencies: &[f64],
    buffering: Buffering,
    carry: Carry,
    policy: MissPolicy,
) -> Result<SeriesReplay, InputError> {
    finite("latencies", latencies)?;
    let mut backlog = 0.0_f64;
    let mut responses = Vec::with_capacity(latencies.len());
    for &latency in latencies {
        not_negative("latency", latency)?;
        let start = match carry {
            Carry::Longest => latency.max(backlog),
            Carry::Sum => backlog + latency,
        };
        let response = start + buffering.compute();
        let missed = response > buffering.tolerance();
        let served = match policy {
            MissPolicy::Drop if missed => start,
            MissPolicy::Reset if missed => 0.0,
            MissPolicy::Late | MissPolicy::Drop | MissPolicy::Reset => response,
        };
        backlog = (served - buffering.period()).max(0.0);
        responses.push(response);
    }
    let missed = |response: &f64| *response > buffering.tolerance();
    Ok(SeriesReplay {
        misses: responses.iter().copied().filter(missed).count(),
        episodes: episodes_of(responses.iter().map(missed)),
        responses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    fn latencies() -> impl proptest::strategy::Strategy<Value = Vec<f64>> {
        proptest::collection::vec(0.0..40.0_f64, 0..60)
    }

    proptest! {
        #[test]
        fn more_buffers_never_miss_more(latencies in latencies(), buffers in 2..6_u32) {
            let misses = |buffers| {
                let buffering = Buffering::new(buffers, 6.0, 1.5).unwrap();
                replay_series(&latencies, buffering, Carry::Longest, MissPolicy::Late).unwrap().misses
            };
            prop_assert!(misses(buffers + 1) <= misses(buffers));
        }

        #[test]
        fn adding_delays_is_never_kinder_than_the_longest(latencies in latencies()) {
            let buffering = Buffering::new(3, 6.0, 1.5).unwrap();
            let misses = |carry| {
                replay_series(&latencies, buffering, carry, MissPolicy::Late).unwrap().misses
            };
            prop_assert!(misses(Carry::Longest) <= misses(Carry::Sum));
        }

        #[test]
        fn a_longer_latency_makes_no_response_shorter(
            latencies in latencies(), at in 0..60_usize, longer in 0.0..10.0_f64,
        ) {
            let buffering = Buffering::new(3, 6.0, 1.5).unwrap();
            let replay = |l: &[f64]| {
                replay_series(l, buffering, Carry::Longest, MissPolicy::Late).unwrap().responses
            };
            let mut worse = latencies.clone();
            if let Some(latency) = worse.get_mut(at) {
                *latency += longer;
            }
            for (before, after) in replay(&latencies).iter().zip(replay(&worse)) {
                prop_assert!(*before <= after);
            }
        }
    }
}
