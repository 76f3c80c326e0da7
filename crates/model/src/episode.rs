//! Episodes: late activations, with the evidence of who made them late.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Activation, Cpu, LineId, Nanos, STAGES, Stage, Tid};

/// An address of kernel or user code, written as `0xffffffff81000000`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Address(pub u64);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(AddressVisitor)
    }
}

/// Reads an address without a copy of its text: a stack sample has dozens.
struct AddressVisitor;

impl Visitor<'_> for AddressVisitor {
    type Value = Address;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Address, E> {
        text.strip_prefix("0x")
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .map(Address)
            .ok_or_else(|| E::custom(format!("`{text}` is not an address; write it as `0x1f`")))
    }
}

impl JsonSchema for Address {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Address".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "An address of kernel or user code.",
            "pattern": "^0x[0-9a-f]{1,16}$"
        })
    }
}

/// What a CPU can be in the midst of, besides running a thread.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// The handler of an interrupt with a number.
    Irq(u32),
    /// An interrupt of the CPU itself.
    Vector(Vector),
    /// A softirq, by its vector.
    Softirq(u32),
    /// An interrupt service routine of Windows, by its address.
    Isr(Address),
    /// A deferred procedure call of Windows, by its routine's address.
    Dpc(Address),
    /// A high-resolution timer's function.
    Hrtimer(Address),
    /// A timer wheel's function.
    Timer(Address),
    /// A work item's function.
    Work(Address),
    /// An idle state.
    Idle(u32),
    /// Page faults, of the thread that runs.
    PageFault,
}

/// Interrupts of the CPU itself, which have no number.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Vector {
    /// The local timer.
    LocalTimer,
    /// Another CPU asks this one to schedule.
    Reschedule,
    /// Another CPU asks several to call a function.
    CallFunction,
    /// Another CPU asks this one to call a function.
    CallFunctionSingle,
    /// Work that an interrupt left for a quieter moment.
    IrqWork,
    /// The processor is too hot.
    Thermal,
}

/// What happened at one instant on a CPU.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Happening {
    /// An activity began, within whatever went on.
    Begin(Activity),
    /// The innermost activity of this sort ended. The end of a function does
    /// not say which: its address is 0.
    End(Activity),
    /// Another thread runs from here on.
    Switch {
        /// Which; 0 is the idle thread.
        tid: Tid,
        /// Its name, at most 15 bytes.
        name: String,
        /// Its priority as the kernel counts: below 0 deadline, 0 to 99 real
        /// time (less is more urgent), 100 to 139 normal. 200 to 231: one of
        /// Windows, by [`windows_priority`].
        priority: i16,
        /// The same of the thread before, as it leaves: it can have changed while
        /// that ran. `None`: recorded by an earlier version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority_before: Option<i16>,
        /// Which thread ran before, where it is not the one that is known to: a
        /// switch between was not recorded, at least one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Tid>,
        /// Whether the thread before could have gone on.
        preempted: bool,
    },
}

/// The most urgent priority of Windows, and the least, as a switch has them.
const WINDOWS: std::ops::RangeInclusive<i16> = 200..=231;

/// Whether a priority, as a switch has it, is that of a normal thread of Linux.
pub const fn is_normal_priority(priority: i16) -> bool {
    100 <= priority && priority < 140
}

/// A priority of Windows, 0 to 31 (more is more urgent), as a switch has it: less is more
/// urgent, and none is one of Linux.
pub const fn windows_priority(level: u8) -> i16 {
    let level = if level > 31 { 31 } else { level };
    *WINDOWS.end() - level as i16
}

/// The priority of Windows, 0 to 31, that a switch has; `None`: it is one of Linux.
pub fn windows_level(priority: i16) -> Option<u8> {
    let is_its = WINDOWS.contains(&priority);
    is_its
        .then(|| u8::try_from(*WINDOWS.end() - priority).ok())
        .flatten()
}

/// One record of the flight recorder.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct FlightEvent {
    /// When, `CLOCK_MONOTONIC`.
    pub at_ns: Nanos,
    /// What happened.
    pub what: Happening,
}

