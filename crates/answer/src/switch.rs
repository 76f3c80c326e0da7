//! `laggard bench switch`: durations of context switches.

use laggard_analyze::InputError;
use laggard_analyze::compare::geometric_mean;
use laggard_analyze::hand_over::{HandOverTimes, growth, hand_over_times, net};
use laggard_model::{Absence, Caveat, Cpu, Host, SwitchRun, SwitchStretch, SwitchSums, SwitchWay};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::qos::CONFIDENCE;

/// Context switches of a stretch that a picture shows. More would overlap.
const MAX_SERIES: usize = 1_000;
/// Number of threads in the figure of the paper.
const SERIES_THREADS: usize = 10;

/// Version of `bench switch --json`.
pub const SWITCH_SCHEMA: u32 = 2;
/// Relative difference to the kernel's count that the start and the end of a stretch
/// explain.
const MAX_COUNT_DIFFERENCE: f64 = 0.01;
/// Smaller ratios do not count as growth, even if they are significant.
const MIN_CHANGE: f64 = 1.05;

/// Measurements of context switches.
#[derive(Clone, Debug)]
pub struct SwitchesMeasured {
    /// Machine.
    pub host: Host,
    pub cpu: Cpu,
    /// CPU of every second thread, if there are two.
    pub other_cpu: Option<Cpu>,
    /// Name of the load during the test.
    pub load: Option<String>,
    /// Each mechanism with each number of threads, from few to many.
    pub runs: Vec<SwitchRun<StretchFigures>>,
    /// Planned number of stretches of each run.
    pub stretches: usize,
    /// Reasons for the missing trace data. `None` if there is trace data.
    pub unwatched_because: Option<Absence>,
    /// Warnings about the machine.
    pub caveats: Vec<Caveat>,
}

/// Figures of a stretch. The single switches are left out: there are a million per second.
#[derive(Clone, Debug)]
pub struct StretchFigures {
    /// `None` without any switch.
    gross: Option<HandOverTimes>,
    /// Without interruptions. `None` also without trace data.
    net: Option<HandOverTimes>,
    /// Durations of the first switches, ns.
    first: Vec<u32>,
    sums: Option<SwitchSums>,
    counted_by_kernel: u64,
    left_out: u64,
    unkept: u64,
    alone_ns: u64,
}

impl StretchFigures {
    /// Computes the figures of a stretch.
    ///
    /// # Errors
    /// When the trace data does not have an entry for each switch.
    pub fn new(stretch: &SwitchStretch) -> Result<Self, InputError> {
        let times = |took: &[u32]| {
            if took.is_empty() {
                Ok(None)
            } else {
                hand_over_times(took).map(Some)
            }
        };
        let watched = stretch.watched.as_ref();
        let net = watched.map(|watched| net(&stretch.took_ns, &watched.between));
        let first = stretch.took_ns.iter().copied().take(MAX_SERIES);
        Ok(Self {
            gross: times(&stretch.took_ns)?,
            net: times(&net.transpose()?.unwrap_or_default())?,
            first: first.collect(),
            sums: watched.map(|watched| watched.sums),
            counted_by_kernel: stretch.counted_by_kernel,
            left_out: stretch.left_out,
            unkept: stretch.unkept,
            alone_ns: stretch.alone_ns,
        })
    }
}

/// Durations of context switches on a machine.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct SwitchReport {
    /// Version of this layout.
    pub schema: u32,
    /// Machine.
    pub host: Host,
    pub cpu: Cpu,
    /// CPU of every second thread, if there are two.
    pub other_cpu: Option<Cpu>,
    /// Name of the load during the test.
    pub load: Option<String>,
    /// Each mechanism with each number of threads.
    pub rows: Vec<SwitchRow>,
    /// Effect of the number of threads, for each mechanism.
    pub growth: Vec<SwitchGrowth>,
    /// First context switches with 10 threads or, if they were not tested, with the smallest
    /// number. Absent without any.
    pub series: Option<SwitchSeries>,
    /// Whether all planned stretches were measured.
    pub is_complete: bool,
    /// Reasons for the missing trace data, so that `net` is missing in all rows.
    pub net_absence: Option<Absence>,
    /// Reasons to doubt the figures.
    pub warnings: Vec<Caveat>,
}

