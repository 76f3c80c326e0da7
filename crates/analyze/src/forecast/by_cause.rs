//! The return level of peaks that several causes made (docs/method.md 8.7).
//!
//! Peaks are put together by cause, a cause with too few by its class, and
//! what still has too few with all others, and so have those of unknown cause.
//! Each group is periodic, or has a Pareto tail, or the forecast is refused;
//! together they are a [`Mixture`]. For that, a group need not be one cause: it
//! must come at random, at a steady rate, with a tail of one form, and that is
//! tested.

use std::collections::BTreeMap;

use super::level::{doubts, limits, tail_of, useful};
use super::{Component, Estimate, LevelSettings, Method, Mixture, Observation, Peaks, Reason};
use crate::period::{SourceSearch, held_together, periodic_sources};
use crate::sample::index;

/// An upper limit so many times the estimate is of no use.
const MOST_UNCERTAIN: f64 = 3.0;
/// From this share of a group's largest peaks on, the group is periodic.
const PERIODIC: f64 = 0.8;
/// From this share on, a group is too periodic for a tail.
const PARTLY_PERIODIC: f64 = 0.2;
/// How likely chance alone is to make any group of any observation look
/// periodic.
const FALSE_ALARM: f64 = 0.01;
/// Fewer peaks cannot tell a pace from chance.
const FEWEST_SEARCHED: usize = 3;
/// So many peaks that follow each other are searched for a period: the work
/// grows with the cube.
const SEARCHED: usize = 60;
/// How far one may be from when it is due, ns: what timers of a kernel miss
/// by, and a few ticks.
const TOLERANCES: [f64; 2] = [5e6, 20e6];
/// The shortest period that is looked for, ns: several tolerances.
const SHORTEST: f64 = 0.2e9;
/// With more peaks of unknown cause than this, and too few of them for a tail
/// of their own, there is no forecast.
const MOST_UNKNOWN: f64 = 0.05;

/// Peaks and what is known of their causes.
#[derive(Clone, Copy, Debug)]
pub struct ByCause<'a> {
    /// The peaks.
    pub peaks: &'a Peaks,
    /// Where they were observed.
    pub observations: &'a [Observation<'a>],
    /// By peak: its cause, by the caller's number; `None`: not known.
    pub causes: &'a [Option<usize>],
    /// By cause: the number of its class.
    pub classes: &'a [usize],
    /// How many hours of use one measured hour stands for.
    pub compression: f64,
}

/// Which peaks a source of the mixture is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum CauseSource {
    /// Those of one cause.
    Cause(usize),
    /// Those of all causes of a class that have too few alone.
    Class(usize),
    /// Those of classes that have too few, and of unknown cause.
    Others,
}

/// Why there is no forecast by cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CauseRefusal {
    /// Whose peaks do not allow it; `None`: those of all together.
    pub source: Option<CauseSource>,
    /// Why it allows no forecast.
    pub reason: Reason,
}

/// The level that peaks exceed once per `horizon` of measured time on average,
/// cause by cause, and the sources that it was made of.
///
/// # Errors
/// The first reason found against it, and which cause's it is.
pub fn level_by_cause(
    known: ByCause<'_>,
    horizon: f64,
    settings: &LevelSettings,
) -> Result<(Estimate, Vec<CauseSource>), CauseRefusal> {
    let of_all = |reason| CauseRefusal {
        source: None,
        reason,
    };
    let unknown = known.causes.iter().filter(|one| one.is_none()).count();
    let share = unknown as f64 / known.causes.len().max(1) as f64;
    if share > MOST_UNKNOWN && unknown < settings.fewest_peaks {
        return Err(of_all(Reason::CausesUnknown { share }));
    }
    let factor = horizon / known.peaks.exposure();
    if factor > settings.farthest {
        let most = settings.farthest;
        return Err(of_all(Reason::TooFar { factor, most }));
    }
    let groups = groups(known, settings.fewest_peaks).map_err(of_all)?;
    let (names, groups): (Vec<CauseSource>, Vec<Peaks>) = groups.into_iter().unzip();
    let shares = periodic_shares(FALSE_ALARM, known.observations, &groups);
    let mut sources = Vec::new();
    for ((&name, peaks), share) in names.iter().zip(&groups).zip(shares) {
        let source = source(known, (peaks, share), horizon, settings);
        sources.push(source.map_err(|reason| CauseRefusal {
            source: Some(name),
            reason,
        })?);
    }
    let periodic = sources
        .iter()
        .filter(|one| matches!(one, Component::Periodic { .. }))
        .count();
    let found = level(sources, known.compression, horizon, settings).map_err(of_all)?;
    let method = Method::ByCause {
        sources: names.len(),
        periodic,
    };
    Ok((Estimate { method, ..found }, names))
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
        interval: useful(value, interval, MOST_UNCERTAIN)?,
        method: Method::OrderStatistics,
        doubts: Vec::new(),
    })
}

