//! Lines: measured services, each on one CPU.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Cpu, Service};

/// Route from the timer interrupt to a service.
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

/// Stream of activations: a service on a CPU, reached by a route.
///
/// `irq` does not have a separate line: every line's activations pass it.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct Line {
    /// CPU of the service; a line never changes its CPU.
    pub cpu: Cpu,
    /// Level of its execution.
    pub service: Service,
    /// Route to it.
    pub route: Route,
}

impl Line {
    /// Returns the line of `service` on `cpu` by `route`.
    #[must_use]
    pub const fn new(cpu: Cpu, service: Service, route: Route) -> Self {
        Self {
            cpu,
            service,
            route,
        }
    }
}

/// Index of a line in the manifest's `lines`.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(transparent)]
pub struct LineId(pub u16);

impl LineId {
    /// Maximum number of lines of a recording: their numbers have 16 bits.
    pub const MOST: usize = 1 << 16;

    /// Returns the ID of the line at `place`; `None` beyond the maximum.
    #[must_use]
    pub fn at(place: usize) -> Option<Self> {
        u16::try_from(place).ok().map(Self)
    }
}
