//! Sends what is measured to a collector of OpenTelemetry, by OTLP over HTTP.
//!
//! [`Conversion`] and [`traces`] make its messages of series and of late activations;
//! [`OtlpTarget`] says where they go, [`SpanQueue`] keeps spans that could not be sent, and
//! [`OtlpSender`] does all of it on a thread of its own. Nothing waits for it: who
//! measures hands over, and what there is no room for is counted.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

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
