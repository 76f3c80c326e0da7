//! Application that a recording was made for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Nanos, Service};

/// Buffers of an application (OSDI'99 Table 1), stored in the recording so that its
/// verdict is about this application.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AskedApplication {
    /// Name of the application.
    pub name: String,
    /// Number of buffers.
    pub buffers: u32,
    /// Length of a buffer.
    pub buffer_ns: Nanos,
    /// Compute time per buffer.
    pub compute_ns: Nanos,
    /// Source of these figures.
    pub source: String,
    /// Service that runs it; absent for the most urgent thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
}
