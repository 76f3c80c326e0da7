//! `SCHED_DEADLINE` for a measuring thread, of which a CPU has one.
//!
//! Such a thread may run on all CPUs that share their bandwidth, and stays where it is
//! unless it has used up what it may run for in a period, as when its hypervisor
//! stopped the CPU meanwhile: then the kernel moves it to whichever CPU is free. It is
//! not brought home: on Linux 6.18 one whose policy was changed to do that while it was
//! throttled never ran again, and could not be killed.

use std::io;

use laggard_model::Nanos;

use super::{online_cpus, policy};

/// What a deadline thread may run for, in each ...
const RUNTIME: Nanos = Nanos::from_ms(5);
/// ... of these, before whose end it has had that: much more than its activations
/// take, so that it is moved seldom, and little enough that others can be promised
/// time.
const PERIOD: Nanos = Nanos::from_ms(20);

/// Gives the calling thread `SCHED_DEADLINE`, and the right to run anywhere, without
/// which the kernel refuses it.
pub(super) fn schedule() -> io::Result<()> {
    policy::pin_to(&online_cpus())?;
    policy::schedule_by_deadline(RUNTIME, PERIOD)
}
