//! The late activations of a recording: what forecasts and replays start from.
//!
//! A [`Collector`] takes batches of activations, on as many threads as wanted,
//! and keeps the latest of every stream in bounded memory; [`Stream`] is one
//! service on one CPU. Below its floor a stream knows nothing.

mod blackouts;
mod collector;

use laggard_model::{Cpu, Nanos, Route, Service};

pub use blackouts::StreamBlackouts;
pub use collector::Collector;

/// An activation whose latency lies above its stream's floor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Exceedance {
    /// Its programmed time, `CLOCK_MONOTONIC`.
    pub expiry: Nanos,
    /// From then until the service ran.
    pub latency: Nanos,
    /// The last instant before `expiry` at which the service is known to have
    /// run. Where the activation before was lost, the earliest instant at
    /// which it can have been due.
    pub free_until: Nanos,
}

/// The late activations of one service on one CPU, reached by one route.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stream {
    /// Where it ran.
    pub cpu: Cpu,
    /// What ran.
    pub service: Service,
    /// How it was reached.
    pub route: Route,
    /// How many activations there were, late or not.
    pub samples: u64,
    /// Every activation with a latency above this is in `exceedances`.
    pub floor: Nanos,
    /// By expiry.
    pub exceedances: Vec<Exceedance>,
}
