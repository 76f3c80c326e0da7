//! Gathering something from batches, in parts that can be put together.

use crate::Batch;

/// Something that is gathered from the batches of a recording.
///
/// A recording is read in consecutive parts, on several threads, and what
/// the parts gave is joined in their order. So that the answer is the same
/// however it was cut, `join` is exact and associative: any cut into
/// consecutive parts, joined in order, equals one pass. That holds for whole
/// numbers and for extremes; it does not hold for sums of floating-point
/// numbers.
pub trait Gather: Send + Sized {
    /// Takes in a batch; those of one line come in the order in which they
    /// were recorded.
    fn batch(&mut self, rows: &Batch);

    /// Adds what `later` gathered from the batches right after these.
    fn join(&mut self, later: Self);
}

/// Two things at once.
impl<A: Gather, B: Gather> Gather for (A, B) {
    fn batch(&mut self, rows: &Batch) {
        self.0.batch(rows);
        self.1.batch(rows);
    }

    fn join(&mut self, later: Self) {
        self.0.join(later.0);
        self.1.join(later.1);
    }
}
