//! Latency over time, with every exceedance.

use laggard_answer::course::CourseView;
use laggard_answer::show::RecordingReport;
use laggard_model::Nanos;
use laggard_model::text::{Unit, count};
use plotters::backend::DrawingBackend;

use super::axes::{Axes, Axis, Scale, write_time};
use super::canvas::{Area, Canvas, Stroke};
use super::{PictureError, doubts, place};

pub(super) fn draw<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    report: &RecordingReport,
    course: &CourseView,
) -> Result<(), PictureError> {
    let intervals = &course.intervals;
    let (Some(least), Some(most)) = (
        intervals
            .median_ns
            .iter()
            .flatten()
            .chain(&intervals.largest_ns)
            .copied()
            .filter(|time| *time > Nanos::ZERO)
            .min(),
        intervals.largest_ns.iter().copied().max(),
    ) else {
        return Err(PictureError::Nothing(format!(
            "no sample of {}",
            course.name
        )));
    };
    let limit = Unit::Auto.write_nanos(course.limit_ns);
    let captions = [
        doubts(report),
        format!(
            "Line: median of each {}; bars reach from it to the max. Dots: every wakeup later than {limit} ({}). Rings: missed expiries; one that was still waiting at the end has its waiting time.",
            Unit::Auto.write_nanos(course.interval_ns),
            count(course.points.latency_ns.len() as u64),
        ),
    ];
    let title = format!("{} over time", course.name);
    let frame = canvas.head_and_foot(&title, &place(report), &captions)?;
    let cpus = cpus(course);
    let frame = legend(canvas, frame, &cpus)?;
    let write_x = |seconds: f64| format!("{} s", (seconds * 1e3).round() / 1e3);
    let axes = Axes::draw(
        canvas,
        frame,
        &Axis {
            scale: Scale::Linear {
                from: 0.0,
                to: report.duration_ns.as_secs_f64().max(1e-3),
            },
            name: "since the start of the recording",
            write: &write_x,
            marks: Vec::new(),
        },
        &Axis {
            scale: Scale::decades(ns(least), ns(most)),
            name: "latency",
            write: &write_time,
            marks: Vec::new(),
        },
    )?;
    ordinary(canvas, &axes, course)?;
    let mut end = Nanos::ZERO;
    for (index, after) in course.points.after_ns.iter().enumerate() {
        end += *after;
        let place = axes.at(end.as_secs_f64(), ns(course.points.latency_ns[index]));
        let cpu = course.points.cpu[index];
        let number = cpus
            .iter()
            .position(|other_cpu| *other_cpu == cpu.0)
            .unwrap_or(0);
        let is_missed = course.points.missed.binary_search(&index).is_ok();
        let colour = canvas.theme.series(number);
        canvas.dot(place, 2.2, colour, !is_missed)?;
    }
    let threshold = report.plan.threshold_ns;
    if threshold < most {
        let faint = canvas.theme.faint;
        let name = format!("threshold {threshold}");
        axes.across(canvas, ns(threshold), &name, faint)?;
    }
    Ok(())
}

/// Draws medians as a line, with bars up to the maxima.
fn ordinary<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    axes: &Axes,
    course: &CourseView,
) -> Result<(), PictureError> {
    let intervals = &course.intervals;
    let (faint, grid) = (canvas.theme.ink, canvas.theme.grid);
    let length = course.interval_ns.as_secs_f64();
    let mut medians = Vec::new();
    for (index, number) in intervals.number.iter().enumerate() {
        let middle = (*number as f64 + 0.5) * length;
        let top = axes.at(middle, ns(intervals.largest_ns[index]));
        let median = intervals.median_ns[index];
        let bottom = median.map_or((top.0, axes.frame.bottom), |median| {
            axes.at(middle, ns(median))
        });
        canvas.line(&[bottom, top], grid, 1.5)?;
        medians.extend(median.map(|_| bottom));
    }
    if medians.len() > 1 {
        canvas.line(&medians, faint, 1.2)?;
    }
    Ok(())
}

fn cpus(course: &CourseView) -> Vec<u32> {
    let mut cpus: Vec<u32> = course.points.cpu.iter().map(|cpu| cpu.0).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

fn legend<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    frame: Area,
    cpus: &[u32],
) -> Result<Area, PictureError> {
    let entries: Vec<_> = cpus
        .iter()
        .enumerate()
        .map(|(number, cpu)| {
            (
                format!("CPU {cpu}"),
                canvas.theme.series(number),
                Stroke::Solid,
            )
        })
        .collect();
    canvas.legend(&entries, frame)
}

fn ns(time: Nanos) -> f64 {
    time.ns() as f64
}
