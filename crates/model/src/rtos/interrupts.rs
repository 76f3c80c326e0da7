//! Interrupts of a thread that computes.

use super::StolenInAll;
use crate::Nanos;

/// One interrupt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InterruptSeen {
    /// The ISR latency: from the last instruction of the thread that computed to the
    /// handler's first. Where that thread was not running at the time, from when
    /// another one or a softirq began, or from when the interrupt was asked for,
    /// whichever is the later.
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
