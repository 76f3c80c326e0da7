//! A thread whose timer descriptor leads to a work item.
//!
//! Where the kernel refuses timers with a callback of ours (`PREEMPT_RT`), a
//! timer descriptor's timer still expires in softirq context. Nobody waits for
//! that descriptor, so its expiry wakes no thread. The program that sees it
//! claims a slot (`chain.bpf.c`), the one that sees its softirq end starts the
//! work item (`worker.bpf.c`), which completes the slot. This thread only arms
//! it, half the way between two expiries, whether or not the item before has
//! run: an expiry that finds the item waiting is missed, as everywhere.
//!
//! A real-time thread of somebody else keeps it from arming, and keeps work
//! items, which run in normal threads, from running. So what it did not come to
//! arm is missed too: no item could have run before it came itself.

use std::sync::atomic::{Ordering, compiler_fence};

use laggard_model::{Cpu, Nanos, Service};

use super::clock;
use super::passed::Passed;
use super::soft::SoftTimer;
use super::thread::{Duty, LinePlan, RunState};
use crate::board::LineWriter;

/// What it runs as: above normal threads and the kernel's own at FIFO 1 (`rcuc`,
/// `ktimers`), which hold the CPU for more than a millisecond at times, so that
/// it arms in time; and below what is measured.
pub(super) const SERVICE: Service = Service::Fifo(2);

/// Where an expiry is late, it looks this often between two whether it came; and
/// it arms the timer at least that long before.
const LOOKS: u64 = 16;

/// Arms its timer for each expiry that it gets to before.
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
    passed: &Passed,
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
        // The programs run on this CPU, so they see the stores in order as
        // long as the compiler keeps them so.
        compiler_fence(Ordering::SeqCst);
        timer.arm(planned);
        let armed = clock::now();
        if armed >= planned {
            passed.note(number, number + 1, armed);
        }
        timeline.advance_by(turn.stride);
        let gap = timeline.expiry().saturating_sub(planned).ns();
        let look = Nanos::from_ns(gap / LOOKS);
        clock::sleep_until(planned + Nanos::from_ns(gap / 2));
        // The program that sees the expiry forgets it.
        while expiry.load(Ordering::Relaxed) != 0 && !shared.stop.load(Ordering::Relaxed) {
            // In this order: the program forgets an expiry before its descriptor
            // tells of it.
            if timer.has_expired() && expiry.swap(0, Ordering::Relaxed) != 0 {
                // Linux 7.2 does not queue a timer that is armed too late, so
                // nothing sees it expire. The gap in the numbers is counted.
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
