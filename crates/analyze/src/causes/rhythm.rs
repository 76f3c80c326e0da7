//! Whether a cause comes again and again at a steady pace (METHODS 3).

use laggard_model::Nanos;

use super::RankedCause;
use crate::period::{SourceSearch, periodic_sources};

/// Only times at which the cause took at least this part of its largest: a
/// short stay of the same culprit has another reason.
const LIKE_THE_LARGEST: f64 = 0.25;
/// Episodes nearer to each other than this are one visit of the cause, which
/// made several lines late.
const ONE_VISIT: Nanos = Nanos::from_ms(25);
/// The search takes time with the cube of the number of visits.
const MOST_VISITS: usize = 60;
/// Fewer visits cannot tell a rhythm from chance.
const FEWEST_VISITS: usize = 3;
/// How far a visit may be from when it is due, s: what timers of the kernel
/// miss by, and a few ticks.
const TOLERANCES: [f64; 2] = [0.005, 0.02];
/// The shortest period that is looked for, s: two visits.
const SHORTEST: f64 = 0.05;
const SEED: u64 = 1999;

/// A cause that comes again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rhythm {
    /// From one time to the next.
    pub period: Nanos,
    /// Standard error of that.
    pub period_error: Option<Nanos>,
    /// How often it came when it was due.
    pub hits: usize,
    /// How often it was due, in the time that was looked at.
    pub due: usize,
    /// How likely chance alone is to give as clear a rhythm.
    pub p: f64,
}

/// The rhythm of a cause, if chance does not explain it.
pub fn rhythm(cause: &RankedCause) -> Option<Rhythm> {
    let visits = visits(cause);
    let (first, last) = (*visits.first()?, *visits.last()?);
    if visits.len() < FEWEST_VISITS {
        return None;
    }
    #[allow(clippy::cast_precision_loss)]
    let gap = (last - first) / (visits.len() - 1) as f64;
    let times: Vec<f64> = visits.iter().map(|at| at - first + gap / 2.0).collect();
    let exposure = last - first + gap;
    let how = SourceSearch {
        most: 1,
        ..SourceSearch::new(exposure, &TOLERANCES, SHORTEST, SEED)
    };
    // The times ascend within the exposure; a search of less than its
    // shortest period is refused, and there is no rhythm to find then.
    let source = periodic_sources(&times, &how).ok()?.into_iter().next()?;
    Some(Rhythm {
        period: nanos(source.comb.period)?,
        period_error: source.comb.period_error.and_then(nanos),
        hits: source.comb.hits,
        due: source.comb.teeth,
        p: source.p,
    })
}

/// When the cause came, s; the first ones only if there are many, because a
/// choice of single ones would hide a rhythm.
fn visits(cause: &RankedCause) -> Vec<f64> {
    let least = cause.largest.as_secs_f64() * LIKE_THE_LARGEST;
    let mut times: Vec<Nanos> = cause
        .met
        .iter()
        .filter(|(_, took)| took.as_secs_f64() >= least)
        .map(|(at, _)| *at)
        .collect();
    times.sort_unstable();
    let mut visits: Vec<Nanos> = Vec::new();
    for at in times {
        if visits.last().is_none_or(|&last| at > last + ONE_VISIT) {
            visits.push(at);
        }
    }
    let seconds = visits.iter().map(|at| at.as_secs_f64());
    seconds.take(MOST_VISITS).collect()
}

/// Seconds, as far as they are a length of time.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn nanos(seconds: f64) -> Option<Nanos> {
    (0.0..1e9)
        .contains(&seconds)
        .then(|| Nanos::from_ns((seconds * 1e9).round() as u64))
}

#[cfg(test)]
mod tests {
    use laggard_model::CauseClass;

    use super::super::Signature;
    use super::*;

    fn cause(met_ms: &[u64]) -> RankedCause {
        let took = Nanos::from_ms(7);
        RankedCause {
            signature: Signature {
                class: CauseClass::Softirq,
                who: None,
            },
            episodes: met_ms.len(),
            first_in: 0,
            total: took,
            largest: took,
            largest_episode: 1,
            cpus: Vec::new(),
            largest_without: Nanos::ZERO,
            met: met_ms
                .iter()
                .map(|&ms| (Nanos::from_ms(90_000 + ms), took))
                .collect(),
        }
    }

    #[test]
    fn a_visit_every_five_seconds_that_makes_two_lines_late_is_a_rhythm() {
        let met: Vec<u64> = (0..8)
            .flat_map(|turn| [turn * 5_000 + turn % 3, turn * 5_000 + 4])
            .collect();

        let found = rhythm(&cause(&met)).unwrap();

        assert!(found.period.ns().abs_diff(5_000_000_000) < 5_000_000);
        assert_eq!((found.hits, found.due), (8, 8));
        assert!(found.p <= 0.01);
    }

    #[test]
    fn what_two_lines_saw_is_one_visit_and_a_short_stay_is_none() {
        let mut cause = cause(&[0, 4, 5_000, 5_024, 10_000, 10_026]);
        let short = Nanos::from_ms(1);
        cause.met.push((Nanos::from_ms(92_500), short));

        let visits: Vec<f64> = visits(&cause).iter().map(|at| at - 90.0).collect();

        let expected = [0.0, 5.0, 10.0, 10.026];
        assert_eq!(visits.len(), expected.len(), "{visits:?}");
        for (visit, due) in visits.iter().zip(expected) {
            assert!((visit - due).abs() < 1e-9, "{visits:?}");
        }
    }

    #[test]
    fn times_without_a_pattern_have_no_rhythm() {
        let met = [120, 1_940, 2_210, 6_480, 9_050, 9_930, 15_700, 21_060];

        assert_eq!(rhythm(&cause(&met)), None);
        assert_eq!(rhythm(&cause(&met[..2])), None);
    }
}
