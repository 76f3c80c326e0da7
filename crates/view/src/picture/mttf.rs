//! Mean time between xruns over total buffering (OSDI'99 Fig. 6 and 7): (n - 1) t for n
//! buffers of the length t.

use laggard_answer::qos::{CurvePoint, QosReport, ServiceOutlook};
use laggard_model::name::series_words;
use laggard_model::text::{Unit, mean_time};
use plotters::backend::DrawingBackend;
use plotters::style::RGBColor;

use super::PictureError;
use super::axes::{Axes, Axis, Scale, write_time};
use super::canvas::{Anchor, Canvas, SMALL, Stroke};
use crate::phrase::trust;

/// Marks of the axis, ns.
const MARKS: [f64; 8] = [1e9, 1e10, 6e10, 6e11, 3.6e12, 8.64e13, 6.048e14, 3.156e16];

/// Distance between the whiskers of two curves, pixels.
const SIDE: f64 = 4.0;

struct Curve<'a> {
    name: String,
    points: &'a [CurvePoint],
    stroke: Stroke,
}

pub(super) fn draw<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    reports: &[QosReport],
) -> Result<(), PictureError> {
    let Some(report) = reports.first() else {
        return Err(PictureError::Nothing("no application was given".into()));
    };
    let is_single = reports.len() == 1;
    let mut curves: Vec<Curve<'_>> = reports
        .iter()
        .flat_map(|report| {
            let buffer = report.application.buffer_ns;
            report.loads.iter().map(move |load| (report, load, buffer))
        })
        .flat_map(|(report, load, buffer)| {
            load.services.iter().map(move |service| Curve {
                name: if is_single {
                    let service = series_words(service.service, service.route);
                    format!("{service}, {}", load.load)
                } else {
                    let load = match report.loads.len() {
                        0 | 1 => String::new(),
                        _ => format!(", {}", load.load),
                    };
                    format!("t = {buffer}{load}")
                },
                points: &service.curve,
                stroke: Stroke::dashed(service.route == laggard_model::Route::Deferred),
            })
        })
        .filter(|curve| !curve.points.is_empty())
        .collect();
    if !is_single {
        for (number, curve) in curves.iter_mut().enumerate() {
            curve.stroke = Stroke::nth(number);
        }
    }
    let points = || curves.iter().flat_map(|curve| curve.points);
    let known_times = || {
        points()
            .flat_map(|point| [point.figures.mttf_ns, Some(point.figures.mttf_low_ns)])
            .flatten()
            .filter(|ns| *ns > 0.0)
    };
    let (least, most) = (
        known_times().fold(f64::INFINITY, f64::min),
        known_times().fold(0.0, f64::max),
    );
    if most <= 0.0 {
        return Err(PictureError::Nothing(
            "the recordings lack the services of the application".into(),
        ));
    }
    let (title, subtitle, captions) = words(report, is_single);
    let frame = canvas.head_and_foot(&title, &subtitle, &captions)?;
    let entries: Vec<_> = curves
        .iter()
        .enumerate()
        .map(|(number, curve)| {
            (
                curve.name.clone(),
                canvas.theme.series(number),
                curve.stroke,
            )
        })
        .collect();
    let frame = canvas.legend(&entries, frame)?;
    let totals = || points().map(|point| ns(point.buffering_ns));
    let from = totals().fold(f64::INFINITY, f64::min);
    let to = totals().fold(0.0, f64::max);
    let edge = (to - from).max(1.0) * 0.04;
    let y = Scale::decades(least, most * 1.2);
    let Scale::Log {
        from: bottom,
        to: top,
    } = y
    else {
        return Err(PictureError::Draw("decades are logarithmic".into()));
    };
    let axes = Axes::draw(
        canvas,
        frame,
        &Axis {
            scale: Scale::Linear {
                from: (from - edge).max(0.0),
                to: to + edge,
            },
            name: "total buffering, (n - 1) x buffer length",
            write: &write_time,
            marks: Vec::new(),
        },
        &Axis {
            scale: y,
            name: "mean time between xruns",
            write: &write_mean,
            marks: MARKS
                .into_iter()
                .filter(|mark| (bottom..=top).contains(mark))
                .collect(),
        },
    )?;
    if is_single {
        own(canvas, &axes, report)?;
    }
    // Side by side, so that whiskers do not hide each other.
    let mut aside = -SIDE * (curves.len() as f64 - 1.0) / 2.0;
    for (curve, (_, colour, _)) in curves.iter().zip(&entries) {
        draw_curve(canvas, &axes, curve, (*colour, aside))?;
        aside += SIDE;
    }
    Ok(())
}

