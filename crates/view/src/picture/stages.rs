//! Stages of two wakeups on a timeline (OSDI'99 Fig. 1 to 3): one with the median latency, and the
//! latest.

use laggard_answer::course::{CourseView, ExampleView};
use laggard_answer::show::RecordingReport;
use laggard_model::Nanos;
use laggard_model::name::series_words;
use laggard_model::text::Unit;
use plotters::backend::DrawingBackend;

use super::axes::{Scale, write_time};
use super::canvas::{Anchor, Area, Canvas, SMALL, TEXT};
use super::{PictureError, doubts, place};

/// Space for the names of parts, and for their times.
const NAMES: f64 = 235.0;
const TIMES: f64 = 120.0;

pub(super) fn draw<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    report: &RecordingReport,
    course: &CourseView,
) -> Result<(), PictureError> {
    let examples: Vec<(&str, &ExampleView)> = [
        ("A typical wakeup", course.typical.as_ref()),
        ("The latest served wakeup", course.worst.as_ref()),
    ]
    .into_iter()
    .filter_map(|(title, example)| Some((title, example?)))
    .collect();
    if examples.is_empty() {
        return Err(PictureError::Nothing(format!(
            "no wakeup of {} was kept with its stages; `irq` lacks stages, others need `--keep all`",
            course.name
        )));
    }
    let captions = [
        median(report, course),
        doubts(report),
        "Each bar starts at the end of the previous stage. The stages of a wakeup add up to its latency. The two scales differ.".into(),
    ];
    let title = format!("{}: time in each stage", course.name);
    let frame = canvas.head_and_foot(&title, &place(report), &captions)?;
    let height = (frame.bottom - frame.top) / examples.len() as f64;
    for (number, (title, example)) in (0_u8..).zip(examples) {
        let top = frame.top + height * f64::from(number);
        let part = Area {
            top,
            bottom: top + height - 8.0,
            ..frame
        };
        timeline(canvas, part, title, example)?;
    }
    Ok(())
}

/// States the median over all wakeups, which the typical one is close to.
fn median(report: &RecordingReport, course: &CourseView) -> String {
    let row = report
        .services
        .iter()
        .find(|row| series_words(row.service, row.route) == course.name);
    row.map_or_else(String::new, |row| {
        let median = row.latency.share(0.5).map(|share| share.write(Unit::Auto));
        format!(
            "All wakeups: median {}, max {} (served or missed).",
            median.unwrap_or_else(|| "-".into()),
            row.latency
                .largest(Unit::Auto)
                .unwrap_or_else(|| "-".into())
        )
    })
}

fn timeline<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    frame: Area,
    title: &str,
    example: &ExampleView,
) -> Result<(), PictureError> {
    let theme = canvas.theme;
    let head = format!(
        "{title}: {} on CPU {}, {:.3} s after the start",
        Unit::Auto.write_nanos(example.latency_ns),
        example.cpu,
        example.at_ns.as_secs_f64()
    );
    canvas.text(
        &head,
        (frame.left, frame.top + 8.0),
        Anchor::Left,
        TEXT,
        theme.ink,
    )?;
    let (left, right) = (frame.left + NAMES, frame.right - TIMES);
    let (top, bottom) = (frame.top + 24.0, frame.bottom - 20.0);
    let whole = ns(example.latency_ns).max(1.0);
    let scale = Scale::Linear {
        from: 0.0,
        to: whole,
    };
    let x = |time: f64| left + (right - left) * scale.place(time);
    for mark in scale.ticks(6) {
        canvas.line(&[(x(mark), top), (x(mark), bottom)], theme.grid, 1.0)?;
        canvas.text(
            &write_time(mark),
            (x(mark), bottom + 11.0),
            Anchor::Centre,
            SMALL,
            theme.faint,
        )?;
    }
    let row = (bottom - top) / example.parts.len().max(1) as f64;
    let mut since = 0.0;
    for (number, part) in example.parts.iter().enumerate() {
        let middle = top + row * (number as f64 + 0.5);
        let half = (row * 0.32).min(10.0);
        let (from, to) = (x(since), x(since + ns(part.ns)).max(x(since) + 1.5));
        since += ns(part.ns);
        let corners = [
            (from, middle - half),
            (to, middle - half),
            (to, middle + half),
            (from, middle + half),
        ];
        canvas.fill(&corners, theme.series(number), 1.0)?;
        let name = canvas.cut(&part.name, SMALL, NAMES - 12.0);
        canvas.text(
            &name,
            (left - 10.0, middle),
            Anchor::Right,
            SMALL,
            theme.ink,
        )?;
        let time = format!(
            "{}  ({:.0} %)",
            Unit::Auto.write_nanos(part.ns),
            100.0 * ns(part.ns) / whole
        );
        canvas.text(
            &time,
            (right + 12.0, middle),
            Anchor::Left,
            SMALL,
            theme.ink,
        )?;
    }
    canvas.line(&[(left, top), (left, bottom)], theme.faint, 1.0)
}

fn ns(time: Nanos) -> f64 {
    time.ns() as f64
}
