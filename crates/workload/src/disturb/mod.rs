//! Injected faults, to test whether laggard finds and names their effect (Jones and
//! Regehr 1999, 4.4, 4.5).
//!
//! Every fault is limited in length and duration. A [`Hit`] has the measured times, not
//! the requested ones.

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

/// Fault to inject, with its place and times.
#[derive(Clone, Debug)]
pub struct Disturbance {
    pub kind: FaultKind,
    /// Length of a hit. Not for [`FaultKind::has_own_length`].
    pub length: Nanos,
    /// Period of the hits. Not for [`FaultKind::has_own_period`].
    pub every: Nanos,
    pub cpu: Cpu,
    /// Total duration.
    pub duration: Nanos,
    /// For [`FaultKind::Throttle`]: PIDs of processes that are throttled together with
    /// its busy process. They return to their groups at the end.
    pub victims: Vec<u32>,
}

/// One injected fault with its measured times.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Hit {
    pub kind: FaultKind,
    /// Start, `CLOCK_MONOTONIC`.
    pub start_ns: Nanos,
    pub length_ns: Nanos,
    pub cpu: Cpu,
}

/// Callback that gets each hit.
pub type Tell<'a> = dyn Fn(&Hit) + Sync + 'a;

/// Reason why a fault could not be injected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DisturbError {
    /// The fault would be dangerous or ineffective.
    #[error(transparent)]
    Refused(#[from] DisturbRefused),
    /// The thread could not be placed or given its priority.
    #[error(
        "{kind}: cannot run at {policy} on CPU {cpu}; run as root, on a CPU that is online, in a control group that has time for real-time threads"
    )]
    Placement {
        kind: FaultKind,
        /// Requested policy, in the notation of services.
        policy: String,
        cpu: Cpu,
        source: io::Error,
    },
    /// The system refuses a prerequisite of the fault.
    #[error("{kind}: cannot {act}")]
    Needs {
        kind: FaultKind,
        /// Refused operation.
        act: String,
        source: io::Error,
    },
    /// The kernel accepted the fault and never ran it.
    #[error(
        "{kind}: the kernel did not run its program in any of {rounds} rounds; check whether `thread` works on this CPU"
    )]
    Unseen {
        kind: FaultKind,
        /// Number of attempts.
        rounds: u64,
    },
}

impl DisturbError {
    /// Returns whether this machine lacks a prerequisite, as opposed to a failure.
    #[must_use]
    pub const fn is_unmet(&self) -> bool {
        matches!(
            self,
            Self::Placement { .. } | Self::Needs { .. } | Self::Unseen { .. }
        )
    }
}

/// Injects the fault until the end of the plan or until `stop` is set. Returns every
/// hit, in order.
///
/// # Errors
/// If the plan or the system refuses the fault. All changes are undone.
pub fn run(plan: &Disturbance, stop: &AtomicBool) -> Result<Vec<Hit>, DisturbError> {
    run_telling(plan, stop, &|_| {})
}

/// Injects the fault as [`run`] does, and calls `tell` with each hit when it is over.
/// The callback runs in a thread of the fault and must return soon.
///
/// # Errors
/// As for [`run`].
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

/// Plan in progress.
struct Site<'a> {
    plan: &'a Disturbance,
    stop: &'a AtomicBool,
    tell: &'a Tell<'a>,
}

impl Site<'_> {
    /// Moves the calling thread to the plan's CPU with this policy.
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

    /// Creates an error about a prerequisite of this fault.
    fn needs<E: Into<io::Error>>(&self, act: impl Into<String>) -> impl FnOnce(E) -> DisturbError {
        let (kind, act) = (self.plan.kind, act.into());
        move |source| DisturbError::Needs {
            kind,
            act,
            source: source.into(),
        }
    }

    /// Creates a hit on the plan's CPU, from `start` until now.
    fn hit_since(&self, start: Nanos) -> Hit {
        self.hit(start, clock::now().saturating_sub(start))
    }

    /// Creates a hit on the plan's CPU.
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
    fn hits_are_written_one_per_line_and_read_back() {
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
