//! Activations that were lost, line by line.

use laggard_model::{LineCount, LineId, Losses};

/// How many activations each line lost.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Lost {
    lines: Vec<u64>,
    somewhere: u64,
}

impl Lost {
    /// What a recording lost, from the counts of its lines and its `losses`.
    /// What was planned and is in no count was lost too. What no line's count
    /// has (a recording of an earlier version) may be any line's.
    pub fn of(counts: &[LineCount], losses: &Losses) -> Self {
        let lines: Vec<u64> = counts.iter().map(of_count).collect();
        let known: u64 = lines.iter().sum();
        Self {
            lines,
            somewhere: losses.activations().saturating_sub(known),
        }
    }

    /// How many that line lost for certain.
    pub fn of_line(&self, line: LineId) -> u64 {
        let lost = self.lines.get(usize::from(line.0));
        lost.copied().unwrap_or_default()
    }

    /// How many were lost of which the line is not known.
    pub const fn somewhere(&self) -> u64 {
        self.somewhere
    }
}

fn of_count(count: &LineCount) -> u64 {
    let planned = count.planned.unwrap_or_default();
    let accounted = count.served + count.missed;
    planned.saturating_sub(accounted).max(count.lost)
}
