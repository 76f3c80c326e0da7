//! One late wakeup as JSON: `laggard why --episode --json`, and the input of the commands that
//! run on late wakeups.

use std::collections::BTreeMap;

use laggard_model::{Cpu, NamedCause, Nanos, Route, Service, Stage, Symbols, Tid};
use schemars::JsonSchema;
use serde::Serialize;

use super::ExplainedEpisode;
use super::cause::named;

/// Version of the JSON layout of a late wakeup.
pub const WAKEUP_SCHEMA: u32 = 2;

#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct LateWakeup {
    /// Version of this layout.
    pub schema: u32,
    /// Number in the recording. Absent: it is in no recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub episode: Option<u64>,
    /// Service that was late.
    pub service: Service,
    pub route: Route,
    pub cpu: Cpu,
    /// Thread of the service, if it has one. Absent in a separate PID namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<Tid>,
    /// Number of the wakeup in its series.
    pub seq: u64,
    /// Programmed time, `CLOCK_MONOTONIC`.
    pub expiry_ns: Nanos,
    pub latency_ns: Nanos,
    /// Whether the service had still not run: `latency_ns` is a lower bound.
    pub still_waiting: bool,
    /// Latency threshold.
    pub threshold_ns: Nanos,
    /// Number of later expiries that passed before the service ran.
    pub passed: u64,
    /// Time of each stage after the expiry.
    pub stages: BTreeMap<Stage, Nanos>,
    /// Causes, the one with most time first. The times add up to the latency. Without trace data,
    /// all of it is unexplained.
    pub causes: Vec<LateWakeupCause>,
}

#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct LateWakeupCause {
    #[serde(flatten)]
    pub cause: NamedCause,
    pub time_ns: Nanos,
}

impl LateWakeup {
    /// Creates the description of an explained episode.
    pub fn new(explained: &ExplainedEpisode<'_>, symbols: &Symbols) -> Self {
        let (episode, line) = (explained.episode, explained.line);
        let causes = explained.causes().iter().map(|cause| LateWakeupCause {
            cause: named(cause, symbols),
            time_ns: cause.time_ns,
        });
        Self {
            schema: WAKEUP_SCHEMA,
            episode: Some(episode.number).filter(|&number| number > 0),
            service: line.service,
            route: line.route,
            cpu: episode.cpu,
            thread: episode.thread,
            seq: episode.seq,
            expiry_ns: episode.expiry_ns,
            latency_ns: episode.latency(),
            still_waiting: episode.censored,
            threshold_ns: episode.threshold_ns,
            passed: episode.passed_ns.len() as u64,
            stages: episode.stages.clone(),
            causes: causes.collect(),
        }
    }
}
