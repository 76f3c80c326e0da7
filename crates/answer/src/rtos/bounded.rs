//! Criterion `bounded`: whether the max latency of a woken thread is less than doubled under any
//! load.

use laggard_model::{Absence, CompetingThread, Nanos, RtosLoadRun, RtosWakeup, RtosWakeups};
use schemars::JsonSchema;
use serde::Serialize;

use super::RtosReason;
use super::preemption::{max_if_all_known, run_time};
use crate::qos::CONFIDENCE;
use crate::switch::{Growth, GrowthChange, figure};

/// Number of stretches into which the wakeups under a load are divided. Each has a max.
const STRETCHES: usize = 10;
/// Number of wakeups below which the max of a stretch is not used.
const MIN_WAKEUPS: usize = 20;
/// If the max grows by this factor or more, a latency is not bounded.
const MAX_GROWTH: f64 = 2.0;

/// Latencies of a woken thread under one load.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LoadFigures {
    pub load: String,
    pub wakeups: usize,
    /// Number of expiries before the preceding wakeup had run. They are in no other
    /// figure.
    pub missed: u64,
    /// Number of wakeups that are in no figure because laggard itself was stopped.
    pub excluded: u64,
    /// Max latency.
    pub max_ns: Option<Nanos>,
    /// Max latency without steal time; absent if the steal clock cannot be read.
    pub max_without_steal_ns: Option<Nanos>,
    /// Whether an unknown amount of steal time may have caused the max.
    pub is_possibly_steal: bool,
    /// Threads of other programs that the woken thread has to wait for, if they ran at least for
    /// the time of the max; the longest run time first.
    pub competitors: Vec<CompetingThread>,
    /// Growth of the max of a stretch, without known steal time, from the first load to
    /// this one. The intervals of all loads hold together with 95 % confidence
    /// (Bonferroni).
    pub growth: Option<Growth>,
    /// Reason why the test did not run under this load.
    pub absence: Option<Absence>,
}

impl LoadFigures {
    /// Returns the max without steal time, or with it if the steal clock cannot be read.
    pub fn system_max(&self) -> Option<Nanos> {
        self.max_without_steal_ns.or(self.max_ns)
    }

    /// Returns whether something outside of the system may have caused the max.
    const fn is_open(&self) -> bool {
        self.is_possibly_steal || !self.competitors.is_empty()
    }
}

/// Computes the figures of each load. The first is the one that the others are compared
/// with.
pub(super) fn figures(runs: &[RtosLoadRun]) -> Vec<LoadFigures> {
    let first = runs.first().and_then(|run| run.wakeups.as_ref().ok());
    let compared = runs.iter().skip(1).filter(|run| run.wakeups.is_ok());
    // With 20 intervals of 95 %, about one of them misses by chance.
    #[expect(clippy::cast_precision_loss, reason = "a few loads")]
    let confidence = 1.0 - (1.0 - CONFIDENCE) / compared.count().max(1) as f64;
    runs.iter()
        .enumerate()
        .map(|(number, run)| {
            let first = first.filter(|_| number > 0);
            load_figures(run, first, confidence)
        })
        .collect()
}

fn load_figures(run: &RtosLoadRun, first: Option<&RtosWakeups>, confidence: f64) -> LoadFigures {
    let (wakeups, absence) = match &run.wakeups {
        Ok(wakeups) => (Some(wakeups), None),
        Err(absence) => (None, Some(absence.clone())),
    };
    let samples = wakeups.map_or(&[][..], |wakeups| &wakeups.samples);
    let without_steal = samples
        .iter()
        .map(|sample| Some(sample.latency.saturating_sub(sample.steal?)));
    LoadFigures {
        load: run.load.clone(),
        wakeups: samples.len(),
        missed: wakeups.map_or(0, |wakeups| wakeups.missed),
        excluded: wakeups.map_or(0, |wakeups| wakeups.excluded),
        max_ns: samples.iter().map(|sample| sample.latency).max(),
        max_without_steal_ns: max_if_all_known(without_steal),
        is_possibly_steal: wakeups.is_some_and(is_possibly_steal),
        competitors: wakeups.map(competitors_of_max).unwrap_or_default(),
        growth: first
            .zip(wakeups)
            .and_then(|(first, wakeups)| growth_of_max(first, wakeups, confidence)),
        absence,
    }
}

/// Compares the max of the stretches with the first load; `None` if there are too few
/// wakeups.
fn growth_of_max(first: &RtosWakeups, load: &RtosWakeups, confidence: f64) -> Option<Growth> {
    // A longer stretch would have a larger max by itself.
    let length = first.samples.len().min(load.samples.len()) / STRETCHES;
    if length < MIN_WAKEUPS {
        return None;
    }
    let visits = [first, load].map(|wakeups| stretch_maxima(wakeups, length));
    // The figures are positive, so this is not an error.
    let growth = figure([&visits[0].concat(), &visits[1].concat()], confidence).ok()??;
    Some(confirm_by_visits(growth, &visits))
}

