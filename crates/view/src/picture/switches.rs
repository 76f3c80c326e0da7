//! Consecutive context switches and interrupts, and durations of context switches over the
//! number of threads (Timmerman 1998, Fig. 2 to 7).

use laggard_answer::rtos::InterruptTimes;
use laggard_answer::switch::{SwitchReport, SwitchTimes};
use laggard_model::text::{count, rough_time};
use plotters::backend::DrawingBackend;

use super::PictureError;
use super::axes::{Axes, Axis, Scale, write_time};
use super::canvas::{Canvas, Stroke};
use crate::phrase::switch as phrase;

/// Maximum number of mechanisms in a picture. More curves are hard to distinguish.
pub const MAX_WAYS: usize = 6;
/// Factor between the outermost values and the edges, on a logarithmic scale.
const MARGIN: f64 = 1.15;

/// Draws context switches in their order.
pub(super) fn series<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    report: &SwitchReport,
) -> Result<(), PictureError> {
    let Some(series) = &report.series else {
        return Err(PictureError::Nothing(
            "no context switch was measured".into(),
        ));
    };
    let tasks = if series.way.are_processes {
        "processes"
    } else {
        "threads"
    };
    let head = [
        format!(
            "{} context switches among {} {tasks}",
            count(series.took_ns.len() as u64),
            series.threads
        ),
        format!(
            "{}; {}",
            phrase::mechanism(series.way),
            phrase::place(report, series.way)
        ),
    ];
    let note =
        "The first context switches of a stretch. Gross: interruptions are in the durations.";
    let took: Vec<f64> = series.took_ns.iter().map(|&ns| f64::from(ns)).collect();
    consecutive(canvas, &head, note, ["context switch", "duration"], &took)
}

/// Draws a part of interrupts in their order.
pub(super) fn interrupts<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    part: &str,
    times: &InterruptTimes,
) -> Result<(), PictureError> {
    let took: Vec<f64> = times.first_ns.iter().map(|time| time.as_f64()).collect();
    let head = [
        format!("{part} of {} interrupts", count(took.len() as u64)),
        "SCHED_FIFO 90 thread that computes on one CPU".to_owned(),
    ];
    let note = "The first interrupts of the test. Steal time is in the durations.";
    consecutive(canvas, &head, note, ["interrupt", part], &took)
}

/// Draws durations in their order, with the title and subtitle of `head`.
fn consecutive<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    [title, subtitle]: &[String; 2],
    note: &str,
    [event, name]: [&str; 2],
    took: &[f64],
) -> Result<(), PictureError> {
    let mut sorted: Vec<f64> = took.iter().map(|ns| ns.max(1.0)).collect();
    sorted.sort_by(f64::total_cmp);
    let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else {
        return Err(PictureError::Nothing(format!("there was no {event}")));
    };
    let median = rough_time(sorted[sorted.len() / 2], 3);
    let captions = [format!("Median: {median}."), note.to_owned()];
    let frame = canvas.head_and_foot(title, subtitle, &captions)?;
    let axes = Axes::draw(
        canvas,
        frame,
        &Axis {
            scale: Scale::Linear {
                from: 0.0,
                to: (took.len() as f64).max(2.0),
            },
            name: event,
            write: &|number| format!("{number:.0}"),
            marks: Vec::new(),
        },
        &Axis {
            scale: Scale::decades(*min, max * MARGIN),
            name,
            write: &write_time,
            marks: Vec::new(),
        },
    )?;
    let colour = canvas.theme.series(0);
    for (number, took) in took.iter().enumerate() {
        canvas.dot(
            axes.at(number as f64 + 1.0, took.max(1.0)),
            1.5,
            colour,
            true,
        )?;
    }
    Ok(())
}

/// Durations with one mechanism over the number of threads.
struct Curve {
    name: String,
    rows: Vec<(f64, SwitchTimes)>,
}

