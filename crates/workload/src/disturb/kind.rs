//! Kinds of faults: their names, effects and parameters.

use std::fmt;
use std::str::FromStr;

use laggard_model::Nanos;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum FaultKind {
    /// A real-time thread above all measured ones computes.
    Thread,
    /// Normal threads compete with normal threads.
    Queue,
    /// A control group exhausts its CPU quota and is throttled.
    Throttle,
    /// Real-time threads exhaust their share and are throttled.
    RtThrottle,
    /// A real-time thread touches fresh memory.
    PageFault,
    /// Priority inversion: a thread waits for a lock whose holder is preempted by a
    /// third.
    Lock,
    /// Priority inversion with a mutex that inherits priorities.
    LockPi,
    /// A flood of packets over the loopback device.
    Net,
    /// A long system call that does not reschedule, on a kernel without preemption.
    PreemptOff,
    /// A timer callback computes in a softirq.
    Softirq,
    /// The handler of the timer interrupt computes.
    Irq,
    /// A thread computes with interrupts disabled.
    IrqsOff,
    /// A timer expires only on a hidden tick.
    Tick,
    /// The hypervisor stops the machine. Only made from outside, on a test host.
    Steal,
}

impl FaultKind {
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

    /// Returns the name on the command line.
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

    /// Returns the effect and the affected services in one line.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Thread => "a thread at fifo:95 computes: delays every thread",
            Self::Queue => "four normal threads compute: delay normal threads",
            Self::Throttle => "a control group beyond its CPU quota: throttles the processes in it",
            Self::RtThrottle => {
                "a thread at fifo:95 never sleeps: delays every thread until the kernel throttles it"
            }
            Self::PageFault => "a thread at fifo:95 has page faults: delays every thread",
            Self::Lock => {
                "priority inversion at fifo:60, 70 and 80: delays its waiter and all threads below"
            }
            Self::LockPi => "the same with priority inheritance",
            Self::Net => "a normal thread sends packets to itself: delays threads by softirqs",
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
            Self::Tick => "a timer expires only on a tick of 976.5625 us: its waits are late",
            Self::Steal => "the hypervisor stops the machine: only on test hosts, from outside",
        }
    }

    /// Returns whether the length is fixed by the kernel's settings or the tick.
    pub const fn has_own_length(self) -> bool {
        matches!(self, Self::RtThrottle | Self::Tick)
    }

    /// Returns whether the period is fixed by the kernel's settings.
    pub const fn has_own_period(self) -> bool {
        matches!(self, Self::RtThrottle)
    }

    /// Returns the default length and period: if applicable, the values of the DEC dc21x4 Ethernet
    /// driver (Jones and Regehr 1999, 4.4).
    pub const fn usual_times(self) -> (Nanos, Nanos) {
        match self {
            Self::Throttle => (Nanos::from_ms(40), Nanos::from_ms(100)),
            Self::Tick => (Nanos::ZERO, Nanos::from_ms(1)),
            _ => (Nanos::from_ms(7), Nanos::from_secs(5)),
        }
    }

    /// Returns whether the fault computes in the kernel, which no thread preempts.
    pub(super) const fn is_in_kernel(self) -> bool {
        matches!(self, Self::Softirq | Self::Irq | Self::IrqsOff)
    }

    /// Returns whether the fault computes in real-time threads, which normal threads do
    /// not preempt.
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
    fn every_fault_has_a_unique_name_that_errors_list() {
        let err = "flood".parse::<FaultKind>().unwrap_err().to_string();

        for kind in FaultKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert!(err.contains(kind.name()), "{kind} is not in: {err}");
        }
    }
}
