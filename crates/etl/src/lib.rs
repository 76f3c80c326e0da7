//! Traces of Windows (`.etl`), read without Windows: the container with its
//! compressed and merged forms, the kernel's events in it, and what they tell
//! of latency.
//!
//! [`Trace`] hands out events in the order of time and holds a few buffers at a
//! time, however long the file is; [`decode`] tells what an event of the kernel
//! says; [`TraceTally`] adds that up. [`KernelLog`] keeps the newest of what a Windows
//! that runs tells.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod buffer;
mod bytes;
mod error;
mod event;
mod expand;
mod header;
mod kernel;
mod log;
mod tally;
mod trace;

pub use bytes::PointerWidth;
pub use error::EtlError;
pub use event::{EventName, ProviderId, TraceEvent};
pub use header::{TraceClock, TraceHeader};
pub use kernel::{Decoded, ImageChange, KernelEvent, ProcessNote, RoutineSort, ThreadNote, decode};
pub use log::{KernelLog, LogPlan, Way};
pub use tally::{
    HandlerTally, ImageEpoch, SampleTally, ThreadTallies, ThreadTally, TimeTold, ToldOf, TraceTally,
};
pub use trace::{Trace, TraceDamage};
