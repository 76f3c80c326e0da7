//! Periodic sources among all events of a recording, largest first (docs/method.md
//! 7.4).
//!
//! A recording has far more small events than large ones, and a periodic source has
//! events of many sizes. The search is therefore repeated for the k largest events, for
//! k from 24 to all in steps of a half. The p-values account for every search.
//!
//! Kernel timers are rounded to whole seconds (`round_jiffies`) and expire together.
//! Events at random whole seconds therefore lie on combs far more often than events at
//! random times. A comb is a source only if random events on the teeth of a finer comb
//! do not explain it either ([`Lattices`]).

use super::alarm::{alarm_below, can_be_drawn, most_likely_alarm};
use super::lattice::Lattices;
use super::many::comb_among;
use super::peel::{PeriodicSource, SourceSearch};
use super::{Comb, CombSearch, find_comb};
use crate::InputError;
use crate::input::{at_least, paired, probability};

/// Number of events in the smallest search, unless there are fewer in all.
const MIN_EVENTS: usize = 24;
/// Ratio of the numbers of events of consecutive searches.
const STEP: f64 = 1.5;
/// Maximum number of events in a search, because the work is quadratic.
const MAX_EVENTS: usize = 8_192;
/// Maximum fraction of the time that is close to an event. With more events, chance
/// fills the teeth of most combs.
const MAX_COVERED: f64 = 0.25;
/// Maximum number of events for comparing all combs through two of them.
const MAX_EXHAUSTIVE: usize = 30;

/// Returns the periodic sources among events at `times`, which ascend, with these
/// `sizes`; the most significant first. The events of a source are removed before the
/// next search.
///
/// # Errors
/// As for [`find_comb`], or if the numbers of times and sizes differ.
pub fn periodic_sources_by_size(
    times: &[f64],
    sizes: &[f64],
    how: &SourceSearch,
) -> Result<Vec<PeriodicSource>, InputError> {
    at_least("searches", &how.searches, 1)?;
    probability("alpha", how.alpha)?;
    paired("sizes", sizes, "times", times)?;
    let mut left: Vec<usize> = (0..times.len()).collect();
    let mut sources = Vec::new();
    while sources.len() < how.most {
        let Some(mut source) = most_significant(times, sizes, &left, how)? else {
            break;
        };
        let Comb { period, phase, .. } = source.comb;
        let widest = how.searches.iter().map(|search| search.tolerance);
        let near = widest.fold(0.0, f64::max).min(period / 10.0);
        let is_on = |&index: &usize| {
            let turns = (times[index] - phase) / period;
            (turns - turns.round()).abs() * period <= near
        };
        let (on, off): (Vec<usize>, Vec<usize>) = left.iter().copied().partition(is_on);
        if on.is_empty() {
            break;
        }
        left = off;
        source.comb.events = on;
        sources.push(source);
    }
    Ok(sources)
}

/// Returns the numbers of events to search, ascending.
fn bands(count: usize, how: &SourceSearch) -> Vec<usize> {
    let exposure = how.searches.iter().map(|search| search.exposure);
    let exposure = exposure.fold(f64::INFINITY, f64::min);
    let tightest = how.searches.iter().map(|search| search.tolerance);
    let tightest = tightest.fold(f64::INFINITY, f64::min);
    let covered = crate::sample::index(MAX_COVERED * exposure / (2.0 * tightest));
    let most = count.min(MAX_EVENTS).min(covered.max(MAX_EXHAUSTIVE));
    let mut bands = Vec::new();
    let mut size = MIN_EVENTS;
    while (size as f64) * STEP.sqrt() < most as f64 {
        bands.push(size);
        size = crate::sample::index((size as f64 * STEP).round());
    }
    bands.push(most);
    bands
}

/// Returns the most significant comb of all searches, if it is significant.
fn most_significant(
    times: &[f64],
    sizes: &[f64],
    left: &[usize],
    how: &SourceSearch,
) -> Result<Option<PeriodicSource>, InputError> {
    let mut by_size = left.to_vec();
    by_size.sort_by(|&a, &b| sizes[b].total_cmp(&sizes[a]));
    let bands = bands(left.len(), how);
    let paid = (how.searches.len() * bands.len()) as f64;
    let mut best: Option<(f64, PeriodicSource)> = None;
    for &band in &bands {
        let mut largest: Vec<usize> = by_size[..band].to_vec();
        largest.sort_unstable();
        let largest: Vec<f64> = largest.iter().map(|&index| times[index]).collect();
        for search in &how.searches {
            let Some((comb, log_p)) = significant(&largest, search, how, paid)? else {
                continue;
            };
            if best.as_ref().is_none_or(|(least, _)| log_p < *least) {
                let p = 10_f64.powf(log_p);
                best = Some((log_p, PeriodicSource { comb, p }));
            }
        }
    }
    Ok(best.map(|(_, source)| source))
}

