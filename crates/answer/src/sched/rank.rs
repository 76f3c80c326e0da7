//! Execution order of the tasks of a set, and the certainty of that order.

use laggard_model::Service;
use schemars::JsonSchema;
use serde::Serialize;

/// Place of a task in its set.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TaskRank {
    /// Level of its priority. Tasks of one level share the CPU in an order that is unknown to the
    /// analysis. `None` means a separate level.
    pub level: Option<i16>,
    /// True if its work and period are upper limits of its real demand. They then bound the delay
    /// of other tasks, but do not prove it.
    pub is_at_most: bool,
    /// True if it may run on several CPUs. The analysis assumes one CPU, which is the worst case:
    /// on several CPUs, tasks may not delay each other at all.
    pub may_move: bool,
    /// Measured service, if it differs from the service that runs the task.
    pub stand_in: Option<StandIn>,
}

/// A measured service in place of one that was not measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StandIn {
    /// The service that runs the task.
    pub wanted: Service,
    /// Whether the measured latency is a lower limit for `wanted`.
    pub is_upper_bound: bool,
    /// Whether the measured latency is an upper limit for `wanted`.
    pub is_lower_bound: bool,
}

/// Difference between a task set in a file and the analysed one.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskRemark {
    /// A key of an rt-app file occurs again.
    Repeated {
        task: String,
        key: String,
        /// Line of the repetition, from 1.
        line: u32,
    },
    /// Several threads of an rt-app file wait for the same timer.
    SharedTimer { timer: String, threads: usize },
    /// The jobs of a task differ.
    LargestJob {
        task: String,
        /// Phase with the largest job, if it has a name.
        phase: Option<String>,
    },
    /// A task of an rt-app file runs in a control group, whose share of the CPU is not analysed.
    Taskgroup {
        /// The task.
        task: String,
        /// The group.
        group: String,
    },
    /// A task runs as a service that was not measured.
    StandIn {
        task: String,
        /// Service that runs the task.
        wanted: Service,
        measured: Service,
    },
}

/// Returns the measured service that comes nearest to `wanted`; `None`: none
/// bounds its latency.
pub(super) fn stand_in(
    wanted: Service,
    measured: impl Iterator<Item = Service>,
) -> Option<(Service, StandIn)> {
    let with_bounds = |is_upper_bound, is_lower_bound| StandIn {
        wanted,
        is_upper_bound,
        is_lower_bound,
    };
    let nice = |service| {
        if let Service::Nice(nice) = service {
            return Some(nice);
        }
        (service == Service::Other).then_some(0)
    };
    // The distance orders the candidates; one that bounds from above is first.
    let candidate = |service: Service| -> Option<(bool, u8, Service, StandIn)> {
        let (distance, bounds) = match (wanted, service) {
            (Service::Fifo(wanted), Service::Fifo(measured)) if measured < wanted => {
                (wanted - measured, with_bounds(true, false))
            }
            (Service::Deadline, Service::Fifo(measured)) => {
                (100_u8.saturating_sub(measured), with_bounds(true, false))
            }
            (Service::Slice(_), Service::Other) => (0, with_bounds(false, false)),
            _ => {
                let (wanted, measured) = (nice(wanted)?, nice(service)?);
                let is_upper = measured > wanted;
                (measured.abs_diff(wanted), with_bounds(is_upper, !is_upper))
            }
        };
        Some((!bounds.is_upper_bound, distance, service, bounds))
    };
    let nearest = measured
        .filter_map(candidate)
        .min_by_key(|(is_lower, distance, ..)| (*is_lower, *distance));
    nearest.map(|(.., service, bounds)| (service, bounds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_in_is_the_nearest_measured_service_below() {
        let measured = ["fifo:90", "fifo:50", "other", "nice:5"].map(|name| name.parse().unwrap());
        for (wanted, expected) in [
            ("fifo:60", Some(("fifo:50", true, false))),
            ("fifo:99", Some(("fifo:90", true, false))),
            ("fifo:10", None),
            ("deadline", Some(("fifo:90", true, false))),
            ("nice:-5", Some(("other", true, false))),
            ("nice:3", Some(("nice:5", true, false))),
            ("nice:19", Some(("nice:5", false, true))),
            ("slice:1ms", Some(("other", false, false))),
            ("softirq", None),
        ] {
            let stand_in_found = stand_in(wanted.parse().unwrap(), measured.into_iter());

            let stand_in_found = stand_in_found.map(|(service, bounds)| {
                (
                    service.to_string(),
                    bounds.is_upper_bound,
                    bounds.is_lower_bound,
                )
            });
            let expected = expected.map(|(name, upper, lower)| (name.to_owned(), upper, lower));
            assert_eq!(stand_in_found, expected, "for {wanted}");
        }
    }
}
