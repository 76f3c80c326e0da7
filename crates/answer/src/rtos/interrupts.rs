//! Criterion `interrupts`: ISR latency, ISR dispatch latency, and the interrupt rate that
//! they allow.

use laggard_model::{InterruptSource, Nanos, RtosInterrupt, RtosInterrupts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RtosReason;
use super::preemption::max_if_all_known;

const MIN_INTERRUPTS: usize = 100;
/// Quantiles, and the minimum number of interrupts for reporting each. The first that applies is
/// used.
const QUANTILES: [(f64, usize); 2] = [(0.999, 1_000), (0.99, MIN_INTERRUPTS)];
const SECOND_NS: f64 = 1e9;
/// Number of interrupts in the figures of the paper.
const MAX_FIRST: usize = 1_000;

/// Latencies of interrupts of a computing thread.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct InterruptFigures {
    /// Number of interrupts that were measured completely.
    pub interrupts: usize,
    /// Number of interrupts that came too close to another one, or whose timestamps
    /// disagree. They are in no other figure.
    pub excluded: u64,
    /// Number of interrupts of something other than the computing thread: a softirq or
    /// another thread.
    pub of_others: usize,
    pub source: InterruptSource,
    /// Mean time between two readings of the clock, the resolution of the measurement.
    pub reading_ns: Nanos,
    /// Quantile of the `quantile_ns`: 0.999 or 0.99.
    pub quantile: Option<f64>,
    /// Time from the last instruction of the thread to the first of the handler.
    pub latency: InterruptTimes,
    /// Time from the first instruction of the handler to its last. The handler of this
    /// test does next to nothing.
    pub handler: InterruptTimes,
    /// Time from the last instruction of the handler to the next of the thread.
    pub dispatch: InterruptTimes,
    /// Time from the last instruction of a computing thread to the first of the thread that runs
    /// the handler. Absent: the handler runs in the interrupt, or there is no HPET.
    pub thread: Option<InterruptTimes>,
    /// Highest interrupt rate for a device with this handler: 1 / (quantile of the ISR latency +
    /// quantile of the handler).
    pub max_rate_hz: Option<f64>,
    /// Number of interrupts whose latency or dispatch latency is above the limit.
    pub above_limit: usize,
    /// Number of these that are above the limit only with steal time.
    pub above_limit_by_steal: usize,
    /// Number of these that steal time may explain, if the steal clock cannot be read.
    pub above_limit_possibly_steal: usize,
    /// Steal time during the test, by the coarse counter of the kernel.
    pub steal_ns: Option<Nanos>,
}

/// Times of one part of all interrupts.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct InterruptTimes {
    /// Mean, ns.
    pub mean_ns: Option<f64>,
    pub median_ns: Option<Nanos>,
    /// The quantile; absent if there are too few interrupts.
    pub quantile_ns: Option<Nanos>,
    pub max_ns: Option<Nanos>,
    /// Max without steal time between the last instruction of the thread and its next;
    /// absent if the steal clock cannot be read.
    pub max_without_steal_ns: Option<Nanos>,
    /// The first 1,000 in their order.
    pub first_ns: Vec<Nanos>,
}

impl InterruptTimes {
    fn new(times: impl Iterator<Item = (Nanos, Option<Nanos>)>, quantile: Option<f64>) -> Self {
        let (mut sorted, without_steal): (Vec<Nanos>, Vec<Option<Nanos>>) = times
            .map(|(time, steal)| (time, steal.map(|steal| time.saturating_sub(steal))))
            .unzip();
        let first_ns = sorted.iter().copied().take(MAX_FIRST).collect();
        let sum: f64 = sorted.iter().map(|time| time.as_f64()).sum();
        sorted.sort_unstable();
        Self {
            mean_ns: (!sorted.is_empty()).then(|| sum / sorted.len() as f64),
            median_ns: quantile_of(&sorted, 0.5),
            quantile_ns: quantile.and_then(|quantile| quantile_of(&sorted, quantile)),
            max_ns: sorted.last().copied(),
            max_without_steal_ns: max_if_all_known(without_steal.into_iter()),
            first_ns,
        }
    }
}

