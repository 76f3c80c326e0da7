//! Audio prerequisites of this machine: the checks of rtcqs and realtimeconfigquickscan that
//! concern latency, one row each.
//!
//! The limits are the initial limits of this process, because a user's other programs have the same
//! limits. Capabilities of the program file `laggard` do not count.

use laggard_model::{AudioFinding, AudioNeed, AudioState, Host, Nanos};

use super::Files;
use super::rights::limit;

/// Highest priority that `PipeWire` and JACK request, except for their watchdogs.
const MIN_PRIORITY_LIMIT: u64 = 88;
/// Memory in bytes that an audio session locks: samples, plug-ins and their code.
const MIN_LOCK_LIMIT_BYTES: u64 = 1 << 30;
/// Maximum exit latency of an idle state. A longer one is a significant part of a short buffer.
const MAX_EXIT_LATENCY: Nanos = Nanos::from_us(10);
/// The kernel prefers to drop cached files up to this swappiness.
const MAX_SWAPPINESS: u32 = 10;
/// Path of rtkit's D-Bus service. rtkit gives threads real-time priority up to 20.
const RTKIT: &str = "usr/share/dbus-1/system-services/org.freedesktop.RealtimeKit1.service";
/// File with the limits of this process.
const LIMITS: &str = "/proc/self/limits";
/// Prefixes of the names of sound cards' interrupt handlers.
const SOUND_PREFIXES: [&str; 3] = ["snd", "sof", "AudioDSP"];

/// Returns the audio prerequisites of `host`, whose files are `files`.
pub fn audio(files: &Files, host: &Host) -> Vec<AudioFinding> {
    vec![
        governor(host),
        idle(files, host),
        sound(files),
        threads(host),
        priority(files),
        memory_lock(files),
        swappiness(files, host),
    ]
}

fn met(need: AudioNeed, state: AudioState) -> AudioFinding {
    finding(need, Some(true), state)
}

fn unmet(need: AudioNeed, state: AudioState) -> AudioFinding {
    finding(need, Some(false), state)
}

fn unknown(need: AudioNeed, state: AudioState) -> AudioFinding {
    finding(need, None, state)
}

const fn finding(need: AudioNeed, is_met: Option<bool>, state: AudioState) -> AudioFinding {
    AudioFinding {
        need,
        is_met,
        state,
    }
}

fn unreadable(need: AudioNeed, file: &str) -> AudioFinding {
    unknown(need, AudioState::Unreadable { file: file.into() })
}

fn governor(host: &Host) -> AudioFinding {
    let need = AudioNeed::Governor;
    let groups = &host.frequency;
    let slow = groups.iter().find(|group| group.governor != "performance");
    match slow {
        Some(group) => unmet(
            need,
            AudioState::FrequencyFollowsLoad {
                cpus: group.cpus.clone(),
                governor: group.governor.clone(),
            },
        ),
        None if groups.is_empty() => unknown(need, AudioState::NoFrequencyControl),
        None => met(need, AudioState::Performance),
    }
}

fn idle(files: &Files, host: &Host) -> AudioFinding {
    let need = AudioNeed::IdleStates;
    let left = host.idle.iter().filter(|state| !state.disabled);
    let Some(deepest) = left.max_by_key(|state| state.exit_ns) else {
        return unknown(need, AudioState::IdleUnknown);
    };
    let exit_ns = deepest.exit_ns;
    if exit_ns <= MAX_EXIT_LATENCY {
        return met(need, AudioState::ShallowIdle { exit_ns });
    }
    unmet(
        need,
        AudioState::DeepIdle {
            name: deepest.name.clone(),
            exit_ns,
            has_latency_file: files.exists("dev/cpu_dma_latency"),
        },
    )
}

