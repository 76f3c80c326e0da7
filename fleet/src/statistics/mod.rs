//! Statistics over many machines.

mod discovery;
mod shrink;

pub use discovery::{benjamini_hochberg, fisher};
pub use shrink::{Counted, Prior, Shrunk};
