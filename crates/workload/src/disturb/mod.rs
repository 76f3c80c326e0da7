//! Disturbances: known faults, made on purpose, so that it can be checked
//! whether their effect is found and named (Jones and Regehr 1999, 4.4, 4.5).
//!
//! Every fault is bounded in length and in time, and is written down as what
//! really happened: a [`Hit`] has measured times, not those that were asked for.

mod clock;
mod fault;
mod hog;
mod kernel;
mod lock;
mod net;
mod refusal;
mod syscall;
mod throttle;
mod tick;
mod watchdog;

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use laggard_model::{Cpu, CpuList, Nanos};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::scheduling::{self, Policy};

pub use refusal::Refused;

/// A known fault.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// A real-time thread above all measured ones computes.
    Thread,
    /// Normal threads compete with normal threads.
    Queue,
    /// A control group uses up its CPU quota and is stopped.
    Throttle,
    /// Real-time threads use up their share and are stopped.
    RtThrottle,
    /// A real-time thread touches fresh memory.
    PageFault,
    /// Priority inversion: a thread waits for a lock whose holder is kept
    /// from running by a third.
    Lock,
    /// The same with a mutex that inherits priorities.
    LockPi,
    /// A flood of packets over the loopback device.
    Net,
    /// A system call that runs long without letting others in, where the
    /// kernel does not preempt itself.
    PreemptOff,
    /// A timer's callback in a softirq computes.
    Softirq,
    /// The handler of the timer interrupt computes.
    Irq,
    /// A thread computes with interrupts disabled.
    IrqsOff,
    /// A timer is served only on a hidden tick.
    Tick,
}

impl Kind {
    /// Every fault.
    pub const ALL: [Self; 13] = [
        Self::Thread,
        Self::Queue,
        Self::Throttle,
        Self::RtThrottle,
        Self::PageFault,
        Self::Lock,
        Self::LockPi,
        Self::Net,
        Self::PreemptOff,
        Self::Softirq,
        Self::Irq,
        Self::IrqsOff,
        Self::Tick,
    ];

