//! Digest: summary of one recording, for answers over many.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LoadLabel, NamedCause, Nanos, Route, Service};

/// Version of the layout of a digest.
pub const DIGEST_SCHEMA: u32 = 2;

/// Summary of a recording, or the reason why it is missing.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Digest {
    /// Version of this layout.
    pub schema: u32,
    /// Directory of the recording, as given.
    pub path: String,
    /// Summary or refusal.
    #[serde(flatten)]
    pub content: DigestContent,
}

/// Summary of a recording, or the reason why it is missing.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DigestContent {
    /// The recording cannot be summarised.
    Refused(DigestRefusal),
    /// Figures.
    Read(Box<RecordingDigest>),
}

/// Reason why a recording cannot be summarised.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct DigestRefusal {
    /// Kind of the reason.
    pub because: RefusedBecause,
    /// Reason in words, with the remedy.
    pub reason: String,
}

/// Kind of the reason why a recording cannot be summarised.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum RefusedBecause {
    /// A later version of the program wrote it.
    Newer,
    /// It is damaged, or is not a recording.
    Unreadable,
    /// It has samples and no histograms.
    NoHistograms,
}

/// Figures of a recording.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RecordingDigest {
    /// Name of the machine.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Kernel build.
    pub build: String,
    /// Other activity of the machine: the name of the load, or `no load`.
    pub load: String,
    /// Settings of the machine that affect latency, by name. Each word of a list, such
    /// as the kernel's command line, is a setting.
    pub settings: BTreeMap<String, String>,
    /// Start, RFC 3339.
    pub started: String,
    /// Start in seconds since 1970; absent if unreadable.
    pub start_s: Option<i64>,
    /// Duration of the measurement; for a recording without an end, until the last
    /// activation in its histograms.
    pub duration_ns: Nanos,
    /// Whether it has ended.
    pub has_ended: bool,
    /// Whether a script simulated the machine.
    pub is_scripted: bool,
    /// Reason why its figures cannot be trusted, in words; absent if they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distrust: Option<String>,
    /// Missing or damaged parts, in words.
    pub shortfalls: Vec<String>,
    /// Services by route.
    pub lines: Vec<DigestLine>,
    /// Number of late wakeups that were kept with trace data; absent if the
    /// recording was made without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episodes: Option<u64>,
    /// Number of late wakeups that were not kept because there were too many.
    pub surplus: u64,
    /// Causes of the late wakeups.
    pub causes: Vec<DigestCause>,
}

/// Service and route, all CPUs together.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DigestLine {
    /// Service.
    pub service: Service,
    /// Route.
    pub route: Route,
    /// Number of lost activations; if the line of a loss is unknown, the maximum.
    pub lost: u64,
    /// Counts per hour.
    pub hours: Vec<DigestHour>,
    /// Largest latency of each minute with activations.
    pub minutes: Vec<DigestMinute>,
}

/// Counts of a line in an hour.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DigestHour {
    /// Whole hours since the start of the recording.
    pub hour: u32,
    /// Number of samples whose expiry passed while the service was still busy.
    pub missed: u64,
    /// Sum of all latencies, ns; at most 2^63.
    pub sum_ns: u64,
    /// Smallest latency of served activations.
    pub min_ns: Option<Nanos>,
    /// Largest latency.
    pub max_ns: Nanos,
    /// Bucket number and count of all samples; bucket i ends at 2^(i/64) ns.
    pub buckets: Vec<(usize, u64)>,
    /// Buckets of activations that were still waiting when the measurement ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<(usize, u64)>,
}

/// Largest latency of a line in a minute.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct DigestMinute {
    /// Whole minutes since the start of the recording.
    pub minute: u32,
    /// Largest latency.
    pub max_ns: Nanos,
}

/// Cause of the late wakeups of a line in an hour.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DigestCause {
    /// Service that it made late.
    pub service: Service,
    /// Route of the service.
    pub route: Route,
    /// Whole hours since the start of the recording.
    pub hour: u32,
    /// The cause.
    #[serde(flatten)]
    pub cause: NamedCause,
    /// Whether it is a thread of the laggard that recorded.
    pub is_ours: bool,
    /// Number of late wakeups that contain it.
    pub episodes: u64,
    /// Number of late wakeups with this as the largest cause.
    pub first_in: u64,
    /// Time in all of them.
    pub total_ns: Nanos,
    /// Longest time in one.
    pub largest_ns: Nanos,
    /// Period of the cause in this recording, if it recurred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<Nanos>,
}

impl RecordingDigest {
    /// Returns an empty digest of a recording of this machine.
    #[must_use]
    pub fn of_host(host: impl Into<String>, kernel: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            kernel: kernel.into(),
            build: String::new(),
            load: LoadLabel::none().to_string(),
            settings: BTreeMap::new(),
            started: String::new(),
            start_s: None,
            duration_ns: Nanos::ZERO,
            has_ended: true,
            is_scripted: false,
            distrust: None,
            shortfalls: Vec::new(),
            lines: Vec::new(),
            episodes: None,
            surplus: 0,
            causes: Vec::new(),
        }
    }
}
