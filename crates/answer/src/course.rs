//! Latency over time. Columns instead of rows: many points stay small.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use laggard_analyze::distribution::{Course, Courses, Cut, Fold, Split, focuses};
use laggard_model::name::{line_name, part_name, part_words};
use laggard_model::{Activation, CauseClass, Cpu, Keep, Line, Manifest, Nanos, STAGES, Stage};
use laggard_record::{Columns, Recording};
use schemars::JsonSchema;
use serde::Serialize;

use crate::floors::Floors;
use crate::load::{LoadError, Run, Searched, collector};
use crate::scan;
use crate::show::Measured;
use crate::why::Blamed;

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
    /// Its name in the field, with the stages between which it lies.
    pub name: String,
    /// The same without them.
    pub words: &'static str,
    /// How long it took.
    pub ns: Nanos,
}

/// Every service over time, and what forecasts start from, in one pass; the
/// second is absent where there is no activation. What cannot be read was found
/// when the activations were counted, and is among the shortfalls already.
///
/// `blamed` says to which class late activations were due; at most `threads`
/// threads read.
///
/// # Errors
/// When the recording tells nothing though it has activations.
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
    // What was kept is counted only where something was not.
    let lines = if is_partly { manifest.lines.len() } else { 0 };
    let make = || {
        let courses = Courses::new(&manifest.lines, &focuses, cut);
        let late = (collector(manifest), Fold::new(lines, Split::Whole));
        (courses, late)
    };
    let scanned = scan::scan(recording, threads.min(scan::FEW), Columns::all(), make);
    let (mut all, (late, kept)) = scanned.gathered;
    let mut floors = Floors::default();
    if is_partly {
        floors = Floors::of(&manifest.lines, &kept, &measured.fold);
        for one in recording.summaries().largest {
            all.add_largest(
                one.line,
                one.expiry,
                one.latency,
                (one.missed, one.censored),
            );
        }
    }
    let some = groups
        .iter()
        .any(|group| group.latency.histogram().count() > 0);
    let seen = (some && end > start).then(|| {
        let searched = Searched {
            groups,
            floors,
            sums: measured.fold.sums(),
            late,
            last: measured.last,
            shortfalls: measured.shortfalls.clone(),
        };
        Run::new(recording, searched)
    });
    let courses = all.into_courses();
    let views = courses.iter().map(|one| view(one, manifest, blamed));
    Ok((views.collect(), seen.transpose()?))
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
