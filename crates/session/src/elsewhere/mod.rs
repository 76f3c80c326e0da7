//! Stubs for features that sessions have only on Linux: counts of handlers, and loads.

pub(crate) mod handlers;
pub(crate) mod load;
