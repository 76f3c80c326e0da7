//! Sentences of `laggard doctor`.

use laggard_answer::doctor::{AudioRow, EffectSeen, UnknownEffect};
use laggard_answer::proven::ProvenEffect;
use laggard_model::{Ability, Absence, Backend, Lacks};

use super::{code, number};
use crate::doc::Cell;

/// Describes the use of an ability, and the reason and remedy if it is not available.
pub(crate) fn ability(ability: &Ability) -> String {
    match &ability.absence {
        None => ability.gives.clone(),
        Some(absence) => format!(
            "{}. Not available: {}. Remedy: {}",
            ability.gives, absence.reason, absence.remedy
        ),
    }
}

/// Names the method by which a recording stamps the stages of threads, and why it is not BPF.
pub(crate) fn method(method: Backend, abilities: &[Ability]) -> String {
    let reason = |name: &str| {
        let mut abilities = abilities.iter();
        let ability = abilities.find(|ability| ability.name == name);
        let absence = ability.and_then(|ability| ability.absence.as_ref());
        absence.map_or_else(|| "not available".into(), |absence| absence.reason.clone())
    };
    let bpf = reason("BPF object chain");
    match method {
        Backend::Bpf => "Method: BPF stamps every stage.".into(),
        Backend::Perf => format!(
            "Method: perf tracepoints stamp the stages of threads, because BPF is not available ({bpf}). Only BPF measures softirq, worker and the causes of late wakeups."
        ),
        _ => {
            let mut known = abilities.iter();
            let has_switches = known
                .any(|ability| ability.name == "context switches" && ability.absence.is_none());
            let stages = if has_switches {
                "expiry, running and user"
            } else {
                "expiry and user"
            };
            format!(
                "Method: threads read the clock (stages {stages}), because neither BPF ({bpf}) nor perf tracepoints ({}) are available.",
                reason("perf tracepoints")
            )
        }
    }
}

/// Start of the remedies that root has by itself.
const AS_ROOT: &str = "run as root";

/// States the missing abilities, those with the same reason and remedy on one line. Those for which
/// rights are missing share a line with the first remedy, which gives all of them: root, or the
/// capabilities of the program file.
pub(crate) fn missing<'a>(abilities: impl Iterator<Item = &'a Ability>) -> Vec<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    let abilities: Vec<&Ability> = abilities.collect();
    let is_for_root =
        |absence: &Absence| absence.lacks == Lacks::Rights && absence.remedy.starts_with(AS_ROOT);
    let mut absences = abilities
        .iter()
        .filter_map(|ability| ability.absence.as_ref());
    let for_root = absences.find(|absence| is_for_root(absence));
    let for_root =
        for_root.map(|absence| format!("this user lacks rights; remedy: {}", absence.remedy));
    for ability in abilities {
        let Some(absence) = &ability.absence else {
            continue;
        };
        let reason = match &for_root {
            Some(reason) if is_for_root(absence) => reason.clone(),
            _ => format!("{}; remedy: {}", absence.reason, absence.remedy),
        };
        match groups.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(&ability.name),
            None => groups.push((reason, vec![&ability.name])),
        }
    }
    groups
        .into_iter()
        .map(|(reason, names)| format!("Missing: {}: {reason}", names.join(", ")))
        .collect()
}

/// States the effect of a remedy that was tried on this machine.
pub(crate) fn proven(effect: &ProvenEffect) -> String {
    format!(
        "Measured here on {} ({}): {}",
        effect.measured_on, effect.measured_by, effect.effect
    )
}

/// Sums up the prerequisites of audio programs; `None` if they were not checked.
pub(crate) fn audio(rows: &[AudioRow]) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let count = |is_met| {
        rows.iter()
            .filter(|row| row.finding.is_met == is_met)
            .count()
    };
    let unmet: Vec<&str> = rows
        .iter()
        .filter(|row| row.finding.is_met == Some(false))
        .map(|row| row.finding.need.words())
        .collect();
    let unmet = if unmet.is_empty() {
        "none not met".to_owned()
    } else {
        format!("not met: {}", unmet.join(", "))
    };
    Some(format!(
        "Audio prerequisites: {unmet}; {} unknown, {} met",
        count(None),
        count(Some(true))
    ))
}

/// States the effect that a recording shows of a prerequisite that is not met.
pub(crate) fn effect(effect: &EffectSeen, recording: &str) -> String {
    match effect {
        EffectSeen::Yes {
            episodes,
            largest_ns,
            share,
        } => format!(
            "In {recording}: up to {} of a late wakeup, {} of the time of {} late wakeups",
            Cell::Time(*largest_ns),
            Cell::Share(*share),
            number(*episodes)
        ),
        EffectSeen::No { episodes } => {
            format!(
                "In {recording}: in no late wakeup ({} analysed)",
                number(*episodes)
            )
        }
        EffectSeen::Unknown { reason } => {
            format!("Effect in {recording} unknown: {}", unknown(reason))
        }
    }
}

fn unknown(reason: &UnknownEffect) -> String {
    match reason {
        UnknownEffect::OtherMachine { node } => {
            format!("it is from another machine, {}", code(node))
        }
        UnknownEffect::NoTraceData => "it has no trace data of late wakeups".into(),
        UnknownEffect::Damaged => "its trace data is damaged".into(),
        UnknownEffect::NoLateWakeup => "it has no late wakeup with trace data".into(),
        UnknownEffect::NotAttributable => {
            "laggard cannot distinguish code on a slow clock from other code".into()
        }
        UnknownEffect::OwnThreads => {
            "its threads were laggard's, which had the priority and the memory that they requested, or a warning".into()
        }
    }
}
