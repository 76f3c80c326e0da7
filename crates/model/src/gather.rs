//! Aggregation of batches in parts that can be joined.

use crate::Batch;

/// Aggregation of the batches of a recording.
///
/// A recording is read in consecutive parts on several threads, and the results of the
/// parts are joined in order. For the same answer with any division, `join` must be
/// exact and associative: joining consecutive parts in order must equal one pass. This
/// holds for integers and extremes, but not for sums of floating-point numbers.
pub trait Gather: Send + Sized {
    /// Adds a batch; batches of a line come in the order of recording.
    fn batch(&mut self, rows: &Batch);

    /// Adds the result of the directly following batches.
    fn join(&mut self, later: Self);
}

/// Two aggregations at once.
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
