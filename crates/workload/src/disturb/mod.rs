//! Disturbances: known faults, made on purpose, so that it can be checked
//! whether their effect is found and named (Jones and Regehr 1999, 4.4, 4.5).
//!
//! Every fault is bounded in length and in time, and is written down as what
//! really happened: a [`Hit`] has measured times, not those that were asked for.

mod clock;
mod fault;
mod hog;
mod kernel;
mod kind;
mod lock;
mod net;
mod refusal;
mod syscall;
mod throttle;
mod tick;

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use laggard_model::{Cpu, CpuList, Nanos};
use serde::{Deserialize, Serialize};

use crate::scheduling::{self, Policy};

pub use kind::{FaultKind, UnknownKind};
pub use refusal::DisturbRefused;

/// The fault to make, where, and for how long.
#[derive(Clone, Debug)]
pub struct Disturbance {
    /// The fault.
    pub kind: FaultKind,
    /// The length of one hit. Not for [`FaultKind::has_own_length`].
    pub length: Nanos,
    /// The time from one hit to the next. Not for [`FaultKind::has_own_period`].
    pub every: Nanos,
    /// The CPU that is hit.
    pub cpu: Cpu,
    /// How long in all.
    pub duration: Nanos,
    /// For [`FaultKind::Throttle`]: processes (their PIDs) that are stopped
    /// together with its own. They are put back at the end.
    pub victims: Vec<u32>,
}

/// One fault as it really happened.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Hit {
    /// The kind of fault.
    pub kind: FaultKind,
    /// When it began, `CLOCK_MONOTONIC`.
    pub start_ns: Nanos,
    /// How long it lasted.
    pub length_ns: Nanos,
    /// The CPU that was hit.
    pub cpu: Cpu,
}

/// A callback that is told of each hit.
pub type Tell<'a> = dyn Fn(&Hit) + Sync + 'a;

/// Why a fault could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DisturbError {
    /// It would be dangerous, or makes no sense.
    #[error(transparent)]
    Refused(#[from] DisturbRefused),
    /// The thread could not be placed or given its priority.
    #[error(
        "{kind}: cannot run at {policy} on CPU {cpu}; run as root, on a CPU that is online, in a control group that has time for real-time threads"
    )]
    Placement {
        /// The fault.
        kind: FaultKind,
        /// What was wanted, as a service is named.
        policy: String,
        /// The CPU that was to be hit.
        cpu: Cpu,
        /// What the system said.
        source: io::Error,
    },
    /// Something that the fault needs is refused.
    #[error("{kind}: cannot {act}")]
    Needs {
        /// The fault.
        kind: FaultKind,
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
        kind: FaultKind,
        /// How often it was tried.
        rounds: u64,
    },
}

impl DisturbError {
    /// Whether this machine cannot do what was asked, rather than that anything
    /// went wrong.
    #[must_use]
    pub const fn is_unmet(&self) -> bool {
        matches!(
            self,
            Self::Placement { .. } | Self::Needs { .. } | Self::Unseen { .. }
        )
    }
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
        FaultKind::Thread => hog::thread(&site),
        FaultKind::Queue => hog::queue(&site),
        FaultKind::Throttle => throttle::group(&site),
        FaultKind::RtThrottle => throttle::real_time(&site),
        FaultKind::PageFault => fault::run(&site),
        FaultKind::Lock => lock::run(&site, lock::Protocol::Plain),
        FaultKind::LockPi => lock::run(&site, lock::Protocol::Inherit),
        FaultKind::Net => net::run(&site),
        FaultKind::PreemptOff => syscall::run(&site),
        FaultKind::Softirq => kernel::run(&site, kernel::KernelContext::Softirq),
        FaultKind::Irq => kernel::run(&site, kernel::KernelContext::Irq),
        FaultKind::IrqsOff => kernel::run(&site, kernel::KernelContext::IrqsOff),
        FaultKind::Tick => tick::run(&site),
        FaultKind::Steal => Err(DisturbRefused::FromOutside.into()),
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
    fn hits_are_written_one_a_line_and_read_back() {
        let hits = [5, 6].map(|ms| Hit {
            kind: FaultKind::IrqsOff,
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