/// The peaks of each source.
fn groups(known: ByCause<'_>, fewest: usize) -> Result<BTreeMap<CauseSource, Peaks>, Reason> {
    let of = |cause: usize| known.classes.get(cause).copied().map(CauseSource::Class);
    let mut causes: BTreeMap<usize, usize> = BTreeMap::new();
    let mut classes: BTreeMap<CauseSource, usize> = BTreeMap::new();
    for cause in known.causes.iter().flatten() {
        *causes.entry(*cause).or_default() += 1;
    }
    for (&cause, &count) in causes.iter().filter(|(_, count)| **count < fewest) {
        if let Some(class) = of(cause) {
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
        of(cause)
            .filter(|class| classes.get(class).is_some_and(|&count| count >= fewest))
            .unwrap_or(CauseSource::Others)
    };
    let mut parts: BTreeMap<CauseSource, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    let peaks = known.peaks;
    for ((&time, &size), &cause) in peaks.times().iter().zip(peaks.sizes()).zip(known.causes) {
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

/// By group, the share of its peaks that come at a steady pace: the largest of
/// all observations. Every group of every observation is searched, and all
/// together are held to a chance of `alpha` that any of them is a false alarm.
fn periodic_shares(alpha: f64, observations: &[Observation<'_>], groups: &[Peaks]) -> Vec<f64> {
    let mut searched: Vec<(usize, Vec<f64>)> = Vec::new();
    for (index, peaks) in groups.iter().enumerate() {
        let mut before = 0.0;
        for one in observations {
            let until = before + one.duration.as_f64();
            let within = |time: &&f64| (before..until).contains(*time);
            let times: Vec<f64> = peaks.times().iter().filter(within).copied().collect();
            before = until;
            if times.len() >= FEWEST_SEARCHED {
                searched.push((index, times));
            }
        }
    }
    let found = held_together(alpha, searched.len(), |index, alpha| {
        Some(periodic_share(&searched[index].1, alpha)).filter(|share| *share > 0.0)
    });
    let mut shares = vec![0.0_f64; groups.len()];
    for ((group, _), found) in searched.iter().zip(found) {
        let share = found.map_or(0.0, |(share, _)| share);
        shares[*group] = shares[*group].max(share);
    }
    shares
}

/// The share of peaks at these `times` that come at a steady pace, if chance
/// gives as clear a one in at most a share `alpha` of all cases. Those that
/// follow each other are looked at, because a choice of single ones would hide
/// the pace.
fn periodic_share(times: &[f64], alpha: f64) -> f64 {
    let times = &times[..times.len().min(SEARCHED)];
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return 0.0;
    };
    let gap = (last - first) / (times.len() - 1).max(1) as f64;
    let times: Vec<f64> = times.iter().map(|at| at - first + gap / 2.0).collect();
    let search = SourceSearch {
        alpha,
        // As many as one alarm of each search takes.
        rounds: index((TOLERANCES.len() as f64 / alpha).ceil()),
        ..SourceSearch::new(last - first + gap, &TOLERANCES, SHORTEST, 1)
    };
    // Too close to search: no pace can be told.
    let found = periodic_sources(&times, &search).unwrap_or_default();
    let events: usize = found.iter().map(|source| source.comb.events.len()).sum();
    events as f64 / times.len() as f64
}

fn source(
    known: ByCause<'_>,
    (peaks, share): (&Peaks, f64),
    horizon: f64,
    settings: &LevelSettings,
) -> Result<Component, Reason> {
    if share >= PERIODIC {
        let (factor, most) = (
            horizon * known.compression / peaks.exposure(),
            settings.farthest,
        );
        if factor > most {
            return Err(Reason::TooFar { factor, most });
        }
        // Where it did not come when it was due, its period is longer.
        return Ok(Component::Periodic {
            period: peaks.exposure() / peaks.sizes().len() as f64,
            sizes: peaks.sizes().to_vec(),
        });
    }
    if share > PARTLY_PERIODIC {
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

    /// An hour with `random` peaks of one cause and, if asked, another's every
    /// 5 s: (time, size, cause), in order of time.
    fn hour(random: usize, periodic: bool) -> Vec<(f64, f64, usize)> {
        let mut dice = rand_pcg::Pcg64Mcg::seed_from_u64(5);
        let tail = Pareto {
            scale: 1e6,
            shape: 0.1,
        };
        let mut all: Vec<(f64, f64, usize)> = (0..random)
            .map(|_| {
                let time = dice.random::<f64>() * 3_600.0 * SECONDS;
                (time, 1e6 + tail.sample(&mut dice), 0)
            })
            .collect();
        if periodic {
            all.extend((0..719).map(|k| (f64::from(k) * 5.0 * SECONDS + 1e9, 18e6, 1)));
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all
    }

    fn forecast(
        all: &[(f64, f64, usize)],
        causes: &[Option<usize>],
        hours: f64,
        compression: f64,
    ) -> Result<(Estimate, Vec<CauseSource>), CauseRefusal> {
        let peaks = Peaks::new(
            1e6,
            3_600.0 * SECONDS,
            all.iter().map(|one| one.0).collect(),
            all.iter().map(|one| one.1).collect(),
        )
        .unwrap();
        let observations = [Observation {
            start: Nanos::ZERO,
            duration: Nanos::from_secs(3_600),
            streams: Vec::new(),
        }];
        let known = ByCause {
            peaks: &peaks,
            observations: &observations,
            causes,
            classes: &[0, 1],
            compression,
        };
        level_by_cause(known, hours * 3_600.0 * SECONDS, &LevelSettings::default())
    }

    fn known(all: &[(f64, f64, usize)]) -> Vec<Option<usize>> {
        all.iter().map(|one| Some(one.2)).collect()
    }

    #[test]
    fn a_periodic_cause_and_a_random_one_are_forecast_together() {
        let all = hour(300, true);

        let (found, sources) = forecast(&all, &known(&all), 10.0, 1.0).unwrap();

        assert_eq!(
            found.method,
            Method::ByCause {
                sources: 2,
                periodic: 1
            }
        );
        assert_eq!(sources, [CauseSource::Cause(0), CauseSource::Cause(1)]);
        // 18 ms comes every 5 s; the random tail passes it far later.
        assert!((found.value - 18e6).abs() < 1e3, "{}", found.value);
        assert!(found.interval.contains(found.value));
    }

    #[test]
    fn peaks_of_unknown_cause_refuse_it() {
        let all = hour(300, false);
        let mut causes = known(&all);
        causes[..30].fill(None);

        let refused = forecast(&all, &causes, 10.0, 1.0).unwrap_err();

        assert!(matches!(refused.reason, Reason::CausesUnknown { .. }));
    }

    #[test]
    fn enough_peaks_of_unknown_cause_have_a_tail_of_their_own() {
        let all = hour(400, false);
        let mut causes = known(&all);
        for one in causes.iter_mut().step_by(4) {
            *one = None;
        }

        let (found, sources) = forecast(&all, &causes, 10.0, 1.0).unwrap();

        assert_eq!(sources, [CauseSource::Cause(0), CauseSource::Others]);
        assert!(found.interval.contains(found.value));
    }

    #[test]
    fn a_cause_with_few_peaks_refuses_it_and_is_named() {
        let mut all = hour(300, false);
        for one in all.iter_mut().step_by(30) {
            one.2 = 1;
        }

        let refused = forecast(&all, &known(&all), 10.0, 1.0).unwrap_err();

        assert_eq!(refused.source, Some(CauseSource::Others));
        assert!(matches!(
            refused.reason,
            Reason::TooFewPeaks { peaks: 10, .. }
        ));
    }

    /// Each group by itself at 10 % would give 57 % of all recordings one.
    #[test]
    fn chance_gives_any_of_many_groups_a_pace_as_seldom_as_is_said() {
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

        // More than 25 of 150 at 10 % has a chance of 0.4 %.
        assert!(alarms <= 25, "{alarms} of {recordings}");
    }

    #[test]
    fn a_periodic_cause_is_not_compressed() {
        let all = hour(0, true);

        // 4 measured hours of a load that compresses tenfold are 40 h by the
        // clock on the wall: more than 30 times what was seen of the source.
        assert!(forecast(&all, &known(&all), 2.0, 10.0).is_ok());
        let refused = forecast(&all, &known(&all), 4.0, 10.0).unwrap_err();

        assert!(matches!(refused.reason, Reason::TooFar { .. }));
    }

    #[test]
    fn nothing_is_told_of_much_more_time_than_was_seen_whatever_the_causes() {
        let all = hour(300, true);

        let refused = forecast(&all, &known(&all), 31.0, 1.0).unwrap_err();

        assert_eq!(refused.source, None);
        let Reason::TooFar { factor, most } = refused.reason else {
            panic!("{refused:?}");
        };
        assert_eq!((factor, most), (31.0, 30.0));
    }
}
