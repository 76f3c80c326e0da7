//! Lines: what is measured, each on a CPU of its own.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Cpu, Service};

/// How a service was reached from the timer's interrupt.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// Straight from the interrupt.
    Direct,
    /// Interrupt, then softirq, then this service.
    Deferred,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Deferred => "deferred",
        })
    }
}

/// One stream of activations: a service on a CPU, reached by a route.
///
/// `irq` has no line of its own: every line's activations pass it.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct Line {
    /// Where the service runs; lines never leave their CPU.
    pub cpu: Cpu,
    /// The level at which it runs.
    pub service: Service,
    /// How it is reached.
    pub route: Route,
}

/// A line's index in the manifest's `lines`.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(transparent)]
pub struct LineId(pub u16);

impl LineId {
    /// Most lines of a recording: their numbers have 16 bits.
    pub const MOST: usize = 1 << 16;

    /// The line at `place` among all; `None`: no recording has so many.
    #[must_use]
    pub fn at(place: usize) -> Option<Self> {
        u16::try_from(place).ok().map(Self)
    }
}
