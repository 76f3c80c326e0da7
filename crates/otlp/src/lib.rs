//! Sends measured data to an OpenTelemetry collector, by OTLP over HTTP.
//!
//! [`Conversion`] and [`traces`] convert series and late wakeups to messages. [`OtlpTarget`]
//! holds the destination, [`SpanQueue`] stores spans that could not be sent, and [`OtlpSender`]
//! does the work in a separate thread. The measurement never waits for it: it hands data over,
//! and data without room are counted.

#![forbid(unsafe_code)]

mod backoff;
mod client;
mod metrics;
pub mod proto;
mod queue;
mod resource;
mod sender;
mod series;
mod span;
mod target;

pub use metrics::Conversion;
pub use queue::{OpenQueueError, QueueLimits, SpanQueue};
pub use resource::{ResourceFacts, new_instance};
pub use sender::{Handover, OtlpSender, SenderParts};
pub use series::OtlpSeries;
pub use span::{LateSpan, SpanCause, SpanIds, traces};
pub use target::{OtlpTarget, TargetError};
