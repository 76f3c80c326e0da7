//! Gaps of a report of one cause.

use laggard_model::{Backend, CauseClass, Evidence, Sampler};
use laggard_record::Shortfall;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::{Explained, LateWakeups};
use super::Its;

/// Gap of a report of one cause.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Gap {
    /// A script was played: the figures do not describe a machine.
    Script,
    /// No call chains were sampled.
    NotSampled,
    /// Samples do not show the cause in each of its episodes.
    Samples {
        /// Number of its episodes without a sample of it.
        missing: usize,
        episodes: usize,
        /// Whether a timer took the samples, which cannot interrupt code with interrupts
        /// disabled.
        by_timer: bool,
    },
    /// Steal time was not traced, so that part of the times can be steal time.
    Steal,
    /// System management interrupts were not counted, so that part of the times can be
    /// theirs.
    Firmware,
    /// Late wakeups of any cause were not kept with trace data.
    NotKept {
        /// Their number.
        wakeups: u64,
    },
    /// Trace data was overwritten.
    Overwritten {
        /// Number of episodes of all series.
        episodes: u64,
    },
    /// Context switches were not seen.
    Switches {
        /// Their number (at least).
        switches: u64,
    },
    /// Lost samples may have been late.
    LostSamples {
        /// Their number.
        samples: u64,
    },
    /// A part of the recording is missing.
    Missing { part: Shortfall },
    /// Handlers were not counted, so the number of runs that do not make a wakeup late is unknown.
    Handlers,
    /// Functions have names, but no lines, arguments or data.
    NamesOnly,
}

/// Returns the gaps.
pub(super) fn not_seen(late: &Explained<'_>, its: &Its<'_, '_>, ranking: &LateWakeups) -> Vec<Gap> {
    let recorded = late.late;
    let manifest = &recorded.manifest;
    let is_virtual = manifest.host.hypervisor.is_some();
    let evidence: Vec<&Evidence> = its
        .episodes
        .iter()
        .map(|(known, _)| &known.episode.evidence)
        .collect();
    let mut gaps = Vec::new();
    gaps.extend((manifest.backend == Backend::Fake).then_some(Gap::Script));
    gaps.extend(samples(its, &evidence));
    if is_virtual && evidence.iter().any(|evidence| evidence.steals.is_none()) {
        gaps.push(Gap::Steal);
    }
    if !is_virtual && evidence.iter().any(|evidence| evidence.smis.is_none()) {
        gaps.push(Gap::Firmware);
    }
    let surplus = ranking.surplus().unwrap_or(recorded.notes.surplus);
    gaps.extend((surplus > 0).then_some(Gap::NotKept { wakeups: surplus }));
    let overwritten = recorded.notes.overwritten;
    gaps.extend((overwritten > 0).then_some(Gap::Overwritten {
        episodes: overwritten,
    }));
    if let Some(switches @ 1..) = recorded.notes.unseen_switches {
        gaps.push(Gap::Switches { switches });
    }
    let samples = manifest.losses.activations();
    gaps.extend((samples > 0).then_some(Gap::LostSamples { samples }));
    let parts = recorded.shortfalls.iter().cloned();
    gaps.extend(parts.map(|part| Gap::Missing { part }));
    gaps.extend(recorded.notes.handlers.is_none().then_some(Gap::Handlers));
    gaps.push(Gap::NamesOnly);
    gaps
}

/// Returns the gap of the samples. No code of this machine runs during steal time.
fn samples(its: &Its<'_, '_>, evidence: &[&Evidence]) -> Option<Gap> {
    if matches!(its.row.cause.class, CauseClass::Stolen | CauseClass::Stall) {
        return None;
    }
    if evidence.iter().all(|evidence| evidence.sampler.is_none()) {
        return Some(Gap::NotSampled);
    }
    let by_timer = evidence.iter().any(|evidence| {
        let sampler = evidence.sampler.map(|(sampler, _)| sampler);
        matches!(sampler, Some(Sampler::CpuClock | Sampler::Profile))
    });
    let missing = its.unsampled();
    (missing > 0 || by_timer).then_some(Gap::Samples {
        missing,
        episodes: its.episodes.len(),
        by_timer,
    })
}
