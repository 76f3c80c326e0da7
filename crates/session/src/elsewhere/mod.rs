//! What sessions have on Linux alone: counts of handlers, and loads.

pub(crate) mod handlers;
pub(crate) mod load;
