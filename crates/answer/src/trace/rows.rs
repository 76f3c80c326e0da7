//! Rows of the report.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use laggard_analyze::distribution::MIN_BEYOND;
use laggard_etl::{HandlerKind, HandlerTally, ThreadTally, TraceTally};
use laggard_model::{Histogram, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

/// Share of the times below p99.9.
const P999: f64 = 0.999;
/// Samples that a lower limit of p99.9 needs: fewer make it uninformative.
const MIN_SAMPLES: u64 = 1_000;
/// Probability that a lower limit of p99.9 is right.
const CONFIDENCE: f64 = 0.975;

#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct TraceTimes {
    /// Number of times.
    pub count: u64,
    /// Sum.
    pub total_ns: u64,
    /// Median. With a coarse clock, the last step of the time is included.
    pub median_ns: Nanos,
    /// p99.9. Absent with fewer than 3,689 times. Steps as above.
    pub p999_ns: Option<Nanos>,
    /// Lower limit of p99.9 (97.5 % confidence) if there are too few times for its value.
    /// Absent with fewer than 1,000 times, and with a coarse clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999_low_ns: Option<Nanos>,
    /// Max; with a coarse clock at least a step.
    pub max_ns: Nanos,
    /// Step of a coarse clock; otherwise 0.
    #[serde(skip)]
    pub step: Nanos,
    /// Whether the max is less than a step.
    #[serde(skip)]
    pub is_below_step: bool,
}

impl TraceTimes {
    /// Returns `None` without any time.
    fn new(times: &Histogram, step: Nanos) -> Option<Self> {
        let beyond = times.count() as f64 * (1.0 - P999);
        let is_many = beyond >= MIN_BEYOND;
        let has_low = !is_many && times.count() >= MIN_SAMPLES && step == Nanos::ZERO;
        let low = has_low.then(|| low_quantile(times, beyond));
        // A time of 0 steps started and ended in the same step. The edge of a bucket is not more
        // exact than a step.
        let quantile = |share| {
            let time: Nanos = times.quantile(share)?;
            Some(match step {
                Nanos::ZERO => time,
                step if time < step => step,
                step => time + step,
            })
        };
        Some(Self {
            count: times.count(),
            total_ns: u64::try_from(times.sum_ns()).unwrap_or(u64::MAX),
            median_ns: quantile(0.5)?,
            p999_ns: quantile(P999).filter(|_| is_many),
            p999_low_ns: low.flatten(),
            max_ns: times.max()?.max(step),
            step,
            is_below_step: times.max()? < step,
        })
    }
}

/// Returns a time that p99.9 exceeds or equals with [`CONFIDENCE`]. The number of times above
/// p99.9 is a Poisson number with the mean `beyond`.
fn low_quantile(times: &Histogram, beyond: f64) -> Option<Nanos> {
    let mut probability = (-beyond).exp();
    let (mut sum, mut above) = (probability, 0_u64);
    while sum < CONFIDENCE {
        above += 1;
        probability *= beyond / above as f64;
        sum += probability;
    }
    let rank = times.count().checked_sub(above).filter(|rank| *rank > 0)?;
    times.quantile(rank as f64 / times.count() as f64)
}

/// Runs of the handlers of a driver, or of a routine.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TraceHandlerRow {
    pub handler: HandlerKind,
    /// Driver or routine: `ndis.sys`, `ndis.sys+0x1234`, or an address if no image is
    /// known there.
    pub name: String,
    /// Durations, interruptions included.
    #[serde(flatten)]
    pub times: TraceTimes,
    /// Limit that Microsoft recommends.
    pub limit_ns: Nanos,
    /// Number of runs above the limit.
    pub over_limit: u64,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TraceThreadRow {
    /// Thread ID.
    pub thread: u32,
    /// Process ID, if the trace has it.
    pub process: Option<u32>,
    /// Name of the process, if the trace has it.
    pub name: Option<String>,
    /// Lowest and highest priority, 0 to 31, of its runs after a wait for a CPU. Absent if it never
    /// waited for a CPU.
    pub priorities: Option<(u8, u8)>,
    /// Durations of the waits.
    #[serde(flatten)]
    pub times: TraceTimes,
}

