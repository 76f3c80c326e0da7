//! What measuring itself cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Nanos;

/// What one BPF program cost while recording.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ProgramCost {
    /// The program's name, `on_<tracepoint>`.
    pub name: String,
    /// How often it ran, on all CPUs.
    pub runs: u64,
    /// The time it ran for, all runs together.
    pub run_ns: Nanos,
}

impl ProgramCost {
    /// What the names of the flight recorder's programs begin with in a
    /// recording.
    const FLIGHT: &str = "flight ";
    /// The same of those that count handlers.
    const HANDLERS: &str = "handlers ";

    /// This cost as one of the flight recorder's.
    #[must_use]
    pub fn of_flight_recorder(mut self) -> Self {
        self.name.insert_str(0, Self::FLIGHT);
        self
    }

    /// This cost as one of what counts handlers.
    #[must_use]
    pub fn of_handler_counter(mut self) -> Self {
        self.name.insert_str(0, Self::HANDLERS);
        self
    }

    /// Whether it is one of the flight recorder's.
    pub fn is_of_flight_recorder(&self) -> bool {
        self.name.starts_with(Self::FLIGHT)
    }
}

/// The tool's own cost in one recording.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct OwnCost {
    /// How long was recorded.
    pub wall_ns: Nanos,
    /// CPU time of the measuring threads.
    pub measuring_cpu_ns: Nanos,
    /// CPU time of all other threads of the program (collecting, writing).
    pub other_cpu_ns: Nanos,
    /// BPF programs, one by one; empty without BPF.
    pub programs: Vec<ProgramCost>,
    /// Bytes written to the recording, the journal included.
    pub written_bytes: u64,
    /// Largest resident size while measuring; names are looked up later.
    pub resident_bytes: u64,
    /// Page faults of measuring threads after their start.
    pub measuring_faults: u64,
    /// CPU time of all threads of the program before measuring began and after it ended,
    /// in no other field: to load BPF programs, read symbols, warm up, and write the rest.
    /// 0 in recordings that do not have it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub outside_cpu_ns: Nanos,
    /// CPU time of threads that compute all the time because that was asked for (services
    /// that compete with equals), in no other field and no overhead. Not kept.
    #[serde(skip)]
    pub competing_cpu_ns: Nanos,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn is_zero(time: &Nanos) -> bool {
    *time == Nanos::ZERO
}

impl OwnCost {
    /// From this share of the measured CPUs' time on, 0 to 1, the figures are
    /// those of a machine that measures, and are not trusted.
    pub const TOO_MUCH: f64 = 0.25;

    /// CPU time of all threads and BPF programs while measuring.
    pub fn total(&self) -> Nanos {
        let bpf = self
            .programs
            .iter()
            .fold(Nanos::ZERO, |sum, one| sum + one.run_ns);
        self.measuring_cpu_ns + self.other_cpu_ns + bpf
    }

    /// What it cost since `earlier`, of the same run, was read. The largest
    /// resident size stays: it has no beginning.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |name: &str| earlier.programs.iter().find(|one| one.name == name);
        Self {
            wall_ns: self.wall_ns.saturating_sub(earlier.wall_ns),
            measuring_cpu_ns: self
                .measuring_cpu_ns
                .saturating_sub(earlier.measuring_cpu_ns),
            other_cpu_ns: self.other_cpu_ns.saturating_sub(earlier.other_cpu_ns),
            programs: self
                .programs
                .iter()
                .map(|one| {
                    let before = before(&one.name).cloned().unwrap_or_default();
                    ProgramCost {
                        name: one.name.clone(),
                        runs: one.runs.saturating_sub(before.runs),
                        run_ns: one.run_ns.saturating_sub(before.run_ns),
                    }
                })
                .collect(),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            resident_bytes: self.resident_bytes,
            measuring_faults: self
                .measuring_faults
                .saturating_sub(earlier.measuring_faults),
            outside_cpu_ns: self.outside_cpu_ns.saturating_sub(earlier.outside_cpu_ns),
            competing_cpu_ns: self
                .competing_cpu_ns
                .saturating_sub(earlier.competing_cpu_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(times: u64) -> OwnCost {
        OwnCost {
            wall_ns: Nanos::from_secs(times),
            other_cpu_ns: Nanos::from_ms(3 * times),
            outside_cpu_ns: Nanos::from_ms(7 * times),
            competing_cpu_ns: Nanos::from_secs(times),
            programs: vec![ProgramCost {
                name: "on_sched_switch".into(),
                runs: 7 * times,
                run_ns: Nanos::from_us(times),
            }],
            resident_bytes: 11,
            ..OwnCost::default()
        }
    }

    #[test]
    fn what_was_spent_before_is_not_in_the_cost_since() {
        let since = cost(5).since(&cost(3));

        assert_eq!(since, cost(2));
        assert_eq!(since.total(), cost(2).total());
    }
}
