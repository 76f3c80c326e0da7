//! A digest: what one recording tells to answers over many.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CauseClass, LoadLabel, Nanos, Route, Service};

/// The version of a digest's layout.
pub const DIGEST_SCHEMA: u32 = 1;

/// What one recording tells, or why it cannot.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Digest {
    /// The version of this layout.
    pub schema: u32,
    /// The recording's folder, as given.
    pub path: String,
    /// What it tells.
    #[serde(flatten)]
    pub content: DigestContent,
}

/// What a recording tells, or why it cannot.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DigestContent {
    /// Nothing can be told of it.
    Refused(DigestRefusal),
    /// Its figures.
    Read(Box<RecordingDigest>),
}

/// Why nothing can be told of a recording.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct DigestRefusal {
    /// What sort of reason it is.
    pub because: RefusedBecause,
    /// The reason in words, with what helps.
    pub reason: String,
}

/// What sort of reason it is that nothing can be told of a recording.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum RefusedBecause {
    /// A later version of the program wrote it.
    Newer,
    /// It is damaged, or is none.
    Unreadable,
    /// It keeps samples and no histograms.
    NoHistograms,
}

/// The figures of one recording.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RecordingDigest {
    /// The machine's name.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// The kernel's build.
    pub build: String,
    /// What else the machine did: the name of the load, or `no load`.
    pub load: String,
    /// Every setting of the machine that bears on latency, by name; of lists,
    /// such as the kernel's command line, each word is one.
    pub settings: BTreeMap<String, String>,
    /// When it began, RFC 3339.
    pub started: String,
    /// The same in seconds since 1970; absent where that cannot be read.
    pub start_s: Option<i64>,
    /// How long was measured; of a recording without an end, until the last
    /// activation that its histograms know.
    pub duration_ns: Nanos,
    /// Whether it has ended.
    pub has_ended: bool,
    /// Whether a script stood in for the machine.
    pub is_scripted: bool,
    /// Why its figures cannot be trusted, in words; absent: they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distrust: Option<String>,
    /// What is missing from it or damaged, in words.
    pub shortfalls: Vec<String>,
    /// Services by route.
    pub lines: Vec<DigestLine>,
    /// How many late activations were kept with their evidence; absent: the
    /// recording was made without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episodes: Option<u64>,
    /// How many late activations were not kept because there were too many.
    pub surplus: u64,
    /// Who made them late.
    pub causes: Vec<DigestCause>,
}

/// A service reached by a route, all CPUs together.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DigestLine {
    /// The service.
    pub service: Service,
    /// How it was reached.
    pub route: Route,
    /// Activations that were lost; where it is not known which line lost them,
    /// as many as it can have been.
    pub lost: u64,
    /// What was counted, by hour.
    pub hours: Vec<DigestHour>,
    /// The largest latency of each minute in which there was an activation.
    pub minutes: Vec<DigestMinute>,
}

/// What was counted of a line in an hour.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DigestHour {
    /// Whole hours since the recording's start.
    pub hour: u32,
    /// Activations whose expiry passed while the service was still busy, among
    /// the samples.
    pub missed: u64,
    /// The sum of all latencies, ns; no more than 2^63.
    pub sum_ns: u64,
    /// The smallest latency of those that were served.
    pub min_ns: Option<Nanos>,
    /// The largest latency.
    pub max_ns: Nanos,
    /// Bucket number and count of all samples; bucket i ends at 2^(i/64) ns.
    pub buckets: Vec<(usize, u64)>,
    /// The same of those that were still waiting when measuring ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<(usize, u64)>,
}

/// The largest latency of a line in a minute.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct DigestMinute {
    /// Whole minutes since the recording's start.
    pub minute: u32,
    /// The largest latency.
    pub max_ns: Nanos,
}

/// A cause of the late activations of a line in an hour.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DigestCause {
    /// The service that it made late.
    pub service: Service,
    /// How that was reached.
    pub route: Route,
    /// Whole hours since the recording's start.
    pub hour: u32,
    /// What kind of thing.
    pub class: CauseClass,
    /// Who, in words.
    pub who: Option<String>,
    /// Whether it is a thread of the laggard that recorded.
    pub is_ours: bool,
    /// In how many late activations it took part.
    pub episodes: u64,
    /// In how many no other cause took more.
    pub first_in: u64,
    /// Time in all of them.
    pub total_ns: Nanos,
    /// Most time in one.
    pub largest_ns: Nanos,
    /// How often it came in this recording, where it came again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<Nanos>,
}

impl RecordingDigest {
    /// A recording of nothing yet, of this machine.
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
