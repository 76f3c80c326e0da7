//! How often each latency was seen, both scales logarithmic (OSDI'99 Fig. 4
//! and 5).

use laggard_answer::show::{HistogramView, RecordingReport, ServiceRow};
use laggard_model::name::line_name;
use laggard_model::text::{brief_count, count};
use laggard_model::{Histogram, Route};
use plotters::backend::DrawingBackend;

use super::axes::{Axes, Axis, Scale, write_time};
use super::canvas::Canvas;
use super::{PictureError, doubts, load, place};

/// Buckets of a recording in one step of a curve of counts: a quarter of a
/// doubling. Finer ones would show the clock's grain.
const STEP: usize = 16;

/// One distribution.
pub(super) struct Curve {
    name: String,
    /// Bucket and count, ascending.
    buckets: Vec<(usize, u64)>,
    is_dashed: bool,
    /// Whether the largest is a lower limit: one was still waiting at the end.
    is_open: bool,
}

impl Curve {
    /// Every service of every recording.
    pub(super) fn of_services(reports: &[RecordingReport]) -> Vec<Self> {
        let mut curves = Vec::new();
        for report in reports {
            for view in &report.histograms {
                let service = line_name(view.service, view.route);
                let name = if reports.len() > 1 {
                    format!("{service}, {}", load(report))
                } else {
                    service
                };
                let is_dashed = view.route == Route::Deferred;
                let curve = Self::of(view, name, is_dashed);
                curves.push(curve.open(&report.services, view));
            }
        }
        curves
    }

    /// One service on each CPU.
    pub(super) fn of_cpus(
        services: &[ServiceRow],
        histograms: &[HistogramView],
        name: &str,
    ) -> Vec<Self> {
        histograms
            .iter()
            .filter(|view| line_name(view.service, view.route) == name)
            .filter_map(|view| {
                let curve = Self::of(view, format!("CPU {}", view.cpu?), false);
                Some(curve.open(services, view))
            })
            .collect()
    }

    /// With whether one of `rows`, of the service and CPU of `view`, was still
    /// waiting at the end.
    fn open(self, rows: &[ServiceRow], view: &HistogramView) -> Self {
        let is_of = |row: &&ServiceRow| {
            (row.service, row.route, row.cpu) == (view.service, view.route, view.cpu)
        };
        Self {
            is_open: rows.iter().filter(is_of).any(|row| row.still_waiting > 0),
            ..self
        }
    }

    fn of(view: &HistogramView, name: String, is_dashed: bool) -> Self {
        Self {
            name,
            buckets: view.buckets.clone(),
            is_dashed,
            is_open: false,
        }
    }

    fn samples(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// Latency and count, as stairs.
    #[allow(clippy::cast_precision_loss)]
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

    /// Latency and the share of samples that were later, as stairs.
    #[allow(clippy::cast_precision_loss)]
    fn shares(&self) -> Vec<(f64, f64)> {
        let all = self.samples() as f64;
        let mut left = self.samples();
        let mut points = Vec::new();
        for &(bucket, count) in &self.buckets {
            points.push((edge(bucket), left as f64 / all));
            left -= count;
            points.push((edge(bucket), left as f64 / all));
        }
        points
    }
}

/// The upper edge of a bucket, ns.
#[allow(clippy::cast_precision_loss)]
fn edge(bucket: usize) -> f64 {
    (Histogram::upper_edge(bucket).ns() as f64).max(1.0)
}

pub(super) fn draw<B: DrawingBackend>(
    canvas: &mut Canvas<'_, B>,
    curves: &[Curve],
    reports: &[RecordingReport],
    (service, exceedance): (Option<&str>, bool),
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
    let what = match exceedance {
        false => "how often each latency was seen",
        true => "what share of activations was later",
    };
    let title = match service {
        Some(name) => format!("{name}, CPU by CPU: {what}"),
        None => format!("Latencies of services: {what}"),
    };
    let place = match reports {
        [only] => place(only),
        several => format!("{} recordings", several.len()),
    };
    let mut captions: Vec<String> = reports.iter().map(doubts).collect();
    captions.push(caption(exceedance).into());
    let frame = canvas.head_and_foot(&title, &place, &captions)?;
    let entries: Vec<_> = curves
        .iter()
        .enumerate()
        .map(|(number, curve)| {
            let name = format!("{} ({})", curve.name, count(curve.samples()));
            (name, canvas.theme.series(number), curve.is_dashed)
        })
        .collect();
    let frame = canvas.legend(&entries, frame)?;
    let lines: Vec<Vec<(f64, f64)>> = curves
        .iter()
        .map(|curve| {
            if exceedance {
                curve.shares()
            } else {
                curve.counts()
            }
        })
        .collect();
    let heights = || lines.iter().flatten().map(|(_, y)| *y).filter(|y| *y > 0.0);
    let y = Scale::decades(
        if exceedance {
            heights().fold(1.0, f64::min)
        } else {
            1.0
        },
        heights().fold(1.0, f64::max),
    );
    let write_y: &dyn Fn(f64) -> String = if exceedance {
        &write_share
    } else {
        &write_count
    };
    let axes = Axes::draw(
        canvas,
        frame,
        &Axis {
            scale: Scale::decades(edge(first.saturating_sub(1)), edge(last)),
            name: "latency: from the programmed expiry to the service",
            write: &write_time,
            marks: Vec::new(),
        },
        &Axis {
            scale: y,
            name: if exceedance {
                "share of activations"
            } else {
                "activations"
            },
            write: write_y,
            marks: Vec::new(),
        },
    )?;
    for ((points, curve), (_, colour, _)) in lines.iter().zip(curves).zip(&entries) {
        let path: Vec<(f64, f64)> = points.iter().map(|&(x, y)| axes.at(x, y)).collect();
        if curve.is_dashed {
            canvas.dashes(&path, *colour, 1.5)?;
        } else {
            canvas.line(&path, *colour, 1.8)?;
        }
        if let Some(&(bucket, _)) = curve.buckets.last() {
            let at = axes.at(edge(bucket), 0.0);
            canvas.dot(at, 3.5, *colour, !curve.is_open)?;
        }
    }
    Ok(())
}

const fn caption(exceedance: bool) -> &'static str {
    if exceedance {
        "Both scales are logarithmic. A point (x, y): the share y of activations was later than x. Dots: the largest seen, not a bound; rings: at least that, for one was still waiting at the end."
    } else {
        "Both scales are logarithmic. Counts are per quarter of a doubling of the latency. Dots: the largest seen, not a bound; rings: at least that, for one was still waiting at the end."
    }
}

fn write_count(count: f64) -> String {
    round(count)
}

/// A power of ten in few letters: `10k`, not `1.0k`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn round(number: f64) -> String {
    brief_count(number.round() as u64).replace(".0", "")
}

/// `0.01` as `1 in 100`.
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
            is_dashed: false,
            is_open: false,
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
