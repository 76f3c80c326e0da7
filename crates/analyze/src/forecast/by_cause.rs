//! Return level of peaks that several causes made (docs/method.md 8.7).
//!
//! Peaks are grouped by cause. A cause with too few peaks is grouped by class. The
//! rest, and peaks of unknown cause, form one group. Each group is periodic or has a
//! Pareto tail; otherwise the forecast is refused. Together they are a [`Mixture`]. A
//! group need not be a single cause: its peaks must be random, with a steady rate and one
//! form of tail, and this is tested.

use std::collections::BTreeMap;

use super::level::{doubts, limits, tail_of, useful};
use super::{Component, Estimate, LevelSettings, Method, Mixture, Observation, Peaks, Reason};
use crate::period::{SourceSearch, held_together, periodic_sources};
use crate::sample::index;

/// Maximum ratio of the upper limit to the estimate.
const MAX_UNCERTAINTY: f64 = 3.0;
/// Minimum fraction of a group's largest peaks that makes the group periodic.
const MIN_PERIODIC_SHARE: f64 = 0.8;
/// Maximum fraction of periodic peaks in a group that supports a tail.
const MAX_PERIODIC_SHARE_OF_TAIL: f64 = 0.2;
/// Probability that chance alone makes any group of any observation look periodic.
const FALSE_ALARM: f64 = 0.01;
/// Minimum number of peaks; fewer cannot distinguish a period from chance.
const MIN_SEARCHED: usize = 3;
/// Maximum number of consecutive peaks in a search, because the work is cubic.
const MAX_SEARCHED: usize = 60;
/// Maximum distance of a peak from its due time, ns: the error of kernel timers, and a
/// few ticks.
const TOLERANCES: [f64; 2] = [5e6, 20e6];
/// Shortest searched period, ns: several tolerances.
const MIN_PERIOD: f64 = 0.2e9;
/// Maximum fraction of peaks of unknown cause, if they are too few for a separate tail.
const MAX_UNKNOWN_SHARE: f64 = 0.05;

/// Peaks with their causes.
#[derive(Clone, Copy, Debug)]
pub struct ByCause<'a> {
    /// All peaks.
    pub peaks: &'a Peaks,
    /// Observations of the peaks.
    pub observations: &'a [Observation<'a>],
    /// Per peak: number of its cause, as given by the caller; `None` if unknown.
    pub causes: &'a [Option<usize>],
    /// Per cause: number of its class.
    pub classes: &'a [usize],
    /// Hours of use per measured hour.
    pub compression: f64,
}

/// Group of peaks behind a component of the mixture.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum CauseSource {
    /// Peaks of one cause.
    Cause(usize),
    /// Peaks of all causes of a class that have too few each.
    Class(usize),
    /// Peaks of classes with too few, and of unknown cause.
    Others,
}

/// Reason for a refusal of a forecast by cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CauseRefusal {
    /// Group that does not permit it; `None` for the whole set of peaks.
    pub source: Option<CauseSource>,
    /// Reason.
    pub reason: Reason,
}

/// Returns the level that peaks exceed once per `horizon` of measured time on average,
/// computed by cause, and the groups of the mixture.
///
/// # Errors
/// The first reason against it, with its group.
pub fn level_by_cause(
    input: ByCause<'_>,
    horizon: f64,
    settings: &LevelSettings,
) -> Result<(Estimate, Vec<CauseSource>), CauseRefusal> {
    let of_all = |reason| CauseRefusal {
        source: None,
        reason,
    };
    let unknown = input.causes.iter().filter(|cause| cause.is_none()).count();
    let share = unknown as f64 / input.causes.len().max(1) as f64;
    if share > MAX_UNKNOWN_SHARE && unknown < settings.fewest_peaks {
        return Err(of_all(Reason::CausesUnknown { share }));
    }
    let factor = horizon / input.peaks.exposure();
    if factor > settings.farthest {
        let most = settings.farthest;
        return Err(of_all(Reason::TooFar { factor, most }));
    }
    let groups = groups(input, settings.fewest_peaks).map_err(of_all)?;
    let (names, groups): (Vec<CauseSource>, Vec<Peaks>) = groups.into_iter().unzip();
    let shares = periodic_shares(FALSE_ALARM, input.observations, &groups);
    let mut sources = Vec::new();
    for ((&name, peaks), share) in names.iter().zip(&groups).zip(shares) {
        let source = source(input, (peaks, share), horizon, settings);
        sources.push(source.map_err(|reason| CauseRefusal {
            source: Some(name),
            reason,
        })?);
    }
    let periodic = sources
        .iter()
        .filter(|component| matches!(component, Component::Periodic { .. }))
        .count();
    let forecast = level(sources, input.compression, horizon, settings).map_err(of_all)?;
    let method = Method::ByCause {
        sources: names.len(),
        periodic,
    };
    Ok((Estimate { method, ..forecast }, names))
}