/// Returns the best comb of one search and the logarithm (base 10) of its p-value among
/// `paid` searches, if chance explains it in at most a fraction `how.alpha`.
fn significant(
    times: &[f64],
    search: &CombSearch,
    how: &SourceSearch,
    paid: f64,
) -> Result<Option<(Comb, f64)>, InputError> {
    let is_small = times.len() <= MAX_EXHAUSTIVE;
    let best = if is_small {
        find_comb(times, search)?
    } else {
        let rate = times.len() as f64 / search.exposure;
        if 2.0 * search.tolerance * rate > MAX_COVERED {
            return Ok(None);
        }
        comb_among(times, search)
    };
    let Some(comb) = best else {
        return Ok(None);
    };
    let most = how.alpha / paid;
    let tried = most_likely_alarm(0.0, times.len(), search);
    let bound = tried.log10() - comb.score;
    let rounds = how.rounds * crate::sample::index(paid);
    let alone = if is_small && bound > most.log10() && can_be_drawn(most, times.len(), rounds) {
        let draws = (rounds, how.seed);
        alarm_below(most, comb.score, times.len(), search, draws)?.log10()
    } else {
        bound
    };
    let lattices = Lattices::new(times, &comb, search, how.second);
    let rounded = lattices.log_p_if_plausible();
    let log_p = (alone.max(rounded) + paid.log10()).min(0.0);
    let is_source = log_p <= how.alpha.log10() && !lattices.explain();
    Ok(is_source.then_some((comb, log_p)))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, Normal};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// Events of a recording, as time in s and size.
    type Events = Vec<(f64, f64)>;

    fn normal(random: &mut Pcg64Mcg) -> f64 {
        Normal::new(0.0, 1.0).unwrap().sample(random)
    }

    /// Returns the events of a source of this period: jitter of 2 ms, log-normal sizes.
    fn source(period: f64, exposure: f64, random: &mut Pcg64Mcg) -> Events {
        let mut events = Vec::new();
        let mut tooth = random.random::<f64>() * period;
        while tooth < exposure - 0.1 {
            let time = (tooth + 0.002 * normal(random)).max(0.0);
            events.push((time, 5.0 * (0.5 * normal(random)).exp()));
            tooth += period;
        }
        events
    }

    /// Returns events at random times, with the sizes of a source's events.
    fn noise(count: usize, exposure: f64, random: &mut Pcg64Mcg) -> Events {
        let event = |_| {
            let time = random.random::<f64>() * (exposure - 0.1);
            (time, 2.0 + 8.0 * random.random::<f64>())
        };
        (0..count).map(event).collect()
    }

    /// Kind of events without a period.
    #[derive(Clone, Copy, Debug)]
    enum Aperiodic {
        Uniform,
        /// Random whole seconds, with an error of 2 ms.
        Seconds,
        /// Random ticks of 4 ms.
        Ticks,
        /// Bursts of about 5 within 2 s.
        Bursts,
        /// Rate per minute that varies by exp(normal).
        Minutes,
        /// Random whole seconds, with some busy minutes.
        BusySeconds,
    }

    impl Aperiodic {
        const ALL: [Self; 6] = [
            Self::Uniform,
            Self::Seconds,
            Self::Ticks,
            Self::Bursts,
            Self::Minutes,
            Self::BusySeconds,
        ];

        fn events(self, count: usize, exposure: f64, random: &mut Pcg64Mcg) -> Events {
            let rates: Vec<f64> = (0..=crate::sample::index(exposure / 60.0))
                .map(|_| normal(random).exp())
                .collect();
            let highest = rates.iter().copied().fold(0.0, f64::max);
            let mut events = noise(count, exposure, random);
            if matches!(self, Self::Minutes | Self::BusySeconds) {
                for event in &mut events {
                    while random.random::<f64>() * highest
                        > rates[crate::sample::index(event.0 / 60.0)]
                    {
                        event.0 = random.random::<f64>() * (exposure - 0.1);
                    }
                }
            }
            match self {
                Self::Uniform | Self::Minutes => {}
                Self::Seconds | Self::BusySeconds => events.iter_mut().for_each(|event| {
                    event.0 = (event.0.round() + 0.002 * random.random::<f64>()).min(exposure - 0.1)
                }),
                Self::Ticks => events
                    .iter_mut()
                    .for_each(|event| event.0 = (event.0 / 0.004).floor() * 0.004),
                Self::Bursts => {
                    for index in 0..events.len() {
                        if index % 5 > 0 {
                            let near = events[index - 1].0 + 0.5 * random.random::<f64>();
                            events[index].0 = near.min(exposure - 0.1);
                        }
                    }
                }
            }
            events
        }
    }

    /// Returns the periods that are found, for a service of `services`.
    fn periods(mut events: Events, exposure: f64, services: usize) -> Vec<f64> {
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        events.dedup_by(|a, b| a.0 - b.0 < 0.01);
        let (times, sizes): (Vec<f64>, Vec<f64>) = events.into_iter().unzip();
        let how = SourceSearch {
            second: 1.0,
            alpha: 0.01 / services as f64,
            rounds: 200 * services,
            ..SourceSearch::new(exposure, &[0.005, 0.02], 0.2, 1)
        };
        let sources = periodic_sources_by_size(&times, &sizes, &how).unwrap();
        sources.iter().map(|source| source.comb.period).collect()
    }

    /// Simulates `runs` recordings with a source of this period among `foreign` events.
    /// Returns the number with that period, and with another one.
    fn detections(period: f64, exposure: f64, foreign: usize, runs: u64) -> [u64; 2] {
        let mut counts = [0; 2];
        for seed in 0..runs {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let mut events = source(period, exposure, &mut random);
            events.extend(noise(foreign, exposure, &mut random));
            let periods = periods(events, exposure, 4);
            let is_right = |periods: &f64| (periods / period - 1.0).abs() < 0.002;
            counts[0] += u64::from(periods.iter().any(is_right));
            counts[1] += u64::from(!periods.iter().all(is_right));
        }
        counts
    }

    /// Returns how many of `runs` recordings without a period appear to have one.
    fn alarms(kind: Aperiodic, count: usize, exposure: f64, runs: u64) -> u64 {
        (0..runs)
            .filter(|&seed| {
                let mut random = Pcg64Mcg::seed_from_u64(1_000 + seed);
                let events = kind.events(count, exposure, &mut random);
                !periods(events, exposure, 1).is_empty()
            })
            .count() as u64
    }

    #[test]
    fn bands_grow_by_a_half_up_to_all() {
        let how = SourceSearch::new(600e9, &[5e6, 20e6], 0.2e9, 1);

        assert_eq!(bands(17, &how), [17]);
        assert_eq!(bands(125, &how), [24, 36, 54, 81, 125]);
        assert_eq!(bands(100_000, &how).last(), Some(&8_192));
    }

    /// 120 events of the source: the 30 largest alone are on combs of its multiples.
    #[test]
    fn source_is_found_in_short_and_long_recordings() {
        for (period, exposure, foreign) in [
            (5.0, 60.0, 5),
            (5.0, 600.0, 5),
            (1.0, 60.0, 10),
            (4.0, 600.0, 60),
            (60.0, 600.0, 10),
        ] {
            let [right, wrong] = detections(period, exposure, foreign, 8);

            assert!(
                right >= 7 && wrong <= 1,
                "{period} s in {exposure} s: {right} of 8, {wrong} wrong"
            );
        }
    }

    #[test]
    fn events_without_a_period_have_none() {
        for kind in Aperiodic::ALL {
            let alarms = alarms(kind, 60, 600.0, 30);

            // Four or more of 30 at 1 % have a probability of 0.02 %.
            assert!(alarms <= 3, "{kind:?}: {alarms} of 30");
        }
    }

    #[test]
    #[ignore = "takes minutes; the figures are in docs/validation/forecasts.md"]
    fn error_rates_of_periods() {
        for (exposure, runs) in [(60.0, 200), (600.0, 100), (3_600.0, 20)] {
            for kind in Aperiodic::ALL {
                for count in [8, 20, 60, 300, 1_000] {
                    if count as f64 > exposure {
                        continue;
                    }
                    let alarms = alarms(kind, count, exposure, runs);
                    eprintln!("{kind:?}, {count} in {exposure} s: {alarms} of {runs}");
                }
            }
        }
        for (exposure, runs) in [(60.0, 100), (600.0, 40), (3_600.0, 10)] {
            for period in [1.0, 4.0, 5.0, 10.0, 60.0] {
                for foreign in [0, 5, 20, 100] {
                    if 3.0 * period > exposure {
                        continue;
                    }
                    let [right, wrong] = detections(period, exposure, foreign, runs);
                    eprintln!(
                        "{period} s among {foreign} in {exposure} s: {right} of {runs}, wrong {wrong}"
                    );
                }
            }
        }
    }
}
