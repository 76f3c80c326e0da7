//! A thread whose timer descriptor leads to a work item.
//!
//! Where the kernel refuses timers with a callback of ours (`PREEMPT_RT`), a
//! timer descriptor's timer still expires in softirq context. Nobody waits for
//! that descriptor, so its expiry wakes no thread; the program that sees its
//! softirq end starts the work item (`worker.bpf.c`), which completes the slot.
//! This thread arms it, and looks between expiries whether that has happened.

use std::sync::atomic::{Ordering, compiler_fence};

use laggard_model::{Nanos, Service};

use super::board::{CpuBoard, Slot};
use super::clock;
use super::lines::Turn;
use super::soft::SoftTimer;
use super::thread::{Shared, advance};
use crate::timeline::Timeline;

/// What it runs as: above normal threads, so that it arms in time, and below
/// everything that is measured.
pub(super) const SERVICE: Service = Service::Fifo(1);

/// It looks this often between two expiries, from the middle on.
const LOOKS: u64 = 16;

/// Arms `timer` for each expiry at which the work item before has run.
pub(super) fn carry(
    shared: &Shared,
    cpu: &CpuBoard,
    index: usize,
    ring: &[Slot],
    mut timeline: Timeline,
    turn: Turn,
    timer: &SoftTimer,
) {
    let (line, expiry) = (&cpu.lines[index], &cpu.expiries[index]);
    let room = ring.len() as u64;
    let first = cpu.lines_first_slot.load(Ordering::Relaxed) + index as u64 * room;
    let mut lost = 0;
    advance(&mut timeline, turn.first);
    while !shared.stop.load(Ordering::Relaxed) {
        let planned = timeline.expiry();
        // The work item advances `head`, and has since the wait below.
        let head = line.head.load(Ordering::Acquire);
        if head - line.tail.load(Ordering::Acquire) < room {
            #[allow(clippy::cast_possible_truncation)]
            let slot = &ring[(head % room) as usize];
            slot.begin(timeline.seq() / turn.stride, planned, lost);
            lost = 0;
            line.slot.store(first + head % room, Ordering::Relaxed);
            expiry.store(planned.ns(), Ordering::Relaxed);
            line.waiting.store(1, Ordering::Release);
            // The programs run on this CPU, so they see the stores in order as
            // long as the compiler keeps them so.
            compiler_fence(Ordering::SeqCst);
            timer.arm(planned);
        } else {
            lost += 1;
        }
        line.lost.store(lost, Ordering::Relaxed);
        advance(&mut timeline, turn.stride);
        let gap = timeline.expiry().saturating_sub(planned).ns();
        clock::sleep_until(planned + Nanos::from_ns(gap / 2));
        while line.waiting.load(Ordering::Acquire) != 0 && !shared.stop.load(Ordering::Relaxed) {
            clock::sleep_until(clock::now() + Nanos::from_ns(gap / LOOKS));
        }
        let now = clock::now();
        while timeline.expiry() <= now {
            advance(&mut timeline, turn.stride);
        }
    }
}
