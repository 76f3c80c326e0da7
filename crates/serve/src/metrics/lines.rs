//! Series of one line: a service on a CPU by one route.

use std::time::Instant;

use laggard_model::{Line, Nanos, STAGES};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::{LineLabels, Value};

/// Counts of a line, or of the interrupts of a CPU, in a measurement.
#[derive(Debug)]
pub(super) struct ServedLine {
    pub(super) line: Line,
    latency: Histogram,
    pub(super) missed: Counter,
    /// Maxima of all lines. Until the first wakeup of this piece, the value is the maximum of the
    /// previous piece, so that a scrape does not read zero.
    every_largest: Family<LineLabels, Value>,
    largest: Option<(Value, Nanos)>,
    pub(super) stages: [Option<Histogram>; STAGES.len()],
    /// Time of the last wakeup, or of the start.
    pub(super) heard: Instant,
}

impl ServedLine {
    pub(super) fn new(
        line: Line,
        latency: Histogram,
        every_largest: Family<LineLabels, Value>,
    ) -> Self {
        Self {
            line,
            latency,
            missed: Counter::default(),
            every_largest,
            largest: None,
            stages: [const { None }; STAGES.len()],
            heard: Instant::now(),
        }
    }

    pub(super) fn count(&mut self, latency: Nanos) {
        self.heard = Instant::now();
        self.latency.observe(latency.as_secs_f64());
        let largest = self.largest.get_or_insert_with(|| {
            let labels = self.line.into();
            let gauge = self.every_largest.get_or_create_owned(&labels);
            gauge.set(latency.as_secs_f64());
            (gauge, latency)
        });
        if latency > largest.1 {
            largest.1 = latency;
            largest.0.set(latency.as_secs_f64());
        }
    }
}
