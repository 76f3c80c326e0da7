//! The words of laggard: times, services, stages, activations, losses, caveats.
//!
//! Everything here is plain data. No I/O, no clock, no operating system: the
//! other crates measure, store, analyze and show these values.

#![forbid(unsafe_code)]

mod activation;
mod caveat;
mod cost;
mod cpu;
mod histogram;
mod host;
mod losses;
mod manifest;
mod nanos;
mod service;
mod stage;
mod throughput;
mod usage;

pub use activation::{Activation, Batch};
pub use caveat::{Caveat, CaveatKind, Severity};
pub use cost::{OwnCost, ProgramCost};
pub use cpu::{Cpu, CpuList, ParseCpuListError};
pub use histogram::Histogram;
pub use host::{Clocksource, CpuFreq, Host, Idle, Isolation, Processor, Settings, Throttling};
pub use losses::{LossReason, Losses};
pub use manifest::{
    Backend, Clock, Keep, LineCount, LoadRun, Manifest, Plan, SCHEMA_VERSION, SegmentEntry, State,
};
pub use nanos::{Nanos, ParseNanosError};
pub use service::{Line, LineId, ParseServiceError, Route, Service};
pub use stage::{STAGES, Stage};
pub use throughput::Throughput;
pub use usage::UsagePattern;

/// One thread: what the kernel calls `pid` and user space calls TID.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Tid(pub u32);
