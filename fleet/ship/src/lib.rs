//! Recordings in object stores that speak S3.
//!
//! [`ship`] sends the finished recordings of one machine to a [`Bucket`], [`fetch`] brings
//! those of all to one, and [`figures`] what answers read of them. They know nothing of a
//! recording but its manifests, and which files are samples.

#![forbid(unsafe_code)]

mod bucket;
pub mod console;
pub mod fetch;
pub mod figures;
mod finished;
pub mod ship;

pub use bucket::Bucket;

/// The folder of a recording in which its samples are.
const SAMPLES: &str = "samples";
/// Is in every recording; in a bucket it is written last, so that what has it is whole.
const MANIFEST: &str = "manifest.json";
/// Its copy from the start: in a bucket it is written first, and says of which recording
/// the files are that came so far.
const MANIFEST_START: &str = "manifest-start.json";
