//! Late wakeups of a recording: the input of forecasts and replays.
//!
//! A [`Collector`] takes batches of activations on any number of threads and keeps the
//! latest activations of every stream in bounded memory. A [`Stream`] is one service on
//! one CPU. It contains no activation below its floor.

mod blackouts;
mod collector;
mod kept;

use laggard_model::{Cpu, Nanos, Route, Service};

pub(crate) use blackouts::check_blackouts;
#[cfg(test)]
pub(crate) use blackouts::in_a_row;
pub use blackouts::{Blackout, StreamBlackouts};
pub use collector::Collector;

/// Activation with a latency above its stream's floor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Exceedance {
    /// Programmed time, `CLOCK_MONOTONIC`.
    pub expiry: Nanos,
    /// Time until the service ran.
    pub latency: Nanos,
    /// Last time before `expiry` when the service is known to have run. If the previous activation
    /// was lost, its earliest possible expiry. For an interrupt, this time may lie after `expiry`:
    /// the CPU served another interrupt then.
    pub free_until: Nanos,
}

impl Exceedance {
    /// Returns the start of the wait for the CPU: the expiry, or the end of the
    /// previous activity there.
    pub fn felt(&self) -> Nanos {
        self.expiry.max(self.free_until)
    }

    /// Returns the duration of the wait for the CPU.
    pub fn waited(&self) -> Nanos {
        (self.expiry + self.latency).saturating_sub(self.felt())
    }
}

/// Late wakeups of one service on one CPU by one route.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stream {
    /// CPU where the service ran.
    pub cpu: Cpu,
    /// Service that ran.
    pub service: Service,
    /// Route to the service.
    pub route: Route,
    /// Number of activations, late or not.
    pub samples: u64,
    /// Every activation above this latency is in `exceedances`. Only the first activation of a
    /// stall is included, which waited longest. A stall of a second therefore does not displace a
    /// thousand other activations.
    pub floor: Nanos,
    /// Late wakeups, by expiry.
    pub exceedances: Vec<Exceedance>,
}

/// Interval with only late expiries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LateStretch {
    /// First expiry that waited in it.
    pub from: Nanos,
    /// Last time when an activation was, or would have been, too late: the service
    /// ran soon after.
    pub until: Nanos,
    /// Latency of the first activation, the largest in the interval.
    pub latency: Nanos,
}

impl Stream {
    /// Returns the stalls that made, or would have made, activations more than `threshold` late, in
    /// order of their first expiry.
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
