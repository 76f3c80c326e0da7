//! The kinds of faults: names, what each does, what can be chosen.

use std::fmt;
use std::str::FromStr;

use laggard_model::Nanos;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A known fault.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum FaultKind {
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
    /// The hypervisor stops the machine. Only made from outside, on a test
    /// host.
    Steal,
}

impl FaultKind {
    /// Every kind of fault.
    pub const ALL: [Self; 14] = [
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
        Self::Steal,
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
            Self::Steal => "steal",
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
            Self::Steal => "the hypervisor stops the machine: only on test hosts, from outside",
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
            Self::Thread
            | Self::Queue
            | Self::RtThrottle
            | Self::PageFault
            | Self::Lock
            | Self::LockPi
            | Self::Net
            | Self::PreemptOff
            | Self::Softirq
            | Self::Irq
            | Self::IrqsOff
            | Self::Steal => (Nanos::from_ms(7), Nanos::from_secs(5)),
        }
    }

    /// Whether it computes in the kernel, which no thread preempts.
    pub(super) const fn is_in_kernel(self) -> bool {
        matches!(self, Self::Softirq | Self::Irq | Self::IrqsOff)
    }

    /// Whether it computes in real-time threads, which nothing preempts.
    pub(super) const fn is_real_time(self) -> bool {
        matches!(
            self,
            Self::Thread | Self::RtThrottle | Self::PageFault | Self::Lock | Self::LockPi
        )
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No fault has this name.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{0}` is not a known fault; use thread, queue, throttle, rt-throttle, page-fault, lock, lock-pi, net, preempt-off, softirq, irq, irqs-off, tick or steal"
)]
pub struct UnknownKind(pub String);

impl FromStr for FaultKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownKind(name.into()))
    }
}

impl Serialize for FaultKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FaultKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_found_by_its_name_and_named_in_the_error() {
        let err = "flood".parse::<FaultKind>().unwrap_err().to_string();

        for kind in FaultKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert!(err.contains(kind.name()), "{kind} is not in: {err}");
        }
    }
}
