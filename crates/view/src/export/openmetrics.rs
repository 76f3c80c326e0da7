//! A recording's distributions as `OpenMetrics` text, version 1.0.0, for
//! Prometheus and whatever reads its files.

use std::fmt::Write as _;

use laggard_answer::Trust;
use laggard_answer::show::{HistogramView, RecordingReport, ServiceRow};
use laggard_model::{LoadLabel, LossReason, Nanos, printable};

/// Histogram buckets of the recording per exported bucket: an octave.
const PER_OCTAVE: usize = 64;

/// A metric's name, its help, and its value of a service.
type Counter = (&'static str, &'static str, fn(&ServiceRow) -> u64);

/// Everything that is counted of the recording; times in seconds, as
/// `OpenMetrics` has them.
pub fn openmetrics(report: &RecordingReport) -> String {
    let mut text = String::new();
    recording(&mut text, report);
    latencies(&mut text, report);
    largest(&mut text, report);
    quantiles(&mut text, report);
    let rows: [Counter; 3] = [
        (
            "laggard_missed_activations",
            "Activations whose expiry passed while the service was still busy. They are in laggard_latency_seconds.",
            |row| row.missed,
        ),
        (
            "laggard_censored_activations",
            "Activations that were still waiting when measuring ended. They are in laggard_latency_seconds with how long they had waited.",
            |row| row.still_waiting,
        ),
        (
            "laggard_lost_activations",
            "Upper limit of the number of lost samples. No other figure includes them.",
            |row| row.lost,
        ),
    ];
    for (name, help, value) in rows {
        family(&mut text, name, "counter", None, help);
        for row in &report.services {
            line(
                &mut text,
                &format!("{name}_total"),
                &of_row(row),
                value(row),
            );
        }
    }
    losses(&mut text, report);
    text += "# EOF\n";
    text
}

/// The head of a metric family.
fn family(text: &mut String, name: &str, kind: &str, unit: Option<&str>, help: &str) {
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if let Some(unit) = unit {
        let _ = writeln!(text, "# UNIT {name} {unit}");
    }
    let _ = writeln!(text, "# HELP {name} {}", escaped(help));
}

fn line(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "{name}{{{labels}}} {value}");
}

/// Escapes a value as the standard requires: a backslash before backslashes and quotes.
/// Invisible characters are escaped (`\x1b`), because people read such files in a terminal.
fn escaped(text: &str) -> String {
    let text = printable(text).to_string();
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

fn of_row(row: &ServiceRow) -> String {
    let service = escaped(&row.service.to_string());
    format!("service=\"{service}\",route=\"{}\"", row.route)
}

fn seconds(time: Nanos) -> f64 {
    time.as_f64() / 1e9
}

fn recording(text: &mut String, report: &RecordingReport) {
    family(
        text,
        "laggard_recording",
        "info",
        None,
        "Recording and machine.",
    );
    let load = LoadLabel::of(report.load.as_ref());
    let labels = [
        ("path", report.path.as_str()),
        ("started", &report.started),
        ("load", load.load().unwrap_or_default()),
        ("kernel", &report.host.kernel),
        ("node", &report.host.node),
    ];
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    line(text, "laggard_recording_info", &labels.join(","), 1);
    family(
        text,
        "laggard_duration_seconds",
        "gauge",
        Some("seconds"),
        "How long was measured.",
    );
    let _ = writeln!(
        text,
        "laggard_duration_seconds {}",
        seconds(report.duration_ns)
    );
    family(
        text,
        "laggard_trustworthy",
        "gauge",
        None,
        "1 if the figures can be trusted, 0 otherwise.",
    );
    let _ = writeln!(
        text,
        "laggard_trustworthy {}",
        u8::from(report.trust == Trust::Good)
    );
}

fn latencies(text: &mut String, report: &RecordingReport) {
    let name = "laggard_latency_seconds";
    let help = match report.plan.rows.latency() {
        Some(from) => format!("Latency, {from}."),
        None => "From the programmed expiry to the service's first instruction.".into(),
    };
    family(text, name, "histogram", Some("seconds"), &help);
    for (row, histogram) in report.services.iter().zip(&report.histograms) {
        let labels = of_row(row);
        for (edge, count) in octaves(histogram) {
            let labels = format!("{labels},le=\"{edge:?}\"");
            line(text, &format!("{name}_bucket"), &labels, count);
        }
        let count = row.latency.samples;
        let infinite = format!("{labels},le=\"+Inf\"");
        line(text, &format!("{name}_bucket"), &infinite, count);
        line(text, &format!("{name}_count"), &labels, count);
        let sum = row.latency.mean_ns.unwrap_or_default() * count as f64 / 1e9;
        line(text, &format!("{name}_sum"), &labels, sum);
    }
}

/// How many times lie at or below each power of two of a nanosecond, which our
/// finer buckets end at, too.
fn octaves(histogram: &HistogramView) -> Vec<(f64, u64)> {
    let octave_of = |bucket: usize| bucket.div_ceil(PER_OCTAVE);
    let buckets = &histogram.buckets;
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else {
        return Vec::new();
    };
    let mut counts = buckets.iter().peekable();
    let mut sum = 0;
    (octave_of(first.0)..=octave_of(last.0))
        .map(|octave| {
            while let Some((_, count)) = counts.next_if(|(bucket, _)| octave_of(*bucket) <= octave)
            {
                sum += count;
            }
            #[allow(clippy::cast_possible_truncation, reason = "at most 64")]
            let edge = 2_f64.powi(octave as i32) / 1e9;
            (edge, sum)
        })
        .collect()
}

fn largest(text: &mut String, report: &RecordingReport) {
    let name = "laggard_largest_latency_seconds";
    let help = "The largest latency seen: a measurement, not a bound.";
    family(text, name, "gauge", Some("seconds"), help);
    for row in &report.services {
        if let Some(largest) = row.latency.largest_ns {
            line(text, name, &of_row(row), seconds(largest));
        }
    }
}

fn quantiles(text: &mut String, report: &RecordingReport) {
    let name = "laggard_quantile_latency_seconds";
    let help =
        "Quantiles that the samples support: upper edges of fine buckets, at most 1.09 % high.";
    // Not a gauge: the label `quantile` is reserved for summaries.
    family(text, name, "summary", Some("seconds"), help);
    for row in &report.services {
        for share in &row.latency.quantiles {
            if let Some(ns) = share.ns {
                let labels = format!("{},quantile=\"{}\"", of_row(row), share.q);
                line(text, name, &labels, seconds(ns));
            }
        }
    }
}

fn losses(text: &mut String, report: &RecordingReport) {
    let name = "laggard_losses";
    let help = "Samples and stages that were not recorded, by reason.";
    family(text, name, "counter", None, help);
    for (reason, count) in report.losses.iter() {
        let labels = format!("reason=\"{}\"", word(reason));
        line(text, &format!("{name}_total"), &labels, count);
    }
}

/// As JSON has it.
fn word(reason: LossReason) -> String {
    let value = serde_json::to_value(reason).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
