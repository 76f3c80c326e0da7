//! The end of measuring, and what is to be said of it then.

use std::sync::atomic::Ordering;
use std::time::Duration;

use laggard_model::{Caveat, CaveatKind, LossReason, Losses, Nanos, OwnCost, Stage};

use super::super::programs::Programs;
use super::super::thread::unserved_for;
use super::super::{clock, policy};
use super::usage::Usage;
use super::{LineReader, LinuxProbe, WARM_UP};
use crate::probe::Source;

/// How long the end waits for threads and work items that do not get to run.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

impl LinuxProbe {
    /// Records no expiry from now on, and waits for what was asked before.
    pub(super) fn end(&mut self) {
        if self.ended.is_some() {
            return;
        }
        // What was due after the threads gave up nobody asked for.
        let ended = self.shared.exhaustion.given_up();
        let ended = ended.unwrap_or_else(clock::now);
        self.ended = Some(Usage::at(ended, &self.threads));
        for (_, reader) in &mut self.readers {
            reader.until = ended;
        }
        let stopped = self.timerlat.as_mut().map(|timerlat| timerlat.stop(ended));
        if let Some(Err(err)) = stopped {
            self.caveats.push(Caveat::new(
                CaveatKind::Tracer,
                format!("the settings of the timerlat tracer were not put back: {err}"),
                "`echo nop > /sys/kernel/tracing/current_tracer` ends it; osnoise/ there holds its settings",
            ));
        }
        self.skipped.1 = Some(self.skipped_so_far());
        self.stop_softirq_timers();
        self.shared.stop.store(true, Ordering::Relaxed);
        let patience = clock::now() + STOP_PATIENCE.into() + self.request.period * 2;
        while clock::now() < patience && !self.is_at_rest() {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.count_unserved(clock::now());
        // What follows (symbols, the last segment) need not stay in memory.
        policy::unlock_memory();
    }

    fn stop_softirq_timers(&mut self) {
        let Some(programs) = &self.programs else {
            return;
        };
        for plan in &self.plans {
            if let Err(refused) = programs.stop_deferral(plan.cpu) {
                self.caveats.push(Caveat::new(
                    CaveatKind::AbilityAbsent,
                    format!(
                        "the softirq timer of CPU {} did not stop: {}",
                        plan.cpu, refused.reason
                    ),
                    "it ends with this program",
                ));
            }
        }
        // Followers that were just asked still get their turn.
        std::thread::sleep(Duration::from_millis(20));
    }

    /// Whether nobody is left to be served: no thread of ours runs, no work
    /// item that one of them started waits.
    fn is_at_rest(&self) -> bool {
        self.threads.iter().all(super::MeasuringThread::is_finished)
            && self.unserved(clock::now()).next().is_none()
    }

    /// Lines whose service has not come by `now`, and how long ago it was due.
    /// What was due after the end is not recorded.
    fn unserved(&self, now: Nanos) -> impl Iterator<Item = (u32, &LineReader, Nanos)> {
        self.readers.iter().filter_map(move |(cpu, reader)| {
            let board = self.shared.board.cpu(*cpu);
            let ring = self.shared.board.ring(board, reader.index);
            let time = unserved_for(board, reader.index, ring, now)?;
            (now.saturating_sub(time) < reader.until).then_some((*cpu, reader, time))
        })
    }

    /// Activations that still wait for their service: their latency is not
    /// known, which must not pass for a good result.
    fn count_unserved(&mut self, now: Nanos) {
        let caveats: Vec<Caveat> = self
            .unserved(now)
            .map(|(cpu, reader, time)| {
                let line = self.lines[usize::from(reader.id.0)];
                Caveat::new(
                    CaveatKind::Losses,
                    format!(
                        "{} ({}) on CPU {cpu} had been waiting for {:.1} ms when the recording ended",
                        line.service,
                        line.route,
                        time.as_secs_f64() * 1e3
                    ),
                    "its largest latency is at least that; record for longer",
                )
            })
            .collect();
        self.losses.add(LossReason::Unserved, caveats.len() as u64);
        self.caveats.extend(caveats);
    }

    /// How often a program was not called by now.
    pub(super) fn skipped_so_far(&self) -> u64 {
        self.programs.as_ref().map_or(0, Programs::skipped)
    }

    pub(super) fn counted_losses(&self) -> Losses {
        let mut losses = self.losses;
        let (before, ended) = self.skipped;
        let skipped = ended.unwrap_or_else(|| self.skipped_so_far());
        losses.add(LossReason::Recursion, skipped.saturating_sub(before));
        let (mut direct, mut softirq, mut followers, mut carried) = (0, 0, 0, 0);
        for (cpu, reader) in &self.readers {
            let lost = reader.lost_since(self.shared.board.cpu(*cpu));
            losses.add(LossReason::RingFull, lost);
            match reader.last {
                _ if reader.is_follower => followers += reader.unexplained,
                Stage::Softirq => softirq += reader.unexplained,
                Stage::Worker => carried += reader.unexplained,
                _ => direct += reader.unexplained,
            }
        }
        let cpus = self.cpus();
        let programs = self.programs.as_ref();
        let (foreign, unsignalled) = programs.map_or((0, 0), |all| all.failures(&cpus));
        // A failure leaves a gap, and is not to count twice; one with nothing
        // after it leaves none.
        let unasked = followers.max(unsignalled);
        losses.add(LossReason::Foreign, foreign);
        losses.add(LossReason::SignalFailed, unasked + carried);
        losses.add(LossReason::RingFull, softirq.saturating_sub(foreign));
        let reason = match self.request.source {
            Source::Timer => LossReason::RingFull,
            Source::Uio(_) => LossReason::NotRaised,
        };
        losses.add(reason, direct);
        losses
    }

    /// What measuring has cost: until its end, without what was done before
    /// and afterwards.
    pub(super) fn own_cost(&self) -> OwnCost {
        let now = || Usage::at(clock::now(), &self.threads);
        let ended = self.ended.unwrap_or_else(now);
        let began = self.began.unwrap_or(ended);
        let measuring = ended.measuring_cpu.saturating_sub(began.measuring_cpu);
        let all = ended.cpu.saturating_sub(began.cpu);
        let wall = ended.at.saturating_sub(began.at);
        OwnCost {
            wall_ns: wall,
            measuring_cpu_ns: measuring,
            other_cpu_ns: all.saturating_sub(measuring),
            programs: self
                .programs
                .as_ref()
                .map_or_else(Vec::new, |all| all.cost(&self.cpus(), wall, wall + WARM_UP)),
            written_bytes: 0,
            resident_bytes: ended.resident_bytes,
            measuring_faults: self.shared.faults.load(Ordering::Relaxed),
        }
    }
}
