//! Stalls of a service, derived from late wakeups (docs/method.md 6.3).

use laggard_model::Nanos;

use super::{Exceedance, Stream};
use crate::InputError;
use crate::input::{ascending, finite};

/// Interval, ns, when a service could not run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blackout {
    /// Start.
    pub start: f64,
    /// End; never before `start`.
    pub end: f64,
}

impl Blackout {
    /// Returns a blackout between two times.
    #[must_use]
    pub const fn new(start: f64, end: f64) -> Self {
        Self { start, end }
    }
}

/// Returns blackouts from pairs of gap since the previous end and length, and the end
/// of the last one: for tests.
#[cfg(test)]
pub(crate) fn in_a_row(gaps: Vec<(f64, f64)>) -> (Vec<Blackout>, f64) {
    let mut now = 0.0;
    let after = |(gap, length)| {
        let start = now + gap;
        now = start + length;
        Blackout::new(start, now)
    };
    (gaps.into_iter().map(after).collect(), now)
}

/// Checks that blackouts ascend and do not overlap.
pub(crate) fn check_blackouts(blackouts: &[Blackout]) -> Result<(), InputError> {
    let edges: Vec<f64> = blackouts.iter().flat_map(|b| [b.start, b.end]).collect();
    finite("blackouts", &edges)?;
    ascending("edges of blackouts", &edges)
}

/// Blackouts behind a stream, in ns since the start of the observation.
///
/// A late wakeup shows when its blackout ended: before it was served, by the
/// latency of an ordinary activation on a free CPU. It does not show when the blackout
/// started: between the last run of the service and the expiry. An activation with an
/// ordinary latency does not show a blackout: it found the CPU free. It does not show the time
/// between it and the previous one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamBlackouts {
    /// Blackouts from the first expiry that was late: never too long.
    pub inner: Vec<Blackout>,
    /// Blackouts from halfway between `inner` and `outer`: the estimate.
    pub middle: Vec<Blackout>,
    /// Blackouts from the last run of the service: never too short.
    pub outer: Vec<Blackout>,
}

impl Stream {
    /// Returns the blackouts that are proved by latencies more than `least` above the
    /// `ordinary` one, in an observation that started at `start`. The ordinary latency
    /// is not part of a blackout: a replay adds it once per wakeup. Latencies below the
    /// stream's floor are unknown and in no blackout.
    pub fn blackouts(&self, start: Nanos, ordinary: Nanos, least: Nanos) -> StreamBlackouts {
        let since = |time: Nanos| time.saturating_sub(start).as_f64();
        let mut blackouts = StreamBlackouts::default();
        let limit = ordinary + least;
        // No wait is longer than its latency, and that test is faster.
        let is_late = |late: &&Exceedance| late.latency > limit && late.waited() > limit;
        for late in self.exceedances.iter().filter(is_late) {
            let (free, felt) = (since(late.free_until), since(late.felt()));
            let end = since(late.felt() + late.waited().saturating_sub(ordinary));
            append(&mut blackouts.inner, Blackout::new(felt, end));
            let start = (free + felt) / 2.0;
            append(&mut blackouts.middle, Blackout::new(start, end));
            append(&mut blackouts.outer, Blackout::new(free, end));
        }
        blackouts
    }
}

/// Appends a blackout, merged with the preceding ones that it touches.
fn append(blackouts: &mut Vec<Blackout>, mut blackout: Blackout) {
    while let Some(last) = blackouts.last() {
        if blackout.start > last.end {
            break;
        }
        blackout.start = blackout.start.min(last.start);
        blackout.end = blackout.end.max(last.end);
        blackouts.pop();
    }
    blackouts.push(blackout);
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_model::{Cpu, Route, Service};

    #[test]
    fn ordinary_latency_is_no_blackout_at_any_length() {
        let probed = |latency: u64| {
            let exceedances = (1..1_000)
                .map(|second| Exceedance {
                    expiry: Nanos::from_ms(second),
                    latency: Nanos::from_us(latency),
                    free_until: Nanos::from_ms(second - 1) + Nanos::from_us(latency),
                })
                .collect();
            let stream = Stream {
                cpu: Cpu(0),
                service: Service::Other,
                route: Route::Direct,
                samples: 999,
                floor: Nanos::ZERO,
                exceedances,
            };
            stream.blackouts(Nanos::ZERO, Nanos::from_us(19), Nanos::from_us(8))
        };

        assert_eq!(probed(19), StreamBlackouts::default());
        // The excess over the ordinary latency is a blackout. It ends when the CPU was
        // free.
        let first = probed(40).inner[0];
        assert_eq!((first.start, first.end), (1e6, 1.021e6));
    }
}
