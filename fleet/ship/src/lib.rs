//! Recordings in object stores with the S3 protocol.
//!
//! [`ship`] sends the finished recordings of one machine to a [`Bucket`]. [`fetch`] copies the
//! recordings of all machines from it, and [`figures`] copies them without samples. They interpret
//! only the manifests of a recording, and the names of its sample files.

#![forbid(unsafe_code)]

mod bucket;
pub mod console;
pub mod fetch;
pub mod figures;
mod finished;
pub mod ship;

pub use bucket::Bucket;

/// Directory of the samples in a recording.
const SAMPLES: &str = "samples";
/// Manifest of a recording. It is sent last: a recording that has it is complete in the bucket.
const MANIFEST: &str = "manifest.json";
/// Copy of the manifest from the start. It is sent first, and identifies the recording that the
/// files so far belong to.
const MANIFEST_START: &str = "manifest-start.json";
