//! Thread whose timer descriptor starts a work item.
//!
//! If the kernel refuses timers with a BPF callback (`PREEMPT_RT`), the timer of a timer
//! descriptor still expires in softirq context. No thread waits for this descriptor, so its
//! expiry wakes no thread. The BPF program that sees the expiry claims a slot (`chain.bpf.c`).
//! The program that sees the end of the softirq starts the work item (`worker.bpf.c`), which
//! completes the slot. This thread only arms the timer, half-way between two expiries, whether or
//! not the previous item has run. An expiry that finds the item still waiting is missed, as for
//! every service.
//!
//! A foreign real-time thread prevents this thread from arming the timer, and prevents work
//! items, which run in `SCHED_OTHER` threads, from running. Expiries that this thread did not arm
//! are therefore missed, too: no item could have run before this thread ran.

use std::sync::atomic::{Ordering, compiler_fence};

use laggard_model::{Cpu, Nanos, Service};

use super::clock;
use super::passed::PassedExpiries;
use super::soft::SoftTimer;
use super::thread::{Duty, LinePlan, RunState};
use crate::board::LineWriter;

/// Scheduling of the thread. It is above `SCHED_OTHER` threads and kernel threads at FIFO 1
/// (`rcuc`, `ktimers`). They sometimes hold the CPU for more than a millisecond and would delay the
/// arming. It is below the measured services.
pub(super) const SERVICE: Service = Service::Fifo(2);

/// Number of checks between two expiries for an expiry that is late. The timer is armed at least
/// that long before its expiry.
const CHECKS_PER_PERIOD: u64 = 16;

/// Arms its timer for each expiry that has not passed.
#[derive(Debug)]
pub(super) struct Carrier(pub(super) SoftTimer);

impl Duty for Carrier {
    fn name_suffix(&self) -> &'static str {
        "w"
    }

    fn serves(&self) -> Option<bool> {
        Some(false)
    }

    fn descriptor(&self) -> Option<&SoftTimer> {
        Some(&self.0)
    }

    fn measure(&self, shared: &RunState, cpu: Cpu, line: LineWriter<'_>, plan: Option<LinePlan>) {
        if let (Some(plan), Some(passed)) = (plan, shared.passed.get(&cpu.0)) {
            carry(shared, line, plan, &self.0, passed);
        }
    }
}

fn carry(
    shared: &RunState,
    line: LineWriter<'_>,
    (mut timeline, turn): LinePlan,
    timer: &SoftTimer,
    passed: &PassedExpiries,
) {
    let cpu = line.cpu();
    let expiry = &cpu.expiries[line.index()];
    timeline.advance_by(turn.first);
    while !shared.stop.load(Ordering::Relaxed) {
        let planned = timeline.expiry();
        let number = timeline.seq();
        cpu.carried_seq
            .store(number / turn.stride, Ordering::Relaxed);
        expiry.store(planned.ns(), Ordering::Relaxed);
        // The programs run on this CPU, so they see the stores in this order if the compiler
        // keeps it.
        compiler_fence(Ordering::SeqCst);
        timer.arm(planned);
        let armed = clock::now();
        if armed >= planned {
            passed.note(number, number + 1, armed);
        }
        timeline.advance_by(turn.stride);
        let gap = timeline.expiry().saturating_sub(planned).ns();
        let look = Nanos::from_ns(gap / CHECKS_PER_PERIOD);
        clock::sleep_until(planned + Nanos::from_ns(gap / 2));
        // The program that sees the expiry resets it.
        while expiry.load(Ordering::Relaxed) != 0 && !shared.stop.load(Ordering::Relaxed) {
            // In this order: the program resets an expiry before its descriptor reports it.
            if timer.has_expired() && expiry.swap(0, Ordering::Relaxed) != 0 {
                // Linux 7.2 does not queue a timer that is armed too late, so no program sees its
                // expiry. The gap in the numbers is counted.
                break;
            }
            clock::sleep_until(clock::now() + look);
        }
        let now = clock::now();
        let first = timeline.seq();
        while timeline.expiry() <= now {
            timeline.advance_by(turn.stride);
        }
        passed.note(first, timeline.seq(), now);
        while timeline.expiry() <= now + look {
            timeline.advance_by(turn.stride);
        }
    }
}
