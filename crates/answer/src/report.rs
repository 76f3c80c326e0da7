//! What `laggard show` says of recordings, as its JSON has it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::overview::Overview;
use crate::show::RecordingReport;

/// The version of the JSON's layout.
pub const SHOW_SCHEMA: u32 = 3;

/// What `laggard show` says of one or several recordings.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Report {
    /// The version of this layout.
    pub schema: u32,
    /// The program's version.
    pub version: String,
    /// One entry per recording, in the order of the command line.
    pub recordings: Vec<RecordingReport>,
    /// First screens, in the same order; empty if CPUs or minutes are separate.
    pub overviews: Vec<Overview>,
}
