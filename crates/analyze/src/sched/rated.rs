//! Blackout envelope at a permitted failure rate (docs/method.md 9.6).
//!
//! The plain envelope is the observed maximum. This one is the level that sums of
//! blackouts in a window exceed once per permitted time. It can be lower, for a rate
//! that was observed often, or higher, for a rarer one. By simulation
//! (`tests/it/envelope.rs`) it lies above the level in 98 to 99 % of all recordings for
//! rates that were observed ten times, and in 98 to 100 % for 20 % of the recordings.

use std::collections::BTreeSet;

use super::Envelope;
use crate::InputError;
use crate::exceedance::{Blackout, check_blackouts};
use crate::forecast::{LevelSettings, Peaks, Reason, return_level};
use crate::input::positive;

/// Ratio of neighbouring windows.
const STEP: f64 = 1.1;
/// Number of largest sums to keep for each window.
const MAX_SUMS: usize = 2_000;

/// Observation of one CPU.
#[derive(Clone, Copy, Debug)]
pub struct CpuBlackouts<'a> {
    /// Duration of the observation.
    pub exposure: f64,
    /// Blackouts since its start.
    pub blackouts: &'a [Blackout],
}

/// Envelope with its reliability.
#[derive(Clone, Debug, PartialEq)]
pub struct RatedEnvelope {
    /// Upper limits of the levels.
    pub envelope: Envelope,
    /// Number of windows.
    pub windows: usize,
    /// Number of windows without a level, which have the observed maximum.
    pub as_seen: usize,
    /// Length of windows below which each has a level; infinite if all have one.
    pub told_below: f64,
}