fn words(report: &QosReport, is_single: bool) -> (String, String, Vec<String>) {
    let application = &report.application;
    let title = format!("Mean time between xruns of {}", application.name);
    let subtitle = if is_single {
        format!(
            "buffers of {}, {} of work each; {}",
            application.buffer_ns, application.compute_ns, application.source
        )
    } else {
        let loads = report.loads.iter().map(|load| load.load.to_string());
        let loads: Vec<String> = loads.collect();
        format!(
            "{}; buffers of the length t, 25 % of t of work each; {}",
            loads.join(", "),
            application.source
        )
    };
    let mut captions: Vec<String> = report
        .loads
        .iter()
        .flat_map(|load| load.notes.iter().map(trust::note))
        .take(2)
        .collect();
    let name = |service: &ServiceOutlook| {
        let waited = service.waited_ns;
        waited.map(|_| series_words(service.service, service.route))
    };
    let services = report.loads.iter().flat_map(|load| &load.services);
    let waiting: Vec<String> = services.filter_map(name).collect();
    if !waiting.is_empty() {
        captions.push(format!(
            "Still waiting when measuring ended: {}. Their mean times are upper limits.",
            waiting.join(", ")
        ));
    }
    captions.push(
        "Lines: estimates from a replay of the recording. Whiskers: 95 % intervals. Rings: lower limits (less than one failure in the recording, or no estimate).".into(),
    );
    (title, subtitle, captions)
}

/// Marks the buffers of the application.
fn own<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    axes: &Axes,
    report: &QosReport,
) -> Result<(), PictureError> {
    let application = &report.application;
    let total = application.buffer_ns * u64::from(application.buffers.saturating_sub(1));
    let (x, _) = axes.at(ns(total), 0.0);
    let faint = canvas.theme.faint;
    canvas.dashes(&[(x, axes.frame.top), (x, axes.frame.bottom)], faint, 1.0)?;
    let name = format!(
        "{} buffers, {} of buffering",
        application.buffers,
        Unit::Auto.write_nanos(total)
    );
    let place = (x + 5.0, axes.frame.bottom - 10.0);
    canvas.text(&name, place, Anchor::Left, SMALL, faint)
}

fn draw_curve<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    axes: &Axes,
    curve: &Curve<'_>,
    (colour, aside): (RGBColor, f64),
) -> Result<(), PictureError> {
    let mut path = Vec::new();
    for point in curve.points {
        let x = ns(point.buffering_ns);
        let figures = &point.figures;
        let point_at = |time: f64| {
            let (x, y) = axes.at(x, time);
            (x + aside, y)
        };
        let low = point_at(figures.mttf_low_ns);
        let Some(mttf) = figures.mttf_ns else {
            if let Some(high) = figures.mttf_high_ns {
                canvas.line(&[low, point_at(high)], colour, 1.0)?;
            }
            canvas.dot(low, 4.0, colour, false)?;
            continue;
        };
        let high = figures
            .mttf_high_ns
            .map_or((low.0, axes.frame.top), point_at);
        canvas.line(&[low, high], colour, 1.0)?;
        canvas.dot(point_at(mttf), 3.0, colour, true)?;
        path.push(point_at(mttf));
    }
    if path.len() < 2 {
        return Ok(());
    }
    canvas.stroke(&path, colour, 1.8, curve.stroke)
}

fn write_mean(time: f64) -> String {
    let text = mean_time(time);
    text.replace(".0 ", " ").replace(".00 ", " ")
}

fn ns(time: laggard_model::Nanos) -> f64 {
    time.ns() as f64
}
