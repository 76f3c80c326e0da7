//! Criterion `preemption`: latency of a woken thread while one of lower priority
//! computes.

use laggard_model::{CompetingThread, Nanos, RtosWakeup, RtosWakeups};
use schemars::JsonSchema;
use serde::Serialize;

use super::RtosReason;

const MIN_WAKEUPS: usize = 100;

/// Latencies of a woken thread while another one computes.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct PreemptionFigures {
    /// Number of wakeups while the other thread computed.
    pub wakeups: usize,
    /// Number of other wakeups, which are in no other figure.
    pub excluded: u64,
    /// Median latency, from the expiry of the timer.
    pub median_ns: Option<Nanos>,
    /// Max latency.
    pub max_ns: Option<Nanos>,
    /// Max latency without steal time; absent if the steal clock cannot be read.
    pub max_without_steal_ns: Option<Nanos>,
    pub above_limit: usize,
    /// Number of these that are above the limit only with steal time.
    pub above_limit_by_steal: usize,
    /// Number of these that steal time may explain, if the steal clock cannot be read.
    pub above_limit_possibly_steal: usize,
    /// Number of these that threads of other programs may explain.
    pub above_limit_possibly_competitors: usize,
    /// Threads of other programs that ran and that the woken thread has to wait for, the
    /// longest run time first.
    pub competitors: Vec<CompetingThread>,
    /// Steal time during the test, by the coarse counter of the kernel.
    pub steal_ns: Option<Nanos>,
}

/// Computes the figures. `limit` is the max latency that is allowed.
pub(super) fn figures(wakeups: &RtosWakeups, limit: Nanos) -> PreemptionFigures {
    let samples = &wakeups.samples;
    let mut latencies: Vec<Nanos> = samples.iter().map(|sample| sample.latency).collect();
    latencies.sort_unstable();
    let without_steal = |sample: &RtosWakeup| Some(sample.latency.saturating_sub(sample.steal?));
    let late: Vec<&RtosWakeup> = samples
        .iter()
        .filter(|sample| sample.latency > limit)
        .collect();
    let by_steal = late
        .iter()
        .filter(|sample| without_steal(sample).is_some_and(|latency| latency <= limit));
    let without_clock = late.iter().filter(|sample| sample.steal.is_none()).count();
    let is_possibly_steal = is_possibly_steal(wakeups, &late);
    let competitors_ran = run_time(&wakeups.competitors);
    let by_competitors = late.iter().filter(|sample| {
        let latency = without_steal(sample).unwrap_or(sample.latency);
        let is_steal_known = sample.steal.is_some() || !is_possibly_steal;
        is_steal_known && latency > limit && latency.saturating_sub(competitors_ran) <= limit
    });
    PreemptionFigures {
        wakeups: latencies.len(),
        excluded: wakeups.excluded,
        median_ns: latencies
            .get(latencies.len().saturating_sub(1) / 2)
            .copied(),
        max_ns: latencies.last().copied(),
        max_without_steal_ns: max_if_all_known(samples.iter().map(without_steal)),
        above_limit: late.len(),
        above_limit_by_steal: by_steal.count(),
        above_limit_possibly_steal: if is_possibly_steal { without_clock } else { 0 },
        above_limit_possibly_competitors: by_competitors.count(),
        competitors: wakeups.competitors.clone(),
        steal_ns: wakeups.steal.map(|steal| steal.time),
    }
}

