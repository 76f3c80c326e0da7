//! Finds the causes of the time of an activation on each CPU where the thread waited or ran.

use std::cmp::Reverse;

use laggard_model::{
    Cpu, Evidence, Happening, Nanos, Service, Stage, ThreadActivation, ThreadMove,
};

use super::{AFTER, BEFORE, CycleTime, MAX_MOVE, part};
use crate::attach::cause::AttachCauseKind;

/// Time span of a thread on a CPU.
#[derive(Clone, Copy, Debug)]
struct CpuRun {
    cpu: Cpu,
    from: Nanos,
    to: Nanos,
}

impl<E: Fn(Cpu, Nanos, Nanos) -> Evidence> CycleTime<'_, E> {
    /// Explains the time from `from` until an activation ran.
    pub(super) fn wake(&mut self, activation: &ThreadActivation, from: Nanos) {
        let waking = activation.waking.max(from);
        let moves = activation.moves.before_run();
        let is_moved = !moves.is_empty() || activation.waker_cpu != activation.first_cpu;
        if !is_moved {
            let timeline = [
                (Stage::Waking, activation.waking),
                (Stage::Running, activation.running),
            ];
            self.explain(self.service, activation.first_cpu, from, &timeline);
            return;
        }
        // The thread does not wait for that CPU, but for its interrupt.
        self.explain(
            Service::Softirq,
            activation.waker_cpu,
            from,
            &[(Stage::Waking, waking)],
        );
        let mut since = waking;
        for (place, &ThreadMove { at, left }) in moves.iter().enumerate() {
            let to = at.clamp(since, activation.running);
            let time = to.saturating_sub(since);
            let is_last = place + 1 == moves.len();
            if time <= MAX_MOVE {
                self.add(AttachCauseKind::Move, time);
            } else if is_last && !activation.moves.are_known_before_run() {
                self.add(AttachCauseKind::OtherCpu, time);
            } else {
                self.wait_on(left, since, to);
            }
            since = to;
        }
        self.wait_on(activation.first_cpu, since, activation.running);
    }

    /// Explains a span while the thread waited on a CPU.
    fn wait_on(&mut self, cpu: Cpu, from: Nanos, to: Nanos) {
        let timeline = [(Stage::Waking, from), (Stage::Running, to)];
        self.explain(self.service, cpu, from, &timeline);
    }

    /// Explains the time from `from`, when it ran, until an activation ended.
    pub(super) fn activation(&mut self, activation: &ThreadActivation, from: Nanos) {
        if self.is_before && from > activation.running {
            self.usage = part(
                &activation.usage,
                activation.done.saturating_sub(from),
                activation.execution(),
            );
        }
        let throttled = activation
            .usage
            .throttled
            .min(activation.done.saturating_sub(from));
        let moves = activation.moves.preempted();
        if activation.migrations == 0 && moves.is_empty() && throttled == Nanos::ZERO {
            self.is_on_cpu = activation.preemptions == 0 && activation.back_seen;
            self.run(activation.cpu, from, activation.done);
            self.is_on_cpu = false;
            return;
        }
        let mut cpus = vec![activation.first_cpu, activation.cpu];
        cpus.extend(moves.iter().map(|moved| moved.left));
        let runs = self.runs(&cpus, (from, activation.done));
        let total = activation.done.saturating_sub(from);
        let expected = total.saturating_sub(activation.preempted);
        let covered = runs.iter().map(|run| run.to.saturating_sub(run.from));
        let covered = covered.fold(Nanos::ZERO, |sum, time| sum + time);
        if runs.is_empty() || 10 * covered.ns() < 9 * expected.ns() {
            // The times when the thread changed CPUs are unknown, or it also ran on a CPU that is
            // not known.
            let preempted = activation.preempted.min(total).saturating_sub(throttled);
            self.add_throttled(throttled);
            self.add(AttachCauseKind::OtherThreads, preempted);
            self.execution(total.saturating_sub(preempted + throttled), &[]);
            return;
        }
        self.moving(&runs, moves, (from, activation.done), throttled);
    }

    /// Explains a span while the thread ran at these times, on several CPUs. Between two of them it
    /// waited for its next budget, or for a CPU: the one that it had left, until it moved.
    fn moving(
        &mut self,
        runs: &[CpuRun],
        moves: &[ThreadMove],
        (from, to): (Nanos, Nanos),
        throttled: Nanos,
    ) {
        let ends = runs.iter().map(|run| (run.from, Some(run)));
        let mut waits = Vec::new();
        let mut since = (from, runs.first().map(|run| run.cpu));
        for (end, run) in ends.chain([(to, None)]) {
            if end > since.0 {
                waits.push((since.1, since.0, end, run.map(|run| run.cpu)));
            }
            if let Some(run) = run {
                self.is_on_cpu = true;
                self.run(run.cpu, run.from, run.to);
                self.is_on_cpu = false;
                since = (run.to, Some(run.cpu));
            }
        }
        // A wait for the next budget is longer than the waits for a CPU.
        waits.sort_by_key(|&(_, from, to, _)| Reverse(to.saturating_sub(from)));
        let mut throttled = throttled;
        for (left, from, to, next) in waits {
            let part = throttled.min(to.saturating_sub(from));
            throttled = throttled.saturating_sub(part);
            self.add_throttled(part);
            let from = from + part;
            let (mut since, mut cpu) = (from, left);
            for moved in moves
                .iter()
                .filter(|moved| from < moved.at && moved.at < to)
            {
                self.wait_on(moved.left, since, moved.at);
                (since, cpu) = (moved.at, next);
            }
            if let Some(cpu) = cpu {
                self.wait_on(cpu, since, to);
            }
        }
    }

    /// Returns when the thread ran on these CPUs, in order, from the switches there.
    fn runs(&self, cpus: &[Cpu], (from, to): (Nanos, Nanos)) -> Vec<CpuRun> {
        let mut runs = Vec::new();
        for (place, &cpu) in cpus.iter().enumerate() {
            if cpus[..place].contains(&cpu) {
                continue;
            }
            let evidence = (self.evidence)(cpu, from.saturating_sub(BEFORE), to + AFTER);
            let mut since = None;
            for event in &evidence.events {
                let Happening::Switch { tid, .. } = event.what else {
                    continue;
                };
                let time = event.at_ns.clamp(from, to);
                if let Some(since) = since.take().filter(|&since| time > since) {
                    runs.push(CpuRun {
                        cpu,
                        from: since,
                        to: time,
                    });
                }
                since = (tid == self.thread).then_some(time);
            }
            if let Some(since) = since.filter(|&since| to > since) {
                runs.push(CpuRun {
                    cpu,
                    from: since,
                    to,
                });
            }
        }
        runs.sort_by_key(|run| run.from);
        // Clocks of two CPUs may disagree a little.
        for place in 1..runs.len() {
            let end = runs[place - 1].to;
            runs[place].from = runs[place].from.max(end);
        }
        runs.retain(|run| run.from < run.to);
        runs
    }
}
