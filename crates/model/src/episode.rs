//! Episodes: late wakeups with trace data.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Activation, Because, CauseClass, Cpu, LineId, Nanos, STAGES, Stage, Tid};

/// Address of kernel or user code, written as `0xffffffff81000000`.
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

/// Activity of a CPU in addition to running a thread.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Handler of an interrupt with a number.
    Irq(u32),
    /// Interrupt of the CPU itself.
    Vector(Vector),
    /// Softirq, by its vector.
    Softirq(u32),
    /// Interrupt service routine of Windows, by its address.
    Isr(Address),
    /// Deferred procedure call of Windows, by the address of its routine.
    Dpc(Address),
    /// Function of a high-resolution timer.
    Hrtimer(Address),
    /// Function of the timer wheel.
    Timer(Address),
    /// Function of a work item.
    Work(Address),
    /// Poll function of a network driver, which `NET_RX` calls.
    Poll(Address),
    /// Kernel function that is timed inside handlers on request.
    Function(Address),
    /// Idle state.
    Idle(u32),
    /// Page faults of the running thread.
    PageFault,
}

/// Interrupts of the CPU itself, which are not numbered.
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
    /// Work that an interrupt deferred.
    IrqWork,
    /// The processor is too hot.
    Thermal,
}

/// Event on a CPU.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Happening {
    /// An activity started, within the current one.
    Begin(Activity),
    /// The innermost activity of this kind ended. The end of a function does not have an address:
    /// it is 0.
    End(Activity),
    /// Another thread runs from now.
    Switch {
        /// Thread ID; 0 is the idle thread.
        tid: Tid,
        /// Name, at most 15 bytes.
        name: String,
        /// Kernel priority: below 0 deadline, 0 to 99 real time (lower is more urgent),
        /// 100 to 139 normal. 200 to 231: a priority of Windows, by
        /// [`windows_priority`].
        priority: i16,
        /// Priority of the previous thread at the switch: it can have changed during
        /// its run. `None`: recorded by an earlier version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority_before: Option<i16>,
        /// Previous thread, if it is not the one that was recorded: at least one switch
        /// in between is missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Tid>,
        /// Whether the previous thread could have continued.
        preempted: bool,
    },
}

impl Happening {
    /// Returns a switch from a thread that could have continued and of which nothing else is known.
    pub fn switch(tid: Tid, name: impl Into<String>, priority: i16) -> Self {
        Self::Switch {
            tid,
            name: name.into(),
            priority,
            priority_before: None,
            before: None,
            preempted: true,
        }
    }
}

/// Range of Windows priorities in a switch, most urgent first.
const WINDOWS: std::ops::RangeInclusive<i16> = 200..=231;

/// Returns whether a priority in a switch belongs to a normal Linux thread.
pub const fn is_normal_priority(priority: i16) -> bool {
    100 <= priority && priority < 140
}

/// Converts a Windows priority, 0 to 31 (higher is more urgent), to its form in a
/// switch: lower is more urgent, and different from all Linux priorities.
pub const fn windows_priority(level: u8) -> i16 {
    let level = if level > 31 { 31 } else { level };
    *WINDOWS.end() - level as i16
}

/// Returns the Windows priority, 0 to 31, of a switch; `None` for a Linux priority.
pub fn windows_level(priority: i16) -> Option<u8> {
    let is_its = WINDOWS.contains(&priority);
    is_its
        .then(|| u8::try_from(*WINDOWS.end() - priority).ok())
        .flatten()
}

/// Record of the flight recorder.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct FlightEvent {
    /// Time, `CLOCK_MONOTONIC`.
    pub at_ns: Nanos,
    /// Event.
    pub what: Happening,
}

/// Sample of the code that a CPU was running.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct StackSample {
    /// Time, `CLOCK_MONOTONIC`.
    pub at_ns: Nanos,
    /// Thread that ran or was interrupted.
    pub tid: Tid,
    /// Process ID; user addresses belong to this process.
    pub process: u32,
    /// Priority of the thread at that time, as in [`Happening::Switch`]: it can change
    /// while a thread runs. `None`: recorded by an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i16>,
    /// Kernel call chain, innermost first; empty if user code ran.
    pub kernel: Vec<Address>,
    /// User call chain, innermost first.
    pub user: Vec<Address>,
}