fn curves(report: &SwitchReport) -> Vec<Curve> {
    let curve = |way| {
        let rows = report.rows.iter().filter(|row| row.way == way);
        let rows = rows.filter_map(|row| Some((row.threads as f64, row.gross?)));
        Curve {
            name: phrase::mechanism(way),
            rows: rows.collect(),
        }
    };
    let curves = report.ways().into_iter().map(curve);
    curves.filter(|curve| curve.rows.len() > 1).collect()
}

/// Draws mean, p99.9 and max over the number of threads.
pub(super) fn growth<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    report: &SwitchReport,
) -> Result<(), PictureError> {
    let curves = curves(report);
    let Some(first) = report.rows.first().filter(|_| !curves.is_empty()) else {
        return Err(PictureError::Nothing(
            "no mechanism was measured with two numbers of threads".into(),
        ));
    };
    if curves.len() > MAX_WAYS {
        return Err(PictureError::Draw(format!(
            "{} mechanisms are too many for one picture; use at most {MAX_WAYS}",
            curves.len()
        )));
    }
    let rows = || curves.iter().flat_map(|curve| &curve.rows);
    let min = rows().map(|row| row.1.mean_ns.max(1.0));
    let max = rows().map(|row| row.1.max_ns.max(1.0));
    let mut marks: Vec<f64> = rows().map(|row| row.0).collect();
    marks.sort_by(f64::total_cmp);
    marks.dedup();
    let (fewest, highest) = (marks[0], marks[marks.len() - 1]);
    let scale = Scale::decades(
        min.fold(f64::INFINITY, f64::min),
        max.fold(0.0, f64::max) * MARGIN,
    );
    let mut captions = match report.growth.as_slice() {
        [growth] => {
            let confidence = report.confidence();
            let confidence =
                confidence.map(|(confidence, count)| phrase::confidence(confidence, count));
            let figures = phrase::growth(growth).into_iter();
            figures.chain(confidence).collect()
        }
        // There is no room for several lines.
        _ => Vec::new(),
    };
    captions.push(
        "Lines: mean. Dashes: p99.9 (geometric means over stretches). Rings: max. All are gross."
            .into(),
    );
    let frame = canvas.head_and_foot(
        "Duration of context switches",
        &phrase::place(report, first.way),
        &captions,
    )?;
    let entries: Vec<_> = curves
        .iter()
        .enumerate()
        .map(|(number, curve)| {
            (
                curve.name.clone(),
                canvas.theme.series(number),
                Stroke::Solid,
            )
        })
        .collect();
    let frame = canvas.legend(&entries, frame)?;
    let axes = Axes::draw(
        canvas,
        frame,
        &Axis {
            scale: Scale::Log {
                from: fewest / MARGIN,
                to: highest * MARGIN,
            },
            name: "threads",
            write: &|number| format!("{number:.0}"),
            marks,
        },
        &Axis {
            scale,
            name: "duration",
            write: &write_time,
            marks: Vec::new(),
        },
    )?;
    for (curve, (_, colour, _)) in curves.iter().zip(&entries) {
        let path = |value: &dyn Fn(&SwitchTimes) -> Option<f64>| -> Vec<(f64, f64)> {
            let points = curve.rows.iter();
            let points = points.filter_map(|(threads, times)| Some((*threads, value(times)?)));
            points
                .map(|(threads, ns)| axes.at(threads, ns.max(1.0)))
                .collect()
        };
        let mean = path(&|times| Some(times.mean_ns));
        canvas.line(&mean, *colour, 1.8)?;
        for &at in &mean {
            canvas.dot(at, 3.0, *colour, true)?;
        }
        canvas.dashes(&path(&|times| times.p999_ns), *colour, 1.8)?;
        for point in path(&|times| Some(times.max_ns)) {
            canvas.dot(point, 4.0, *colour, false)?;
        }
    }
    Ok(())
}
