//! Single figures as SVG or PNG.
//!
//! Everything is drawn once, on a `canvas`, and written by one of two
//! backends. Letters come from a font that is part of the program, so that a
//! PNG needs none from the machine; an SVG names the family `sans-serif`.

mod axes;
mod bars;
mod canvas;
mod distribution;
mod mttf;
mod stages;
mod switches;
mod theme;
mod time;

use std::sync::OnceLock;

use laggard_answer::compare::{CompareReport, ServiceComparison};
use laggard_answer::course::CourseView;
use laggard_answer::qos::QosReport;
use laggard_answer::show::{HistogramView, RecordingReport, ServiceRow};

use crate::phrase::overview::waiting;
use crate::phrase::{plural, trust};
use crate::study::BarFigure;
use laggard_answer::rtos::InterruptTimes;
use laggard_answer::switch::SwitchReport;
use laggard_model::text::{count, span};
use laggard_model::{LoadLabel, RowsOf};
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::style::{FontStyle, register_font};

use canvas::Canvas;
use distribution::{Curve, Words};
use theme::Theme;

pub use switches::MAX_WAYS;

use crate::Named;

/// See `fonts/LICENSE-DejaVu`.
const FONT: &[u8] = include_bytes!("../../fonts/DejaVuSans-Latin.ttf");
/// Points of an SVG's drawing in one of its pixels: positions are whole.
const SVG_POINTS: u32 = 4;
/// Pixels of a PNG in one of the size asked for: sharp on today's screens.
const PNG_PIXELS: u32 = 2;

/// What can be drawn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FigureKind {
    /// [`Picture::Distribution`].
    Distribution,
    /// [`Picture::Stages`].
    Stages,
    /// [`Picture::Time`].
    Time,
    /// [`Picture::Cpus`].
    Cpus,
    /// [`Picture::Mttf`].
    Mttf,
}

impl Named for FigureKind {
    const ALL: &'static [Self] = &[
        Self::Distribution,
        Self::Stages,
        Self::Time,
        Self::Cpus,
        Self::Mttf,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Distribution => "distribution",
            Self::Stages => "stages",
            Self::Time => "time",
            Self::Cpus => "cpus",
            Self::Mttf => "mttf",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Distribution => "How often each latency was seen",
            Self::Stages => "Time of the median and of the latest wakeup in each stage",
            Self::Time => "Latency over time, with every exceedance",
            Self::Cpus => "The distribution of a service, per CPU",
            Self::Mttf => "Mean time between xruns over total buffering",
        }
    }
}

/// Figure with its data.
#[derive(Clone, Copy, Debug)]
pub enum Picture<'a> {
    /// How often each latency was seen, or the fraction that is later.
    Distribution {
        /// The recordings.
        reports: &'a [RecordingReport],
        /// Values and axes.
        shape: Shape,
    },
    /// The same for one service, CPU by CPU.
    Cpus {
        report: &'a RecordingReport,
        /// Its services by CPU.
        services: &'a [ServiceRow],
        /// Their counts of latencies.
        histograms: &'a [HistogramView],
        /// The service, as [`laggard_model::name::series_words`] writes it.
        name: &'a str,
        /// Values and axes.
        shape: Shape,
    },
    /// Time of the median and of the latest wakeup in each stage.
    Stages {
        report: &'a RecordingReport,
        /// The service over time.
        course: &'a CourseView,
    },
    /// Latency over time, with every exceedance.
    Time {
        report: &'a RecordingReport,
        /// The service over time.
        course: &'a CourseView,
    },
    /// A service of two sets of recordings, one over the other.
    Compared {
        /// What `laggard compare` says.
        report: &'a CompareReport,
        service: &'a ServiceComparison,
    },
    /// Consecutive context switches.
    Series {
        /// Report of `laggard bench switch`.
        report: &'a SwitchReport,
    },
    /// Consecutive interrupts.
    Interrupts {
        /// Name of the part of each interrupt.
        part: &'a str,
        times: &'a InterruptTimes,
    },
    /// Average and max of several systems.
    Bars {
        /// Their values.
        figure: &'a BarFigure,
    },
    /// Durations of context switches over the number of threads.
    Growth {
        /// Report of `laggard bench switch`.
        report: &'a SwitchReport,
    },
    /// Mean time between xruns over total buffering.
    Mttf {
        /// What `laggard qos` says; of several applications, each length of a buffer has
        /// curves.
        reports: &'a [QosReport],
    },
}

/// Values and axes of a distribution.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shape {
    /// Fraction of samples that are later, on logarithmic axes.
    Later,
    /// The same in percent, on axes that are the same for all figures: 1 us to 1 s.
    Percent,
    /// Counts, on logarithmic axes.
    Counts,
    /// Counts on linear axes, on which bumps one time slice apart have the same distance, in a
    /// strip per curve.
    LinearCounts,
}

/// How a picture looks.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Width, pixels.
    pub width: u32,
    /// Height, pixels.
    pub height: u32,
    /// Light text on a dark background.
    pub dark: bool,
}

/// Reason why a picture cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// There is nothing to draw.
    #[error("nothing to draw: {0}")]
    Nothing(String),
    /// The library refused.
    #[error("draw the picture: {0}")]
    Draw(String),
    /// The pixels cannot be encoded as PNG.
    #[error("write the picture as PNG")]
    Png(#[from] png::EncodingError),
}