/// Returns whether steal time that the steal clock does not show may have caused the max,
/// by the coarse counter.
fn is_possibly_steal(wakeups: &RtosWakeups) -> bool {
    let without_clock = wakeups
        .samples
        .iter()
        .filter(|sample| sample.steal.is_none());
    wakeups
        .steal
        .zip(without_clock.map(|sample| sample.latency).max())
        .is_some_and(|(steal, max)| steal.allows(max))
}

/// Latency without known steal time.
fn system_latency(sample: &RtosWakeup) -> Nanos {
    sample
        .latency
        .saturating_sub(sample.steal.unwrap_or_default())
}

/// Returns the threads of other programs if they may have caused the max.
fn competitors_of_max(wakeups: &RtosWakeups) -> Vec<CompetingThread> {
    let max = wakeups.samples.iter().map(system_latency).max();
    if max.is_some_and(|max| run_time(&wakeups.competitors) >= max) {
        wakeups.competitors.clone()
    } else {
        Vec::new()
    }
}

/// Keeps a growth only if both visits of the load show it: the stretches of each visit are
/// longer than the stretches of each visit of the first load. Activity of the machine that lasts
/// some seconds does not pass this.
fn confirm_by_visits(growth: Growth, [first, load]: &[[Vec<f64>; 2]; 2]) -> Growth {
    // Logarithms, as for the ratio.
    #[expect(clippy::cast_precision_loss, reason = "a few stretches")]
    let mean =
        |visit: &Vec<f64>| visit.iter().map(|max| max.ln()).sum::<f64>() / visit.len() as f64;
    // The mean of an empty visit is NaN, and the comparison fails.
    let is_confirmed = load
        .iter()
        .all(|visit| first.iter().all(|other| mean(visit) > mean(other)));
    if growth.change == GrowthChange::Grows && !is_confirmed {
        Growth {
            change: GrowthChange::Unknown,
            ..growth
        }
    } else {
        growth
    }
}

/// Returns the max of each stretch of `length` wakeups per visit, ns, above 0. No stretch
/// spans both visits.
fn stretch_maxima(wakeups: &RtosWakeups, length: usize) -> [Vec<f64>; 2] {
    let samples = &wakeups.samples;
    let second = wakeups.second_visit.unwrap_or(samples.len());
    let (first, second) = samples.split_at(second.min(samples.len()));
    [first, second].map(|visit| {
        visit
            .chunks_exact(length)
            .map(|stretch| {
                let max = stretch.iter().map(system_latency).max();
                max.unwrap_or_default().as_f64().max(1.0)
            })
            .collect()
    })
}

