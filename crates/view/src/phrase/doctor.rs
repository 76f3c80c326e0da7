//! Sentences of `laggard doctor`.

use laggard_answer::doctor::{AudioRow, EffectSeen, UnknownEffect};
use laggard_answer::proven::{ChangedSeries, ProvenEffect};
use laggard_model::name::series_words;
use laggard_model::text::{listed, span};
use laggard_model::{Ability, Absence, AudioFinding, AudioState, Backend, Lacks, LoadLabel};

use super::{code, number};
use crate::doc::Cell;

/// Uses of the abilities of all systems, by name.
const USES: [(&str, &str); 26] = [
    ("BPF object chain", "stages expire, waking, running"),
    ("BPF object irq (service irq)", "stage irq"),
    ("BPF object raise", "stage raise"),
    (
        "BPF object deferred (service softirq)",
        "stage softirq, the deferred route",
    ),
    ("BPF object worker (service worker)", "stage worker"),
    (
        "timer descriptors (service softirq)",
        "stage softirq, the deferred route; they expire in softirq context here",
    ),
    (
        "BPF object handover",
        "`laggard bench switch`: net durations, without interruptions",
    ),
    (
        "BPF object interruption",
        "`laggard bench rtos`: interrupt latencies of a thread",
    ),
    (
        "perf tracepoints",
        "stages irq, expire, waking, running of threads without BPF",
    ),
    (
        "context switches",
        "stage `running` of the measuring threads, without root",
    ),
    (
        "run delay",
        "mean time from runnable to running of the measuring threads, without privileges",
    ),
    ("memory lock", "no page faults on measuring threads"),
    ("flight recorder", "episodes: what caused a late wakeup"),
    (
        "PMU (cycles, NMI)",
        "stack samples in code with interrupts disabled",
    ),
    ("cpu-clock", "stack samples elsewhere"),
    ("steal clock", "steal time, to the ns"),
    ("SMI count", "count of stalls by the firmware"),
    ("timerlat tracer", "service kthread"),
    ("timers", "accuracy of timers (`laggard bench timers`)"),
    (
        "recordings",
        "latency of threads that wait for a timer (`laggard record`)",
    ),
    ("kernel events", "causes of late wakeups, and stages (ETW)"),
    ("administrator", "kernel events, the driver"),
    (
        "real-time priorities",
        "threads of the REALTIME class (SeIncreaseBasePriorityPrivilege)",
    ),
    (
        "profiling",
        "samples of running code (SeSystemProfilePrivilege)",
    ),
    ("MMCSS", "threads scheduled as `Pro Audio`"),
    ("wdmlat.sys", "latency of DPCs and kernel threads"),
];