/// Waits of all threads that then ran with a priority.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PriorityRow {
    /// Priority, 0 to 31. Windows calls 16 and above real-time.
    pub priority: u8,
    /// Durations of the waits.
    #[serde(flatten)]
    pub times: TraceTimes,
}

pub(super) fn drivers(tally: &TraceTally, step: Nanos) -> Vec<TraceHandlerRow> {
    let mut handlers: BTreeMap<(HandlerKind, String), HandlerTally> = BTreeMap::new();
    for ((sort, driver), handler) in tally.drivers() {
        let sort = match sort {
            HandlerKind::Isr => HandlerKind::Isr,
            _ => HandlerKind::Dpc,
        };
        let sum = handlers.entry((sort, driver)).or_default();
        sum.merge(&handler);
    }
    handler_rows(handlers, step)
}

pub(super) fn routines(tally: &TraceTally, step: Nanos) -> Vec<TraceHandlerRow> {
    handler_rows(tally.routines(), step)
}

fn handler_rows(
    handlers: BTreeMap<(HandlerKind, String), HandlerTally>,
    step: Nanos,
) -> Vec<TraceHandlerRow> {
    let mut rows: Vec<TraceHandlerRow> = handlers
        .into_iter()
        .filter_map(|((sort, name), handler)| {
            Some(TraceHandlerRow {
                handler: sort,
                name,
                times: TraceTimes::new(&handler.times, step)?,
                limit_ns: sort.limit(),
                over_limit: handler.over_limit,
            })
        })
        .collect();
    // Rows with the same max stay in the order of kind and name.
    rows.sort_by_key(|row| Reverse(row.times.max_ns));
    rows
}

pub(super) fn threads(
    tally: &TraceTally,
    step: Nanos,
    times: impl Fn(&ThreadTally) -> &Histogram,
) -> Vec<TraceThreadRow> {
    let row = |thread: ThreadTally| {
        Some(TraceThreadRow {
            times: TraceTimes::new(times(&thread), step)?,
            thread: thread.id,
            process: thread.process,
            name: thread.name,
            priorities: thread.priorities,
        })
    };
    let mut rows: Vec<TraceThreadRow> = tally.threads.threads().filter_map(row).collect();
    rows.sort_by_key(|row| (Reverse(row.times.max_ns), row.process, row.thread));
    rows
}

pub(super) fn priorities(tally: &TraceTally, step: Nanos) -> Vec<PriorityRow> {
    let priorities = tally.threads.by_priority.iter().rev();
    priorities
        .filter_map(|(priority, times)| {
            Some(PriorityRow {
                priority: *priority,
                times: TraceTimes::new(times, step)?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the figures of times of 1, 2, 3, ... us.
    fn figures(count: u64) -> TraceTimes {
        let mut times = Histogram::default();
        for us in 1..=count {
            times.add(Nanos::from_us(us));
        }
        TraceTimes::new(&times, Nanos::ZERO).unwrap()
    }

    #[test]
    fn p999_of_few_times_is_a_lower_limit() {
        let few = figures(999);
        assert_eq!((few.p999_ns, few.p999_low_ns), (None, None));

        // Of 1,500 times, 1.5 are above p99.9 on average, and 4 or fewer with 98 %.
        let some = figures(1_500);
        assert_eq!(some.p999_ns, None);
        let low = some.p999_low_ns.unwrap();
        assert!(
            low >= Nanos::from_us(1_496) && low < Nanos::from_us(1_515),
            "{low}"
        );

        let many = figures(3_689);
        assert!(many.p999_ns.is_some());
        assert_eq!(many.p999_low_ns, None);
    }
}
