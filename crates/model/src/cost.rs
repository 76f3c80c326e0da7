//! Overhead of the measurement.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Nanos;

/// Overhead of a BPF program during a recording.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ProgramCost {
    /// Name of the program, `on_<tracepoint>`.
    pub name: String,
    /// Number of runs, on all CPUs.
    pub runs: u64,
    /// Total run time.
    pub run_ns: Nanos,
}

impl ProgramCost {
    /// Prefix of the names of the flight recorder's programs in a recording.
    const FLIGHT: &str = "flight ";
    /// Prefix of the names of the programs that count handlers.
    const HANDLERS: &str = "handlers ";

    /// Marks the program as one of the flight recorder's.
    #[must_use]
    pub fn of_flight_recorder(mut self) -> Self {
        self.name.insert_str(0, Self::FLIGHT);
        self
    }

    /// Marks the program as one that counts handlers.
    #[must_use]
    pub fn of_handler_counter(mut self) -> Self {
        self.name.insert_str(0, Self::HANDLERS);
        self
    }

    /// Returns whether it is one of the flight recorder's.
    pub fn is_of_flight_recorder(&self) -> bool {
        self.name.starts_with(Self::FLIGHT)
    }
}

/// Overhead of laggard in one recording.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct OwnCost {
    /// Duration of the recording.
    pub wall_ns: Nanos,
    /// CPU time of the measuring threads.
    pub measuring_cpu_ns: Nanos,
    /// CPU time of all other threads of the program (collecting, writing).
    pub other_cpu_ns: Nanos,
    /// BPF programs; empty without BPF.
    pub programs: Vec<ProgramCost>,
    /// Bytes written to the recording, including the journal.
    pub written_bytes: u64,
    /// Largest resident size during the measurement; names are looked up later.
    pub resident_bytes: u64,
    /// Page faults of measuring threads after their start.
    pub measuring_faults: u64,
    /// CPU time of all threads of the program before and after the measurement, in no
    /// other field: to load BPF programs, read symbols, warm up, and write the rest. 0
    /// in recordings that do not have it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub outside_cpu_ns: Nanos,
    /// CPU time of threads that compute permanently on request (services that compete
    /// with equals). Not part of another field or of the overhead. Not stored.
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
    /// Maximum trusted overhead, as a fraction of the measured CPUs' time, 0 to 1.
    pub const TOO_MUCH: f64 = 0.25;

    /// Returns the CPU time of all threads and BPF programs during the measurement.
    pub fn total(&self) -> Nanos {
        let bpf = self
            .programs
            .iter()
            .fold(Nanos::ZERO, |sum, program| sum + program.run_ns);
        self.measuring_cpu_ns + self.other_cpu_ns + bpf
    }

    /// Returns the overhead since `earlier`, of the same run. The largest resident size
    /// is kept, because a difference of two maxima is meaningless.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |name: &str| earlier.programs.iter().find(|program| program.name == name);
        Self {
            wall_ns: self.wall_ns.saturating_sub(earlier.wall_ns),
            measuring_cpu_ns: self
                .measuring_cpu_ns
                .saturating_sub(earlier.measuring_cpu_ns),
            other_cpu_ns: self.other_cpu_ns.saturating_sub(earlier.other_cpu_ns),
            programs: self
                .programs
                .iter()
                .map(|program| {
                    let before = before(&program.name).cloned().unwrap_or_default();
                    ProgramCost {
                        name: program.name.clone(),
                        runs: program.runs.saturating_sub(before.runs),
                        run_ns: program.run_ns.saturating_sub(before.run_ns),
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
    fn cost_since_excludes_the_earlier_cost() {
        let since = cost(5).since(&cost(3));

        assert_eq!(since, cost(2));
        assert_eq!(since.total(), cost(2).total());
    }
}
