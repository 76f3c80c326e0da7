//! Rows of the report: who, how often, how long.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use laggard_etl::{HandlerTally, RoutineSort, ThreadTally, TraceTally};
use laggard_model::{Histogram, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

/// Fewer times than this have no time that one in 1,000 exceeds.
const FEWEST: u64 = 1_000;

/// How often, and how long.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct TraceTimes {
    /// How often.
    pub count: u64,
    /// In all.
    pub total_ns: u64,
    /// Half took at most so long; by a clock that moves in steps, the step in which
    /// they can have ended included.
    pub median_ns: Nanos,
    /// One in 1,000 took longer; absent where there are fewer. Steps as above.
    pub p999_ns: Option<Nanos>,
    /// The longest; no less than a step of a clock that moves in steps.
    pub longest_ns: Nanos,
    /// Length of the steps of such a clock; of another one 0.
    #[serde(skip)]
    pub step: Nanos,
    /// Whether the longest took less than a step of it.
    #[serde(skip)]
    pub is_below_step: bool,
}

impl TraceTimes {
    /// `None` where there are none.
    fn of(times: &Histogram, step: Nanos) -> Option<Self> {
        let is_many = times.count() >= FEWEST;
        // A time of 0 steps ended in the step in which it began. The nearest edge of a
        // bucket is no better than a step.
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
            p999_ns: quantile(0.999).filter(|_| is_many),
            longest_ns: times.max()?.max(step),
            step,
            is_below_step: times.max()? < step,
        })
    }
}

/// Which handler ran.
#[derive(Clone, Copy, Debug, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HandlerKind {
    /// An interrupt service routine.
    Isr,
    /// A deferred procedure call; by driver, of all three sorts.
    Dpc,
    /// One that a timer queued.
    TimerDpc,
    /// One that a thread of real-time priority may run.
    ThreadedDpc,
}

impl HandlerKind {
    const fn of(sort: RoutineSort) -> Self {
        match sort {
            RoutineSort::Isr => Self::Isr,
            RoutineSort::Dpc => Self::Dpc,
            RoutineSort::TimerDpc => Self::TimerDpc,
            RoutineSort::ThreadedDpc => Self::ThreadedDpc,
        }
    }
}

/// A driver's or a routine's runs.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TraceHandlerRow {
    /// Which handler.
    pub handler: HandlerKind,
    /// Whose: `ndis.sys`, or `ndis.sys+0x1234`; an address where nothing is
    /// known to have been there.
    pub who: String,
    /// How long it ran, with whatever interrupted it.
    #[serde(flatten)]
    pub times: TraceTimes,
    /// The longest that Microsoft recommends.
    pub limit_ns: Nanos,
    /// How often it ran longer than that.
    pub over_limit: u64,
}

/// A thread's waits.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TraceThreadRow {
    /// The thread's number.
    pub thread: u32,
    /// Its process' number; absent: the trace does not say.
    pub process: Option<u32>,
    /// Its process' name; absent: the trace does not say.
    pub name: Option<String>,
    /// Its lowest and highest priority when it ran after a wait for a CPU, 0 to
    /// 31; absent: none is told.
    pub priorities: Option<(u8, u8)>,
    /// How long it waited.
    #[serde(flatten)]
    pub times: TraceTimes,
}

/// Waits of all threads that then ran with one priority.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PriorityRow {
    /// From 0 to 31; from 16 on Windows calls it real-time.
    pub priority: u8,
    /// How long they waited.
    #[serde(flatten)]
    pub times: TraceTimes,
}

pub(super) fn drivers(tally: &TraceTally, step: Nanos) -> Vec<TraceHandlerRow> {
    let mut all: BTreeMap<(RoutineSort, String), HandlerTally> = BTreeMap::new();
    for ((sort, driver), one) in tally.drivers() {
        let sort = match sort {
            RoutineSort::Isr => RoutineSort::Isr,
            RoutineSort::Dpc | RoutineSort::TimerDpc | RoutineSort::ThreadedDpc => RoutineSort::Dpc,
        };
        all.entry((sort, driver)).or_default().merge(&one);
    }
    handler_rows(all, step)
}

pub(super) fn routines(tally: &TraceTally, step: Nanos) -> Vec<TraceHandlerRow> {
    handler_rows(tally.routines(), step)
}

fn handler_rows(
    all: BTreeMap<(RoutineSort, String), HandlerTally>,
    step: Nanos,
) -> Vec<TraceHandlerRow> {
    let mut rows: Vec<TraceHandlerRow> = all
        .into_iter()
        .filter_map(|((sort, who), one)| {
            Some(TraceHandlerRow {
                handler: HandlerKind::of(sort),
                who,
                times: TraceTimes::of(&one.times, step)?,
                limit_ns: sort.limit(),
                over_limit: one.over_limit,
            })
        })
        .collect();
    // The sort keeps what is equal in the order of sort and name.
    rows.sort_by_key(|row| Reverse(row.times.longest_ns));
    rows
}

pub(super) fn threads(
    tally: &TraceTally,
    step: Nanos,
    times: impl Fn(&ThreadTally) -> &Histogram,
) -> Vec<TraceThreadRow> {
    let row = |thread: ThreadTally| {
        Some(TraceThreadRow {
            times: TraceTimes::of(times(&thread), step)?,
            thread: thread.id,
            process: thread.process,
            name: thread.name,
            priorities: thread.priorities,
        })
    };
    let mut rows: Vec<TraceThreadRow> = tally.threads.threads().filter_map(row).collect();
    rows.sort_by_key(|row| (Reverse(row.times.longest_ns), row.process, row.thread));
    rows
}

pub(super) fn priorities(tally: &TraceTally, step: Nanos) -> Vec<PriorityRow> {
    let all = tally.threads.by_priority.iter().rev();
    all.filter_map(|(priority, times)| {
        Some(PriorityRow {
            priority: *priority,
            times: TraceTimes::of(times, step)?,
        })
    })
    .collect()
}
