//! Threads that a timer wakes, and one that polls the clock.

use std::sync::atomic::{Ordering, compiler_fence};

use laggard_model::{BusyTurns, Cpu, Nanos};

use super::soft::SoftTimer;
use super::thread::{Duty, LinePlan, RunState};
use super::{clock, policy};
use crate::board::LineWriter;

/// Thread that sleeps until each expiry.
#[derive(Debug)]
pub(super) struct Sleeper;

impl Duty for Sleeper {
    fn name_suffix(&self) -> &'static str {
        ""
    }

    fn serves(&self) -> Option<bool> {
        Some(true)
    }

    fn measure(&self, shared: &RunState, cpu: Cpu, line: LineWriter<'_>, plan: Option<LinePlan>) {
        measure(shared, cpu, line, plan, self);
    }
}

/// Thread that waits for its timer descriptor, if that expires in softirq context: the deferred
/// route.
#[derive(Debug)]
pub(super) struct DescriptorWaiter(pub(super) SoftTimer);

impl Duty for DescriptorWaiter {
    fn name_suffix(&self) -> &'static str {
        "d"
    }

    fn serves(&self) -> Option<bool> {
        Some(true)
    }

    fn descriptor(&self) -> Option<&SoftTimer> {
        Some(&self.0)
    }

    fn measure(&self, shared: &RunState, cpu: Cpu, line: LineWriter<'_>, plan: Option<LinePlan>) {
        measure(shared, cpu, line, plan, &self.0);
    }
}

/// Thread that computes until each expiry has passed: one of several busy threads on its CPU. It
/// notices a request when its turn comes.
#[derive(Debug)]
pub(super) struct Contender(pub(super) Option<BusyTurns>);

impl Duty for Contender {
    fn name_suffix(&self) -> &'static str {
        "b"
    }

    /// Neither a wakeup nor a timer leads to it.
    fn serves(&self) -> Option<bool> {
        None
    }

    fn is_service(&self) -> bool {
        true
    }

    fn competes(&self) -> bool {
        true
    }

    fn measure(&self, shared: &RunState, cpu: Cpu, line: LineWriter<'_>, plan: Option<LinePlan>) {
        measure(shared, cpu, line, plan, self);
    }
}

/// Mechanism that wakes a thread at a given time.
pub(super) trait Alarm {
    /// Arms the alarm, if arming is a separate step, and returns whether it is.
    fn arm(&self, time: Nanos) -> bool;
    fn wait(&self, time: Nanos);
    /// Returns when the line's service ran, and whether that was on another CPU than `cpu`.
    fn came(&self, cpu: Cpu) -> (Nanos, bool) {
        let now = clock::now();
        (now, policy::current_cpu() != Some(cpu))
    }
}

impl Alarm for Sleeper {
    fn arm(&self, _: Nanos) -> bool {
        false
    }

    fn wait(&self, time: Nanos) {
        clock::sleep_until(time);
    }
}

impl Alarm for Contender {
    fn arm(&self, _: Nanos) -> bool {
        false
    }

    fn wait(&self, time: Nanos) {
        let mut now = clock::now();
        let mut turn = self.0.map(|turns| turns.end(now));
        while now < time {
            if let (Some(turns), Some(end)) = (self.0, turn)
                && now >= end
            {
                match BusyTurns::pause(now) {
                    // A thread with shared turns pauses together with the others.
                    Some(pause) => clock::sleep_until(pause.min(time)),
                    None => std::thread::yield_now(),
                }
                now = clock::now();
                turn = Some(turns.end(now));
                continue;
            }
            std::hint::spin_loop();
            now = clock::now();
        }
    }
}

impl Alarm for SoftTimer {
    fn arm(&self, time: Nanos) -> bool {
        Self::arm(self, time);
        true
    }

    fn wait(&self, _: Nanos) {
        Self::wait(self);
    }
}

