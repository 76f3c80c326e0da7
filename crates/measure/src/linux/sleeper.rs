//! Threads that are woken by a timer of their own.

use std::sync::atomic::{Ordering, compiler_fence};

use laggard_model::{Cpu, Nanos};

use super::clock;
use super::soft::SoftTimer;
use super::thread::{Duty, Plan, Shared, publish};
use crate::board::LineWriter;

/// Sleeps until each expiry.
#[derive(Debug)]
pub(super) struct Sleeper;

impl Duty for Sleeper {
    fn name_suffix(&self) -> &'static str {
        ""
    }

    fn serves(&self) -> Option<bool> {
        Some(true)
    }

    fn measure(&self, shared: &Shared, cpu: Cpu, line: LineWriter<'_>, plan: Option<Plan>) {
        measure(shared, cpu, line, plan, self);
    }
}

/// Waits for its timer descriptor, where that expires in softirq context: the
/// deferred route.
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

    fn measure(&self, shared: &Shared, cpu: Cpu, line: LineWriter<'_>, plan: Option<Plan>) {
        measure(shared, cpu, line, plan, &self.0);
    }
}

/// How a thread has itself woken at an instant.
trait Alarm {
    /// Sets it, where that is a step of its own; whether it is.
    fn arm(&self, time: Nanos) -> bool;
    /// Returns when that time has come.
    fn wait(&self, time: Nanos);
}

impl Alarm for Sleeper {
    fn arm(&self, _: Nanos) -> bool {
        false
    }

    fn wait(&self, time: Nanos) {
        clock::sleep_until(time);
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
fn measure(
    shared: &Shared,
    cpu: Cpu,
    line: LineWriter<'_>,
    plan: Option<Plan>,
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
        // The programs run on this CPU, so they see the stores in order as
        // long as the compiler keeps them so.
        compiler_fence(Ordering::SeqCst);
        let armed = clock::now();
        if alarm.arm(expiry)
            && let Some(slot) = slot
        {
            slot.set_armed();
        }
        alarm.wait(expiry);
        let user = clock::now();
        if let Some(slot) = slot {
            awaited.store(0, Ordering::Relaxed);
            if armed >= expiry {
                slot.set_armed_late();
            }
            publish(line, cpu, slot, user);
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