/// Source of stack samples.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampler {
    /// Non-maskable interrupt: samples code that disables interrupts.
    Nmi,
    /// Timer: samples code with disabled interrupts only when it enables them again.
    CpuClock,
    /// Profile interrupt of Windows, which is above device interrupts: samples code that blocks
    /// these, but code with interrupts disabled only when it enables them again.
    Profile,
}

/// Time span, `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Span {
    /// Start.
    pub from_ns: Nanos,
    /// End.
    pub to_ns: Nanos,
}

impl Span {
    /// Returns the span between two times.
    #[must_use]
    pub const fn new(from_ns: Nanos, to_ns: Nanos) -> Self {
        Self { from_ns, to_ns }
    }
}

/// Advance of a counter outside the kernel's control around an episode.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Stolen {
    /// Time that the hypervisor spent on something else on this CPU.
    pub time_ns: Nanos,
    /// Step of the counter; the true value can differ by one step.
    pub step_ns: Nanos,
}

/// Time that the hypervisor spent on something else on this CPU, by its clock with a resolution of
/// a nanosecond.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Steal {
    /// Previous reading.
    pub since_ns: Nanos,
    /// Reading that shows it, soon after the CPU continued.
    pub at_ns: Nanos,
    /// Steal time in between.
    pub time_ns: Nanos,
}

/// Event of a thread that could have continued, but whose control group had exhausted
/// its CPU quota.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Throttle {
    /// Time when it left the CPU.
    pub at_ns: Nanos,
    /// Thread that had to leave the CPU, or was woken while its group was throttled.
    pub tid: Tid,
    /// Number of the control group whose quota was exhausted: the thread's or one above
    /// it. `None` if unknown, or recorded by an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
}

/// Trace data of the flight recorder for a window on one CPU.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Evidence {
    /// Start of the window. Events before it show the activity at the start.
    pub from_ns: Nanos,
    /// End of the window.
    pub to_ns: Nanos,
    /// Whether a part of the window was overwritten.
    pub overwritten: bool,
    /// In time order.
    pub events: Vec<FlightEvent>,
    /// Threads that were throttled with their control group, in time order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttles: Vec<Throttle>,
    /// Times of the switches to threads that the kernel's fair server chose, and of the interrupts
    /// of these threads. They run above every real-time priority. `None` if the kernel does not
    /// show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Vec<Nanos>>,
    /// In time order; also a little before and after the window.
    pub samples: Vec<StackSample>,
    /// Source of the samples, and their interval; `None` without samples.
    pub sampler: Option<(Sampler, Nanos)>,
    /// `None` if no hypervisor's counter could be read.
    pub stolen: Option<Stolen>,
    /// Steal time, in time order; `None` if the hypervisor's clock could not be read,
    /// and only `stolen` is available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steals: Option<Vec<Steal>>,
    /// System management interrupts around the window, if counted.
    pub smis: Option<u32>,
    /// Spans when all of several recorded CPUs were silent.
    pub still: Vec<Span>,
    /// Spans without data, because records were lost or had not arrived.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Span>,
}

