//! Expiry of the last activation.

use laggard_model::{Batch, Gather, Nanos};

/// Latest expiry of any line; `None` without activations.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Latest(pub Option<Nanos>);

impl Gather for Latest {
    fn batch(&mut self, rows: &Batch) {
        let latest = rows.expiry_ns.iter().max();
        self.0 = self.0.max(latest.map(|&ns| Nanos::from_ns(ns)));
    }

    fn join(&mut self, later: Self) {
        self.0 = self.0.max(later.0);
    }
}
