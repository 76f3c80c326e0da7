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

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use laggard_model::{Cpu, Nanos, Service};

use super::clock;
use super::soft::SoftTimer;
use super::thread::{Duty, Plan, Shared};
use crate::board::LineWriter;

/// What it runs as: above normal threads and the kernel's own at FIFO 1 (`rcuc`,
/// `ktimers`), which hold the CPU for more than a millisecond at times, so that
/// it arms in time; and below what is measured.
pub(super) const SERVICE: Service = Service::Fifo(2);

/// Where an expiry is late, it looks this often between two whether it came; and
/// it arms the timer at least that long before.
const LOOKS: u64 = 16;

/// How often it can be late between two looks of the collector.
const MOST_PASSED: usize = 1024;

/// The expiries that the thread did not come to arm in time, and when it came:
/// written by the thread, read by the collector.
#[derive(Debug)]
pub(crate) struct Passed {
    entries: Vec<[AtomicU64; 3]>,
    head: AtomicU64,
    tail: AtomicU64,
}

impl Default for Passed {
    fn default() -> Self {
        let entry = || [const { AtomicU64::new(0) }; 3];
        Self {
            entries: std::iter::repeat_with(entry).take(MOST_PASSED).collect(),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
        }
    }
}

impl Passed {
    #[allow(clippy::cast_possible_truncation)]
    fn entry(&self, number: u64) -> &[AtomicU64; 3] {
        &self.entries[number as usize % MOST_PASSED]
    }

    /// Notes that it came to expiries `first` to `end` (of the timeline, without
    /// the last) at `came`. Where there is no room, they count as lost.
    fn note(&self, first: u64, end: u64, came: Nanos) {
        let head = self.head.load(Ordering::Relaxed);
        if first == end || head - self.tail.load(Ordering::Acquire) == MOST_PASSED as u64 {
            return;
        }
        for (field, value) in self.entry(head).iter().zip([first, end, came.ns()]) {
            field.store(value, Ordering::Relaxed);
        }
        self.head.store(head + 1, Ordering::Release);
    }

    /// Hands each expiry since the last call to `take`, with when it came.
    pub(super) fn drain(&self, mut take: impl FnMut(u64, Nanos)) {
        let head = self.head.load(Ordering::Acquire);
        for entry in self.tail.load(Ordering::Relaxed)..head {
            let [first, end, came] = self.entry(entry).each_ref();
            let came = Nanos::from_ns(came.load(Ordering::Relaxed));
            let numbers = first.load(Ordering::Relaxed)..end.load(Ordering::Relaxed);
            numbers.for_each(|number| take(number, came));
        }
        self.tail.store(head, Ordering::Release);
    }
}

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

    fn measure(&self, shared: &Shared, cpu: Cpu, line: LineWriter<'_>, plan: Option<Plan>) {
        if let (Some(plan), Some(passed)) = (plan, shared.passed.get(&cpu.0)) {
            carry(shared, line, plan, &self.0, passed);
        }
    }
}

fn carry(
    shared: &Shared,
    line: LineWriter<'_>,
    (mut timeline, turn): Plan,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read_once_and_no_room_is_no_harm() {
        let passed = Passed::default();
        let read = || {
            let mut all = Vec::new();
            passed.drain(|number, came| all.push((number, came.ns())));
            all
        };

        passed.note(3, 5, Nanos::from_ns(70));

        assert_eq!(read(), [(3, 70), (4, 70)]);
        assert_eq!(read(), []);
        for number in 0..2 * MOST_PASSED as u64 {
            passed.note(number, number + 1, Nanos::from_ns(number));
        }
        assert_eq!(read().len(), MOST_PASSED);
        assert_eq!(read(), []);
    }
}
