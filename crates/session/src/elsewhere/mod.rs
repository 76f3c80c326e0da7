//! What sessions have on Linux alone: evidence of who was late, and loads.

pub(crate) mod episodes;
pub(crate) mod load;
