//! Latency over time. Columns instead of rows keep many points small.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use laggard_analyze::distribution::{Course, Courses, Cut, Fold, Split, focuses};
use laggard_model::name::{part_name, part_words, series_words};
use laggard_model::{Activation, CauseClass, Cpu, Keep, Line, Manifest, Nanos, STAGES, Stage};
use laggard_record::{Columns, Recording};
use schemars::JsonSchema;
use serde::Serialize;

use crate::floors::Floors;
use crate::load::{LoadError, Run, SampleSearch, collector};
use crate::scan;
use crate::show::Measured;
use crate::why::Blamed;

/// Latency over time of one service.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CourseView {
    /// Name of the service and its route.
    pub name: String,
    /// Minimum latency of the samples that are all in `points`, if `is_whole`.
    pub limit_ns: Nanos,
    /// Whether the recording kept every sample.
    pub is_whole: bool,
    pub interval_ns: Nanos,
    /// Usual latencies.
    pub intervals: IntervalColumns,
    /// Late wakeups.
    pub points: PointColumns,
    /// Wakeup with the median latency.
    pub typical: Option<ExampleView>,
    /// Completed wakeup with the largest latency.
    pub worst: Option<ExampleView>,
}

/// Intervals with at least one sample.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct IntervalColumns {
    /// Start of the interval, in interval lengths.
    pub number: Vec<usize>,
    /// Median; at most 4.4 % too high; absent if only the maximum is known.
    pub median_ns: Vec<Option<Nanos>>,
    pub largest_ns: Vec<Nanos>,
}

/// Late wakeups in time order.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct PointColumns {
    /// Expiry, relative to the previous one (the first: to the start of the recording).
    pub after_ns: Vec<Nanos>,
    /// CPU that it ran on.
    pub cpu: Vec<Cpu>,
    pub latency_ns: Vec<Nanos>,
    /// Indices of the missed ones.
    pub missed: Vec<usize>,
    /// Indices of wakeups that were still pending when measuring ended. Their latencies are lower
    /// bounds.
    pub still_waiting: Vec<usize>,
    /// Indices of episodes, by the class with the most time.
    pub by_cause: BTreeMap<CauseClass, Vec<usize>>,
}

/// Single wakeup with its parts.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ExampleView {
    /// Expiry, from the start of the recording.
    pub at_ns: Nanos,
    /// CPU that it ran on.
    pub cpu: Cpu,
    /// Sum of the parts.
    pub latency_ns: Nanos,
    /// The parts, in order.
    pub parts: Vec<PartView>,
}

/// Time between two stages.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PartView {
    pub stage: Stage,
    /// Established name, with the stages at both ends.
    pub name: String,
    /// The name without the stages.
    pub words: &'static str,
    /// Length of the part.
    pub ns: Nanos,
}

/// Computes the course of each service, and the input of forecasts, in one pass. The second is
/// absent without a wakeup. Unreadable parts were already found when the wakeups were counted, and
/// are among the shortfalls.
///
/// `blamed` maps late wakeups to their classes. At most `threads` threads read.
///
/// # Errors
/// If the recording cannot be read although it has wakeups.
pub fn courses(
    recording: &Recording,
    measured: &Measured,
    blamed: &Blamed,
    threads: NonZeroUsize,
) -> Result<(Vec<CourseView>, Option<Run>), LoadError> {
    let manifest = &measured.manifest;
    let is_partly = manifest.plan.keep == Keep::Tail;
    let groups = measured.fold.groups(&manifest.lines, false);
    let focuses = focuses(&groups, manifest.plan.threshold_ns, is_partly);
    let start = manifest.clock.start_ns;
    let end = manifest.clock.end_ns.or(measured.last).unwrap_or(start);
    let cut = Cut::new(start, end);
    // Kept samples are counted only if some were dropped.
    let lines = if is_partly { manifest.lines.len() } else { 0 };
    let make = || {
        let courses = Courses::new(&manifest.lines, &focuses, cut);
        let late = (collector(manifest), Fold::new(lines, Split::Whole));
        (courses, late)
    };
    let scanned = scan::scan(recording, threads.min(scan::FEW), Columns::all(), make);
    let (mut gathered, (late, kept)) = scanned.gathered;
    let mut floors = Floors::default();
    if is_partly {
        floors = Floors::new(&manifest.lines, &kept, &measured.fold);
        // `measured` has the unreadable parts.
        let _ = recording.each_largest(|largest| {
            gathered.add_largest(
                largest.line,
                largest.expiry,
                largest.latency,
                (largest.missed, largest.censored),
            );
        });
    }
    let some = groups
        .iter()
        .any(|group| group.latency.histogram().count() > 0);
    let courses_of_load = (some && end > start).then(|| {
        let searched = SampleSearch {
            groups,
            floors,
            sums: measured.fold.sums(),
            late,
            last: measured.last,
            shortfalls: measured.shortfalls.clone(),
        };
        Run::new(recording, searched)
    });
    let courses = gathered.into_courses();
    let views = courses.iter().map(|course| view(course, manifest, blamed));
    Ok((views.collect(), courses_of_load.transpose()?))
}

fn view(course: &Course, manifest: &Manifest, blamed: &Blamed) -> CourseView {
    let (lines, start) = (&manifest.lines, manifest.clock.start_ns);
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
    let example = |activation: Option<&Activation>| {
        // The interrupt has only one part, so a drawing would be empty.
        let activation = activation.filter(|_| focus.service.has_lines())?;
        example_view(activation, lines, start)
    };
    CourseView {
        name: series_words(focus.service, focus.route),
        limit_ns: focus.limit,
        is_whole: focus.median.is_some(),
        interval_ns: course.interval_length(),
        intervals,
        points,
        typical: example(course.typical()),
        worst: example(course.worst()),
    }
}

fn example_view(activation: &Activation, lines: &[Line], start: Nanos) -> Option<ExampleView> {
    let line = lines.get(usize::from(activation.line.0))?;
    let mut before = None;
    Some(ExampleView {
        at_ns: activation.expiry.saturating_sub(start),
        cpu: line.cpu,
        latency_ns: activation.latency(),
        parts: STAGES
            .into_iter()
            .filter_map(|stage| {
                let ns = activation.steps[stage.index()]?;
                let begin = before.replace(stage);
                Some(PartView {
                    stage,
                    name: part_name(stage, begin),
                    words: part_words(stage, begin),
                    ns,
                })
            })
            .collect(),
    })
}
