//! Traces of Windows (`.etl`), read on any system: the container with its compressed
//! and merged forms, the kernel events in it, and latency statistics.
//!
//! [`Trace`] returns events in time order and holds a few buffers at a time, for any
//! file size. [`decode`] decodes a kernel event, and [`TraceTally`] adds the events up.
//! [`KernelLog`] keeps the newest events of a running Windows.

#![forbid(unsafe_code)]

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
pub use kernel::{Decoded, HandlerKind, ImageChange, KernelEvent, ProcessNote, ThreadNote, decode};
pub use log::{KernelLog, LogPlan, Way};
pub use tally::{
    HandlerTally, ImageEpoch, ThreadTallies, ThreadTally, TimeTold, ToldOf, TraceSamples,
    TraceTally,
};
pub use trace::{Trace, TraceDamage};