/// Returns the reason for the verdict.
pub(super) fn reason(loads: &[LoadFigures]) -> RtosReason {
    let Some((first, others)) = loads.split_first() else {
        return RtosReason::NoSecondLoad;
    };
    let grows = |load: &&LoadFigures| {
        load.growth.is_some_and(|growth| {
            growth.change == GrowthChange::Grows && growth.ratio_low > MAX_GROWTH
        }) && !load.is_open()
            && !first.is_open()
    };
    let ratio = |load: &LoadFigures| load.growth.map_or(0.0, |growth| growth.ratio);
    if let Some(load) = others
        .iter()
        .filter(grows)
        .max_by(|load, other| ratio(load).total_cmp(&ratio(other)))
    {
        let load = load.load.clone();
        return RtosReason::MaxGrows { load };
    }
    let is_bounded = |load: &LoadFigures| {
        load.growth
            .is_some_and(|growth| growth.ratio_high < MAX_GROWTH)
            && !load.is_open()
    };
    if !others.is_empty() && others.iter().all(is_bounded) && !first.is_open() {
        // One long latency among thousands hardly changes the mean of the stretches.
        let is_single_max = |load: &&LoadFigures| {
            let both = load.system_max().zip(first.system_max());
            both.is_none_or(|(max, first)| max.as_f64() >= MAX_GROWTH * first.as_f64())
        };
        return others
            .iter()
            .find(is_single_max)
            .map_or(RtosReason::MaxDoesNotGrow, |load| {
                RtosReason::SingleMaxGrows {
                    load: load.load.clone(),
                }
            });
    }
    if loads.iter().any(|load| !load.competitors.is_empty()) {
        RtosReason::PossiblyCompetitors
    } else if loads.iter().any(|load| load.is_possibly_steal) {
        RtosReason::PossiblySteal
    } else if loads.iter().all(|load| load.absence.is_some()) {
        RtosReason::NotRun
    } else if others.is_empty() {
        RtosReason::NoSecondLoad
    } else {
        RtosReason::GrowthUncertain
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{Lacks, StealTotal};

    use super::*;

    /// 1,000 wakeups in two visits: 990 of 5 us, and ten of at least `max_us`: one per
    /// stretch.
    fn run(load: &str, max_us: u64) -> RtosLoadRun {
        let samples = (0..1_000).map(|number| RtosWakeup {
            running: 50,
            woken: 90,
            latency: Nanos::from_us(match number % 100 {
                50 => max_us + number / 100,
                _ => 5,
            }),
            preempted: true,
            steal: None,
        });
        RtosLoadRun {
            load: load.into(),
            wakeups: Ok(RtosWakeups {
                samples: samples.collect(),
                second_visit: Some(500),
                ..RtosWakeups::default()
            }),
        }
    }

    fn wakeups(run: &mut RtosLoadRun) -> &mut RtosWakeups {
        run.wakeups.as_mut().unwrap()
    }

    fn reason_of(runs: &[RtosLoadRun]) -> RtosReason {
        reason(&figures(runs))
    }

    fn grows(load: &str) -> RtosReason {
        RtosReason::MaxGrows { load: load.into() }
    }

    #[test]
    fn a_max_that_grows_under_one_load_fails() {
        let runs = [run("idle", 50), run("fp", 51), run("fileio", 150)];

        assert_eq!(reason_of(&runs), grows("fileio"));
        let max = figures(&runs)[2].max_ns;
        assert_eq!(max, Some(Nanos::from_us(159)));
    }

    /// A longer test finds smaller growth. It must not change the verdict.
    #[test]
    fn growth_by_less_than_a_factor_of_two_passes() {
        let runs = [run("idle", 50), run("fp", 70)];

        let growth = figures(&runs)[1].growth.unwrap();
        assert_eq!(growth.change, GrowthChange::Grows);
        assert!(growth.ratio_high < MAX_GROWTH, "{growth:?}");
        assert_eq!(reason_of(&runs), RtosReason::MaxDoesNotGrow);
    }

    #[test]
    fn a_max_that_stays_passes() {
        let reason = reason_of(&[run("idle", 50), run("fp", 51)]);

        assert_eq!(reason, RtosReason::MaxDoesNotGrow);
    }

    #[test]
    fn a_load_that_is_not_there_leaves_the_criterion_open() {
        let absent = RtosLoadRun {
            load: "net".into(),
            wakeups: Err(Absence::new(
                "load `net` needs iperf3",
                "install it",
                Lacks::Machine,
            )),
        };
        let (idle, fp) = (run("idle", 50), run("fp", 51));

        let reason = reason_of(&[idle.clone(), fp, absent.clone()]);

        assert_eq!(reason, RtosReason::GrowthUncertain);
        assert_eq!(reason_of(&[idle]), RtosReason::NoSecondLoad);
        assert_eq!(reason_of(&[absent.clone(), absent]), RtosReason::NotRun);
    }

    #[test]
    fn steal_time_may_explain_a_growth() {
        let mut busy = run("fp", 4_000);
        wakeups(&mut busy).steal = Some(StealTotal {
            time: Nanos::from_ms(20),
            step: Nanos::from_ms(10),
            has_counted: true,
        });

        let reason = reason_of(&[run("idle", 50), busy]);

        assert_eq!(reason, RtosReason::PossiblySteal);
    }

    #[test]
    fn less_than_a_step_of_the_coarse_counter_may_explain_a_growth() {
        let with = |has_counted| {
            let mut busy = run("fp", 4_000);
            wakeups(&mut busy).steal = Some(StealTotal {
                time: Nanos::ZERO,
                step: Nanos::from_ms(10),
                has_counted,
            });
            reason_of(&[run("idle", 50), busy])
        };

        assert_eq!(with(true), RtosReason::PossiblySteal);
        assert_eq!(with(false), grows("fp"), "there is no hypervisor");
    }

    #[test]
    fn a_thread_of_another_program_may_explain_a_growth() {
        let with = |ran_us| {
            let mut busy = run("fp", 4_000);
            wakeups(&mut busy).competitors = vec![CompetingThread {
                name: "audio".into(),
                priority: None,
                ran_ns: Nanos::from_us(ran_us),
            }];
            reason_of(&[run("idle", 50), busy])
        };

        assert_eq!(with(8_000), RtosReason::PossiblyCompetitors);
        assert_eq!(with(1_000), grows("fp"));
    }

    /// As if other work started on the machine during that visit.
    #[test]
    fn growth_in_one_visit_alone_is_not_a_growth_of_the_load() {
        let mut busy = run("fp", 50);
        for sample in &mut wakeups(&mut busy).samples[..500] {
            sample.latency = Nanos::from_ns(sample.latency.ns() * 10);
        }
        let idle = run("idle", 50);
        let maxima =
            [&idle, &busy].map(|run| stretch_maxima(run.wakeups.as_ref().unwrap(), 100).concat());
        let by_mean = figure([&maxima[0], &maxima[1]], CONFIDENCE)
            .unwrap()
            .unwrap();

        let reason = reason_of(&[idle, busy]);

        assert_eq!(by_mean.change, GrowthChange::Grows);
        assert_eq!(reason, RtosReason::GrowthUncertain);
    }

    /// It is in one stretch of ten, so it is a tenth of the mean.
    #[test]
    fn a_single_latency_of_three_times_the_max_does_not_pass() {
        let mut busy = run("fp", 50);
        wakeups(&mut busy).samples[350].latency = Nanos::from_us(180);

        let reason = reason_of(&[run("idle", 50), busy]);

        let load = "fp".into();
        assert_eq!(reason, RtosReason::SingleMaxGrows { load });
    }

    #[test]
    fn steal_time_is_subtracted() {
        let (mut idle, mut busy) = (run("idle", 50), run("fp", 50));
        for sample in &mut wakeups(&mut busy).samples {
            sample.steal = Some(Nanos::from_ms(4));
            sample.latency += Nanos::from_ms(4);
        }
        for sample in &mut wakeups(&mut idle).samples {
            sample.steal = Some(Nanos::ZERO);
        }
        let runs = [idle, busy];

        assert_eq!(reason_of(&runs), RtosReason::MaxDoesNotGrow);
        let figures = &figures(&runs)[1];
        assert_eq!(figures.max_ns, Some(Nanos::from_us(4_059)));
        assert_eq!(figures.max_without_steal_ns, Some(Nanos::from_us(59)));
    }

    /// Most of the first visit was excluded, because laggard was stopped. By number, the
    /// middle of the samples is within the second visit.
    #[test]
    fn visits_are_distinguished_by_time_and_not_by_the_number_of_samples() {
        let scale = |samples: &mut [RtosWakeup]| {
            for sample in samples {
                sample.latency = Nanos::from_ns(sample.latency.ns() * 10);
            }
        };
        let change = |busy: &RtosLoadRun| {
            let figures = figures(&[run("idle", 50), busy.clone()]);
            figures[1].growth.unwrap().change
        };
        let mut busy = run("fp", 50);
        wakeups(&mut busy).samples.drain(..300);
        wakeups(&mut busy).second_visit = Some(200);
        scale(&mut wakeups(&mut busy).samples[200..]);

        assert_eq!(change(&busy), GrowthChange::Unknown);
        scale(&mut wakeups(&mut busy).samples[..200]);
        assert_eq!(change(&busy), GrowthChange::Grows, "in both visits");
        wakeups(&mut busy).second_visit = Some(0);
        assert_eq!(change(&busy), GrowthChange::Unknown, "one visit is empty");
    }

    #[test]
    fn intervals_are_wider_with_more_loads() {
        let intervals = [1, 4].map(|others| {
            let mut runs = vec![run("idle", 50)];
            runs.extend((0..others).map(|_| run("fp", 60)));
            let growth = figures(&runs)[1].growth.unwrap();
            (growth.confidence, growth.ratio_high / growth.ratio_low)
        });

        assert!((intervals[0].0 - 0.95).abs() < 1e-9, "{intervals:?}");
        assert!((intervals[1].0 - 0.9875).abs() < 1e-9, "{intervals:?}");
        assert!(intervals[1].1 > intervals[0].1, "{intervals:?}");
    }

    /// The unknown one may be the max.
    #[test]
    fn max_without_steal_is_unknown_if_the_steal_of_one_wakeup_is() {
        let mut idle = run("idle", 50);
        for sample in &mut wakeups(&mut idle).samples[..999] {
            sample.steal = Some(Nanos::ZERO);
        }

        assert_eq!(figures(&[idle.clone()])[0].max_without_steal_ns, None);
        wakeups(&mut idle).samples[999].steal = Some(Nanos::ZERO);
        let max = figures(&[idle])[0].max_without_steal_ns;
        assert_eq!(max, Some(Nanos::from_us(59)));
    }

    #[test]
    fn missed_expiries_are_counted() {
        let mut busy = run("fp", 50);
        wakeups(&mut busy).missed = 1_200;

        assert_eq!(figures(&[run("idle", 50), busy])[1].missed, 1_200);
    }
}