fn level(
    sources: Vec<Component>,
    compression: f64,
    horizon: f64,
    settings: &LevelSettings,
) -> Result<Estimate, Reason> {
    let mixture = Mixture::new(sources, compression)?;
    // The mixture counts in time of use.
    let used = horizon * compression;
    let Ok(value) = mixture.return_level(used) else {
        let at_most = mixture.floor();
        return Err(Reason::BelowThreshold { at_most });
    };
    let interval = mixture.return_level_interval(used, settings.confidence, settings.bootstrap)?;
    Ok(Estimate {
        value,
        interval: useful(value, interval, MAX_UNCERTAINTY)?,
        method: Method::OrderStatistics,
        doubts: Vec::new(),
    })
}

/// Groups the peaks.
fn groups(input: ByCause<'_>, fewest: usize) -> Result<BTreeMap<CauseSource, Peaks>, Reason> {
    let class_of = |cause: usize| input.classes.get(cause).copied().map(CauseSource::Class);
    let mut causes: BTreeMap<usize, usize> = BTreeMap::new();
    let mut classes: BTreeMap<CauseSource, usize> = BTreeMap::new();
    for cause in input.causes.iter().flatten() {
        *causes.entry(*cause).or_default() += 1;
    }
    for (&cause, &count) in causes.iter().filter(|(_, count)| **count < fewest) {
        if let Some(class) = class_of(cause) {
            *classes.entry(class).or_default() += count;
        }
    }
    let name = |cause: Option<usize>| {
        let Some(cause) = cause else {
            return CauseSource::Others;
        };
        if causes.get(&cause).is_some_and(|&count| count >= fewest) {
            return CauseSource::Cause(cause);
        }
        class_of(cause)
            .filter(|class| classes.get(class).is_some_and(|&count| count >= fewest))
            .unwrap_or(CauseSource::Others)
    };
    let mut parts: BTreeMap<CauseSource, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    let peaks = input.peaks;
    for ((&time, &size), &cause) in peaks.times().iter().zip(peaks.sizes()).zip(input.causes) {
        let (times, sizes) = parts.entry(name(cause)).or_default();
        times.push(time);
        sizes.push(size);
    }
    parts
        .into_iter()
        .map(|(name, (times, sizes))| {
            let peaks = Peaks::new(peaks.threshold(), peaks.exposure(), times, sizes)?;
            Ok((name, peaks))
        })
        .collect()
}

/// Returns for each group the fraction of its peaks at a steady period: the largest of
/// all observations. The search covers every group of every observation, and all
/// searches together have a false-alarm probability of `alpha`.
fn periodic_shares(alpha: f64, observations: &[Observation<'_>], groups: &[Peaks]) -> Vec<f64> {
    let mut searched: Vec<(usize, Vec<f64>)> = Vec::new();
    for (index, peaks) in groups.iter().enumerate() {
        let mut before = 0.0;
        for observation in observations {
            let until = before + observation.duration.as_f64();
            let within = |time: &&f64| (before..until).contains(*time);
            let times: Vec<f64> = peaks.times().iter().filter(within).copied().collect();
            before = until;
            if times.len() >= MIN_SEARCHED {
                searched.push((index, times));
            }
        }
    }
    let periodic = held_together(alpha, searched.len(), |index, alpha| {
        Some(periodic_share(&searched[index].1, alpha)).filter(|share| *share > 0.0)
    });
    let mut shares = vec![0.0_f64; groups.len()];
    for ((group, _), part) in searched.iter().zip(periodic) {
        let share = part.map_or(0.0, |(share, _)| share);
        shares[*group] = shares[*group].max(share);
    }
    shares
}

/// Returns the fraction of peaks at these `times` that have a steady period, if chance
/// gives an equally clear one in at most a fraction `alpha` of all cases. The search
/// uses consecutive peaks, because a selection would hide the period.
fn periodic_share(times: &[f64], alpha: f64) -> f64 {
    let times = &times[..times.len().min(MAX_SEARCHED)];
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return 0.0;
    };
    let gap = (last - first) / (times.len() - 1).max(1) as f64;
    let times: Vec<f64> = times.iter().map(|time| time - first + gap / 2.0).collect();
    let search = SourceSearch {
        alpha,
        // Enough for an alarm of each search.
        rounds: index((TOLERANCES.len() as f64 / alpha).ceil()),
        ..SourceSearch::new(last - first + gap, &TOLERANCES, MIN_PERIOD, 1)
    };
    // Too dense to search, so no period can be found.
    let sources = periodic_sources(&times, &search).unwrap_or_default();
    let events: usize = sources.iter().map(|source| source.comb.events.len()).sum();
    events as f64 / times.len() as f64
}

