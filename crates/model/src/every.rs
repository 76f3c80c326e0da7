//! How often each service is measured.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Line, Nanos, Route, Service};

/// Of which services only one in so many of the plan's expiries is measured: the
/// second, the fourth. Of those that it does not name, all are. A service on the
/// deferred route comes as often as its softirq, and there they take turns.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Every(BTreeMap<Service, NonZeroU32>);

impl Every {
    /// Of the services that are measured unasked, `asked` at every expiry and the
    /// others at every second; `fifo:50`, which tells what `fifo:90` does but for
    /// threads between the two, at every fourth. So p99.9 of every one of them is
    /// told after 30 s on one CPU, and a service costs what it tells.
    ///
    /// ```
    /// use laggard_model::{Every, Service};
    ///
    /// let every = Every::about(Service::Fifo(90));
    /// assert_eq!(every.of(Service::Fifo(90)), 1);
    /// assert_eq!(every.of(Service::Other), 2);
    /// ```
    #[must_use]
    pub fn about(asked: Service) -> Self {
        let asked = match asked {
            // It is asked by a softirq.
            Service::Worker => Service::Softirq,
            Service::Irq
            | Service::Softirq
            | Service::Fifo(_)
            | Service::Deadline
            | Service::Nice(_)
            | Service::Slice(_)
            | Service::Lent(_)
            | Service::Realtime(_)
            | Service::Mmcss
            | Service::Dpc
            | Service::SystemThread(_)
            | Service::Other
            | Service::Kthread
            | Service::Task(_)
            | Service::Traced(_) => asked,
        };
        let seldom = [
            (Service::Softirq, 2),
            (Service::Fifo(90), 2),
            (Service::Fifo(50), 4),
            (Service::Other, 2),
        ];
        let seldom = seldom.into_iter().filter(|(service, _)| *service != asked);
        Self(
            seldom
                .filter_map(|(service, every)| Some((service, NonZeroU32::new(every)?)))
                .collect(),
        )
    }

    /// Whether every service is measured at every expiry.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// One in how many expiries is measured of a service with a timer of its own.
    pub fn of(&self, service: Service) -> u32 {
        self.0.get(&service).map_or(1, |every| every.get())
    }

    /// The longest time between two expiries of `line` that are its own, as far as
    /// it does not take turns with others: rounds of a period, from half to one
    /// and a half of it with dither, in which lines swap places of half a period.
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

    /// Leaves out services that are not measured.
    pub fn keep(&mut self, mut is_measured: impl FnMut(Service) -> bool) {
        self.0.retain(|&service, _| is_measured(service));
    }

    /// The services that are measured more seldom than others, with how seldom.
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
    fn who_is_asked_about_is_measured_at_every_expiry_and_so_is_what_leads_to_it() {
        for (asked, all) in [
            (Service::Fifo(90), Service::Fifo(90)),
            (Service::Other, Service::Other),
            (Service::Worker, Service::Softirq),
        ] {
            let every = Every::about(asked);

            let seldom: Vec<Service> = every.iter().map(|(service, _)| service).collect();
            assert!(!seldom.contains(&all), "{seldom:?}");
            assert_eq!(seldom.len(), 3);
            assert_eq!(every.of(all), 1);
        }
    }

    #[test]
    fn a_plan_says_how_seldom_and_an_old_one_says_nothing() {
        let every = Every::about(Service::Fifo(90));

        let text = serde_json::to_string(&every).unwrap();

        assert_eq!(text, r#"{"softirq":2,"fifo:50":4,"other":2}"#);
        assert_eq!(serde_json::from_str::<Every>(&text).unwrap(), every);
        assert!(serde_json::from_str::<Every>(r#"{"other":0}"#).is_err());
        assert!(Every::default().is_all());
    }

    #[test]
    fn a_gap_is_of_the_rounds_between_two_expiries() {
        let every = Every::about(Service::Fifo(90));
        let gap = |service, route, dither| {
            let line = Line {
                cpu: Cpu(0),
                service,
                route,
            };
            every.longest_gap(line, Nanos::from_ms(1), dither)
        };

        let us = Nanos::from_us;
        assert_eq!(gap(Service::Fifo(90), Route::Direct, true), us(2_000));
        assert_eq!(gap(Service::Fifo(90), Route::Deferred, true), us(3_500));
        assert_eq!(gap(Service::Fifo(50), Route::Direct, false), us(4_000));
    }
}
