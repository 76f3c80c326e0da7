//! The blackout envelope at a permitted rate of failure (docs/method.md 9.6).
//!
//! The plain envelope is the largest seen, however rare; this one is the level
//! that sums of blackouts in a window exceed once per permitted time, so it
//! can be lower, for a rate that was observed often, or higher, for a rarer
//! one. By simulation (`tests/it/envelope.rs`) it lies above the level in 98 to
//! 99 % of all recordings for rates that were observed ten times, and in 98 to
//! 100 % for one in five recordings.

use std::collections::BTreeSet;

use super::Envelope;
use crate::InputError;
use crate::exceedance::{Blackout, check_blackouts};
use crate::forecast::{LevelSettings, Peaks, Reason, return_level};
use crate::input::positive;

/// Ratio of neighbouring windows.
const STEP: f64 = 1.1;
/// So many of the largest sums are kept for each window.
const MOST: usize = 2_000;

/// What was observed of one CPU.
#[derive(Clone, Copy, Debug)]
pub struct CpuBlackouts<'a> {
    /// How long was observed.
    pub exposure: f64,
    /// Its blackouts, since the start of that.
    pub blackouts: &'a [Blackout],
}

/// An envelope, and how well it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct RatedEnvelope {
    /// The envelope: the upper limits of levels.
    pub envelope: Envelope,
    /// Windows in it.
    pub windows: usize,
    /// Windows of which no level could be told: there it is the largest seen.
    pub as_seen: usize,
    /// Windows shorter than this have a level; infinite where all have one.
    pub told_below: f64,
}

/// The time that blackouts take in any window, exceeded once per `permitted`
/// on average on the worst of `cpus`, for windows from `shortest` to `longest`:
/// the upper limits at 95 %.
///
/// # Errors
/// When blackouts overlap or a length is not positive.
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
            let largest = sums.first().map_or(0.0, |one| one.1);
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

/// For each window that starts with a blackout: when, and how much of it is
/// blacked out.
fn sums(blackouts: &[Blackout], window: f64) -> Vec<(f64, f64)> {
    let mut next = 0;
    let mut whole = 0.0;
    let mut sums = Vec::with_capacity(blackouts.len());
    for blackout in blackouts {
        let end = blackout.start + window;
        while let Some(one) = blackouts.get(next).filter(|one| one.start < end) {
            whole += one.end - one.start;
            next += 1;
        }
        let last = next.checked_sub(1).and_then(|at| blackouts.get(at));
        let beyond = last.map_or(0.0, |one| (one.end - end).max(0.0));
        sums.push((blackout.start, whole - beyond));
        whole -= blackout.end - blackout.start;
    }
    sums
}

/// The largest sums whose windows do not overlap, largest first.
fn apart(sums: &[(f64, f64)], window: f64) -> Vec<(f64, f64)> {
    let mut sorted = sums.to_vec();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    // Times are not negative, so their bits are in their order.
    let mut taken: BTreeSet<u64> = BTreeSet::new();
    let mut apart = Vec::new();
    for (start, sum) in sorted {
        let near = (start - window).max(0.0).to_bits()..=(start + window).to_bits();
        if taken.range(near).next().is_none() {
            taken.insert(start.to_bits());
            apart.push((start, sum));
        }
        if apart.len() >= MOST {
            break;
        }
    }
    apart
}

/// The upper limit of the level, where it can be told.
fn level(sums: &[(f64, f64)], exposure: f64, permitted: f64) -> Result<Option<f64>, InputError> {
    // With fewer sums, none was left out: what is not here is zero.
    let threshold = match sums.get(MOST - 1) {
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
    // Where it is refused the largest seen stands in, so that nothing depends
    // on what is accepted.
    let settings = LevelSettings {
        error_share: 1.0,
        ..LevelSettings::default()
    };
    Ok(match return_level(&peaks, permitted, &settings) {
        Ok(estimate) => Some(estimate.interval.high),
        // So few blackouts in so long a time: the level lies below them all.
        Err(refusal) => refusal.reasons.iter().find_map(Reason::at_most),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A blackout of 1 every 10, and once one of 5, in 1000.
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
                Blackout {
                    start,
                    end: start + length,
                }
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
    fn what_was_seen_once_is_left_out_where_failures_are_permitted_more_often() {
        let found = envelope(50.0);

        assert_eq!(found.as_seen, 0);
        let in_eight = found.envelope.at(8.0);
        assert!((1.0..1.2).contains(&in_eight), "{in_eight}");
    }

    #[test]
    fn where_no_level_can_be_told_it_is_the_largest_seen() {
        let found = envelope(10_000.0);

        assert_eq!((found.as_seen, found.told_below), (found.windows, 0.5));
        assert!((found.envelope.at(8.0) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn a_long_time_without_a_blackout_tells_that_its_level_is_nothing() {
        let told = |permitted: f64| {
            let cpu = CpuBlackouts {
                exposure: 1_000.0,
                blackouts: &[],
            };
            rated_envelope(&[cpu], (0.5, 9.0), permitted).unwrap()
        };

        assert_eq!(
            (told(200.0).as_seen, told(200.0).envelope.at(8.0)),
            (0, 0.0)
        );
        assert_eq!(told(300.0).as_seen, told(300.0).windows);
    }

    #[test]
    fn blackouts_that_overlap_are_refused() {
        let blackouts = [(0.0, 5.0), (4.0, 6.0)].map(|(start, end)| Blackout { start, end });
        let cpu = CpuBlackouts {
            exposure: 10.0,
            blackouts: &blackouts,
        };

        assert!(rated_envelope(&[cpu], (1.0, 2.0), 5.0).is_err());
    }

    #[test]
    fn windows_that_overlap_count_once() {
        let sums = [(0.0, 3.0), (4.0, 5.0), (8.0, 4.0), (20.0, 1.0)];

        assert_eq!(apart(&sums, 6.0), [(4.0, 5.0), (20.0, 1.0)]);
    }
}
