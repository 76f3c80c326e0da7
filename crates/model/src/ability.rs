//! Abilities: what a full recording uses, and why this machine may lack it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that a full recording uses.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Ability {
    /// Its name.
    pub name: String,
    /// What it gives.
    pub gives: String,
    /// Whether a full recording takes it; the others add evidence.
    pub is_needed: bool,
    /// Why it cannot be had; absent: it can be.
    pub absence: Option<Absence>,
}

/// Why an ability cannot be had.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Absence {
    /// What the system said.
    pub reason: String,
    /// What would help.
    pub remedy: String,
}
