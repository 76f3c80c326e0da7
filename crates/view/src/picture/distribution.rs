//! Frequency of each latency, with logarithmic scales (OSDI'99 Fig. 4 and 5) or linear ones
//! (Heubaum 1995, Fig. 2 to 5).

use laggard_answer::compare::{CompareReport, LatencyCounts, ServiceComparison, SideView};
use laggard_answer::contexts::BumpRow;
use laggard_answer::show::{HistogramView, RecordingReport, ServiceRow};
use laggard_model::name::series_words;
use laggard_model::text::{Unit, brief_count, count, span};
use laggard_model::{Histogram, Route, whole};
use plotters::backend::DrawingBackend;

use super::axes::{Axes, Axis, Scale, write_time};
use super::canvas::{Anchor, Area, Canvas, SMALL, Stroke};
use super::{PictureError, Shape, doubts, is_doubtful, load, place};

/// Number of a recording's buckets in one step of a curve of counts: a quarter of a doubling.
/// Smaller steps would show the resolution of the clock.
const STEP: usize = 16;

/// Number of steps of a curve on a linear axis.
const LINEAR_STEPS: usize = 120;

/// Distribution of latencies.
pub(super) struct Curve {
    name: String,
    /// Buckets and their counts, ascending.
    buckets: Vec<(usize, u64)>,
    stroke: Stroke,
    /// True if the maximum is a lower limit, because a wakeup was still pending at the end.
    is_open: bool,
    /// Evenly spaced bumps of the distribution.
    bumps: Option<BumpRow>,
}

impl Curve {
    /// Creates the curves of all services of all recordings.
    pub(super) fn of_services(reports: &[RecordingReport]) -> Vec<Self> {
        let mut curves = Vec::new();
        let service = common_service(reports);
        for report in reports {
            for view in &report.histograms {
                let name = match (&service, reports.len()) {
                    (Some(_), 2..) => load(report),
                    (None, 2..) => {
                        let service = series_words(view.service, view.route);
                        format!("{service}, {}", load(report))
                    }
                    _ => series_words(view.service, view.route),
                };
                let stroke = match service {
                    // Only the load differs.
                    Some(_) => Stroke::nth(curves.len()),
                    None => Stroke::dashed(view.route == Route::Deferred),
                };
                let curve = Self::of(view, name, stroke);
                let mut contexts = report.contexts.iter().flat_map(|contexts| &contexts.rows);
                let row =
                    contexts.find(|row| (row.service, row.route) == (view.service, view.route));
                curves.push(Self {
                    bumps: row.and_then(|row| row.bumps.clone()),
                    ..curve.open(&report.services, view)
                });
            }
        }
        curves
    }

    /// Creates the curves of a service in two sets of recordings.
    pub(super) fn of_sides(service: &ServiceComparison) -> Vec<Self> {
        let sides = [("A", &service.first), ("B", &service.second)];
        let curve = |(letter, side): (&str, &LatencyCounts)| Self {
            name: letter.into(),
            buckets: side.buckets.clone(),
            stroke: Stroke::Solid,
            is_open: side.is_at_least,
            bumps: None,
        };
        sides.map(curve).into()
    }

    /// Creates the curves of one service on each CPU.
    pub(super) fn of_cpus(
        services: &[ServiceRow],
        histograms: &[HistogramView],
        name: &str,
    ) -> Vec<Self> {
        histograms
            .iter()
            .filter(|view| series_words(view.service, view.route) == name)
            .filter_map(|view| {
                let curve = Self::of(view, format!("CPU {}", view.cpu?), Stroke::Solid);
                Some(curve.open(services, view))
            })
            .collect()
    }

    /// Marks the curve if one of `rows` with the service and CPU of `view` was still pending at the
    /// end.
    fn open(self, rows: &[ServiceRow], view: &HistogramView) -> Self {
        let is_of = |row: &&ServiceRow| {
            (row.service, row.route, row.cpu) == (view.service, view.route, view.cpu)
        };
        Self {
            is_open: rows.iter().filter(is_of).any(|row| row.still_waiting > 0),
            ..self
        }
    }

