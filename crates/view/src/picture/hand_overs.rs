//! Hand-overs of a CPU: one after the other, and over the number of threads (Timmerman
//! 1998, Fig. 2 to 4).

use laggard_answer::switch::{SwitchReport, SwitchRow, SwitchSeries, SwitchTimes};
use laggard_model::text::{Unit, count};
use laggard_model::{Nanos, SwitchWay};
use plotters::backend::DrawingBackend;

use super::PictureError;
use super::axes::{Axes, Axis, Scale, write_time};
use super::canvas::Canvas;

/// Most ways to hand over in one picture: more curves are no help.
pub const MOST_WAYS: usize = 6;
/// Room beside the fewest and the most threads, of a logarithmic scale.
const BESIDE: f64 = 1.15;

/// How a way is called among others.
fn name(way: SwitchWay) -> String {
    let mut name = way.via.to_string();
    if way.are_processes {
        name += ", processes";
    }
    if way.working_set_bytes > 0 {
        name += &format!(", {} bytes each", count(way.working_set_bytes));
    }
    name
}

fn place(report: &SwitchReport, way: SwitchWay) -> String {
    let mut parts = vec![match report.other_cpu {
        Some(other) => format!("{} on CPUs {} and {other}", way.service, report.cpu),
        None => format!("{} on CPU {}", way.service, report.cpu),
    }];
    if let Some(load) = &report.load {
        parts.push(format!("load {load}"));
    }
    if !report.host.kernel.is_empty() {
        parts.push(format!("Linux {}", report.host.kernel));
        parts.push(report.host.processor.model.clone());
    }
    parts.join(", ")
}

/// Hand-overs in the order in which they were.
pub(super) fn series<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    report: &SwitchReport,
    series: &SwitchSeries,
) -> Result<(), PictureError> {
    let times = || series.took_ns.iter().map(|&ns| f64::from(ns).max(1.0));
    let (least, most) = (
        times().fold(f64::INFINITY, f64::min),
        times().fold(0.0, f64::max),
    );
    if series.took_ns.is_empty() {
        return Err(PictureError::Nothing("nobody handed over".into()));
    }
    let shown = series.took_ns.len();
    let who = if series.way.are_processes {
        "processes"
    } else {
        "threads"
    };
    let title = format!(
        "{} hand-overs among {} {who}, one after the other",
        count(shown as u64),
        series.threads
    );
    let mut sorted = series.took_ns.clone();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    let captions = [
        format!(
            "Half of them took {} or less.",
            Unit::Auto.write_nanos(Nanos::from_ns(u64::from(median)))
        ),
        "Of one stretch, from its first hand-over that was kept on. Gross: what interrupted a hand-over is in it.".to_owned(),
    ];
    let subtitle = format!("by {}; {}", name(series.way), place(report, series.way));
    let frame = canvas.head_and_foot(&title, &subtitle, &captions)?;
    let axes = Axes::draw(
        canvas,
        frame,
        &Axis {
            scale: Scale::Linear {
                from: 0.0,
                to: (shown as f64).max(2.0),
            },
            name: "hand-over",
            write: &|number| format!("{number:.0}"),
            marks: Vec::new(),
        },
        &Axis {
            scale: Scale::decades(least, most * BESIDE),
            name: "how long it took",
            write: &write_time,
            marks: Vec::new(),
        },
    )?;
    let colour = canvas.theme.series(0);
    for (number, took) in times().enumerate() {
        canvas.dot(axes.at(number as f64 + 1.0, took), 1.5, colour, true)?;
    }
    Ok(())
}

/// One way over the number of threads.
struct Curve {
    name: String,
    rows: Vec<(f64, SwitchTimes)>,
}