/// Returns the smallest time that a share of `quantile` does not exceed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an index into a short list"
)]
fn quantile_of(sorted: &[Nanos], quantile: f64) -> Option<Nanos> {
    let rank = (sorted.len() as f64 * quantile).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Computes the figures. `limit` is the max that is allowed for the latency and for the
/// dispatch latency.
pub(super) fn figures(interrupts: &RtosInterrupts, limit: Nanos) -> InterruptFigures {
    let samples = &interrupts.samples;
    let quantile = quantile(samples.len());
    let times = |part: fn(&RtosInterrupt) -> Option<Nanos>| {
        let times = samples
            .iter()
            .filter_map(|sample| Some((part(sample)?, sample.steal)));
        InterruptTimes::new(times, quantile)
    };
    let latency = times(|sample| Some(sample.latency));
    let handler = times(|sample| Some(sample.handler));
    let longer = |sample: &RtosInterrupt| sample.latency.max(sample.dispatch.unwrap_or_default());
    let late = || samples.iter().filter(|sample| longer(sample) > limit);
    let by_steal = late().filter(|sample| {
        sample
            .steal
            .is_some_and(|steal| longer(sample).saturating_sub(steal) <= limit)
    });
    let without_clock = late().filter(|sample| sample.steal.is_none()).count();
    let is_possibly_steal = interrupts
        .steal
        .zip(late().map(longer).max())
        .is_some_and(|(steal, max)| steal.allows(max));
    InterruptFigures {
        interrupts: samples.len(),
        excluded: interrupts.excluded,
        of_others: samples.iter().filter(|sample| !sample.is_of_thread).count(),
        source: interrupts.source,
        reading_ns: interrupts.reading,
        quantile,
        max_rate_hz: max_rate(&latency, &handler),
        latency,
        handler,
        dispatch: times(|sample| sample.dispatch),
        thread: thread(&interrupts.threaded),
        above_limit: late().count(),
        above_limit_by_steal: by_steal.count(),
        above_limit_possibly_steal: if is_possibly_steal { without_clock } else { 0 },
        steal_ns: interrupts.steal.map(|steal| steal.time),
    }
}

/// Returns the times until the thread of the handler, if it ran.
fn thread(threaded: &[RtosInterrupt]) -> Option<InterruptTimes> {
    let times: Vec<_> = threaded
        .iter()
        .filter_map(|sample| Some((sample.thread?, sample.steal)))
        .collect();
    let quantile = quantile(times.len());
    (times.len() >= MIN_INTERRUPTS).then(|| InterruptTimes::new(times.into_iter(), quantile))
}

/// Returns the highest quantile that this number of interrupts permits.
fn quantile(count: usize) -> Option<f64> {
    let mut quantiles = QUANTILES.iter();
    let (quantile, _) = quantiles.find(|(_, min)| count >= *min)?;
    Some(*quantile)
}

fn max_rate(latency: &InterruptTimes, handler: &InterruptTimes) -> Option<f64> {
    let both = latency.quantile_ns? + handler.quantile_ns?;
    (both > Nanos::ZERO).then(|| SECOND_NS / both.as_f64())
}

/// Returns the reason for the verdict.
pub(super) fn reason(figures: &InterruptFigures) -> RtosReason {
    if figures.interrupts < MIN_INTERRUPTS {
        return RtosReason::TooFewSamples;
    }
    let open = figures.above_limit_possibly_steal;
    let count = figures.above_limit - figures.above_limit_by_steal - open;
    if count > 0 {
        RtosReason::AboveLimit { count }
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
    const US: fn(u64) -> Nanos = Nanos::from_us;

    const USUAL: RtosInterrupt = RtosInterrupt {
        latency: Nanos::from_us(2),
        is_of_thread: true,
        handler: Nanos::from_us(1),
        dispatch: Some(Nanos::from_us(3)),
        thread: None,
        steal: Some(Nanos::ZERO),
    };

    /// 2,000 usual interrupts and others.
    fn interrupts(others: &[RtosInterrupt], coarse: Option<(u64, bool)>) -> RtosInterrupts {
        let mut samples = vec![USUAL; 2_000];
        samples.extend(others);
        RtosInterrupts {
            source: InterruptSource::Cpu,
            samples,
            threaded: Vec::new(),
            excluded: 4,
            reading: Nanos::from_ns(40),
            steal: coarse.map(|(ms, has_counted)| StealTotal {
                time: Nanos::from_ms(ms),
                step: Nanos::from_ms(10),
                has_counted,
            }),
        }
    }

    fn reason_of(interrupts: &RtosInterrupts) -> RtosReason {
        reason(&figures(interrupts, LIMIT))
    }

    #[test]
    fn both_latencies_and_the_rate_that_they_allow_are_reported() {
        let figures = figures(&interrupts(&[], None), LIMIT);

        assert_eq!(reason(&figures), RtosReason::WithinLimit);
        assert_eq!(figures.quantile, Some(0.999));
        assert_eq!(figures.latency.max_ns, Some(US(2)));
        assert_eq!(figures.dispatch.max_ns, Some(US(3)));
        assert_eq!(figures.dispatch.mean_ns, Some(3_000.0));
        assert_eq!(figures.dispatch.first_ns, [US(3); 1_000]);
        // 1 / (2 us + 1 us)
        assert!((figures.max_rate_hz.unwrap() - 333_333.3).abs() < 1.0);
    }

    #[test]
    fn latency_of_the_handlers_thread_needs_a_handler_that_runs_in_one() {
        let mut with_thread = interrupts(&[], None);
        with_thread.threaded = vec![USUAL; 500];
        assert_eq!(figures(&with_thread, LIMIT).thread, None);

        with_thread.threaded.extend(
            [RtosInterrupt {
                thread: Some(US(9)),
                ..USUAL
            }; 1_500],
        );
        let figures = figures(&with_thread, LIMIT);

        assert_eq!(figures.thread.unwrap().quantile_ns, Some(US(9)));
        assert_eq!(figures.latency.max_ns, Some(US(2)));
    }

    /// One in 2,000 is below the quantile.
    #[test]
    fn a_late_handler_fails_and_is_in_the_latency_alone() {
        let late = RtosInterrupt {
            latency: US(1_400),
            is_of_thread: false,
            dispatch: None,
            ..USUAL
        };

        let figures = figures(&interrupts(&[late], None), LIMIT);

        assert_eq!(reason(&figures), RtosReason::AboveLimit { count: 1 });
        assert_eq!(figures.latency.max_ns, Some(US(1_400)));
        assert_eq!(figures.dispatch.max_ns, Some(US(3)));
        assert_eq!(figures.of_others, 1);
        assert_eq!(figures.latency.quantile_ns, Some(US(2)));
    }

    #[test]
    fn a_late_return_to_the_thread_fails() {
        let late = RtosInterrupt {
            dispatch: Some(US(1_001)),
            ..USUAL
        };

        let reason = reason_of(&interrupts(&[late], None));

        assert_eq!(reason, RtosReason::AboveLimit { count: 1 });
    }

    #[test]
    fn steal_time_is_subtracted() {
        let late = RtosInterrupt {
            latency: US(13_000),
            steal: Some(US(12_990)),
            ..USUAL
        };

        let figures = figures(&interrupts(&[late], None), LIMIT);

        assert_eq!(reason(&figures), RtosReason::WithinLimitWithoutSteal);
        assert_eq!(figures.latency.max_without_steal_ns, Some(US(10)));
        assert_eq!(figures.dispatch.max_without_steal_ns, Some(US(3)));
    }

    #[test]
    fn the_coarse_counter_may_explain_a_latency() {
        let late = RtosInterrupt {
            latency: US(1_500),
            steal: None,
            ..USUAL
        };
        let with = |coarse| reason_of(&interrupts(&[late], coarse));

        assert_eq!(with(Some((20, true))), RtosReason::PossiblySteal);
        let fails = RtosReason::AboveLimit { count: 1 };
        assert_eq!(with(Some((0, false))), fails);
        assert_eq!(with(None), fails);
    }

    #[test]
    fn a_few_interrupts_have_no_verdict_and_no_quantile() {
        let mut few = interrupts(&[], None);
        few.samples.truncate(99);

        let of_few = figures(&few, LIMIT);
        few.samples.resize(500, USUAL);
        let of_more = figures(&few, LIMIT);

        assert_eq!(reason(&of_few), RtosReason::TooFewSamples);
        assert_eq!((of_few.quantile, of_few.max_rate_hz), (None, None));
        assert_eq!(of_more.quantile, Some(0.99));
    }
}
