//! A thread whose timer descriptor leads to a work item.
//!
//! Where the kernel refuses timers with a callback of ours (`PREEMPT_RT`), a
//! timer descriptor's timer still expires in softirq context. Nobody waits for
//! that descriptor, so its expiry wakes no thread. The program that sees it
//! claims a slot (`chain.bpf.c`), the one that sees its softirq end starts the
//! work item (`worker.bpf.c`), which completes the slot. This thread only arms
//! it, half the way between two expiries, whether or not the item before has
//! run: an expiry that finds the item waiting is missed, as everywhere.

use std::sync::atomic::{Ordering, compiler_fence};

use laggard_model::{Nanos, Service};

use super::board::CpuBoard;
use super::clock;
use super::lines::Turn;
use super::soft::SoftTimer;
use super::thread::{Shared, advance};
use crate::timeline::Timeline;

/// What it runs as: above normal threads and the kernel's own at FIFO 1 (`rcuc`,
/// `ktimers`), which hold the CPU for more than a millisecond at times, so that
/// it arms in time; and below what is measured.
pub(super) const SERVICE: Service = Service::Fifo(2);

/// Where an expiry is late, it looks this often between two whether it came; and
/// it arms the timer at least that long before.
const LOOKS: u64 = 16;

/// Arms `timer` for each expiry that it gets to before.
pub(super) fn carry(
    shared: &Shared,
    cpu: &CpuBoard,
    index: usize,
    mut timeline: Timeline,
    turn: Turn,
    timer: &SoftTimer,
) {
    let expiry = &cpu.expiries[index];
    advance(&mut timeline, turn.first);
    while !shared.stop.load(Ordering::Relaxed) {
        let planned = timeline.expiry();
        cpu.carried_seq
            .store(timeline.seq() / turn.stride, Ordering::Relaxed);
        expiry.store(planned.ns(), Ordering::Relaxed);
        // The programs run on this CPU, so they see the stores in order as
        // long as the compiler keeps them so.
        compiler_fence(Ordering::SeqCst);
        timer.arm(planned);
        advance(&mut timeline, turn.stride);
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
        let soon = clock::now() + look;
        while timeline.expiry() <= soon {
            advance(&mut timeline, turn.stride);
        }
    }
}
