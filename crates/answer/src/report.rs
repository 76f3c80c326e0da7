//! JSON of `laggard show`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::overview::Overview;
use crate::show::RecordingReport;

/// Version of the JSON layout.
pub const SHOW_SCHEMA: u32 = 3;

/// Result of `laggard show` for one or several recordings.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Report {
    /// Version of this layout.
    pub schema: u32,
    pub version: String,
    /// One entry per recording, in the order of the command line.
    pub recordings: Vec<RecordingReport>,
    /// First screens, in the same order; empty if CPUs or minutes are separate.
    pub overviews: Vec<Overview>,
}