    fn of(view: &HistogramView, name: String, stroke: Stroke) -> Self {
        Self {
            name,
            buckets: view.buckets.clone(),
            stroke,
            is_open: false,
            bumps: None,
        }
    }

    fn samples(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// Returns latencies and counts, as stairs.
    fn counts(&self) -> Vec<(f64, f64)> {
        let mut steps: Vec<(usize, u64)> = Vec::new();
        for &(bucket, count) in &self.buckets {
            let step = bucket.div_ceil(STEP);
            match steps.last_mut() {
                Some((last, sum)) if *last == step => *sum += count,
                _ => steps.push((step, count)),
            }
        }
        let mut points = Vec::new();
        let mut before = None;
        for &(step, count) in &steps {
            let from = edge(step.saturating_sub(1) * STEP);
            if before != Some(step.saturating_sub(1)) {
                points.extend(before.map(|last| (edge(last * STEP), 0.0)));
                points.push((from, 0.0));
            }
            points.push((from, count as f64));
            points.push((edge(step * STEP), count as f64));
            before = Some(step);
        }
        points.extend(before.map(|last| (edge(last * STEP), 0.0)));
        points
    }

    /// Returns the 0.1 % quantile, ns.
    fn ordinary(&self) -> f64 {
        let bucket = self.bucket_after(self.samples() / 1_000);
        bucket.map_or(1.0, |bucket| edge(bucket.saturating_sub(1)))
    }

    /// Returns the p99, ns.
    fn p99(&self) -> f64 {
        let samples = self.samples();
        self.bucket_after(samples.saturating_sub(samples / 100 + 1))
            .map_or(1.0, edge)
    }

    /// Returns the bucket of the sample with this many smaller ones.
    fn bucket_after(&self, smaller: u64) -> Option<usize> {
        let mut left = smaller;
        let bucket = self
            .buckets
            .iter()
            .find(|(_, count)| match left.checked_sub(*count) {
                Some(rest) => {
                    left = rest;
                    false
                }
                None => true,
            });
        bucket.map(|(bucket, _)| *bucket)
    }

    /// Returns latencies up to `to` ns and counts in steps of equal width, as stairs.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place among few steps"
    )]
    fn linear_counts(&self, to: f64) -> Vec<(f64, f64)> {
        let width = to / LINEAR_STEPS as f64;
        let mut steps = [0_u64; LINEAR_STEPS];
        for &(bucket, count) in &self.buckets {
            // A bucket may be wider than a step.
            let (low, high) = (edge(bucket.saturating_sub(1)), edge(bucket));
            let place = (low.midpoint(high) / width) as usize;
            if let Some(step) = steps.get_mut(place) {
                *step += count;
            }
        }
        let stairs = steps.iter().enumerate();
        stairs
            .flat_map(|(place, &count)| {
                let corner = |place: usize| (place as f64 * width, count as f64);
                [corner(place), corner(place + 1)]
            })
            .collect()
    }

    /// Returns the number of samples beyond the linear axis that ends at `end` ns.
    fn later_than(&self, end: f64) -> u64 {
        let middle = |bucket: usize| edge(bucket.saturating_sub(1)).midpoint(edge(bucket));
        let later = self
            .buckets
            .iter()
            .filter(|(bucket, _)| middle(*bucket) >= end);
        later.map(|(_, count)| count).sum()
    }

    /// Returns latencies and the share of later samples, as stairs.
    fn shares(&self) -> Vec<(f64, f64)> {
        let samples = self.samples() as f64;
        let mut left = self.samples();
        let mut points = Vec::new();
        for &(bucket, count) in &self.buckets {
            points.push((edge(bucket), left as f64 / samples));
            left -= count;
            points.push((edge(bucket), left as f64 / samples));
        }
        points
    }
}

/// Returns the service of several recordings, if all curves have the same.
fn common_service(reports: &[RecordingReport]) -> Option<String> {
    let names = |report: &RecordingReport| {
        let views = report.histograms.iter();
        let names = views.map(|view| series_words(view.service, view.route));
        names.collect::<Vec<String>>()
    };
    let mut all = reports.iter().flat_map(names);
    let first = all.next()?;
    (reports.len() > 1 && all.all(|name| name == first)).then_some(first)
}

