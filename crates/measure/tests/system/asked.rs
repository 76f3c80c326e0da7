//! Requests of the tests that measure on this machine.

use laggard_measure::linux::online_cpus;
use laggard_measure::{Drive, Request};
use laggard_model::{Every, Nanos, Service};

/// Period of a line.
pub(crate) const PERIOD: Nanos = Nanos::from_ms(1);

/// Returns a request for these services on every CPU, all optional.
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
