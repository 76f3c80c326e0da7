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

/// A time in which whatever expired was late.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LateStretch {
    /// The expiry of the first activation that waited in it.
    pub from: Nanos,
    /// The last instant at which an activation was, or would have been, too
    /// late: the service ran soon after.
    pub until: Nanos,
    /// How late the first was, and no other was later.
    pub latency: Nanos,
}

impl Stream {
    /// The stalls in which activations were, or would have been, more than
    /// `threshold` late, in order of their first expiry.
    pub fn stalls_beyond(&self, threshold: Nanos) -> Vec<LateStretch> {
        let least = threshold + Nanos::from_ns(1);
        let late = self.exceedances.iter();
        late.filter(|late| late.latency > threshold)
            .map(|late| LateStretch {
                from: late.expiry,
                until: late.expiry + late.latency.saturating_sub(least),
                latency: late.latency,
            })
            .collect()
    }
}