/// The picture as SVG.
///
/// # Errors
/// If the recording lacks the data of the figure.
pub fn svg(picture: Picture<'_>, style: Style) -> Result<String, PictureError> {
    let mut text = String::new();
    let size = (style.width * SVG_POINTS, style.height * SVG_POINTS);
    draw(
        SVGBackend::with_string(&mut text, size),
        picture,
        style,
        SVG_POINTS,
    )?;
    let drawn = format!("width=\"{}\" height=\"{}\"", size.0, size.1);
    let shown = format!("width=\"{}\" height=\"{}\"", style.width, style.height);
    Ok(text.replacen(&drawn, &shown, 1))
}

/// The picture as PNG, with twice the pixels in each direction.
///
/// # Errors
/// If the recording lacks the data of the figure.
pub fn png(picture: Picture<'_>, style: Style) -> Result<Vec<u8>, PictureError> {
    let (width, height) = (style.width * PNG_PIXELS, style.height * PNG_PIXELS);
    let mut pixels = vec![0; width as usize * height as usize * 3];
    draw(
        BitMapBackend::with_buffer(&mut pixels, (width, height)),
        picture,
        style,
        PNG_PIXELS,
    )?;
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(file)
}

fn draw<B: DrawingBackend>(
    mut backend: B,
    picture: Picture<'_>,
    style: Style,
    scale: u32,
) -> Result<(), PictureError> {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    let is_known =
        KNOWN.get_or_init(|| register_font("sans-serif", FontStyle::Normal, FONT).is_ok());
    if !is_known {
        return Err(PictureError::Draw("the font cannot be read".into()));
    }
    let failed = |what: String| PictureError::Draw(what);
    backend
        .ensure_prepared()
        .map_err(|err| failed(err.to_string()))?;
    let mut canvas = Canvas::new(
        &mut backend,
        Theme::new(style.dark),
        (style.width, style.height),
        scale,
    )?;
    match picture {
        Picture::Distribution { reports, shape } => distribution::draw(
            &mut canvas,
            &Curve::of_services(reports),
            &Words::of(reports, None, shape),
            shape,
        ),
        Picture::Cpus {
            report,
            services,
            histograms,
            name,
            shape,
        } => {
            let curves = Curve::of_cpus(services, histograms, name);
            distribution::draw(
                &mut canvas,
                &curves,
                &Words::of(std::slice::from_ref(report), Some(name), shape),
                shape,
            )
        }
        Picture::Compared { report, service } => distribution::draw(
            &mut canvas,
            &Curve::of_sides(service),
            &Words::of_sides(report, service),
            Shape::Later,
        ),
        Picture::Stages { report, course } => stages::draw(&mut canvas, report, course),
        Picture::Time { report, course } => time::draw(&mut canvas, report, course),
        Picture::Series { report } => switches::series(&mut canvas, report),
        Picture::Interrupts { part, times } => switches::interrupts(&mut canvas, part, times),
        Picture::Bars { figure } => bars::draw(&mut canvas, figure),
        Picture::Growth { report } => switches::growth(&mut canvas, report),
        Picture::Mttf { reports } => mttf::draw(&mut canvas, reports),
    }?;
    backend.present().map_err(|err| failed(err.to_string()))
}

fn load(report: &RecordingReport) -> String {
    let label = LoadLabel::of(report.load.as_ref());
    match label.load() {
        Some(load) => format!("load {load}"),
        None => label.to_string(),
    }
}

/// Where and how long was measured.
fn place(report: &RecordingReport) -> String {
    let host = &report.host;
    let mut parts = vec![
        load(report),
        span(report.duration_ns),
        match report.plan.rows.words(report.plan.period_ns) {
            Some(words) => words,
            None => format!("every {}", report.plan.pace()),
        },
    ];
    if !host.kernel.is_empty() {
        parts.push(host.system());
        parts.extend(Some(host.processor.model.clone()).filter(|model| !model.is_empty()));
    }
    parts.join(", ")
}

/// Returns whether [`doubts`] has more than a name.
fn is_doubtful(report: &RecordingReport) -> bool {
    report.losses.activations() > 0
        || report.plan.rows.early() > 0
        || waiting(&report.waiting).is_some()
        || trust::reasons(&report.trust).is_some()
        || report.backend == laggard_model::Backend::Fake
}

/// States the lost samples, the series that were still waiting at the end, and whether the
/// figures can be trusted.
fn doubts(report: &RecordingReport) -> String {
    let lost = plural(report.losses.activations(), "sample");
    let mut text = match report.plan.rows {
        // The losses of a trace are not rows.
        RowsOf::Traced => format!("{}: an imported trace", report.path),
        _ => {
            format!("{}: {lost} lost", report.path)
        }
    };
    match report.plan.rows.early() {
        0 => {}
        early => text += &format!(" - {} came early and count as 0", count(early)),
    }
    if let Some(waiting) = waiting(&report.waiting) {
        text += &format!(" - {}", waiting.trim_end_matches('.'));
    }
    if let Some(reasons) = trust::reasons(&report.trust) {
        text += &format!(" - NOT TRUSTWORTHY: {reasons}");
    }
    if report.backend == laggard_model::Backend::Fake {
        text += " - from a script, NOT a measurement";
    }
    text
}

#[cfg(test)]
mod tests;
