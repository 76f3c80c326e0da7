//! Audio prerequisites of this machine: the checks of rtcqs and realtimeconfigquickscan that
//! concern latency, one row each.
//!
//! The limits are those with which this process was started, because a user's other programs have
//! the same limits. Capabilities of laggard's program file do not count.

use laggard_model::{AudioFinding, AudioNeed, Host, Nanos};

use super::Files;
use super::rights::limit;

/// Highest priority that `PipeWire` and JACK request, except for their watchdogs.
const MIN_PRIORITY_LIMIT: u64 = 88;
/// Memory in bytes that an audio session locks: samples, plug-ins and their code.
const MIN_LOCK_LIMIT_BYTES: u64 = 1 << 30;
/// Maximum exit latency of an idle state. A longer one is a significant part of a short buffer.
const MAX_EXIT_LATENCY: Nanos = Nanos::from_us(10);
/// Maximum swappiness at which the kernel prefers to drop cached files.
const MAX_SWAPPINESS: u32 = 10;
/// Path of rtkit's D-Bus service. rtkit gives threads real-time priority up to 20.
const RTKIT: &str = "usr/share/dbus-1/system-services/org.freedesktop.RealtimeKit1.service";
/// Prefixes of the names of sound cards' interrupt handlers.
const SOUND_PREFIXES: [&str; 3] = ["snd", "sof", "AudioDSP"];
/// Reason for root, which has no limits.
const AS_ROOT: &str =
    "limits do not apply to root; run as the user of the audio programs, without sudo";

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

fn met(need: AudioNeed, what: impl Into<String>) -> AudioFinding {
    AudioFinding {
        need,
        is_met: Some(true),
        what: what.into(),
        advice: None,
    }
}

fn unmet(need: AudioNeed, what: impl Into<String>, advice: impl Into<String>) -> AudioFinding {
    AudioFinding {
        need,
        is_met: Some(false),
        what: what.into(),
        advice: Some(advice.into()),
    }
}

fn unknown(need: AudioNeed, why: impl Into<String>) -> AudioFinding {
    AudioFinding {
        need,
        is_met: None,
        what: why.into(),
        advice: None,
    }
}

fn governor(host: &Host) -> AudioFinding {
    let need = AudioNeed::Governor;
    let groups = &host.frequency;
    let slow = groups.iter().find(|group| group.governor != "performance");
    match slow {
        Some(group) => unmet(
            need,
            format!(
                "the frequency of CPU {} follows the load (governor {})",
                group.cpus, group.governor
            ),
            "`cpupower frequency-set -g performance`",
        ),
        None if groups.is_empty() => unknown(need, "this kernel does not set CPU frequencies"),
        None => met(need, "performance on every CPU"),
    }
}

fn idle(files: &Files, host: &Host) -> AudioFinding {
    let need = AudioNeed::IdleStates;
    let left = host.idle.iter().filter(|state| !state.disabled);
    let Some(deepest) = left.max_by_key(|state| state.exit_ns) else {
        return unknown(need, "this kernel reports no idle states");
    };
    if deepest.exit_ns <= MAX_EXIT_LATENCY {
        return met(
            need,
            format!(
                "no idle state has an exit latency above {}",
                deepest.exit_ns
            ),
        );
    }
    let hold = if files.exists("dev/cpu_dma_latency") {
        "give the user's group write access to /dev/cpu_dma_latency, with which audio programs keep CPUs awake, or "
    } else {
        ""
    };
    unmet(
        need,
        format!(
            "an idle CPU may enter {}, whose exit latency is {}",
            deepest.name, deepest.exit_ns
        ),
        format!("{hold}`cpupower idle-set -D 10`"),
    )
}

/// Returns the interrupts of sound cards and the devices that share them.
fn sound(files: &Files) -> AudioFinding {
    let need = AudioNeed::SoundInterrupt;
    let Some(text) = files.text("proc/interrupts") else {
        return unknown(need, "cannot read /proc/interrupts");
    };
    let lines: Vec<(&str, Vec<&str>)> = text
        .lines()
        .filter_map(|line| line.trim_start().split_once(':'))
        .map(|(number, rest)| (number, devices(rest)))
        .filter(|(_, names)| names.iter().any(is_sound))
        .collect();
    let shared = lines.iter().find(|(_, names)| !names.iter().all(is_sound));
    if let Some((number, names)) = shared {
        return unmet(
            need,
            format!("interrupt {number} is shared by {}", names.join(", ")),
            "move the card to another slot, or unload the driver of the other device",
        );
    }
    if let Some((number, names)) = lines.first() {
        return met(
            need,
            format!("interrupt {number} is used only by {}", names.join(", ")),
        );
    }
    let cards = files.text("proc/asound/cards").unwrap_or_default();
    match (cards.contains("USB-Audio"), cards.contains(" [")) {
        (true, _) => unknown(
            need,
            "the sound card is on USB and shares the interrupt of its controller with other devices",
        ),
        (_, true) => unknown(need, "no interrupt has the name of the sound card"),
        (false, false) => unknown(need, "no sound card"),
    }
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
        (true, _) => met(need, "interrupts run in threads (PREEMPT_RT)"),
        (_, true) => met(need, "interrupts run in threads (threadirqs)"),
        (false, false) => unmet(
            need,
            "interrupt handlers run before every thread",
            "boot with `threadirqs`, then give the sound card's thread the highest priority (rtirq)",
        ),
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
        return unknown(need, AS_ROOT);
    }
    let Some(allowed) = limit(files, "Max realtime priority") else {
        return unknown(need, "cannot read the limits of this process");
    };
    // Unlimited means the kernel's maximum.
    let allowed = allowed.unwrap_or(99);
    match (allowed >= MIN_PRIORITY_LIMIT, files.exists(RTKIT)) {
        (true, _) => met(need, format!("up to {allowed} for this user")),
        (false, true) => met(
            need,
            format!("up to {allowed} for this user, and up to 20 by rtkit"),
        ),
        (false, false) => unmet(
            need,
            format!("up to {allowed} for this user, and rtkit is not installed"),
            "`@audio - rtprio 95` in /etc/security/limits.d/audio.conf, join that group and log in again; or install rtkit",
        ),
    }
}

fn memory_lock(files: &Files) -> AudioFinding {
    let need = AudioNeed::MemoryLock;
    if is_root(files) {
        return unknown(need, AS_ROOT);
    }
    match limit(files, "Max locked memory") {
        None => unknown(need, "cannot read the limits of this process"),
        Some(None) => met(need, "this user may lock all memory"),
        Some(Some(bytes)) if bytes >= MIN_LOCK_LIMIT_BYTES => {
            met(need, format!("this user may lock {} MiB", bytes >> 20))
        }
        Some(Some(bytes)) => unmet(
            need,
            format!("this user may lock {} KiB of memory", bytes >> 10),
            "`@audio - memlock unlimited` in /etc/security/limits.d/audio.conf, join that group and log in again",
        ),
    }
}

fn swappiness(files: &Files, host: &Host) -> AudioFinding {
    let need = AudioNeed::Swappiness;
    if host.settings.swap_bytes == Some(0) {
        return met(need, "no swap is in use");
    }
    match files.value::<u32>("proc/sys/vm/swappiness") {
        None => unknown(need, "cannot read /proc/sys/vm/swappiness"),
        Some(value) if value <= MAX_SWAPPINESS => met(need, format!("vm.swappiness is {value}")),
        Some(value) => unmet(
            need,
            format!("vm.swappiness is {value}: unused memory is swapped out"),
            format!("`sysctl -w vm.swappiness={MAX_SWAPPINESS}`"),
        ),
    }
}
