//! Pages of a process that is short of memory.

use schemars::JsonSchema;
use serde::Serialize;

/// Pages of one mapping of a file.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct MappingPages {
    /// Number of pages.
    pub pages: u64,
    /// Resident pages before the pressure, by `mincore`.
    pub resident_before: u64,
    /// Resident pages after the pressure.
    pub resident_after: u64,
    /// Major page faults when all pages were read again.
    pub major_faults: u64,
    /// Minor page faults when all pages were read again.
    pub minor_faults: u64,
}

impl MappingPages {
    /// Returns the number of pages that the pressure evicted.
    pub const fn evicted(&self) -> u64 {
        self.resident_before.saturating_sub(self.resident_after)
    }
}

/// Pages of a locked mapping and of a plain one under memory pressure.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct LockedPages {
    /// The mapping that was locked with `mlock`.
    pub locked: MappingPages,
    /// A mapping that was not locked.
    pub plain: MappingPages,
    /// Memory limit of the process, bytes.
    pub limit_bytes: u64,
    /// File of the control group that sets the limit: `memory.high` or
    /// `memory.limit_in_bytes`.
    pub limit: String,
    /// Amount that the process read from a file to create the pressure, bytes.
    pub read_bytes: u64,
}
