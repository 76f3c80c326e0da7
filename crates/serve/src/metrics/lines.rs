//! The series of one line.

use std::time::Instant;

use laggard_model::{Line, Nanos, STAGES};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::{LineLabels, Value};

/// What is counted of a line, or of the interrupts of a CPU, in a piece of measuring.
#[derive(Debug)]
pub(super) struct LineSeries {
    pub(super) line: Line,
    latency: Histogram,
    pub(super) missed: Counter,
    /// Of all lines: this one has the largest of the piece before until an activation
    /// has come, so that who asks meanwhile is told no zero.
    every_largest: Family<LineLabels, Value>,
    largest: Option<(Value, Nanos)>,
    pub(super) stages: [Option<Histogram>; STAGES.len()],
    /// When it was last heard of, or began.
    pub(super) heard: Instant,
}

impl LineSeries {
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
