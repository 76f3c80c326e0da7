//! What the tests that measure on this machine ask for.

use laggard_measure::linux::online_cpus;
use laggard_measure::{Drive, Request};
use laggard_model::{Every, Nanos, Service};

/// Between two expiries of a CPU.
pub(crate) const PERIOD: Nanos = Nanos::from_ms(1);

/// These services on every CPU, as far as each can be had.
pub(crate) fn request(services: &str) -> Request {
    let services = services.split(',').map(|name| name.parse().unwrap());
    let services: Vec<Service> = services.collect();
    Request {
        cpus: online_cpus(),
        optional: services.clone(),
        services,
        period: PERIOD,
        every: Every::default(),
        dither: true,
        seed: 1,
        drive: Drive::Timer,
        stages: None,
        contexts: None,
    }
}