/// Context switches with one mechanism and one number of threads.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct SwitchRow {
    pub threads: usize,
    /// Mechanism and policy.
    #[serde(flatten)]
    pub way: SwitchWay,
    /// Number of context switches.
    pub count: usize,
    /// Number of times that one of the threads left its CPU, by the kernel's counter.
    pub counted_by_kernel: u64,
    /// Number of context switches without room in the buffer.
    pub left_out: u64,
    /// Number of times that a thread left the CPU at the start or for a pause: these are
    /// not measured.
    pub unkept: u64,
    /// Time to access the working set alone, ns. It is subtracted from each switch. Absent
    /// without a working set.
    pub alone_ns: Option<u64>,
    /// Time from the clock reading before a switch to the first instruction of the next
    /// thread, or to the end of its access to the working set.
    pub gross: Option<SwitchTimes>,
    /// The same without interrupts, softirqs, other threads and known steal time.
    pub net: Option<SwitchTimes>,
    /// Activity on the CPU from the trace data.
    pub activity: Option<SwitchSums>,
    /// Median of a stretch without tracing, ns. The difference to `gross` is the overhead
    /// of tracing.
    pub untraced_median_ns: Option<f64>,
    /// Reason why the row is unavailable here, or was not completed.
    pub absence: Option<Absence>,
}

/// Consecutive context switches.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SwitchSeries {
    pub threads: usize,
    /// Mechanism and policy.
    pub way: SwitchWay,
    /// Gross durations of the first context switches of a stretch in order, ns, at most
    /// 1,000.
    pub took_ns: Vec<u32>,
}

/// Returns the first context switches with `threads` threads or, if no run has that many,
/// with the smallest number of threads. `None` without any switch.
fn series(measured: &SwitchesMeasured, threads: usize) -> Option<SwitchSeries> {
    // On a busy machine a stretch may not contain a switch.
    let series = |run: &SwitchRun<StretchFigures>| {
        let mut stretches = run.stretches.iter();
        let stretch = stretches.find(|stretch| !stretch.first.is_empty())?;
        Some(SwitchSeries {
            threads: run.threads,
            way: run.way,
            took_ns: stretch.first.clone(),
        })
    };
    let candidates = || measured.runs.iter().filter_map(series);
    let requested = candidates().find(|series| series.threads == threads);
    requested.or_else(|| candidates().min_by_key(|series| series.threads))
}

/// Durations of context switches, ns. Each stretch has the same weight, so that the
/// quotients of these figures are the ratios of [`Growth`].
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
pub struct SwitchTimes {
    /// Shortest.
    pub min_ns: f64,
    /// Geometric mean over stretches of their means.
    pub mean_ns: f64,
    /// Geometric mean over stretches of their medians.
    pub median_ns: f64,
    /// Geometric mean over stretches of their p99.9. Absent if a stretch has fewer than
    /// 10,000 switches.
    pub p999_ns: Option<f64>,
    /// Longest.
    pub max_ns: f64,
}

/// Effect of the number of threads on the duration of context switches.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct SwitchGrowth {
    /// Mechanism and policy.
    #[serde(flatten)]
    pub way: SwitchWay,
    /// Smallest and largest number of threads.
    pub threads: [usize; 2],
    pub mean: Option<Growth>,
    /// Growth of the p99.9.
    pub p999: Option<Growth>,
}

/// Ratio of two figures, with its confidence interval.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Growth {
    /// Ratio of the geometric means over stretches: many threads to few, or a load to the
    /// first one.
    pub ratio: f64,
    /// Lower end of its interval.
    pub ratio_low: f64,
    /// Upper end.
    pub ratio_high: f64,
    /// Confidence of the interval, 0 to 1. All intervals of the report hold together with
    /// 0.95 (Bonferroni).
    pub confidence: f64,
    /// Conclusion.
    pub change: GrowthChange,
}

