//! What the page draws besides the figures. Columns instead of rows: a page
//! with many points stays small.

use std::collections::BTreeMap;

use laggard_analyze::distribution::Course;
use laggard_model::name::{line_name, part_name};
use laggard_model::{Activation, CauseClass, Cpu, Line, Nanos, STAGES, Stage};
use schemars::JsonSchema;
use serde::Serialize;

use super::causes::{Blamed, CausesView, causes};
use crate::advice::{Advice, advice};
use crate::figures::{HistogramView, RecordingReport, ServiceRow};
use crate::why::Late;

/// What the page draws of one recording.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Charts {
    /// What to do, the most important first.
    pub advice: Vec<Advice>,
    /// The services, CPU by CPU.
    pub by_cpu: Vec<ServiceRow>,
    /// Their counts of latencies.
    pub by_cpu_histograms: Vec<HistogramView>,
    /// Latency over time, by service.
    pub courses: Vec<CourseView>,
    /// Who made activations late, where the recording has episodes.
    pub causes: Option<CausesView>,
}

/// Latency over time of one service.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CourseView {
    /// The service and its route, in one name.
    pub name: String,
    /// Every sample above this is among `points`, if `is_whole`.
    pub limit_ns: Nanos,
    /// Whether the recording kept every sample.
    pub is_whole: bool,
    /// The length of an interval.
    pub interval_ns: Nanos,
    /// What was ordinary.
    pub intervals: IntervalColumns,
    /// What was late.
    pub points: PointColumns,
    /// An activation as late as the median.
    pub typical: Option<ExampleView>,
    /// The served activation that was latest.
    pub worst: Option<ExampleView>,
}

/// Intervals in which something was seen.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct IntervalColumns {
    /// The interval begins at this many times its length.
    pub number: Vec<usize>,
    /// The median, at most 4.4 % high; absent where only the largest is known.
    pub median_ns: Vec<Option<Nanos>>,
    /// The largest.
    pub largest_ns: Vec<Nanos>,
}

/// Late activations, in the order of time.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct PointColumns {
    /// The programmed time, since the one before (the first: since the
    /// recording began).
    pub after_ns: Vec<Nanos>,
    /// Where it ran.
    pub cpu: Vec<Cpu>,
    /// Its latency.
    pub latency_ns: Vec<Nanos>,
    /// Which of them (by index) were missed.
    pub missed: Vec<usize>,
    /// Which of the missed were still waiting when measuring ended: they were
    /// at least that late.
    pub still_waiting: Vec<usize>,
    /// Which of them are episodes, by the class that took most of each.
    pub by_cause: BTreeMap<CauseClass, Vec<usize>>,
}

/// One activation, part by part.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ExampleView {
    /// The programmed time, since the recording began.
    pub at_ns: Nanos,
    /// Where it ran.
    pub cpu: Cpu,
    /// The sum of its parts.
    pub latency_ns: Nanos,
    /// The parts, in order.
    pub parts: Vec<PartView>,
}

/// The time from one stage to the next.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PartView {
    /// The stage at its end.
    pub stage: Stage,
    /// Its name in the field.
    pub name: String,
    /// How long it took.
    pub ns: Nanos,
}

/// What the page draws of a recording: `report` has its CPUs together,
/// `by_cpu` apart. `start` and `lines` are the manifest's; `late` is what is
/// known of its episodes.
pub fn charts(
    report: &RecordingReport,
    by_cpu: RecordingReport,
    courses: &[Course],
    (lines, start): (&[Line], Nanos),
    late: Option<&Late<'_>>,
) -> Charts {
    let (causes, blamed) = late.map(causes).unzip();
    let blamed = blamed.unwrap_or_default();
    Charts {
        advice: advice(report, causes.as_ref().map(|causes| &causes.why)),
        by_cpu: by_cpu.services,
        by_cpu_histograms: by_cpu.histograms,
        courses: courses
            .iter()
            .map(|course| course_view(course, lines, start, &blamed))
            .collect(),
        causes,
    }
}

fn course_view(course: &Course, lines: &[Line], start: Nanos, blamed: &Blamed) -> CourseView {
    let focus = course.focus();
    let mut intervals = IntervalColumns::default();
    for interval in course.intervals() {
        intervals.number.push(interval.number);
        intervals.median_ns.push(interval.median);
        intervals.largest_ns.push(interval.largest);
    }
    let mut points = PointColumns::default();
    let mut before = start;
    for (index, point) in course.points().iter().enumerate() {
        points.after_ns.push(point.expiry.saturating_sub(before));
        before = point.expiry.max(before);
        points.cpu.push(point.cpu);
        points.latency_ns.push(point.latency);
        if point.missed {
            points.missed.push(index);
        }
        if point.still_waiting {
            points.still_waiting.push(index);
        }
        let key = (focus.service, focus.route, point.cpu, point.expiry);
        if let Some(&class) = blamed.get(&key) {
            points.by_cause.entry(class).or_default().push(index);
        }
    }
    let example = |one: Option<&Activation>| {
        // An interrupt's way has one part: nothing to draw.
        let one = one.filter(|_| focus.service.has_lines())?;
        example_view(one, lines, start)
    };
    CourseView {
        name: line_name(focus.service, focus.route),
        limit_ns: focus.limit,
        is_whole: focus.median.is_some(),
        interval_ns: course.interval_length(),
        intervals,
        points,
        typical: example(course.typical()),
        worst: example(course.worst()),
    }
}

fn example_view(one: &Activation, lines: &[Line], start: Nanos) -> Option<ExampleView> {
    let line = lines.get(usize::from(one.line.0))?;
    let mut before = None;
    Some(ExampleView {
        at_ns: one.expiry.saturating_sub(start),
        cpu: line.cpu,
        latency_ns: one.latency(),
        parts: STAGES
            .into_iter()
            .filter_map(|stage| {
                let ns = one.steps[stage.index()]?;
                let name = part_name(stage, before.replace(stage));
                Some(PartView { stage, name, ns })
            })
            .collect(),
    })
}