fn source(
    input: ByCause<'_>,
    (peaks, share): (&Peaks, f64),
    horizon: f64,
    settings: &LevelSettings,
) -> Result<Component, Reason> {
    if share >= MIN_PERIODIC_SHARE {
        let (factor, most) = (
            horizon * input.compression / peaks.exposure(),
            settings.farthest,
        );
        if factor > most {
            return Err(Reason::TooFar { factor, most });
        }
        // If it was not seen at every due time, its effective period is longer.
        return Ok(Component::Periodic {
            period: peaks.exposure() / peaks.sizes().len() as f64,
            sizes: peaks.sizes().to_vec(),
        });
    }
    if share > MAX_PERIODIC_SHARE_OF_TAIL {
        return Err(Reason::Periodic { share });
    }
    let mut reasons = limits(peaks, horizon, settings);
    reasons.extend(doubts(peaks));
    if let Some(&reason) = reasons.first() {
        return Err(reason);
    }
    let (tail, _) = tail_of(peaks, settings)?;
    Ok(Component::Random {
        tail,
        exposure: peaks.exposure(),
    })
}

#[cfg(test)]
mod tests {
    use laggard_model::Nanos;
    use rand::{RngExt, SeedableRng};

    use super::super::Pareto;
    use super::*;

    const SECONDS: f64 = 1e9;

    /// Returns an hour with `random` peaks of one cause and optionally another's every
    /// 5 s: (time, size, cause), in time order.
    fn hour(random: usize, periodic: bool) -> Vec<(f64, f64, usize)> {
        let mut dice = rand_pcg::Pcg64Mcg::seed_from_u64(5);
        let tail = Pareto::new(1e6, 0.1);
        let mut hour: Vec<(f64, f64, usize)> = (0..random)
            .map(|_| {
                let time = dice.random::<f64>() * 3_600.0 * SECONDS;
                (time, 1e6 + tail.sample(&mut dice), 0)
            })
            .collect();
        if periodic {
            hour.extend((0..719).map(|k| (f64::from(k) * 5.0 * SECONDS + 1e9, 18e6, 1)));
        }
        hour.sort_by(|a, b| a.0.total_cmp(&b.0));
        hour
    }

    fn forecast(
        labelled: &[(f64, f64, usize)],
        causes: &[Option<usize>],
        hours: f64,
        compression: f64,
    ) -> Result<(Estimate, Vec<CauseSource>), CauseRefusal> {
        let peaks = Peaks::new(
            1e6,
            3_600.0 * SECONDS,
            labelled.iter().map(|peak| peak.0).collect(),
            labelled.iter().map(|peak| peak.1).collect(),
        )
        .unwrap();
        let observations = [Observation {
            start: Nanos::ZERO,
            duration: Nanos::from_secs(3_600),
            streams: Vec::new(),
        }];
        let input = ByCause {
            peaks: &peaks,
            observations: &observations,
            causes,
            classes: &[0, 1],
            compression,
        };
        level_by_cause(input, hours * 3_600.0 * SECONDS, &LevelSettings::default())
    }

    fn known(peaks: &[(f64, f64, usize)]) -> Vec<Option<usize>> {
        peaks.iter().map(|peak| Some(peak.2)).collect()
    }

