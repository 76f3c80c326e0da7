//! Rows of a table of wakeups, per column.

use laggard_model::{Batch, Line, STAGES};

use super::{latency, steps};

/// Rows of a batch: about 10 MB in memory.
pub(super) const BATCH_ROWS: usize = 65_536;

/// Rows that are not written yet, per column.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) line: Vec<i32>,
    pub(super) cpu: Vec<i32>,
    pub(super) service: Vec<String>,
    pub(super) route: Vec<String>,
    pub(super) seq: Vec<i64>,
    pub(super) expiry: Vec<i64>,
    pub(super) latency: Vec<i64>,
    pub(super) missed: Vec<bool>,
    pub(super) censored: Vec<bool>,
    pub(super) steps: [Vec<Option<i64>>; STAGES.len()],
}

impl Rows {
    pub(super) fn add(&mut self, batch: &Batch, row: usize, line: &Line) {
        self.line.push(batch.line[row].0.into());
        self.cpu.push(i32::try_from(line.cpu.0).unwrap_or(i32::MAX));
        self.service.push(line.service.to_string());
        self.route.push(line.route.to_string());
        self.seq.push(batch.seq[row].cast_signed());
        self.expiry.push(batch.expiry_ns[row].cast_signed());
        self.latency.push(latency(batch, row).ns().cast_signed());
        self.missed.push(batch.missed[row]);
        self.censored.push(batch.censored[row]);
        for (column, step) in self.steps.iter_mut().zip(steps(batch, row)) {
            column.push(step.map(u64::cast_signed));
        }
    }
}