/// Describes the use of an ability, and the reason and remedy if it is not available.
pub(crate) fn ability(ability: &Ability) -> String {
    let mut uses = USES.iter();
    let used_for = match uses.find(|(name, _)| *name == ability.name) {
        Some((_, used_for)) => *used_for,
        None if ability.name.starts_with("service ") => "threads of this policy",
        None => "use unknown",
    };
    match &ability.absence {
        None => used_for.into(),
        Some(absence) => format!(
            "{used_for}. Not available: {}. Remedy: {}",
            absence.reason, absence.remedy
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
        match groups.iter_mut().find(|(listed, _)| *listed == reason) {
            Some((_, names)) => names.push(&ability.name),
            None => groups.push((reason, vec![&ability.name])),
        }
    }
    groups
        .into_iter()
        .map(|(reason, names)| format!("Missing: {}: {reason}", names.join(", ")))
        .collect()
}

/// States the finding about an audio prerequisite.
pub(crate) fn audio_finding(finding: &AudioFinding) -> String {
    match &finding.state {
        AudioState::Unreadable { file } => format!("cannot read {file}"),
        AudioState::LimitsOfRoot => {
            "limits do not apply to root; run as the user of the audio programs, without sudo"
                .into()
        }
        AudioState::NoFrequencyControl => "this kernel does not set CPU frequencies".into(),
        AudioState::Performance => "performance on every CPU".into(),
        AudioState::FrequencyFollowsLoad { cpus, governor } => {
            format!("the frequency of CPU {cpus} follows the load (governor {governor})")
        }
        AudioState::IdleUnknown => "this kernel reports no idle states".into(),
        AudioState::ShallowIdle { exit_ns } => {
            format!("no idle state has an exit latency above {exit_ns}")
        }
        AudioState::DeepIdle { name, exit_ns, .. } => {
            format!("an idle CPU may enter {name}, whose exit latency is {exit_ns}")
        }
        AudioState::SharedInterrupt { number, devices } => {
            format!("interrupt {number} is shared by {}", devices.join(", "))
        }
        AudioState::OwnInterrupt { number, devices } => {
            format!("interrupt {number} is used only by {}", devices.join(", "))
        }
        AudioState::SoundOnUsb => {
            "the sound card is on USB and shares the interrupt of its controller with other devices"
                .into()
        }
        AudioState::SoundUnnamed => "no interrupt has the name of the sound card".into(),
        AudioState::NoSoundCard => "no sound card".into(),
        AudioState::ThreadsOfRt => "interrupts run in threads (PREEMPT_RT)".into(),
        AudioState::ThreadsOfOption => "interrupts run in threads (threadirqs)".into(),
        AudioState::NoThreads => "interrupt handlers run before every thread".into(),
        AudioState::PriorityLimit { most, has_rtkit } => {
            let rtkit = match (finding.is_met, has_rtkit) {
                (Some(false), _) => ", and rtkit is not installed",
                (_, true) if *most < 20 => ", and up to 20 by rtkit",
                _ => "",
            };
            format!("up to {most} for this user{rtkit}")
        }
        AudioState::LockLimit { bytes: None } => "this user may lock all memory".into(),
        AudioState::LockLimit { bytes: Some(bytes) } if *bytes >= 1 << 30 => {
            format!("this user may lock {} MiB", bytes >> 20)
        }
        AudioState::LockLimit { bytes: Some(bytes) } => {
            format!("this user may lock {} KiB of memory", bytes >> 10)
        }
        AudioState::NoSwap => "no swap is in use".into(),
        AudioState::Swappiness { value, most } if value <= most => {
            format!("vm.swappiness is {value}")
        }
        AudioState::Swappiness { value, .. } => {
            format!("vm.swappiness is {value}: unused memory is swapped out")
        }
    }
}

/// Returns the remedy for an audio prerequisite that is not met.
pub(crate) fn audio_remedy(finding: &AudioFinding) -> Option<String> {
    const CONF: &str = "in /etc/security/limits.d/audio.conf, join that group and log in again";
    if finding.is_met != Some(false) {
        return None;
    }
    Some(match &finding.state {
        AudioState::FrequencyFollowsLoad { .. } => {
            "`cpupower frequency-set -g performance`".into()
        }
        AudioState::DeepIdle {
            has_latency_file: true,
            ..
        } => "give the user's group write access to /dev/cpu_dma_latency (audio programs keep CPUs awake with it), or `cpupower idle-set -D 10`".into(),
        AudioState::DeepIdle { .. } => "`cpupower idle-set -D 10`".into(),
        AudioState::SharedInterrupt { .. } => {
            "move the card to another slot, or unload the driver of the other device".into()
        }
        AudioState::NoThreads => "boot with `threadirqs`, then give the sound card's thread the highest priority (rtirq)".into(),
        AudioState::PriorityLimit { .. } => {
            format!("`@audio - rtprio 95` {CONF}; or install rtkit")
        }
        AudioState::LockLimit { .. } => format!("`@audio - memlock unlimited` {CONF}"),
        AudioState::Swappiness { most, .. } => format!("`sysctl -w vm.swappiness={most}`"),
        _ => return None,
    })
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
                series_words(series.service, series.route),
                Cell::Time(series.level_ns),
                times(series)
            )
        })
        .collect();
    let equal = effect.equal.iter();
    let equal: Vec<String> = equal
        .map(|&(service, route)| series_words(service, route))
        .collect();
    if !equal.is_empty() {
        let times = effect.equal_within;
        parts.push(format!(
            "equal within a factor of {times}: {}",
            listed(&equal)
        ));
    }
    if parts.is_empty() {
        "no difference was found, but this does not prove equality".into()
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
            format!("{} x as often ({low} to {high})", factor(ratio))
        }
        (Some(_), Some(high)) => format!("at most {high} x as often"),
        _ => format!("more than {low} x as often"),
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
        UnknownEffect::NoTraceData => "its late wakeups lack trace data".into(),
        UnknownEffect::Damaged => "its trace data is damaged".into(),
        UnknownEffect::NoLateWakeup => "no late wakeup in it has trace data".into(),
        UnknownEffect::NotAttributable => {
            "laggard cannot distinguish code on a slow clock from other code".into()
        }
        UnknownEffect::OwnThreads => {
            "its threads were laggard's, which had the priority and the memory that they requested, or a warning".into()
        }
    }
}
