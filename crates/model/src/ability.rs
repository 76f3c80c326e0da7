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
    /// Why, in the system's words where it refused.
    pub reason: String,
    /// What would help, in words.
    pub remedy: String,
    /// The same as a value.
    pub lacks: Lacks,
}

/// What is lacking where an ability cannot be had.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lacks {
    /// The user's rights, as far as is known before the user has them.
    Rights,
    /// Something of the kernel, or how it was set up.
    Kernel,
    /// Something of the machine.
    Machine,
}