    #[test]
    fn periodic_and_random_causes_are_forecast_together() {
        let peaks = hour(300, true);

        let (estimate, sources) = forecast(&peaks, &known(&peaks), 10.0, 1.0).unwrap();

        assert_eq!(
            estimate.method,
            Method::ByCause {
                sources: 2,
                periodic: 1
            }
        );
        assert_eq!(sources, [CauseSource::Cause(0), CauseSource::Cause(1)]);
        // 18 ms occurs every 5 s; the random tail exceeds it only far later.
        assert!((estimate.value - 18e6).abs() < 1e3, "{}", estimate.value);
        assert!(estimate.interval.contains(estimate.value));
    }

    #[test]
    fn unknown_causes_refuse_the_forecast() {
        let peaks = hour(300, false);
        let mut causes = known(&peaks);
        causes[..30].fill(None);

        let refused = forecast(&peaks, &causes, 10.0, 1.0).unwrap_err();

        assert!(matches!(refused.reason, Reason::CausesUnknown { .. }));
    }

    #[test]
    fn enough_peaks_of_unknown_cause_have_their_own_tail() {
        let peaks = hour(400, false);
        let mut causes = known(&peaks);
        for cause in causes.iter_mut().step_by(4) {
            *cause = None;
        }

        let (estimate, sources) = forecast(&peaks, &causes, 10.0, 1.0).unwrap();

        assert_eq!(sources, [CauseSource::Cause(0), CauseSource::Others]);
        assert!(estimate.interval.contains(estimate.value));
    }

    #[test]
    fn cause_with_few_peaks_refuses_the_forecast_and_is_named() {
        let mut peaks = hour(300, false);
        for peak in peaks.iter_mut().step_by(30) {
            peak.2 = 1;
        }

        let refused = forecast(&peaks, &known(&peaks), 10.0, 1.0).unwrap_err();

        assert_eq!(refused.source, Some(CauseSource::Others));
        assert!(matches!(
            refused.reason,
            Reason::TooFewPeaks { peaks: 10, .. }
        ));
    }

    /// Testing each group at 10 % would report one in 57 % of all recordings.
    #[test]
    fn false_alarm_rate_holds_for_many_groups() {
        let mut dice = rand_pcg::Pcg64Mcg::seed_from_u64(43);
        let (alpha, recordings) = (0.1, 150);
        let length = 60.0 * SECONDS;
        let observations = [Observation {
            start: Nanos::ZERO,
            duration: Nanos::from_secs(60),
            streams: Vec::new(),
        }];
        let alarms = (0..recordings)
            .filter(|_| {
                let mut group = |count| {
                    let mut times: Vec<f64> =
                        (0..count).map(|_| length * dice.random::<f64>()).collect();
                    times.sort_by(f64::total_cmp);
                    Peaks::new(1e6, length, times, vec![2e6; count]).unwrap()
                };
                let groups: Vec<Peaks> = (0..8).map(|index| group(6 + index % 4)).collect();
                let shares = periodic_shares(alpha, &observations, &groups);
                shares.iter().any(|share| *share > 0.0)
            })
            .count();

        // More than 25 of 150 at 10 % has a probability of 0.4 %.
        assert!(alarms <= 25, "{alarms} of {recordings}");
    }

    #[test]
    fn periodic_cause_is_not_compressed() {
        let peaks = hour(0, true);

        // 4 measured hours of a load with compression 10 are 40 h of wall-clock time:
        // more than 30 times the observed time of the source.
        assert!(forecast(&peaks, &known(&peaks), 2.0, 10.0).is_ok());
        let refused = forecast(&peaks, &known(&peaks), 4.0, 10.0).unwrap_err();

        assert!(matches!(refused.reason, Reason::TooFar { .. }));
    }

    #[test]
    fn horizon_far_beyond_the_exposure_is_refused() {
        let peaks = hour(300, true);

        let refused = forecast(&peaks, &known(&peaks), 31.0, 1.0).unwrap_err();

        assert_eq!(refused.source, None);
        let Reason::TooFar { factor, most } = refused.reason else {
            panic!("{refused:?}");
        };
        assert_eq!((factor, most), (31.0, 30.0));
    }
}
