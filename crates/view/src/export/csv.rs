//! Wakeups as lines of comma-separated text (RFC 4180).

use std::io::{BufWriter, Write};

use laggard_model::{Batch, Line};

use super::{COLUMNS, ExportError, Table, latency, stage_columns, steps};

pub(super) struct Csv<W: Write> {
    /// Common fields of each line's rows, up to the route.
    lines: Vec<String>,
    out: BufWriter<W>,
}

impl<W: Write> Csv<W> {
    pub(super) fn new(lines: &[Line], out: W) -> Result<Self, ExportError> {
        let mut out = BufWriter::new(out);
        let columns = COLUMNS.map(str::to_owned).into_iter();
        let columns: Vec<String> = columns.chain(stage_columns()).collect();
        // Column names contain no comma, quote or line break.
        write!(out, "{}\r\n", columns.join(","))?;
        let lines = lines.iter().enumerate();
        Ok(Self {
            lines: lines
                .map(|(index, line)| {
                    format!("{index},{},{},{}", line.cpu, line.service, line.route)
                })
                .collect(),
            out,
        })
    }
}

impl<W: Write> Table for Csv<W> {
    fn add(&mut self, batch: &Batch) -> Result<(), ExportError> {
        for row in 0..batch.len() {
            write!(
                self.out,
                "{},{},{},{},{},{}",
                self.lines[usize::from(batch.line[row].0)],
                batch.seq[row],
                batch.expiry_ns[row],
                latency(batch, row).ns(),
                batch.missed[row],
                batch.censored[row],
            )?;
            for step in steps(batch, row) {
                match step {
                    Some(ns) => write!(self.out, ",{ns}")?,
                    None => self.out.write_all(b",")?,
                }
            }
            self.out.write_all(b"\r\n")?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), ExportError> {
        Ok(self.out.flush()?)
    }
}
