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
}

impl OwnCost {
    /// CPU time of all threads and BPF programs.
    pub fn total(&self) -> Nanos {
        let bpf = self
            .programs
            .iter()
            .fold(Nanos::ZERO, |sum, one| sum + one.run_ns);
        self.measuring_cpu_ns + self.other_cpu_ns + bpf
    }
}