/// Returns the time that blackouts take in any window, exceeded once per `permitted` on
/// average on the worst of `cpus`, for windows from `shortest` to `longest`: the upper
/// limits at 95 %.
///
/// # Errors
/// If blackouts overlap or a length is not positive.
pub fn rated_envelope(
    cpus: &[CpuBlackouts<'_>],
    (shortest, longest): (f64, f64),
    permitted: f64,
) -> Result<RatedEnvelope, InputError> {
    positive("shortest window", shortest)?;
    positive("longest window", longest)?;
    positive("permitted time between failures", permitted)?;
    for cpu in cpus {
        check_blackouts(cpu.blackouts)?;
    }
    let mut steps = Vec::new();
    let mut as_seen = 0;
    let mut told_below = f64::INFINITY;
    let mut window = shortest;
    let mut highest = 0.0_f64;
    loop {
        let mut is_known = true;
        for cpu in cpus {
            let sums = apart(&sums(cpu.blackouts, window), window);
            let largest = sums.first().map_or(0.0, |sum| sum.1);
            let level = level(&sums, cpu.exposure, permitted)?;
            is_known &= level.is_some();
            highest = highest.max(level.unwrap_or(largest).min(window));
        }
        if !is_known {
            as_seen += 1;
            told_below = told_below.min(window);
        }
        steps.push((window, highest));
        if window >= longest {
            break;
        }
        window *= STEP;
    }
    Ok(RatedEnvelope {
        windows: steps.len(),
        envelope: Envelope::from_steps(steps),
        as_seen,
        told_below,
    })
}

/// Returns start and blackout time of each window that starts with a blackout.
fn sums(blackouts: &[Blackout], window: f64) -> Vec<(f64, f64)> {
    let mut next = 0;
    let mut whole = 0.0;
    let mut sums = Vec::with_capacity(blackouts.len());
    for blackout in blackouts {
        let end = blackout.start + window;
        while let Some(inside) = blackouts.get(next).filter(|blackout| blackout.start < end) {
            whole += inside.end - inside.start;
            next += 1;
        }
        let last = next.checked_sub(1).and_then(|index| blackouts.get(index));
        let beyond = last.map_or(0.0, |blackout| (blackout.end - end).max(0.0));
        sums.push((blackout.start, whole - beyond));
        whole -= blackout.end - blackout.start;
    }
    sums
}

/// Returns the largest sums whose windows do not overlap, largest first.
fn apart(sums: &[(f64, f64)], window: f64) -> Vec<(f64, f64)> {
    let mut sorted = sums.to_vec();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    // Times are not negative, so their bits have the same order.
    let mut taken: BTreeSet<u64> = BTreeSet::new();
    let mut apart = Vec::new();
    for (start, sum) in sorted {
        let near = (start - window).max(0.0).to_bits()..=(start + window).to_bits();
        if taken.range(near).next().is_none() {
            taken.insert(start.to_bits());
            apart.push((start, sum));
        }
        if apart.len() >= MAX_SUMS {
            break;
        }
    }
    apart
}

/// Returns the upper limit of the level, if there is one.
fn level(sums: &[(f64, f64)], exposure: f64, permitted: f64) -> Result<Option<f64>, InputError> {
    // With fewer sums, none was omitted: missing sums are zero.
    let threshold = match sums.get(MAX_SUMS - 1) {
        Some(last) => last.1,
        None => 0.0,
    };
    let mut kept: Vec<(f64, f64)> = sums
        .iter()
        .copied()
        .filter(|(start, sum)| *sum > threshold && *start <= exposure)
        .collect();
    kept.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (times, sizes) = kept.into_iter().unzip();
    let peaks = Peaks::new(threshold, exposure, times, sizes)?;
    // If the model refuses, the observed maximum is used, so that no decision depends
    // on acceptance.
    let settings = LevelSettings {
        error_share: 1.0,
        ..LevelSettings::default()
    };
    Ok(match return_level(&peaks, permitted, &settings) {
        Ok(estimate) => Some(estimate.interval.high),
        // Too few blackouts for the time: the level lies below all of them.
        Err(refusal) => refusal.reasons.iter().find_map(Reason::at_most),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a blackout of 1 every 10, and once one of 5, in 1000.
    fn blackouts() -> Vec<Blackout> {
        (0..100)
            .map(|k| {
                let start = 10.0 * f64::from(k);
                // Sizes differ a little, as measured ones do.
                let length = if k == 50 {
                    5.0
                } else {
                    1.0 + 0.001 * f64::from(k)
                };
                Blackout::new(start, start + length)
            })
            .collect()
    }

    fn envelope(permitted: f64) -> RatedEnvelope {
        let blackouts = blackouts();
        let cpu = CpuBlackouts {
            exposure: 1_000.0,
            blackouts: &blackouts,
        };
        rated_envelope(&[cpu], (0.5, 9.0), permitted).unwrap()
    }

    #[test]
    fn single_maximum_is_omitted_if_failures_are_permitted_more_often() {
        let rated = envelope(50.0);

        assert_eq!(rated.as_seen, 0);
        let in_eight = rated.envelope.at(8.0);
        assert!((1.0..1.2).contains(&in_eight), "{in_eight}");
    }

    #[test]
    fn envelope_without_a_level_is_the_observed_maximum() {
        let rated = envelope(10_000.0);

        assert_eq!((rated.as_seen, rated.told_below), (rated.windows, 0.5));
        assert!((rated.envelope.at(8.0) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn long_time_without_a_blackout_has_level_zero() {
        let limit = |permitted: f64| {
            let cpu = CpuBlackouts {
                exposure: 1_000.0,
                blackouts: &[],
            };
            rated_envelope(&[cpu], (0.5, 9.0), permitted).unwrap()
        };

        assert_eq!(
            (limit(200.0).as_seen, limit(200.0).envelope.at(8.0)),
            (0, 0.0)
        );
        assert_eq!(limit(300.0).as_seen, limit(300.0).windows);
    }

    #[test]
    fn overlapping_blackouts_are_refused() {
        let blackouts = [(0.0, 5.0), (4.0, 6.0)].map(|(start, end)| Blackout::new(start, end));
        let cpu = CpuBlackouts {
            exposure: 10.0,
            blackouts: &blackouts,
        };

        assert!(rated_envelope(&[cpu], (1.0, 2.0), 5.0).is_err());
    }

    #[test]
    fn overlapping_windows_count_once() {
        let sums = [(0.0, 3.0), (4.0, 5.0), (8.0, 4.0), (20.0, 1.0)];

        assert_eq!(apart(&sums, 6.0), [(4.0, 5.0), (20.0, 1.0)]);
    }
}
