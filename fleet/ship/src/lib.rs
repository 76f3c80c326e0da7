//! Recordings in object stores that speak S3.
//!
//! [`ship`] sends the finished recordings of one machine to a [`Bucket`], and [`fetch`]
//! brings those of all to one. They know nothing of a recording but its manifest.

#![forbid(unsafe_code)]

mod bucket;
pub mod fetch;
mod finished;
pub mod ship;

pub use bucket::Bucket;

/// Is in every recording; in a bucket it is written last, so that what has it is whole.
const MANIFEST: &str = "manifest.json";
/// Its copy from the start: in a bucket it is written first, and says of which recording
/// the files are that came so far.
const MANIFEST_START: &str = "manifest-start.json";
