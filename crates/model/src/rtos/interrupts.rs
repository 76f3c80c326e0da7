//! Interrupts of a thread that computes.

use std::fmt;
use std::str::FromStr;

use super::StolenInAll;
use crate::{Nanos, nearest};

/// What interrupts the thread.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum InterruptSource {
    /// Another CPU, at instants of the kernel's timer.
    #[default]
    Cpu,
    /// A timer of the board's own (HPET).
    Hpet,
}

impl InterruptSource {
    const NAMES: [&str; 2] = ["cpu", "hpet"];
}

impl fmt::Display for InterruptSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cpu => Self::NAMES[0],
            Self::Hpet => Self::NAMES[1],
        })
    }
}

/// No source of interrupts has this name.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{name}` is no source of interrupts; use cpu or hpet{}", nearest(name, &InterruptSource::NAMES))]
pub struct UnknownInterruptSource {
    /// The name.
    pub name: String,
}

impl FromStr for InterruptSource {
    type Err = UnknownInterruptSource;

    fn from_str(text: &str) -> Result<Self, UnknownInterruptSource> {
        match text.trim() {
            "cpu" => Ok(Self::Cpu),
            "hpet" => Ok(Self::Hpet),
            other => Err(UnknownInterruptSource { name: other.into() }),
        }
    }
}

/// One interrupt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InterruptSeen {
    /// The ISR latency: from the last instruction of the thread that computed to the
    /// handler's first. Where that thread was not running at the time, from when
    /// another one or a softirq began, or from when the interrupt was asked for (of a
    /// timer of its own: a period after it last came), whichever is the later.
    pub latency: Nanos,
    /// Whether that thread itself was interrupted.
    pub is_of_thread: bool,
    /// From the handler's first instruction to its last.
    pub handler: Nanos,
    /// The ISR dispatch latency: from the handler's last instruction to the thread's
    /// next, with the softirqs between; `None`: another thread came between.
    pub dispatch: Option<Nanos>,
    /// What the hypervisor took of the CPU from the thread's last instruction to its
    /// next, at most; `None`: its clock cannot be read.
    pub stolen: Option<Nanos>,
}

/// Interrupts of a thread that reads the clock all the time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InterruptsSeen {
    /// What made them.
    pub source: InterruptSource,
    /// Those that were seen whole, in order.
    pub interrupts: Vec<InterruptSeen>,
    /// Those that came too close to another, or whose times do not agree.
    pub unkept: u64,
    /// From one reading of the clock to the next, on average: nothing is known to be
    /// shorter.
    pub reading: Nanos,
    /// What the hypervisor took of the CPU in all this time, as far as the system
    /// counts that.
    pub stolen: Option<StolenInAll>,
}