/// Which code a CPU was in at one instant.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct StackSample {
    /// When, `CLOCK_MONOTONIC`.
    pub at_ns: Nanos,
    /// In which thread, or in an interrupt of it.
    pub tid: Tid,
    /// Of which process; user addresses are this process's.
    pub process: u32,
    /// The thread's priority just then, as [`Happening::Switch`] has it: it can
    /// change while a thread runs. `None`: recorded by an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i16>,
    /// Kernel call chain, innermost first; empty: user code ran.
    pub kernel: Vec<Address>,
    /// User call chain, innermost first.
    pub user: Vec<Address>,
}

/// How stack samples are taken.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampler {
    /// By a non-maskable interrupt: sees code that disables interrupts.
    Nmi,
    /// By a timer: sees such code only as it enables them again.
    CpuClock,
    /// By the profile interrupt of Windows, which is above those of devices: sees code
    /// that keeps these out; code with interrupts disabled only as it enables them again.
    Profile,
}

/// A time span, `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Span {
    /// When it began.
    pub from_ns: Nanos,
    /// When it ended.
    pub to_ns: Nanos,
}

/// How much a counter outside the kernel's reach moved around an episode.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Stolen {
    /// Time that the hypervisor ran something else on this CPU.
    pub time_ns: Nanos,
    /// The counter's step; what was stolen can be less or more by one.
    pub step_ns: Nanos,
}

/// Time that the hypervisor ran something else on this CPU, by its own clock
/// and to the nanosecond.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Steal {
    /// The reading before.
    pub since_ns: Nanos,
    /// The reading that shows it, soon after the CPU went on.
    pub at_ns: Nanos,
    /// How much in between.
    pub time_ns: Nanos,
}

/// A thread could have gone on, but its control group's CPU quota was used up.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Throttle {
    /// When it was taken off the CPU.
    pub at_ns: Nanos,
    /// The thread that was taken off, or woken while its group was stopped.
    pub tid: Tid,
    /// Number of the control group whose quota was used up: the thread's own or one above
    /// it. `None`: not known, or recorded by an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
}

/// What the flight recorder knew of a window of time on one CPU.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Evidence {
    /// The window's start. Events before it tell what went on when it began.
    pub from_ns: Nanos,
    /// The window's end.
    pub to_ns: Nanos,
    /// Whether a part of the window had been overwritten.
    pub overwritten: bool,
    /// In order of time.
    pub events: Vec<FlightEvent>,
    /// Threads that were stopped with their control group, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttles: Vec<Throttle>,
    /// Times of the switches to threads that the kernel's fair server chose: those threads
    /// run above every real-time priority. `None`: the kernel does not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Vec<Nanos>>,
    /// In order of time; a little before and after the window too.
    pub samples: Vec<StackSample>,
    /// What took the samples, and how far apart; `None`: nothing did.
    pub sampler: Option<(Sampler, Nanos)>,
    /// `None`: no hypervisor's counter could be read.
    pub stolen: Option<Stolen>,
    /// What was stolen, in order of time; `None`: the hypervisor's clock could
    /// not be read, and only `stolen` tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steals: Option<Vec<Steal>>,
    /// System management interrupts around the window, where counted.
    pub smis: Option<u32>,
    /// Spans in which no recorded CPU, and there are several, did anything.
    pub still: Vec<Span>,
    /// Spans of which nothing is known, because records were lost, or had not come yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Span>,
}

