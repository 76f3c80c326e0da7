//! Services of laggard, measured during `attach --also`.

use laggard_model::{Histogram, Nanos, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::row::AttachFigures;
use crate::Distrust;

/// Service of laggard that was measured at the same time, for comparison: its thread has next
/// to nothing to do.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct AttachBeside {
    pub service: Service,
    pub route: Route,
    /// Mean period on each CPU.
    pub period_ns: Nanos,
    /// Expiries that were served.
    pub activations: u64,
    /// Time from the programmed expiry to the first instruction.
    pub latency: Option<AttachFigures>,
    /// Expiries that passed before it ran.
    pub missed: u64,
    /// Reasons not to trust it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Distrust>,
}

impl AttachBeside {
    /// Creates it from all latencies.
    #[must_use]
    pub fn new(
        service: Service,
        route: Route,
        period_ns: Nanos,
        latencies: &Histogram,
        missed: u64,
        doubts: Vec<Distrust>,
    ) -> Self {
        Self {
            service,
            route,
            period_ns,
            activations: latencies.count(),
            latency: AttachFigures::new(latencies),
            missed,
            doubts,
        }
    }
}
