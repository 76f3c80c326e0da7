//! Lost activations per line.

use laggard_model::{LineCount, LineId, Losses};

/// Number of lost activations per line.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Lost {
    lines: Vec<u64>,
    somewhere: u64,
}

impl Lost {
    /// Computes the losses of a recording from the counts of its lines and its
    /// `losses`. Planned activations that are in no count were lost too. Losses that no
    /// line counts (recordings of an earlier version) may belong to any line.
    pub fn new(counts: &[LineCount], losses: &Losses) -> Self {
        let lines: Vec<u64> = counts.iter().map(of_count).collect();
        let counted: u64 = lines.iter().sum();
        Self {
            lines,
            somewhere: losses.activations().saturating_sub(counted),
        }
    }

    /// Returns the number of certain losses of a line.
    pub fn of_line(&self, line: LineId) -> u64 {
        let lost = self.lines.get(usize::from(line.0));
        lost.copied().unwrap_or_default()
    }

    /// Returns the number of losses whose line is unknown.
    pub const fn somewhere(&self) -> u64 {
        self.somewhere
    }
}

fn of_count(count: &LineCount) -> u64 {
    let planned = count.planned.unwrap_or_default();
    let accounted = count.served + count.missed;
    planned.saturating_sub(accounted).max(count.lost)
}
