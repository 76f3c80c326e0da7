//! Locked pages of a process whose memory is short.

/// Pages of a file that are mapped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct MappingSeen {
    /// How many.
    pub pages: u64,
    /// How many were in memory before there was pressure,
    pub before: u64,
    /// and after it.
    pub after: u64,
    /// Page faults of reading all of them then, for which a page had to be brought
    /// in,
    pub major_faults: u64,
    /// and of those for which none had.
    pub minor_faults: u64,
}

/// Two mappings of a process whose memory is short.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PagesSeen {
    /// The one that was locked.
    pub locked: MappingSeen,
    /// The one that was not.
    pub plain: MappingSeen,
    /// What the process might have, bytes.
    pub limit_bytes: u64,
    /// What set that limit, such as `memory.high`.
    pub limit: String,
    /// What it read of a file meanwhile, bytes.
    pub read_bytes: u64,
}