/// Returns the upper edge of a bucket, ns.
fn edge(bucket: usize) -> f64 {
    (Histogram::upper_edge(bucket).ns() as f64).max(1.0)
}

/// Texts above and below the curves.
pub(super) struct Words {
    title: String,
    place: String,
    captions: Vec<String>,
    /// Name of the x axis, with the start of the latency if all curves have the same.
    latency: String,
}

/// States the start and end of the latency in all of these recordings.
fn between(reports: &[RecordingReport]) -> String {
    let latency_of = |report: &RecordingReport| report.plan.rows.latency();
    let first = reports.first().and_then(latency_of);
    match first {
        _ if reports.iter().any(|report| latency_of(report) != first) => "latency".into(),
        first => counted(first),
    }
}

/// Names the start of the latency; `None` means the expiry.
fn counted(from: Option<&str>) -> String {
    let from = from.unwrap_or("from the programmed expiry to the service");
    format!("latency: {from}")
}

impl Words {
    /// Creates the curves of services of recordings, or of one service per CPU.
    pub(super) fn of(reports: &[RecordingReport], service: Option<&str>, shape: Shape) -> Self {
        let what = match shape {
            Shape::Later | Shape::Percent => "fraction of wakeups above x",
            Shape::Counts | Shape::LinearCounts => "wakeups per latency",
        };
        let mut captions: Vec<String> = match reports {
            [_] => reports.iter().map(doubts).collect(),
            // Recordings without a doubt need no line each.
            _ => reports
                .iter()
                .filter(|report| is_doubtful(report))
                .map(doubts)
                .collect(),
        };
        captions.extend(caption(shape).into_iter().map(Into::into));
        Self {
            title: match (service, common_service(reports)) {
                (Some(name), _) => format!("{name}, per CPU: {what}"),
                (None, Some(name)) => format!("{name}: {what}"),
                (None, None) => format!("Latencies of services: {what}"),
            },
            place: match reports {
                [only] => place(only),
                several => format!("{} recordings", several.len()),
            },
            captions,
            latency: between(reports),
        }
    }

    /// Creates the curves of a service in two sets of recordings.
    pub(super) fn of_sides(report: &CompareReport, service: &ServiceComparison) -> Self {
        let name = series_words(service.service, service.route);
        let side = |letter: &str, side: &SideView| {
            let count = side.recordings.len();
            format!("{letter}: {count} recordings, {}", span(side.duration_ns))
        };
        Self {
            title: format!("{name}: fraction of wakeups above x"),
            place: [side("A", &report.first), side("B", &report.second)].join("; "),
            captions: vec![SIDES.into()],
            latency: counted(report.latency),
        }
    }
}

