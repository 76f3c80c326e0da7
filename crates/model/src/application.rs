//! The application that a recording was made for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Nanos, Service};

/// An application's buffers (OSDI'99 Table 1), as a recording keeps them, so
/// that it answers for the application that it was made for.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AskedApplication {
    /// Its name.
    pub name: String,
    /// How many buffers.
    pub buffers: u32,
    /// The length of one.
    pub buffer_ns: Nanos,
    /// The work for one.
    pub compute_ns: Nanos,
    /// Where these figures come from.
    pub source: String,
    /// What runs it; absent: the most urgent thread that there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
}