fn curves(report: &SwitchReport) -> Vec<Curve> {
    let mut ways: Vec<SwitchWay> = Vec::new();
    for row in &report.rows {
        if !ways.contains(&row.way) {
            ways.push(row.way);
        }
    }
    let of = |way: SwitchWay| {
        let is_of = |row: &&SwitchRow| row.way == way;
        let rows = report.rows.iter().filter(is_of);
        let had = rows.filter_map(|row| Some((row.threads as f64, row.took?)));
        Curve {
            name: name(way),
            rows: had.collect(),
        }
    };
    let all = ways.into_iter().map(of);
    all.filter(|curve| curve.rows.len() > 1).collect()
}

/// What a sentence says of one figure after the other, a line each.
fn parts(sentence: &str) -> Vec<String> {
    let lines = sentence.split("; ");
    lines
        .map(|line| line.trim_end_matches('.').to_owned())
        .collect()
}

/// Mean, what one in 1,000 exceeds and the largest, over the number of threads.
pub(super) fn growth<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    report: &SwitchReport,
) -> Result<(), PictureError> {
    let curves = curves(report);
    let Some(first) = report.rows.first().filter(|_| !curves.is_empty()) else {
        return Err(PictureError::Nothing(
            "no way was measured with two numbers of threads".into(),
        ));
    };
    if curves.len() > MOST_WAYS {
        return Err(PictureError::Draw(format!(
            "{} ways to hand over are too many for one picture; ask for at most {MOST_WAYS}",
            curves.len()
        )));
    }
    let rows = || curves.iter().flat_map(|curve| &curve.rows);
    let least = rows().map(|row| row.1.mean_ns.max(1.0));
    let most = rows().map(|row| row.1.largest_ns.max(1.0));
    let mut marks: Vec<f64> = rows().map(|row| row.0).collect();
    marks.sort_by(f64::total_cmp);
    marks.dedup();
    let (fewest, highest) = (marks[0], marks[marks.len() - 1]);
    let scale = Scale::decades(
        least.fold(f64::INFINITY, f64::min),
        most.fold(0.0, f64::max) * BESIDE,
    );
    let mut captions = match report.growth.as_slice() {
        [one] => parts(&one.sentence)
            .into_iter()
            .chain(report.surety())
            .collect(),
        // For several there is no room.
        _ => Vec::new(),
    };
    captions.push(
        "Lines: the mean; dashes: what one in 1,000 exceeds (geometric means over stretches); rings: the largest. Gross.".into(),
    );
    let frame = canvas.head_and_foot(
        "How long a CPU takes from one thread to another",
        &place(report, first.way),
        &captions,
    )?;
    let entries: Vec<_> = curves
        .iter()
        .enumerate()
        .map(|(number, curve)| (curve.name.clone(), canvas.theme.series(number), false))
        .collect();
    let frame = canvas.legend(&entries, frame)?;
    let axes = Axes::draw(
        canvas,
        frame,
        &Axis {
            scale: Scale::Log {
                from: fewest / BESIDE,
                to: highest * BESIDE,
            },
            name: "threads",
            write: &|number| format!("{number:.0}"),
            marks,
        },
        &Axis {
            scale,
            name: "how long it took",
            write: &write_time,
            marks: Vec::new(),
        },
    )?;
    for (curve, (_, colour, _)) in curves.iter().zip(&entries) {
        let path = |of: &dyn Fn(&SwitchTimes) -> Option<f64>| -> Vec<(f64, f64)> {
            let points = curve.rows.iter();
            let had = points.filter_map(|(threads, times)| Some((*threads, of(times)?)));
            had.map(|(threads, ns)| axes.at(threads, ns.max(1.0)))
                .collect()
        };
        let mean = path(&|times| Some(times.mean_ns));
        canvas.line(&mean, *colour, 1.8)?;
        for &at in &mean {
            canvas.dot(at, 3.0, *colour, true)?;
        }
        canvas.dashes(&path(&|times| times.one_in_1000_ns), *colour, 1.8)?;
        for at in path(&|times| Some(times.largest_ns)) {
            canvas.dot(at, 4.0, *colour, false)?;
        }
    }
    Ok(())
}