/// Waits for each expiry of the timeline that has not passed.
pub(super) fn measure(
    shared: &RunState,
    cpu: Cpu,
    line: LineWriter<'_>,
    plan: Option<LinePlan>,
    alarm: &impl Alarm,
) {
    let Some((mut timeline, turn)) = plan else {
        return;
    };
    let awaited = &line.cpu().expiries[line.index()];
    timeline.advance_by(turn.first);
    while !shared.stop.load(Ordering::Relaxed) {
        let expiry = timeline.expiry();
        let slot = line.claim(timeline.seq() / turn.stride, expiry);
        if slot.is_some() {
            awaited.store(expiry.ns(), Ordering::Relaxed);
        }
        // The programs run on this CPU, so they see the stores in this order if the compiler
        // keeps it.
        compiler_fence(Ordering::SeqCst);
        let armed = clock::now();
        if alarm.arm(expiry)
            && let Some(slot) = slot
        {
            slot.set_armed();
        }
        alarm.wait(expiry);
        let (user, is_elsewhere) = alarm.came(cpu);
        if let Some(slot) = slot {
            awaited.store(0, Ordering::Relaxed);
            if armed >= expiry {
                slot.set_armed_late();
            }
            line.publish(slot, user, is_elsewhere);
        }
        if shared.exhaustion.is_hopeless(user) {
            shared.stop.store(true, Ordering::Relaxed);
        }
        timeline.advance_by(turn.stride);
        while timeline.expiry() <= user {
            timeline.advance_by(turn.stride);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use super::super::lines::Turn;
    use super::*;
    use crate::board::{Board, Timeline};
    use crate::exhaustion::Exhaustion;

    const SLOTS: u64 = 4;
    const HOUR: Nanos = Nanos::from_secs(3_600);

    /// Alarm that returns immediately and ends the measurement at the last slot.
    struct AtOnce<'a>(&'a RunState);

    impl Alarm for AtOnce<'_> {
        fn arm(&self, _: Nanos) -> bool {
            false
        }

        fn wait(&self, _: Nanos) {
            let head = self.0.board.cpu(0).lines[0].head.load(Ordering::Relaxed);
            self.0.stop.store(head + 1 >= SLOTS, Ordering::Relaxed);
        }
    }

    /// Measures one line of a thread of CPU `cpu` on a timeline from `start`.
    fn measured(start: Nanos, cpu: Cpu) -> RunState {
        let shared = RunState {
            board: Board::owned(1, 4),
            enlist: None,
            stop: AtomicBool::new(false),
            exhaustion: Exhaustion::new(1, crate::used::used),
            faults: AtomicU64::new(0),
            passed: BTreeMap::new(),
        };
        let bits = &shared.board.cpu(0).ring_bits;
        bits.store(SLOTS.ilog2(), Ordering::Relaxed);
        let timeline = Timeline::new(0, Nanos::from_ms(1), false, 0, 1, start);
        let plan = Some((timeline, Turn::default()));
        measure(
            &shared,
            cpu,
            shared.board.writer(0, 0),
            plan,
            &AtOnce(&shared),
        );
        shared
    }

    #[test]
    fn expiry_that_passed_before_its_thread_waited_is_marked() {
        let now = clock::now();
        let passed = now.saturating_sub(Nanos::from_secs(1));
        for (start, is_late) in [(now + HOUR, false), (passed, true)] {
            let shared = measured(start, Cpu(0));

            let slot = &shared.board.ring(shared.board.cpu(0), 0)[0];
            assert_eq!(slot.is_armed_late(), is_late);
        }
    }

    #[test]
    fn activation_on_another_cpu_is_marked() {
        // The thread of this test must not move.
        if policy::pin(Cpu(0)).is_err() {
            println!("skipped: this process may not use CPU 0");
            return;
        }
        for (cpu, is_foreign) in [(Cpu(u32::MAX), true), (Cpu(0), false)] {
            let shared = measured(clock::now() + HOUR, cpu);

            let slot = &shared.board.ring(shared.board.cpu(0), 0)[0];
            assert_eq!(slot.is_foreign(), is_foreign, "{cpu}");
        }
    }
}