/// One late activation, with the evidence.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Episode {
    /// Its number in the recording, from 1.
    pub number: u64,
    /// Which line was late.
    pub line: LineId,
    /// The CPU of that line.
    pub cpu: Cpu,
    /// The activation's number in the line.
    pub seq: u64,
    /// The programmed time, `CLOCK_MONOTONIC`.
    pub expiry_ns: Nanos,
    /// How long after that the thread allowed it to come (its timer's slack), as far as
    /// that was used.
    #[serde(default, skip_serializing_if = "Nanos::is_zero")]
    pub slack_ns: Nanos,
    /// Each stage that was seen, after the expiry.
    pub stages: BTreeMap<Stage, Nanos>,
    /// The latency from which on the line was late.
    pub threshold_ns: Nanos,
    /// Whether the service had still not run when measuring ended; see
    /// [`Activation::censored`]. Nothing that ran at the end is the service.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub censored: bool,
    /// Later expiries of the line that passed before the service ran, as times after
    /// `expiry_ns`. Each is a late wakeup with the causes of the time since it was due.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_ns: Vec<Nanos>,
    /// The thread that is the line's service. `None`: it has none of its own,
    /// or an earlier version recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<Tid>,
    /// What went on meanwhile.
    pub evidence: Evidence,
}

impl Episode {
    /// A late activation; its thread and the evidence are added by who knows
    /// them.
    pub fn new(number: u64, cpu: Cpu, activation: &Activation, threshold: Nanos) -> Self {
        Self {
            number,
            line: activation.line,
            cpu,
            seq: activation.seq,
            expiry_ns: activation.expiry,
            slack_ns: Nanos::ZERO,
            stages: STAGES
                .into_iter()
                .filter_map(|stage| Some((stage, activation.until(stage)?)))
                .collect(),
            threshold_ns: threshold,
            censored: activation.censored,
            passed_ns: Vec::new(),
            thread: None,
            evidence: Evidence::default(),
        }
    }

    /// By when it was to come, `CLOCK_MONOTONIC`.
    pub fn due(&self) -> Nanos {
        (self.expiry_ns + self.slack_ns).min(self.end())
    }

    /// From the expiry to the last stage.
    pub fn latency(&self) -> Nanos {
        self.stages.values().copied().max().unwrap_or_default()
    }

    /// When a stage was reached, `CLOCK_MONOTONIC`.
    pub fn at(&self, stage: Stage) -> Option<Nanos> {
        Some(self.expiry_ns + *self.stages.get(&stage)?)
    }

    /// From when on what its CPU did bears on it: the expiry, or the interrupt
    /// where another CPU had its timer. `CLOCK_MONOTONIC`.
    pub fn here_from(&self) -> Nanos {
        self.at(Stage::IrqElsewhere).unwrap_or(self.expiry_ns)
    }

    /// When the service ran, or measuring ended, `CLOCK_MONOTONIC`.
    pub fn end(&self) -> Nanos {
        self.expiry_ns + self.latency()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_priority_of_windows_reads_back_and_the_more_urgent_is_less() {
        for level in 0..=31 {
            assert_eq!(windows_level(windows_priority(level)), Some(level));
        }
        assert!(windows_priority(31) < windows_priority(0));
        assert_eq!(windows_level(139), None);
        assert_eq!(windows_level(-1), None);
    }

    #[test]
    fn an_address_reads_back_from_its_text_and_nothing_else_does() {
        let address = Address(0xffff_ffff_8100_0000);

        let text = serde_json::to_string(&address).unwrap();
        assert_eq!(text, "\"0xffffffff81000000\"");
        assert_eq!(serde_json::from_str::<Address>(&text).unwrap(), address);
        assert!(serde_json::from_str::<Address>("\"12\"").is_err());
    }

    #[test]
    fn an_episode_has_the_latency_of_its_activation() {
        let mut steps = [None; STAGES.len()];
        steps[Stage::Irq.index()] = Some(Nanos::from_us(5));
        steps[Stage::User.index()] = Some(Nanos::from_us(70));
        let activation = Activation {
            line: LineId(3),
            seq: 9,
            expiry: Nanos::from_ms(1),
            missed: false,
            censored: false,
            steps,
        };

        let episode = Episode::new(1, Cpu(2), &activation, Nanos::from_us(50));

        assert_eq!(episode.latency(), activation.latency());
        assert_eq!(episode.at(Stage::Irq), Some(Nanos::from_us(1005)));
        assert_eq!(episode.at(Stage::Waking), None);
        assert_eq!(episode.end(), Nanos::from_us(1075));
    }
}