/// Conclusion on a ratio.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GrowthChange {
    /// The figure grows: the whole interval is above 1.05.
    Grows,
    /// The figure falls: the whole interval is below 1 / 1.05.
    Falls,
    /// Neither is significant.
    Unknown,
}

/// Evaluates the measurements.
///
/// # Errors
/// When a stretch has figures that no clock returns.
pub fn switches(measured: &SwitchesMeasured) -> Result<SwitchReport, InputError> {
    let mut ways: Vec<SwitchWay> = Vec::new();
    for run in &measured.runs {
        if !ways.contains(&run.way) {
            ways.push(run.way);
        }
    }
    let pair = |mechanism: &SwitchWay| {
        let runs = measured.runs.iter();
        let runs = runs.filter(|run| run.way == *mechanism && run.stretches.len() > 1);
        let few = runs.clone().min_by_key(|run| run.threads)?;
        let many = runs.max_by_key(|run| run.threads)?;
        (few.threads < many.threads).then(|| [Side::new(few), Side::new(many)])
    };
    let pairs: Vec<_> = ways.iter().filter_map(pair).collect();
    // With several intervals of 95 % each, a miss by chance would be frequent.
    let questions: usize = pairs.iter().map(Side::questions).sum();
    let confidence = 1.0 - (1.0 - CONFIDENCE) / questions.max(1) as f64;
    let growth = pairs.iter().map(|pair| compare(pair, confidence));
    let is_complete =
        |run: &SwitchRun<_>| run.absence.is_some() || run.stretches.len() == measured.stretches;
    Ok(SwitchReport {
        schema: SWITCH_SCHEMA,
        host: measured.host.clone(),
        cpu: measured.cpu,
        other_cpu: measured.other_cpu,
        load: measured.load.clone(),
        rows: measured.runs.iter().map(row).collect(),
        growth: growth.collect::<Result<_, _>>()?,
        series: series(measured, SERIES_THREADS),
        is_complete: measured.runs.iter().all(is_complete),
        net_absence: measured.unwatched_because.clone(),
        warnings: measured.caveats.clone(),
    })
}

fn row(run: &SwitchRun<StretchFigures>) -> SwitchRow {
    let stretches = || run.stretches.iter();
    let sum = |value: fn(&StretchFigures) -> u64| stretches().map(value).sum();
    let gross = || stretches().filter_map(|stretch| stretch.gross);
    let net = || stretches().filter_map(|stretch| stretch.net);
    let untraced = run.unwatched.as_ref().and_then(|stretch| stretch.gross);
    let untraced = untraced.filter(|_| net().next().is_some());
    let alone = stretches().map(|stretch| stretch.alone_ns).max();
    let activity = stretches().filter_map(|stretch| stretch.sums);
    SwitchRow {
        threads: run.threads,
        way: run.way,
        count: gross().map(|times| times.count).sum(),
        counted_by_kernel: sum(|stretch| stretch.counted_by_kernel),
        left_out: sum(|stretch| stretch.left_out),
        unkept: sum(|stretch| stretch.unkept),
        alone_ns: alone.filter(|_| run.way.working_set_bytes > 0),
        gross: times(gross()),
        net: times(net()),
        activity: activity.reduce(SwitchSums::and),
        untraced_median_ns: untraced.map(|times| times.median),
        absence: run.absence.clone(),
    }
}