pub(super) fn draw<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    curves: &[Curve],
    words: &Words,
    shape: Shape,
) -> Result<(), PictureError> {
    let edges = || curves.iter().flat_map(|curve| &curve.buckets);
    let (Some(first), Some(last)) = (
        edges().map(|(bucket, _)| *bucket).min(),
        edges().map(|(bucket, _)| *bucket).max(),
    ) else {
        return Err(PictureError::Nothing(
            "the recordings hold no such samples".into(),
        ));
    };
    let frame = canvas.head_and_foot(&words.title, &words.place, &words.captions)?;
    if shape == Shape::LinearCounts {
        return draw_strips(canvas, curves, words, frame);
    }
    let entries: Vec<_> = curves
        .iter()
        .enumerate()
        .map(|(number, curve)| {
            let name = format!("{} ({})", curve.name, count(curve.samples()));
            (name, canvas.theme.series(number), curve.stroke)
        })
        .collect();
    let frame = canvas.legend(&entries, frame)?;
    let lines: Vec<Vec<(f64, f64)>> = curves
        .iter()
        .map(|curve| match shape {
            Shape::Later | Shape::Percent => curve.shares(),
            Shape::Counts | Shape::LinearCounts => curve.counts(),
        })
        .collect();
    let heights = || lines.iter().flatten().map(|(_, y)| *y).filter(|y| *y > 0.0);
    let highest = heights().fold(1.0, f64::max);
    let (x, y) = match shape {
        Shape::Later => {
            // Values below the 0.1 % quantile would only take up space.
            let least = curves.iter().map(Curve::ordinary);
            (
                Scale::decades(least.fold(edge(last), f64::min), edge(last)),
                Scale::decades(heights().fold(1.0, f64::min), highest),
            )
        }
        Shape::Percent => (
            Scale::decades(1e3, edge(last).max(1e9)),
            Scale::decades(heights().fold(1e-6, f64::min), 1.0),
        ),
        Shape::Counts | Shape::LinearCounts => (
            Scale::decades(edge(first.saturating_sub(1)), edge(last)),
            Scale::decades(1.0, highest),
        ),
    };
    let (y_name, write_y): (_, &dyn Fn(f64) -> String) = match shape {
        Shape::Later => ("share of wakeups", &write_share),
        Shape::Percent => ("% of wakeups", &write_percent),
        Shape::Counts | Shape::LinearCounts => ("wakeups", &write_count),
    };
    let axes = Axes::draw(
        canvas,
        frame,
        &Axis {
            scale: x,
            name: &words.latency,
            write: &write_time,
            marks: Vec::new(),
        },
        &Axis {
            scale: y,
            name: y_name,
            write: write_y,
            marks: Vec::new(),
        },
    )?;
    let on_canvas = |points: &Vec<(f64, f64)>| points.iter().map(|&(x, y)| axes.at(x, y)).collect();
    let paths: Vec<Vec<(f64, f64)>> = lines.iter().map(on_canvas).collect();
    for ((path, curve), (_, colour, _)) in paths.iter().zip(curves).zip(&entries) {
        canvas.stroke(path, *colour, 1.8, curve.stroke)?;
        if let Some(&(bucket, _)) = curve.buckets.last() {
            let at = axes.at(edge(bucket), 0.0);
            canvas.dot(at, 3.5, *colour, !curve.is_open)?;
        }
    }
    Ok(())
}

/// Draws a strip per curve, one below the other, with the same linear x axis. Curves that lie on
/// each other would hide their bumps.
fn draw_strips<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    curves: &[Curve],
    words: &Words,
    frame: Area,
) -> Result<(), PictureError> {
    let mut ends: Vec<f64> = curves.iter().map(Curve::p99).collect();
    ends.sort_by(f64::total_cmp);
    // One load with long latencies must not press the others against the axis.
    let limit = MAX_OVER_MEDIAN * ends[(ends.len() - 1) / 2];
    let within = ends.iter().rfind(|end| **end <= limit);
    let end = *within.unwrap_or(&limit);
    let height = (frame.bottom - frame.top - FOOT) / curves.len() as f64;
    for (number, curve) in curves.iter().enumerate() {
        let is_last = number + 1 == curves.len();
        let points = curve.linear_counts(end);
        let highest = points.iter().map(|(_, count)| *count).fold(1.0, f64::max);
        let top = frame.top + height * number as f64;
        let strip = Area {
            top,
            bottom: top + height + if is_last { FOOT } else { 0.0 },
            ..frame
        };
        let none = |_: f64| String::new();
        let axes = Axes::draw_strip(
            canvas,
            strip,
            &Axis {
                scale: Scale::Linear { from: 0.0, to: end },
                name: if is_last { &words.latency } else { "" },
                write: if is_last { &write_time } else { &none },
                marks: Vec::new(),
            },
            &Axis {
                scale: Scale::Linear {
                    from: 0.0,
                    // The name is above the highest count.
                    to: highest * height / (height - NAME_HEIGHT),
                },
                name: "",
                write: &write_count,
                marks: Vec::new(),
            },
            is_last,
        )?;
        let colour = canvas.theme.series(number);
        let path: Vec<(f64, f64)> = points.iter().map(|&(x, y)| axes.at(x, y)).collect();
        let mut corners = path.clone();
        corners.push(axes.at(end, 0.0));
        corners.push(axes.at(0.0, 0.0));
        canvas.fill(&corners, colour, 0.25)?;
        canvas.line(&path, colour, 1.5)?;
        let mut name = format!(
            "{} ({}, {} later)",
            curve.name,
            count(curve.samples()),
            count(curve.later_than(end))
        );
        if let Some(bumps) = &curve.bumps {
            let marks = (0..bumps.positions.len())
                .map(|place| bumps.first_ns + bumps.every_ns * place as f64);
            for mark in marks.filter(|mark| *mark < end) {
                let mark = [axes.at(mark, 0.0), axes.at(mark, highest)];
                canvas.dashes(&mark, canvas.theme.faint, 1.0)?;
            }
            let every = Unit::Auto.write(bumps.every_ns);
            name = format!("{name}, bumps every {every} (dashes)");
        }
        let at = (axes.frame.right - 4.0, axes.frame.top + 5.0);
        let ink = canvas.theme.ink;
        canvas.text(&name, at, Anchor::Right, SMALL, ink)?;
    }
    Ok(())
}

