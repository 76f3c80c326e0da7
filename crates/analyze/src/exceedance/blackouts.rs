//! From late activations to blackouts (docs/method.md 6.3).

use laggard_model::Nanos;

use super::{Exceedance, Stream};
use crate::qos::Blackout;

/// The blackouts behind a stream, in ns since the start of the observation.
///
/// A late activation shows when its blackout ended: as long before it was
/// served as an activation ordinarily takes on a free CPU. It does not show
/// when the blackout began: somewhere between the last time the service ran
/// and the expiry. One that is no later than ordinary shows none: it found the
/// CPU free, though not what was between it and the one before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamBlackouts {
    /// Each begins at the first expiry that felt it: never too long.
    pub inner: Vec<Blackout>,
    /// Each begins halfway between the two: the estimate.
    pub middle: Vec<Blackout>,
    /// Each begins where the service last ran: never too short.
    pub outer: Vec<Blackout>,
}

impl Stream {
    /// The blackouts that are proved by latencies more than `least` above the
    /// `ordinary` one, in an observation that began at `start`. The ordinary
    /// latency is in none of them: whoever replays them pays it once for each
    /// wakeup. What is below the stream's own floor is not known, and in none.
    #[allow(clippy::cast_precision_loss)]
    pub fn blackouts(&self, start: Nanos, ordinary: Nanos, least: Nanos) -> StreamBlackouts {
        let since = |at: Nanos| at.saturating_sub(start).ns() as f64;
        let mut all = StreamBlackouts::default();
        let is_late = |late: &&Exceedance| late.waited() > ordinary + least;
        for late in self.exceedances.iter().filter(is_late) {
            let (free, felt) = (since(late.free_until), since(late.felt()));
            let end = since(late.felt() + late.waited().saturating_sub(ordinary));
            append(&mut all.inner, Blackout { start: felt, end });
            let start = (free + felt) / 2.0;
            append(&mut all.middle, Blackout { start, end });
            append(&mut all.outer, Blackout { start: free, end });
        }
        all
    }
}

/// Appends a blackout, joined with those before that it touches.
fn append(all: &mut Vec<Blackout>, mut blackout: Blackout) {
    while let Some(last) = all.last() {
        if blackout.start > last.end {
            break;
        }
        blackout.start = blackout.start.min(last.start);
        blackout.end = blackout.end.max(last.end);
        all.pop();
    }
    all.push(blackout);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qos::{Buffering, replay_blackouts};
    use laggard_model::{Cpu, Route, Service};
    use proptest::prelude::{prop, prop_assert, proptest};

    /// What an open-loop probe at these times sees of `truth`.
    fn probed(truth: &[(u64, u64)], times: &[u64]) -> Stream {
        let mut served = 0;
        let exceedances = times
            .iter()
            .map(|&at| {
                let hit = truth.iter().find(|(start, end)| *start <= at && at < *end);
                let end = hit.map_or(at + 1, |(_, end)| *end);
                let late = Exceedance {
                    expiry: Nanos::from_ns(at),
                    latency: Nanos::from_ns(end - at),
                    free_until: Nanos::from_ns(served.min(at)),
                };
                served = end;
                late
            })
            .collect();
        Stream {
            cpu: Cpu(0),
            service: Service::Other,
            route: Route::Direct,
            samples: times.len() as u64,
            floor: Nanos::ZERO,
            exceedances,
        }
    }

    #[test]
    fn an_ordinary_latency_is_no_blackout_however_long_it_is() {
        let probed = |latency: u64| {
            let exceedances = (1..1_000)
                .map(|at| Exceedance {
                    expiry: Nanos::from_ms(at),
                    latency: Nanos::from_us(latency),
                    free_until: Nanos::from_ms(at - 1) + Nanos::from_us(latency),
                })
                .collect();
            let stream = Stream {
                exceedances,
                ..probed(&[], &[])
            };
            stream.blackouts(Nanos::ZERO, Nanos::from_us(19), Nanos::from_us(8))
        };

        assert_eq!(probed(19), StreamBlackouts::default());
        // What is more than ordinary is one, and ends where the CPU was free.
        let first = probed(40).inner[0];
        assert_eq!((first.start, first.end), (1e6, 1.021e6));
    }

    proptest! {
        #[test]
        #[allow(clippy::cast_precision_loss)]
        fn the_true_number_of_misses_lies_between_the_bounds(
            gaps in prop::collection::vec((1_000..60_000_u64, 1_100..25_000_u64), 1..20),
            steps in prop::collection::vec(1..1_000_u64, 2_000..2_001),
        ) {
            let mut now = 1_000;
            let truth: Vec<(u64, u64)> = gaps
                .iter()
                .map(|(gap, length)| {
                    let start = now + gap;
                    now = start + length;
                    (start, now)
                })
                .collect();
            let mut at = 0;
            let times: Vec<u64> = steps.iter().map(|step| { at += step; at }).collect();
            let end = times[times.len() - 1];
            let seen: Vec<(u64, u64)> = truth.into_iter().filter(|(_, e)| e + 60_000 < end).collect();
            let all = probed(&seen, &times).blackouts(Nanos::ZERO, Nanos::ZERO, Nanos::from_ns(1));
            let exact: Vec<Blackout> = seen
                .iter()
                .map(|&(start, end)| Blackout { start: start as f64, end: end as f64 })
                .collect();
            let buffering = Buffering::new(3, 6_000.0, 1_500.0).unwrap();
            let misses = |blackouts: &[Blackout]| {
                replay_blackouts(blackouts, end as f64, buffering, 300.0, 0.0).unwrap().misses
            };
            let count = misses(&exact);
            prop_assert!(misses(&all.inner) <= count);
            prop_assert!(count <= misses(&all.outer));
        }
    }
}
