//! From late activations to blackouts (docs/method.md 6.3).

use laggard_model::Nanos;

use super::{Exceedance, Stream};
use crate::InputError;
use crate::input::{ascending, finite};

/// From `start` to `end`, ns, a service could not run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blackout {
    /// When it began.
    pub start: f64,
    /// When it ended; never before `start`.
    pub end: f64,
}

/// Blackouts of these lengths, each so long after the end of the one before, and
/// when the last ends: for tests.
#[cfg(test)]
pub(crate) fn in_a_row(gaps: Vec<(f64, f64)>) -> (Vec<Blackout>, f64) {
    let mut now = 0.0;
    let after = |(gap, length)| {
        let start = now + gap;
        now = start + length;
        Blackout { start, end: now }
    };
    (gaps.into_iter().map(after).collect(), now)
}

/// That blackouts ascend and do not overlap.
pub(crate) fn check_blackouts(blackouts: &[Blackout]) -> Result<(), InputError> {
    let edges: Vec<f64> = blackouts.iter().flat_map(|b| [b.start, b.end]).collect();
    finite("blackouts", &edges)?;
    ascending("edges of blackouts", &edges)
}

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
    pub fn blackouts(&self, start: Nanos, ordinary: Nanos, least: Nanos) -> StreamBlackouts {
        let since = |at: Nanos| at.saturating_sub(start).as_f64();
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
    use laggard_model::{Cpu, Route, Service};

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
        // What is more than ordinary is one, and ends where the CPU was free.
        let first = probed(40).inner[0];
        assert_eq!((first.start, first.end), (1e6, 1.021e6));
    }
}
