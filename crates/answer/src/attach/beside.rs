//! What was measured of laggard's own beside the threads that were watched.

use laggard_model::name::line_name;
use laggard_model::text::{Unit, count};
use laggard_model::{Histogram, Nanos, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::row::AttachFigures;

/// A service of laggard's own, measured meanwhile: how late one that has next to
/// nothing to do would have been served.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct AttachBeside {
    /// What ran,
    pub service: Service,
    /// and how it was reached.
    pub route: Route,
    /// How often on each CPU, on average.
    pub period_ns: Nanos,
    /// How many expiries were served.
    pub activations: u64,
    /// From the programmed expiry to its first instruction.
    pub latency: Option<AttachFigures>,
    /// Expiries that passed before it was served.
    pub missed: u64,
    /// Why it is not to be trusted; absent: it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

impl AttachBeside {
    /// Of all its latencies.
    #[must_use]
    pub fn of(
        service: Service,
        route: Route,
        period_ns: Nanos,
        latencies: &Histogram,
        missed: u64,
        doubt: Option<String>,
    ) -> Self {
        Self {
            service,
            route,
            period_ns,
            activations: latencies.count(),
            latency: AttachFigures::of(latencies),
            missed,
            doubt,
        }
    }

    /// In a sentence.
    pub(super) fn sentence(&self) -> String {
        let time = |ns: Nanos| Unit::Auto.write_nanos(ns);
        let name = line_name(self.service, self.route);
        let mut text = format!(
            "Beside them laggard's own {name}, every {} on each CPU, to its first instruction",
            time(self.period_ns)
        );
        match self.latency {
            None => text += ": none came",
            Some(of) => {
                text += &format!(": median {}", time(of.median_ns));
                if let Some(p999) = of.p999_ns {
                    text += &format!(", p99.9 {}", time(p999));
                }
                text += &format!(
                    ", largest {} of {}",
                    time(of.largest_ns),
                    count(self.activations)
                );
            }
        }
        if self.missed > 0 {
            text += &format!("; {} missed", count(self.missed));
        }
        if let Some(doubt) = &self.doubt {
            text += &format!("; not to be trusted: {doubt}");
        }
        text + "."
    }
}
