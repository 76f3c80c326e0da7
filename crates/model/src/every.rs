//! Measurement rate of each service.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Line, Nanos, Route, Service};

/// Services that are measured only at every second, fourth, ... expiry of the plan. Services that
/// are not listed are measured at each expiry. A service on the deferred route expires with its
/// softirq, and the services there take turns.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Every(BTreeMap<Service, NonZeroU32>);

impl Every {
    /// Creates the rates of the default services: `requested` at every expiry and the
    /// others at every second. `fifo:50`, which measures the same as `fifo:90` except
    /// for threads between the two, is measured at every fourth. Each service then has
    /// a p99.9 after 30 s on one CPU, and its overhead corresponds to its information.
    ///
    /// ```
    /// use laggard_model::{Every, Service};
    ///
    /// let every = Every::about(Service::Fifo(90));
    /// assert_eq!(every.of(Service::Fifo(90)), 1);
    /// assert_eq!(every.of(Service::Other), 2);
    /// ```
    #[must_use]
    pub fn about(requested: Service) -> Self {
        let source = match requested {
            // A softirq signals it.
            Service::Worker => Service::Softirq,
            _ => requested,
        };
        let seldom = [
            (Service::Softirq, 2),
            (Service::Fifo(90), 2),
            (Service::Fifo(50), 4),
            (Service::Other, 2),
        ];
        let seldom = seldom.into_iter().filter(|(service, _)| *service != source);
        Self(
            seldom
                .filter_map(|(service, every)| Some((service, NonZeroU32::new(every)?)))
                .collect(),
        )
    }

    /// Returns whether every service is measured at every expiry.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns n if every n-th expiry of a service with a separate timer is measured.
    pub fn of(&self, service: Service) -> u32 {
        self.0.get(&service).map_or(1, |every| every.get())
    }

    /// Returns the longest time between two expiries of `line`, unless it takes turns
    /// with others. With dither, a round of a period varies from half to one and a half
    /// of it, and lines swap positions of half a period.
    pub fn longest_gap(&self, line: Line, period: Nanos, dither: bool) -> Nanos {
        let every = u64::from(match line.route {
            Route::Direct => self.of(line.service),
            Route::Deferred => self.of(Service::Softirq),
        });
        if dither {
            Nanos::from_ns((period * (3 * every + 1)).ns() / 2)
        } else {
            period * every
        }
    }

    /// Removes services that are not measured.
    pub fn keep(&mut self, mut is_measured: impl FnMut(Service) -> bool) {
        self.0.retain(|&service, _| is_measured(service));
    }

    /// Returns the services that are measured at a lower rate, with their n.
    pub fn iter(&self) -> impl Iterator<Item = (Service, u32)> + '_ {
        self.0
            .iter()
            .map(|(&service, every)| (service, every.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cpu;

    #[test]
    fn requested_service_and_its_sources_are_measured_at_every_expiry() {
        for (requested, expected) in [
            (Service::Fifo(90), Service::Fifo(90)),
            (Service::Other, Service::Other),
            (Service::Worker, Service::Softirq),
        ] {
            let every = Every::about(requested);

            let seldom: Vec<Service> = every.iter().map(|(service, _)| service).collect();
            assert!(!seldom.contains(&expected), "{seldom:?}");
            assert_eq!(seldom.len(), 3);
            assert_eq!(every.of(expected), 1);
        }
    }

    #[test]
    fn plan_stores_the_rates_and_an_old_one_has_none() {
        let every = Every::about(Service::Fifo(90));

        let text = serde_json::to_string(&every).unwrap();

        assert_eq!(text, r#"{"softirq":2,"fifo:50":4,"other":2}"#);
        assert_eq!(serde_json::from_str::<Every>(&text).unwrap(), every);
        assert!(serde_json::from_str::<Every>(r#"{"other":0}"#).is_err());
        assert!(Every::default().is_all());
    }

    #[test]
    fn gap_covers_the_rounds_between_two_expiries() {
        let every = Every::about(Service::Fifo(90));
        let gap = |service, route, dither| {
            let line = Line::new(Cpu(0), service, route);
            every.longest_gap(line, Nanos::from_ms(1), dither)
        };

        let us = Nanos::from_us;
        assert_eq!(gap(Service::Fifo(90), Route::Direct, true), us(2_000));
        assert_eq!(gap(Service::Fifo(90), Route::Deferred, true), us(3_500));
        assert_eq!(gap(Service::Fifo(50), Route::Direct, false), us(4_000));
    }
}
