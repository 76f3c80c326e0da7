//! What a report of one cause cannot tell.

use laggard_model::text::count;
use laggard_model::{Backend, CauseClass, Evidence, Sampler};

use super::super::{Explained, WhyReport};
use super::Its;

/// What was not seen of this cause, in plain words.
pub(super) fn not_seen(late: &Explained<'_>, its: &Its<'_, '_>, all: &WhyReport) -> Vec<String> {
    let manifest = &late.late.manifest;
    let evidence: Vec<&Evidence> = its
        .episodes
        .iter()
        .map(|(one, _)| &one.episode.evidence)
        .collect();
    let mut said = Vec::new();
    if manifest.backend == Backend::Fake {
        said.push("This is from a script: it is NOT a measurement.".into());
    }
    said.extend(code(its, &evidence));
    if manifest.host.hypervisor.is_some() && evidence.iter().any(|one| one.steals.is_none()) {
        said.push(
            "When the hypervisor took the CPU away was not seen to the nanosecond, so that part \
             of these times can be its."
                .into(),
        );
    }
    if manifest.host.hypervisor.is_none() && evidence.iter().any(|one| one.smis.is_none()) {
        said.push(
            "System management interrupts were not counted, so that part of these times can be \
             the firmware's."
                .into(),
        );
    }
    if all.surplus > 0 {
        said.push(format!(
            "{} more late activations, of any cause, were not kept with who caused them.",
            count(all.surplus)
        ));
    }
    if all.overwritten > 0 {
        let episodes = match all.overwritten {
            1 => "1 episode".to_owned(),
            many => format!("{} episodes", count(many)),
        };
        said.push(format!("Of {episodes}, evidence had been overwritten."));
    }
    if let Some(unseen @ 1..) = all.unseen_switches {
        let switches = match unseen {
            1 => "1 switch of threads was".to_owned(),
            many => format!("{} switches of threads were", count(many)),
        };
        said.push(format!(
            "{switches} not seen, at least, so that what ran between is not known."
        ));
    }
    let lost = manifest.losses.activations();
    if lost > 0 {
        said.push(format!(
            "{} activations were lost, which may have been late.",
            count(lost)
        ));
    }
    said.extend(
        late.late
            .shortfalls
            .iter()
            .map(|one| format!("{}.", one.what)),
    );
    if late.late.notes.handlers.is_none() {
        said.push(
            "What did not make an activation late was not looked at: how often this runs in all \
             is not known from here."
                .into(),
        );
    }
    said.push("Functions have names here, but no lines, arguments or data.".into());
    said
}

/// What of the code was not seen.
fn code(its: &Its<'_, '_>, evidence: &[&Evidence]) -> Option<String> {
    if matches!(its.row.class, CauseClass::Stolen | CauseClass::Stall) {
        // None of this machine's ran.
        return None;
    }
    let (missing, of) = (its.unsampled(), its.episodes.len());
    if evidence.iter().all(|one| one.sampler.is_none()) {
        return Some("No call chains were sampled.".into());
    }
    let by_timer = |one: &&Evidence| {
        let sampler = one.sampler.map(|(sampler, _)| sampler);
        matches!(sampler, Some(Sampler::CpuClock | Sampler::Profile))
    };
    let how = if evidence.iter().any(by_timer) {
        " A timer took the samples: code that has interrupts disabled is seen only as it \
         enables them again."
    } else {
        ""
    };
    match missing {
        0 if how.is_empty() => None,
        0 => Some(how.trim_start().into()),
        _ => Some(format!(
            "No sample shows it in {} of its {} episodes.{how}",
            count(missing as u64),
            count(of as u64)
        )),
    }
}