    /// The name by which a user asks for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Queue => "queue",
            Self::Throttle => "throttle",
            Self::RtThrottle => "rt-throttle",
            Self::PageFault => "page-fault",
            Self::Lock => "lock",
            Self::LockPi => "lock-pi",
            Self::Net => "net",
            Self::PreemptOff => "preempt-off",
            Self::Softirq => "softirq",
            Self::Irq => "irq",
            Self::IrqsOff => "irqs-off",
            Self::Tick => "tick",
        }
    }

    /// What it does and whom it makes late, in one line.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Thread => "a thread at fifo:95 computes: delays every thread",
            Self::Queue => "four normal threads compute: delay normal threads",
            Self::Throttle => "a control group beyond its CPU quota: stops the processes in it",
            Self::RtThrottle => {
                "a thread at fifo:95 never stops: delays every thread, then is stopped by the kernel"
            }
            Self::PageFault => "a thread at fifo:95 has page faults: delays every thread",
            Self::Lock => {
                "priority inversion at fifo:60, 70 and 80: delays its own waiter and all below"
            }
            Self::LockPi => "the same with priority inheritance",
            Self::Net => "a normal thread sends packets to itself: delays by softirqs",
            Self::PreemptOff => {
                "a normal thread in a long system call: delays every thread on kernels without preemption"
            }
            Self::Softirq => {
                "a timer's callback in a softirq computes: delays softirqs, workers and threads"
            }
            Self::Irq => "the timer interrupt's handler computes: delays everything on its CPU",
            Self::IrqsOff => {
                "a thread computes with interrupts disabled: delays everything on its CPU"
            }
            Self::Tick => "a timer is served only on a tick of 976.5625 us: its own waits are late",
        }
    }

    /// Whether its length cannot be chosen: it comes from the kernel's
    /// settings or the tick.
    pub const fn has_own_length(self) -> bool {
        matches!(self, Self::RtThrottle | Self::Tick)
    }

    /// Whether its period cannot be chosen: it comes from the kernel's
    /// settings.
    pub const fn has_own_period(self) -> bool {
        matches!(self, Self::RtThrottle)
    }

    /// Length and period unless asked otherwise: where they fit, those of the
    /// DEC dc21x4 Ethernet driver (Jones and Regehr 1999, 4.4).
    pub const fn usual_times(self) -> (Nanos, Nanos) {
        match self {
            Self::Throttle => (Nanos::from_ms(40), Nanos::from_ms(100)),
            Self::Tick => (Nanos::ZERO, Nanos::from_ms(1)),
            _ => (Nanos::from_ms(7), Nanos::from_secs(5)),
        }
    }

    /// Whether it computes in the kernel, which no thread preempts.
    const fn is_in_kernel(self) -> bool {
        matches!(self, Self::Softirq | Self::Irq | Self::IrqsOff)
    }

    /// Whether it computes in real-time threads, which nothing preempts.
    const fn is_real_time(self) -> bool {
        matches!(
            self,
            Self::Thread | Self::RtThrottle | Self::PageFault | Self::Lock | Self::LockPi
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No fault has this name.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{0}` is not a known fault; use thread, queue, throttle, rt-throttle, page-fault, lock, lock-pi, net, preempt-off, softirq, irq, irqs-off or tick"
)]
pub struct UnknownKind(pub String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownKind(name.into()))
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

/// What is to be made, where and how long.
#[derive(Clone, Debug)]
pub struct Disturbance {
    /// The fault.
    pub kind: Kind,
    /// The length of one hit. Not for [`Kind::has_own_length`].
    pub length: Nanos,
    /// The time from one hit to the next. Not for [`Kind::has_own_period`].
    pub every: Nanos,
    /// Where.
    pub cpu: Cpu,
    /// How long in all.
    pub duration: Nanos,
    /// For [`Kind::Throttle`]: processes (their PIDs) that are stopped
    /// together with its own. They are put back at the end.
    pub victims: Vec<u32>,
}

/// One fault as it really was.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Hit {
    /// What.
    pub kind: Kind,
    /// When it began, `CLOCK_MONOTONIC`.
    pub start_ns: Nanos,
    /// How long it lasted.
    pub length_ns: Nanos,
    /// Where.
    pub cpu: Cpu,
}

/// Is told of each hit.
pub type Tell<'a> = dyn Fn(&Hit) + Sync + 'a;

/// Why a fault could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DisturbError {
    /// It would be dangerous, or makes no sense.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The thread could not be placed or given its priority.
    #[error(
        "{kind}: cannot run at {policy} on CPU {cpu}; run as root, on a CPU that is online, in a control group that has time for real-time threads"
    )]
    Placement {
        /// The fault.
        kind: Kind,
        /// What was wanted, as a service is named.
        policy: String,
        /// Where.
        cpu: Cpu,
        /// What the system said.
        source: io::Error,
    },
    /// Something that the fault needs is refused.
    #[error("{kind}: cannot {act}")]
    Needs {
        /// The fault.
        kind: Kind,
        /// What was tried.
        act: String,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel took the fault and never ran it.
    #[error(
        "{kind}: the kernel did not run its program in any of {rounds} rounds; see whether `thread` works on this CPU"
    )]
    Unseen {
        /// The fault.
        kind: Kind,
        /// How often it was tried.
        rounds: u64,
    },
}

/// Makes the fault until the plan's end or until `stop` is set. The result is
/// every hit, in order.
///
/// # Errors
/// When the plan is refused, or the system refuses what it needs. Everything
/// that was changed is put back.
pub fn run(plan: &Disturbance, stop: &AtomicBool) -> Result<Vec<Hit>, DisturbError> {
    run_telling(plan, stop, &|_| {})
}

/// As [`run`], and calls `tell` with each hit once it is over. That is called
/// in a thread of the fault, so it should return soon.
///
/// # Errors
/// As [`run`].
pub fn run_telling(
    plan: &Disturbance,
    stop: &AtomicBool,
    tell: &Tell<'_>,
) -> Result<Vec<Hit>, DisturbError> {
    plan.check()?;
    let site = Site { plan, stop, tell };
    match plan.kind {
        Kind::Thread => hog::thread(&site),
        Kind::Queue => hog::queue(&site),
        Kind::Throttle => throttle::group(&site),
        Kind::RtThrottle => throttle::real_time(&site),
        Kind::PageFault => fault::run(&site),
        Kind::Lock => lock::run(&site, lock::Protocol::Plain),
        Kind::LockPi => lock::run(&site, lock::Protocol::Inherit),
        Kind::Net => net::run(&site),
        Kind::PreemptOff => syscall::run(&site),
        Kind::Softirq => kernel::run(&site, kernel::Context::Softirq),
        Kind::Irq => kernel::run(&site, kernel::Context::Irq),
        Kind::IrqsOff => kernel::run(&site, kernel::Context::IrqsOff),
        Kind::Tick => tick::run(&site),
    }
}

/// Writes hits as one line of JSON each.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_hits(hits: &[Hit], mut out: impl Write) -> io::Result<()> {
    for hit in hits {
        serde_json::to_writer(&mut out, hit)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// A plan being carried out.
struct Site<'a> {
    plan: &'a Disturbance,
    stop: &'a AtomicBool,
    tell: &'a Tell<'a>,
}

impl Site<'_> {
    /// Puts the calling thread on the plan's CPU with this policy.
    fn place(&self, policy: Policy) -> Result<(), DisturbError> {
        scheduling::pin(&CpuList::from_iter([self.plan.cpu]))
            .and_then(|()| scheduling::set(policy))
            .map_err(|source| DisturbError::Placement {
                kind: self.plan.kind,
                policy: match policy {
                    Policy::Other => "other".into(),
                    Policy::Fifo(priority) => format!("fifo:{priority}"),
                },
                cpu: self.plan.cpu,
                source,
            })
    }

    /// An error about something that this fault needs.
    fn needs<E: Into<io::Error>>(&self, act: impl Into<String>) -> impl FnOnce(E) -> DisturbError {
        let (kind, act) = (self.plan.kind, act.into());
        move |source| DisturbError::Needs {
            kind,
            act,
            source: source.into(),
        }
    }

    /// A hit here, from `start` until now.
    fn hit_since(&self, start: Nanos) -> Hit {
        self.hit(start, clock::now().saturating_sub(start))
    }

    /// A hit here.
    const fn hit(&self, start_ns: Nanos, length_ns: Nanos) -> Hit {
        Hit {
            kind: self.plan.kind,
            start_ns,
            length_ns,
            cpu: self.plan.cpu,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_found_by_its_name_and_named_in_the_error() {
        let err = "flood".parse::<Kind>().unwrap_err().to_string();

        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert!(err.contains(kind.name()), "{kind} is not in: {err}");
        }
    }

    #[test]
    fn hits_are_written_one_a_line_and_read_back() {
        let hits = [5, 6].map(|ms| Hit {
            kind: Kind::IrqsOff,
            start_ns: Nanos::from_ms(ms),
            length_ns: Nanos::from_us(7),
            cpu: Cpu(1),
        });
        let mut text = Vec::new();

        write_hits(&hits, &mut text).unwrap();

        let text = String::from_utf8(text).unwrap();
        assert_eq!(
            text.lines().next(),
            Some(r#"{"kind":"irqs-off","start_ns":5000000,"length_ns":7000,"cpu":1}"#)
        );
        let read: Vec<Hit> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(read, hits);
    }
}
