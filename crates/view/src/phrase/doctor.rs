//! Sentences of `laggard doctor`.

use laggard_answer::doctor::{AudioRow, EffectSeen, UnknownEffect};
use laggard_answer::proven::{ChangedSeries, ProvenEffect};
use laggard_model::name::line_name;
use laggard_model::text::{listed, span};
use laggard_model::{Ability, Absence, Backend, Lacks, LoadLabel};

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
            let has = |name: &str| {
                let mut abilities = abilities.iter();
                abilities.any(|ability| ability.name == name && ability.absence.is_none())
            };
            let stages = if has("context switches") {
                "expiry, running and user"
            } else if has("run delay") {
                "expiry and user, and the mean run delay"
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
    let load = match effect.load.as_str() {
        "" => "unknown load".into(),
        load if load == LoadLabel::none().as_str() => "no load of laggard".into(),
        load => format!("load {load}"),
    };
    format!(
        "Measured here on {} ({} without and {} with it, {load}): {}",
        effect.measured_on,
        span(effect.without_ns),
        span(effect.with_ns),
        change(effect)
    )
}

/// States the change of each series.
fn change(effect: &ProvenEffect) -> String {
    let mut parts: Vec<String> = effect
        .changed
        .iter()
        .map(|series| {
            format!(
                "with it {} is later than {} {}",
                line_name(series.service, series.route),
                Cell::Time(series.level_ns),
                times(series)
            )
        })
        .collect();
    let equal = effect.equal.iter();
    let equal: Vec<String> = equal
        .map(|&(service, route)| line_name(service, route))
        .collect();
    if !equal.is_empty() {
        let times = effect.equal_within;
        parts.push(format!("equal within {times} times: {}", listed(&equal)));
    }
    if parts.is_empty() {
        "no difference was found, which is no proof that there is none".into()
    } else {
        parts.join("; ")
    }
}

/// Writes a ratio of rates with its interval, or with one limit if a side was never late.
fn times(series: &ChangedSeries) -> String {
    let factor = |value: f64| match value {
        10.0.. => format!("{value:.0}"),
        1.0..10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    let low = factor(series.ratio_low);
    match (series.ratio, series.ratio_high.map(factor)) {
        (Some(ratio), Some(high)) if ratio > 0.0 => {
            format!("{} times as often ({low} to {high})", factor(ratio))
        }
        (Some(_), Some(high)) => format!("at most {high} times as often"),
        _ => format!("more than {low} times as often"),
    }
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