/// Late wakeup with trace data.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Episode {
    /// Number in the recording, from 1.
    pub number: u64,
    /// Line that was late.
    pub line: LineId,
    /// CPU of that line.
    pub cpu: Cpu,
    /// Number of the activation in the line.
    pub seq: u64,
    /// Programmed time, `CLOCK_MONOTONIC`.
    pub expiry_ns: Nanos,
    /// Used part of the timer slack that the thread allowed.
    #[serde(default, skip_serializing_if = "Nanos::is_zero")]
    pub slack_ns: Nanos,
    /// Time after the expiry of each stage that was seen.
    pub stages: BTreeMap<Stage, Nanos>,
    /// Latency threshold of the line.
    pub threshold_ns: Nanos,
    /// Whether the service had still not run when the measurement ended; see
    /// [`Activation::censored`]. The code that ran at the end is then not the service.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub censored: bool,
    /// Later expiries of the line that passed before the service ran, as times after
    /// `expiry_ns`. Each is a late wakeup with the causes of the time since it was due. With
    /// `causes`, each is a late cycle with a share of them, and its response is the latency minus
    /// this time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_ns: Vec<Nanos>,
    /// Thread of the line's service. `None` if the service is not a thread, or an earlier version
    /// recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<Tid>,
    /// Trace data of the time.
    pub evidence: Evidence,
    /// Causes of a cycle that the trace data of one CPU does not explain, because the
    /// thread waited or moved: `laggard attach` found them while it measured. They add up
    /// to the latency. Empty: the trace data explains the time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<RecordedCause>,
}

/// Cause that was found during the measurement.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct RecordedCause {
    /// Class of the cause.
    pub class: CauseClass,
    /// Name of the culprit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Arc<str>>,
    /// Reason for an unknown culprit, or an additional fact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<Because>,
    /// Thread that took part without being the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contender: Option<Arc<str>>,
    /// Part of the latency.
    pub time_ns: Nanos,
}

impl Episode {
    /// Creates the episode of a late wakeup; its thread and the trace data are
    /// added later.
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
            causes: Vec::new(),
        }
    }

    /// Returns the due time, `CLOCK_MONOTONIC`.
    pub fn due(&self) -> Nanos {
        (self.expiry_ns + self.slack_ns).min(self.end())
    }

    /// Returns the time from the expiry to the last stage.
    pub fn latency(&self) -> Nanos {
        self.stages.values().copied().max().unwrap_or_default()
    }

    /// Returns the time of a stage, `CLOCK_MONOTONIC`.
    pub fn at(&self, stage: Stage) -> Option<Nanos> {
        Some(self.expiry_ns + *self.stages.get(&stage)?)
    }

    /// Returns the first time when its CPU's activity matters: the expiry, or the interrupt if
    /// another CPU had its timer. `CLOCK_MONOTONIC`.
    pub fn here_from(&self) -> Nanos {
        self.at(Stage::IrqElsewhere).unwrap_or(self.expiry_ns)
    }

    /// Returns the time when the service ran or the measurement ended,
    /// `CLOCK_MONOTONIC`.
    pub fn end(&self) -> Nanos {
        self.expiry_ns + self.latency()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_priorities_are_converted_back_in_reverse_order() {
        for level in 0..=31 {
            assert_eq!(windows_level(windows_priority(level)), Some(level));
        }
        assert!(windows_priority(31) < windows_priority(0));
        assert_eq!(windows_level(139), None);
        assert_eq!(windows_level(-1), None);
    }

    #[test]
    fn address_is_parsed_from_its_exact_text_only() {
        let address = Address(0xffff_ffff_8100_0000);

        let text = serde_json::to_string(&address).unwrap();
        assert_eq!(text, "\"0xffffffff81000000\"");
        assert_eq!(serde_json::from_str::<Address>(&text).unwrap(), address);
        assert!(serde_json::from_str::<Address>("\"12\"").is_err());
    }

    #[test]
    fn episode_has_the_latency_of_its_activation() {
        let mut steps = [None; STAGES.len()];
        steps[Stage::Irq.index()] = Some(Nanos::from_us(5));
        steps[Stage::User.index()] = Some(Nanos::from_us(70));
        let activation = Activation::new(LineId(3), 9, Nanos::from_ms(1), steps);

        let episode = Episode::new(1, Cpu(2), &activation, Nanos::from_us(50));

        assert_eq!(episode.latency(), activation.latency());
        assert_eq!(episode.at(Stage::Irq), Some(Nanos::from_us(1005)));
        assert_eq!(episode.at(Stage::Waking), None);
        assert_eq!(episode.end(), Nanos::from_us(1075));
    }
}
