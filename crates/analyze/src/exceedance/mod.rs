//! The late activations of a recording: what forecasts and replays start from.
//!
//! A [`Collector`] takes batches of activations, on as many threads as wanted,
//! and keeps the latest of every stream in bounded memory; [`Stream`] is one
//! service on one CPU. Below its floor a stream knows nothing.

mod blackouts;
mod collector;
mod kept;

use laggard_model::{Cpu, Nanos, Route, Service};

pub(crate) use blackouts::check_blackouts;
#[cfg(test)]
pub(crate) use blackouts::in_a_row;
pub use blackouts::{Blackout, StreamBlackouts};
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
    /// which it can have been due. An interrupt's may lie after `expiry`: the
    /// CPU served another one then.
    pub free_until: Nanos,
}

impl Exceedance {
    /// From when it waited for the CPU: its expiry, or what came before it
    /// there.
    pub fn felt(&self) -> Nanos {
        self.expiry.max(self.free_until)
    }

    /// How long it waited for the CPU.
    pub fn waited(&self) -> Nanos {
        (self.expiry + self.latency).saturating_sub(self.felt())
    }
}

/// The late activations of one service on one CPU, reached by one route.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stream {
    /// Where it ran.
    pub cpu: Cpu,
    /// The service that ran.
    pub service: Service,
    /// How it was reached.
    pub route: Route,
    /// How many activations there were, late or not.
    pub samples: u64,
    /// Every activation with a latency above this is in `exceedances`; of those
    /// that waited in one stall, the first alone, which waited longest. So a
    /// stall of a second does not push a thousand others out.
    pub floor: Nanos,
    /// The late activations, by expiry.
    pub exceedances: Vec<Exceedance>,
}

impl Stream {
    /// Instants at which an activation was, or would have been, more than
    /// `threshold` late, with how late, in order of time: of each stall the
    /// first that waited, and the last instant that was still too early.
    pub fn stalls_beyond(&self, threshold: Nanos) -> Vec<(Nanos, Nanos)> {
        let mut points: Vec<(Nanos, Nanos)> = self
            .exceedances
            .iter()
            .filter(|late| late.latency > threshold)
            .flat_map(|late| {
                let least = threshold + Nanos::from_ns(1);
                let last = late.expiry + late.latency.saturating_sub(least);
                [(late.expiry, late.latency), (last, least)]
            })
            .collect();
        points.sort_unstable_by_key(|&(at, latency)| (at, std::cmp::Reverse(latency)));
        points
    }
}
