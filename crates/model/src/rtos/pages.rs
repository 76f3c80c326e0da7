//! Pages of a process that is short of memory.

/// Pages of one mapping of a file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct MappingPages {
    /// Number of pages.
    pub pages: u64,
    /// Resident pages before the pressure.
    pub before: u64,
    /// Resident pages after the pressure.
    pub after: u64,
    /// Major page faults when all pages were read again.
    pub major_faults: u64,
    /// Minor page faults when all pages were read again.
    pub minor_faults: u64,
}

/// Two mappings of a process under memory pressure.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LockedPages {
    /// The mapping that was locked with `mlock`.
    pub locked: MappingPages,
    /// The mapping that was not locked.
    pub plain: MappingPages,
    /// Memory limit of the process, bytes.
    pub limit_bytes: u64,
    /// File of the control group that sets the limit, such as `memory.high`.
    pub limit: String,
    /// Amount that the process read from a file to create the pressure, bytes.
    pub read_bytes: u64,
}