/// Returns the max, or `None` if a time is unknown, which may be the max.
pub(super) fn max_if_all_known(times: impl Iterator<Item = Option<Nanos>>) -> Option<Nanos> {
    times.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// Sums the run times of the threads.
pub(super) fn run_time(threads: &[CompetingThread]) -> Nanos {
    threads
        .iter()
        .fold(Nanos::ZERO, |sum, thread| sum + thread.ran_ns)
}

/// Returns whether steal time may have caused the longest of these latencies, by the coarse
/// counter.
fn is_possibly_steal(wakeups: &RtosWakeups, late: &[&RtosWakeup]) -> bool {
    let max = late.iter().map(|sample| sample.latency).max();
    wakeups
        .steal
        .zip(max)
        .is_some_and(|(steal, max)| steal.allows(max))
}

/// Returns the reason for the verdict.
pub(super) fn reason(figures: &PreemptionFigures) -> RtosReason {
    if figures.wakeups < MIN_WAKEUPS {
        return RtosReason::TooFewSamples;
    }
    let open = figures.above_limit_possibly_steal + figures.above_limit_possibly_competitors;
    let count = figures.above_limit - figures.above_limit_by_steal - open;
    if count > 0 {
        RtosReason::AboveLimit { count }
    } else if figures.above_limit_possibly_competitors > 0 {
        RtosReason::PossiblyCompetitors
    } else if open > 0 {
        RtosReason::PossiblySteal
    } else if figures.above_limit_by_steal > 0 {
        RtosReason::WithinLimitWithoutSteal
    } else {
        RtosReason::WithinLimit
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::StealTotal;

    use super::*;

    const LIMIT: Nanos = Nanos::from_ms(1);

    /// 200 wakeups of 7 us and others of some microseconds, each with its steal time.
    fn wakeups(others: &[(u64, Option<u64>)], coarse: Option<(u64, bool)>) -> RtosWakeups {
        let sample = |&(us, steal): &(u64, Option<u64>)| RtosWakeup {
            running: 50,
            woken: 90,
            latency: Nanos::from_us(us),
            preempted: true,
            steal: steal.map(Nanos::from_us),
        };
        let steal = others.first().and_then(|other| other.1);
        let usual = std::iter::repeat_n((7, steal), 200);
        let samples: Vec<(u64, Option<u64>)> = usual.chain(others.iter().copied()).collect();
        RtosWakeups {
            samples: samples.iter().map(sample).collect(),
            excluded: 3,
            steal: coarse.map(|(ms, has_counted)| StealTotal {
                time: Nanos::from_ms(ms),
                step: Nanos::from_ms(10),
                has_counted,
            }),
            ..RtosWakeups::default()
        }
    }

    fn reason_of(wakeups: &RtosWakeups) -> RtosReason {
        reason(&figures(wakeups, LIMIT))
    }

    #[test]
    fn latencies_below_the_limit_pass() {
        let figures = figures(&wakeups(&[(212, None)], None), LIMIT);

        assert_eq!(reason(&figures), RtosReason::WithinLimit);
        assert_eq!((figures.wakeups, figures.excluded), (201, 3));
        assert_eq!(figures.median_ns, Some(Nanos::from_us(7)));
        assert_eq!(figures.max_ns, Some(Nanos::from_us(212)));
    }

    #[test]
    fn a_latency_above_the_limit_fails_if_steal_does_not_explain_it() {
        for late in [(1_500, Some(0)), (1_500, Some(499)), (20_000, Some(3_000))] {
            let reason = reason_of(&wakeups(&[late], None));

            assert_eq!(reason, RtosReason::AboveLimit { count: 1 }, "{late:?}");
        }
    }

    /// Without a hypervisor, steal time does not occur.
    #[test]
    fn a_latency_above_the_limit_fails_if_no_steal_time_was_ever_counted() {
        for coarse in [None, Some((0, false))] {
            let reason = reason_of(&wakeups(&[(1_500, None)], coarse));

            assert_eq!(reason, RtosReason::AboveLimit { count: 1 }, "{coarse:?}");
        }
    }

    #[test]
    fn steal_time_is_subtracted() {
        let figures = figures(&wakeups(&[(13_000, Some(12_500))], None), LIMIT);

        assert_eq!(reason(&figures), RtosReason::WithinLimitWithoutSteal);
        assert_eq!(figures.max_ns, Some(Nanos::from_ms(13)));
        assert_eq!(figures.max_without_steal_ns, Some(Nanos::from_us(500)));
    }

    /// A step of the coarse counter explains 1.5 ms, but not 50 ms.
    #[test]
    fn the_coarse_counter_may_explain_a_latency() {
        let coarse = Some((20, true));

        let explained = reason_of(&wakeups(&[(1_500, None)], coarse));
        let too_long = reason_of(&wakeups(&[(50_000, None)], coarse));

        assert_eq!(explained, RtosReason::PossiblySteal);
        assert_eq!(too_long, RtosReason::AboveLimit { count: 1 });
    }

    /// The system must give the CPU to a thread of higher priority.
    #[test]
    fn a_thread_of_another_program_may_explain_a_latency() {
        let with = |late: &[(u64, Option<u64>)], ran_us| RtosWakeups {
            competitors: vec![CompetingThread {
                name: "audio".into(),
                priority: Some(97),
                ran_ns: Nanos::from_us(ran_us),
            }],
            ..wakeups(late, None)
        };

        let explained = reason_of(&with(&[(3_000, Some(0))], 2_500));
        let too_long = reason_of(&with(&[(3_000, None), (1_300, None)], 1_500));
        let in_time = reason_of(&with(&[(900, None)], 9_000));

        assert_eq!(explained, RtosReason::PossiblyCompetitors);
        assert_eq!(too_long, RtosReason::AboveLimit { count: 1 });
        assert_eq!(in_time, RtosReason::WithinLimit);
    }

    #[test]
    fn a_few_wakeups_decide_nothing() {
        let few = RtosWakeups {
            samples: wakeups(&[], None).samples[..99].to_vec(),
            ..RtosWakeups::default()
        };

        assert_eq!(reason_of(&few), RtosReason::TooFewSamples);
        assert_eq!(
            reason_of(&RtosWakeups::default()),
            RtosReason::TooFewSamples
        );
    }
}
