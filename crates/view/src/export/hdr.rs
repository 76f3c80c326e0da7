//! Latencies of a recording as an `HdrHistogram` log: one interval per service and route,
//! distinguished by its tag. Times in ns.

use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use laggard_answer::show::{HistogramView, RecordingReport};
use laggard_model::name::line_name;
use laggard_model::{Histogram as Buckets, Nanos};

use super::ExportError;

/// Number of significant digits.
const DIGITS: u8 = 3;
/// Unit of the column of maxima, which is ms in this format.
const PER_MS: f64 = 1e6;

/// Returns the log as text. A time is the upper edge of its bucket, at most 1.09 % too high. The
/// maximum is exact to three digits.
///
/// # Errors
/// If a histogram cannot be encoded, which does not happen with laggard's histograms.
pub fn hdr(report: &RecordingReport) -> Result<String, ExportError> {
    let refused = |error: &dyn std::fmt::Display| ExportError::Hdr(error.to_string());
    let mut log = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder
        .add_comment("latencies in ns, by laggard; tags are services")
        .with_max_value_divisor(PER_MS);
    if let Some(start) = started(report) {
        builder.with_start_time(start);
    }
    let mut writer = builder.begin_log_with(&mut log, &mut serializer)?;
    let length = Duration::from_nanos(report.duration_ns.ns());
    for (row, counted) in report.services.iter().zip(&report.histograms) {
        let histogram =
            histogram(counted, row.latency.largest_ns).map_err(|error| refused(&error))?;
        // A tag must not contain a space.
        let name = line_name(row.service, row.route).replace(' ', "-");
        writer
            .write_histogram(&histogram, Duration::ZERO, length, Tag::new(&name))
            .map_err(|error| refused(&format!("{error:?}")))?;
    }
    String::from_utf8(log).map_err(|error| refused(&error))
}

/// Returns the start of the measurement by the wall clock; `None` if it is unreadable.
fn started(report: &RecordingReport) -> Option<SystemTime> {
    let start: jiff::Timestamp = report.started.parse().ok()?;
    Some(SystemTime::from(start))
}

fn histogram(
    counted: &HistogramView,
    largest: Option<Nanos>,
) -> Result<Histogram<u64>, hdrhistogram::RecordError> {
    let mut histogram = Histogram::new(DIGITS).expect("3 figures are within 0 to 5");
    for &(bucket, count) in &counted.buckets {
        let edge = Buckets::upper_edge(bucket);
        let time = largest.map_or(edge, |largest| edge.min(largest));
        histogram.record_n(time.ns(), count)?;
    }
    Ok(histogram)
}
