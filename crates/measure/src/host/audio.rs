//! What audio needs of this machine: what rtcqs and realtimeconfigquickscan
//! check, as far as it bears on how late code runs, row by row.
//!
//! The limits are those that this process was started with, because a user's
//! programs have them too; capabilities of laggard's own file are not theirs.

use laggard_model::{AudioFinding, AudioNeed, Host, Nanos};

use super::Files;
use super::rights::limit;

/// What `PipeWire` and JACK ask for at most, but for their watchdogs.
const PRIORITY: u64 = 88;
/// What a session of audio locks: samples, plug-ins and their code.
const LOCKED_BYTES: u64 = 1 << 30;
/// Idle states that take longer to leave are a part of a short buffer.
const SHALLOW: Nanos = Nanos::from_us(10);
/// From here on down the kernel would rather give up cached files.
const SWAPPINESS: u32 = 10;
/// Where D-Bus finds rtkit, which gives threads real-time priority up to 20.
const RTKIT: &str = "usr/share/dbus-1/system-services/org.freedesktop.RealtimeKit1.service";
/// How the names of sound cards' interrupt handlers begin.
const SOUND: [&str; 3] = ["snd", "sof", "AudioDSP"];
/// Whom no limit binds.
const AS_ROOT: &str = "no limit binds root; ask as the user of the audio programs, without sudo";

/// What audio needs of `host`, whose files these are.
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
        None if groups.is_empty() => unknown(need, "this kernel sets no frequency"),
        None => met(need, "performance on every CPU"),
    }
}

fn idle(files: &Files, host: &Host) -> AudioFinding {
    let need = AudioNeed::IdleStates;
    let left = host.idle.iter().filter(|state| !state.disabled);
    let Some(deepest) = left.max_by_key(|state| state.exit_ns) else {
        return unknown(need, "this kernel tells of no idle state");
    };
    if deepest.exit_ns <= SHALLOW {
        return met(
            need,
            format!("none takes longer than {} to leave", deepest.exit_ns),
        );
    }
    let hold = if files.exists("dev/cpu_dma_latency") {
        "let the user's group write /dev/cpu_dma_latency, by which audio programs keep CPUs awake, or "
    } else {
        ""
    };
    unmet(
        need,
        format!(
            "an idle CPU may enter {}, which takes {} to leave",
            deepest.name, deepest.exit_ns
        ),
        format!("{hold}`cpupower idle-set -D 10`"),
    )
}

/// The interrupts of sound cards, and who else is served by them.
fn sound(files: &Files) -> AudioFinding {
    let need = AudioNeed::SoundInterrupt;
    let Some(text) = files.text("proc/interrupts") else {
        return unknown(need, "/proc/interrupts cannot be read");
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
            format!("interrupt {number} serves {}", names.join(", ")),
            "put the card into another slot, or unload the driver of the other device",
        );
    }
    if let Some((number, names)) = lines.first() {
        return met(
            need,
            format!("interrupt {number} serves {} alone", names.join(", ")),
        );
    }
    let cards = files.text("proc/asound/cards").unwrap_or_default();
    match (cards.contains("USB-Audio"), cards.contains(" [")) {
        (true, _) => unknown(
            need,
            "the sound card is on USB: whatever else is on its controller shares that one's interrupt",
        ),
        (_, true) => unknown(need, "the sound card has no interrupt of its own name"),
        (false, false) => unknown(need, "no sound card"),
    }
}

/// Whether a handler of this name is a sound card's.
fn is_sound(name: &&str) -> bool {
    SOUND.iter().any(|card| name.starts_with(card))
}

/// The devices of a line of `/proc/interrupts`: the last words, apart by
/// commas, each but the first of one word.
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
        (true, _) => met(need, "interrupts are served by threads (PREEMPT_RT)"),
        (_, true) => met(need, "interrupts are served by threads (threadirqs)"),
        (false, false) => unmet(
            need,
            "handlers of interrupts run before every thread",
            "boot with `threadirqs`, then give the sound card's thread a priority above the others' (rtirq)",
        ),
    }
}

/// Whether root asks, by the first of the numbers of `Uid:` (proc(5)).
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
        return unknown(need, "the limits of this process cannot be read");
    };
    // Without a limit: the kernel has no more.
    let allowed = allowed.unwrap_or(99);
    match (allowed >= PRIORITY, files.exists(RTKIT)) {
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
        None => unknown(need, "the limits of this process cannot be read"),
        Some(None) => met(need, "this user may lock all memory"),
        Some(Some(bytes)) if bytes >= LOCKED_BYTES => {
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
        return met(need, "there is no swap");
    }
    match files.value::<u32>("proc/sys/vm/swappiness") {
        None => unknown(need, "/proc/sys/vm/swappiness cannot be read"),
        Some(value) if value <= SWAPPINESS => met(need, format!("vm.swappiness is {value}")),
        Some(value) => unmet(
            need,
            format!("vm.swappiness is {value}: memory that is not used for a while is swapped out"),
            format!("`sysctl -w vm.swappiness={SWAPPINESS}`"),
        ),
    }
}