/// Maximum ratio of the end of the x axis to the median of the p99 of the curves.
const MAX_OVER_MEDIAN: f64 = 4.0;
/// Height of the name of a strip with the distance to the strip above, pixels.
const NAME_HEIGHT: f64 = 24.0;
/// Height of the marks and the name of the x axis, pixels.
const FOOT: f64 = 36.0;

/// Caption of a figure of two sides.
const SIDES: &str = "A point (x, y): the fraction y of wakeups had a latency above x. Dots: max. Rings: lower limit of the max.";

/// Explains the axes; each line fits into the width of a figure.
const fn caption(shape: Shape) -> [&'static str; 2] {
    const DOTS: &str = "Dots: max, not a bound. Rings: lower limit of the max, because a wakeup was still waiting.";
    match shape {
        Shape::Later | Shape::Percent => [
            "Both scales are logarithmic. A point (x, y): the fraction y of wakeups had a latency above x.",
            DOTS,
        ],
        Shape::Counts => [
            "Both scales are logarithmic. Counts are per quarter of a doubling of the latency.",
            DOTS,
        ],
        Shape::LinearCounts => [
            "Both scales are linear. Counts are per 1/120 of the x axis, which ends at the highest p99",
            "of the curves that is at most 4 times the median.",
        ],
    }
}

fn write_count(count: f64) -> String {
    round(count)
}

/// Formats a power of ten briefly: `10k`, not `1.0k`.
fn round(number: f64) -> String {
    brief_count(whole(number.round())).replace(".0", "")
}

/// Formats `0.001` as `0.1`.
fn write_percent(share: f64) -> String {
    let text = format!("{:.6}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// Formats `0.01` as `1 in 100`.
fn write_share(share: f64) -> String {
    if share >= 0.999 {
        return "all".into();
    }
    format!("1 in {}", round(1.0 / share))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(buckets: &[(usize, u64)]) -> Curve {
        Curve {
            name: "irq".into(),
            buckets: buckets.to_vec(),
            stroke: Stroke::Solid,
            is_open: false,
            bumps: None,
        }
    }

    #[test]
    fn a_curve_of_counts_holds_every_sample_once() {
        let curve = curve(&[(100, 3), (101, 4), (640, 5)]);

        let points = curve.counts();

        let tops: f64 = points.chunks(2).map(|pair| pair[0].1.max(pair[1].1)).sum();
        assert!(points.iter().any(|(_, y)| *y == 7.0), "{points:?}");
        assert!(points.iter().any(|(_, y)| *y == 5.0), "{points:?}");
        assert!(tops >= 12.0);
        assert_eq!(points.first().unwrap().1, 0.0);
        assert_eq!(points.last().unwrap().1, 0.0);
        assert!(points.windows(2).all(|two| two[0].0 <= two[1].0));
    }

    #[test]
    fn shares_fall_from_all_to_none() {
        let points = curve(&[(100, 3), (640, 1)]).shares();

        let shares: Vec<f64> = points.iter().map(|(_, y)| *y).collect();
        assert_eq!(shares, [1.0, 0.25, 0.25, 0.0]);
    }
}