/// Summarises the stretches that have switches.
fn times(stretches: impl Iterator<Item = HandOverTimes>) -> Option<SwitchTimes> {
    let stretches: Vec<HandOverTimes> = stretches.collect();
    let mean = |value: fn(&HandOverTimes) -> f64| {
        geometric_mean(&stretches.iter().map(value).collect::<Vec<f64>>())
    };
    let min = stretches.iter().map(|times| times.least);
    let max = stretches.iter().map(|times| times.largest);
    let p999: Option<Vec<f64>> = stretches.iter().map(|times| times.one_in_1000).collect();
    Some(SwitchTimes {
        min_ns: min.reduce(f64::min)?,
        mean_ns: mean(|times| times.mean),
        median_ns: mean(|times| times.median),
        p999_ns: p999.map(|p999| geometric_mean(&p999)),
        max_ns: max.reduce(f64::max)?,
    })
}

/// Figures of one number of threads that are compared with another.
struct Side {
    way: SwitchWay,
    threads: usize,
    means: Vec<f64>,
    /// p99.9 of each stretch. Empty if a stretch has too few switches.
    p999: Vec<f64>,
}

impl Side {
    fn new(run: &SwitchRun<StretchFigures>) -> Self {
        let gross = || run.stretches.iter().filter_map(|stretch| stretch.gross);
        let p999: Option<Vec<f64>> = gross().map(|times| times.one_in_1000).collect();
        Self {
            way: run.way,
            threads: run.threads,
            means: gross().map(|times| times.mean).collect(),
            p999: p999.unwrap_or_default(),
        }
    }

    /// Returns the number of intervals from two sides.
    fn questions([few, many]: &[Self; 2]) -> usize {
        let has = |figures: fn(&Self) -> &[f64]| {
            usize::from(figures(few).len() > 1 && figures(many).len() > 1)
        };
        has(|side| &side.means) + has(|side| &side.p999)
    }
}

fn compare([few, many]: &[Side; 2], confidence: f64) -> Result<SwitchGrowth, InputError> {
    Ok(SwitchGrowth {
        way: few.way,
        threads: [few.threads, many.threads],
        mean: figure([&few.means, &many.means], confidence)?,
        p999: figure([&few.p999, &many.p999], confidence)?,
    })
}

pub(crate) fn figure(
    [few, many]: [&[f64]; 2],
    confidence: f64,
) -> Result<Option<Growth>, InputError> {
    let growth = growth(few, many, confidence)?;
    Ok(growth.and_then(|growth| {
        let interval = growth.interval?;
        let change = if interval.low > MIN_CHANGE {
            GrowthChange::Grows
        } else if interval.high < 1.0 / MIN_CHANGE {
            GrowthChange::Falls
        } else {
            GrowthChange::Unknown
        };
        Some(Growth {
            ratio: growth.ratio,
            ratio_low: interval.low,
            ratio_high: interval.high,
            confidence,
            change,
        })
    }))
}

impl SwitchReport {
    /// Returns the confidence of each interval and their number. `None` without any.
    pub fn confidence(&self) -> Option<(f64, usize)> {
        let growth = self.growth.iter();
        let intervals = growth.flat_map(|growth| [growth.mean, growth.p999]);
        let intervals: Vec<Growth> = intervals.flatten().collect();
        Some((intervals.first()?.confidence, intervals.len()))
    }

    /// Returns each mechanism and policy once, in the order of the rows.
    pub fn ways(&self) -> Vec<SwitchWay> {
        let mut ways: Vec<SwitchWay> = Vec::new();
        for row in &self.rows {
            if !ways.contains(&row.way) {
                ways.push(row.way);
            }
        }
        ways
    }
}

impl SwitchRow {
    /// Returns the fraction of a thread's switch-outs that gave the CPU to a thread of another
    /// program. `None` if the kernel's count and this one agree to 1 %. A thread that regularly
    /// runs between two of the threads is not counted.
    pub fn taken_by_others(&self) -> Option<f64> {
        let measured = self.count as f64 + self.left_out as f64 + self.unkept as f64;
        let kernel = self.counted_by_kernel as f64;
        let share = 1.0 - measured / kernel;
        (kernel > 0.0 && share > MAX_COUNT_DIFFERENCE).then_some(share)
    }
}

#[cfg(test)]
mod tests;
