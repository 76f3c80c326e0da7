//! Check that a recording has every activation that is not counted as lost.

use laggard_model::{Batch, Gather, Manifest};

/// Sequence numbers of one line.
#[derive(Clone, Copy, Debug, Default)]
struct LineNumbers {
    rows: u64,
    /// First and last.
    ends: Option<(u64, u64)>,
}

/// Sequence numbers that were read, per line.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(Vec<LineNumbers>);

impl Numbers {
    /// Creates empty numbers for a recording with `lines` lines.
    pub(crate) fn new(lines: usize) -> Self {
        Self(vec![LineNumbers::default(); lines])
    }

    /// Returns the number of missing activations, between the first and the last of
    /// their line, that the manifest does not count as lost.
    ///
    /// If the manifest has the planned activations, it counts losses per line;
    /// recordings of earlier versions count them for all lines together.
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
        let mut seqs = rows.seq.as_slice();
        for line in rows.line.chunk_by(|a, b| a == b) {
            let (of_line, others) = seqs.split_at(line.len());
            seqs = others;
            let Some(own) = self.0.get_mut(usize::from(line[0].0)) else {
                continue;
            };
            own.rows += of_line.len() as u64;
            own.ends = of_line.iter().fold(own.ends, |ends, &seq| {
                let (first, last) = ends.unwrap_or((seq, seq));
                Some((first.min(seq), last.max(seq)))
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
