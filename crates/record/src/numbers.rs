//! Whether a recording has every activation that it does not call lost.

use laggard_model::{Batch, Gather, Manifest};

/// The sequence numbers of one line.
#[derive(Clone, Copy, Debug, Default)]
struct LineNumbers {
    rows: u64,
    /// First and last.
    ends: Option<(u64, u64)>,
}

/// The sequence numbers that were read, by line.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(Vec<LineNumbers>);

impl Numbers {
    /// For a recording with `lines` lines.
    pub(crate) fn new(lines: usize) -> Self {
        Self(vec![LineNumbers::default(); lines])
    }

    /// How many activations are missing, between the first and the last of
    /// their line, that the manifest does not count as lost.
    ///
    /// Where the manifest knows what was planned, it counts losses by line;
    /// recordings of earlier versions have them for all lines together.
    pub(crate) fn unexplained(&self, manifest: &Manifest) -> u64 {
        let mut unexplained = 0_u64;
        let (mut missing, mut lost) = (0_u64, manifest.losses.activations());
        for (number, line) in self.0.iter().enumerate() {
            match manifest.counts.get(number) {
                Some(count) if count.planned.is_some() => {
                    let beyond = line.missing().saturating_sub(count.lost);
                    unexplained = unexplained.saturating_add(beyond);
                    lost = lost.saturating_sub(count.lost);
                }
                _ => missing = missing.saturating_add(line.missing()),
            }
        }
        unexplained.saturating_add(missing.saturating_sub(lost))
    }
}

impl LineNumbers {
    fn missing(&self) -> u64 {
        self.ends.map_or(0, |(first, last)| {
            let span = last.saturating_sub(first).saturating_add(1);
            span.saturating_sub(self.rows)
        })
    }
}

impl Gather for Numbers {
    fn batch(&mut self, rows: &Batch) {
        for (line, &seq) in rows.line.iter().zip(&rows.seq) {
            let Some(own) = self.0.get_mut(usize::from(line.0)) else {
                continue;
            };
            own.rows += 1;
            own.ends = Some(match own.ends {
                None => (seq, seq),
                Some((first, last)) => (first.min(seq), last.max(seq)),
            });
        }
    }

    fn join(&mut self, later: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(later.0) {
            mine.rows += theirs.rows;
            mine.ends = match (mine.ends, theirs.ends) {
                (Some(mine), Some(theirs)) => Some((mine.0.min(theirs.0), mine.1.max(theirs.1))),
                (mine, theirs) => mine.or(theirs),
            };
        }
    }
}