/// Returns the interrupts of sound cards and the devices that share them.
fn sound(files: &Files) -> AudioFinding {
    let need = AudioNeed::SoundInterrupt;
    let Some(text) = files.text("proc/interrupts") else {
        return unreadable(need, "/proc/interrupts");
    };
    let lines: Vec<(&str, Vec<&str>)> = text
        .lines()
        .filter_map(|line| line.trim_start().split_once(':'))
        .map(|(number, rest)| (number, devices(rest)))
        .filter(|(_, names)| names.iter().any(is_sound))
        .collect();
    let owned = |names: &[&str]| names.iter().map(|&name| name.into()).collect();
    let shared = lines.iter().find(|(_, names)| !names.iter().all(is_sound));
    if let Some((number, names)) = shared {
        let number = (*number).into();
        let devices = owned(names);
        return unmet(need, AudioState::SharedInterrupt { number, devices });
    }
    if let Some((number, names)) = lines.first() {
        let number = (*number).into();
        let devices = owned(names);
        return met(need, AudioState::OwnInterrupt { number, devices });
    }
    let cards = files.text("proc/asound/cards").unwrap_or_default();
    let state = match (cards.contains("USB-Audio"), cards.contains(" [")) {
        (true, _) => AudioState::SoundOnUsb,
        (_, true) => AudioState::SoundUnnamed,
        (false, false) => AudioState::NoSoundCard,
    };
    unknown(need, state)
}

/// Returns whether a handler with this name belongs to a sound card.
fn is_sound(name: &&str) -> bool {
    SOUND_PREFIXES.iter().any(|card| name.starts_with(card))
}

/// Returns the devices in a line of `/proc/interrupts`: the last words, separated by commas. Each
/// name except the first is one word.
fn devices(line: &str) -> Vec<&str> {
    let mut parts = line.split(", ");
    let first = parts.next().and_then(|part| part.split_whitespace().last());
    first.into_iter().chain(parts.map(str::trim)).collect()
}

fn threads(host: &Host) -> AudioFinding {
    let need = AudioNeed::ThreadedInterrupts;
    let is_rt = host.preemption.as_deref() == Some("rt");
    let mut words = host.command_line.split_whitespace();
    match (is_rt, words.any(|word| word == "threadirqs")) {
        (true, _) => met(need, AudioState::ThreadsOfRt),
        (_, true) => met(need, AudioState::ThreadsOfOption),
        (false, false) => unmet(need, AudioState::NoThreads),
    }
}

/// Returns whether the user is root, by the first number of `Uid:` (proc(5)).
fn is_root(files: &Files) -> bool {
    let uids = files.field("proc/self/status", "Uid").unwrap_or_default();
    uids.split_whitespace().next() == Some("0")
}

fn priority(files: &Files) -> AudioFinding {
    let need = AudioNeed::Priority;
    if is_root(files) {
        return unknown(need, AudioState::LimitsOfRoot);
    }
    let Some(allowed) = limit(files, "Max realtime priority") else {
        return unreadable(need, LIMITS);
    };
    // Unlimited means the kernel's maximum.
    let most = allowed.unwrap_or(99);
    let has_rtkit = files.exists(RTKIT);
    let is_met = most >= MIN_PRIORITY_LIMIT || has_rtkit;
    finding(
        need,
        Some(is_met),
        AudioState::PriorityLimit { most, has_rtkit },
    )
}

fn memory_lock(files: &Files) -> AudioFinding {
    let need = AudioNeed::MemoryLock;
    if is_root(files) {
        return unknown(need, AudioState::LimitsOfRoot);
    }
    let Some(bytes) = limit(files, "Max locked memory") else {
        return unreadable(need, LIMITS);
    };
    let is_met = bytes.is_none_or(|bytes| bytes >= MIN_LOCK_LIMIT_BYTES);
    finding(need, Some(is_met), AudioState::LockLimit { bytes })
}

fn swappiness(files: &Files, host: &Host) -> AudioFinding {
    let need = AudioNeed::Swappiness;
    if host.settings.swap_bytes == Some(0) {
        return met(need, AudioState::NoSwap);
    }
    let Some(value) = files.value::<u32>("proc/sys/vm/swappiness") else {
        return unreadable(need, "/proc/sys/vm/swappiness");
    };
    let most = MAX_SWAPPINESS;
    finding(
        need,
        Some(value <= most),
        AudioState::Swappiness { value, most },
    )
}
