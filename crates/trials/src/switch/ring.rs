//! What one thread of the ring does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use laggard_model::{Absence, Cpu, Nanos, Service, SwitchPolicy, SwitchStretch, SwitchSums};
use nix::sys::resource::{UsageWho, getrusage};

use super::shared::{Member, MemberStep, SharedRing};
use super::token::{self, Token};
use super::watch::{WatchMemory, WatchReading};
use super::working_set::WorkingSets;
use super::{PAUSE, RUN, SwitchPlan, clock, no_deadline, policy, refused};
use crate::footing::Footing;

/// No hand-over takes less: room for more of them is not needed.
const SHORTEST_NS: u64 = 200;

/// Threads that hand over, and what they know of each other. One runs at a time, so
/// nothing that they share is contended.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) plan: SwitchPlan,
    threads: usize,
    sets: Option<WorkingSets>,
    token: Option<Box<dyn Token>>,
    pub(super) shared: SharedRing,
    watch: Option<Arc<WatchMemory>>,
    /// What it had seen before.
    sums: Option<SwitchSums>,
}

impl Ring {
    /// For how many hand-overs a stretch of this length has room: it has no more.
    fn room(length: Nanos) -> u64 {
        length.ns() / 2 / SHORTEST_NS + 1_024
    }

    /// The memory for them.
    pub(super) fn kept_bytes(length: Nanos) -> u64 {
        Self::room(length) * SharedRing::KEPT_BYTES
    }

    pub(super) fn new(
        plan: &SwitchPlan,
        threads: usize,
        watch: Option<Arc<WatchMemory>>,
    ) -> io::Result<Self> {
        let room = Self::room(plan.length);
        Ok(Self {
            plan: plan.clone(),
            threads,
            sets: WorkingSets::new(threads, plan.way.working_set_bytes)?,
            token: token::token(plan.way.via, threads)?,
            shared: SharedRing::new(threads, room)?,
            sums: watch.as_ref().map(|watch| watch.sums()),
            watch,
        })
    }

    /// Makes the calling thread what number `own` is to be.
    fn ready(&self, own: usize) -> Result<Footing, Absence> {
        policy::block_signals().map_err(|err| refused("blocking signals", &err))?;
        let cpu = self.plan.cpus[own % self.plan.cpus.len()];
        policy::pin(cpu).map_err(|err| refused(&format!("CPU {cpu}"), &err))?;
        self.schedule(cpu)?;
        policy::refuse_timer_slack();
        policy::touch_stack();
        if let Some(sets) = &self.sets {
            let alone = sets.alone(own).ns();
            self.shared
                .member(own)
                .alone_ns
                .store(alone, Ordering::Relaxed);
        }
        Ok(Footing::on(cpu))
    }

    fn schedule(&self, cpu: Cpu) -> Result<(), Absence> {
        let service = match self.plan.way.service {
            SwitchPolicy::Fifo(priority) => Service::Fifo(priority),
            SwitchPolicy::Other => Service::Other,
            SwitchPolicy::Deadline => {
                let period = RUN + PAUSE;
                let share = Nanos::from_ns(period.ns() / 5 * 4 / self.threads as u64);
                let given = policy::schedule_by_deadline(share, period);
                return given.map_err(|err| no_deadline(cpu, &err));
            }
        };
        policy::schedule_as(service)
            .map_err(|err| refused(&format!("real-time policy {service}"), &err))
    }

    /// Ends it: whoever waits is woken.
    pub(super) fn end(&self) {
        self.shared.state().is_over.store(1, Ordering::Release);
        if let Some(token) = &self.token {
            for thread in 0..self.threads {
                // Who is gone needs no waking.
                let _ = token.pass(thread);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.shared.state().is_over.load(Ordering::Acquire) != 0
    }

    /// What all saw, once they are done.
    pub(super) fn seen(&self) -> SwitchStretch {
        let sums = self.watch.as_ref().zip(self.sums);
        self.shared
            .seen(sums.map(|(watch, before)| watch.sums().since(before)))
    }

    /// The same of a process of its own; `is_ours`: whether it ends with this one.
    pub(super) fn take_part_as_process(&self, own: usize, is_ours: io::Result<()>) {
        self.shared.touch();
        match is_ours {
            Ok(()) => self.take_part(own),
            Err(err) => {
                let absence = refused("a process that ends with this one", &err);
                self.shared.member(own).tell(&MemberStep::Refused(absence));
            }
        }
    }

    /// What thread `own` does from its start to its end.
    pub(super) fn take_part(&self, own: usize) {
        let member = self.shared.member(own);
        let footing = match self.ready(own) {
            Ok(footing) => footing,
            Err(absence) => return member.tell(&MemberStep::Refused(absence)),
        };
        member.tell(&MemberStep::Ready);
        let Some(begin) = self.shared.await_begin() else {
            return;
        };
        let before = left_cpu();
        let result = match &self.token {
            None => {
                self.yield_on(own, begin, member);
                Ok(())
            }
            Some(token) => self.pass_on(own, begin, &**token, member),
        };
        let left = left_cpu().saturating_sub(before);
        member.left_cpu.store(left, Ordering::Relaxed);
        if result.is_err() {
            self.end();
        }
        member.tell(&match (result, footing.changed()) {
            (Err(err), _) => MemberStep::Broken(refused(self.plan.way.via.name(), &err)),
            (Ok(()), Some(absence)) => MemberStep::Broken(absence),
            (Ok(()), None) => MemberStep::Done,
        });
    }

    /// What thread `own` does first of all when it has the CPU: it goes through its
    /// memory, if it has any. Returns the time after that, and with what had come
    /// between by then.
    fn arrive(&self, own: usize) -> (Nanos, WatchReading) {
        if let Some(sets) = &self.sets {
            sets.go_through(own);
        }
        self.read()
    }

    /// The time now, as the first thing done, and with what had come between.
    fn read(&self) -> (Nanos, WatchReading) {
        match &self.watch {
            Some(watch) => watch.read(),
            None => {
                let at = clock::now();
                let reading = WatchReading {
                    at,
                    ..WatchReading::default()
                };
                (at, reading)
            }
        }
    }

    /// Keeps the instant before a hand-over; `is_kept`: it is one to be measured.
    fn stamp(&self, is_kept: bool) {
        let state = self.shared.state();
        let (_, reading) = self.read();
        state.taken.store(reading.taken_ns, Ordering::Relaxed);
        state.stolen.store(reading.stolen_ns, Ordering::Relaxed);
        let at = if is_kept { reading.at.ns() } else { 0 };
        state.stamp.store(at, Ordering::Release);
    }

    /// Keeps a hand-over from `stamp` to an arrival, less what the thread's memory
    /// takes it alone.
    fn keep(&self, stamp: u64, (first, reading): (Nanos, WatchReading), member: &Member) {
        let state = self.shared.state();
        let alone = member.alone_ns.load(Ordering::Relaxed);
        let taken = reading
            .taken_ns
            .saturating_sub(state.taken.load(Ordering::Relaxed));
        let again = reading.at.saturating_sub(first).ns();
        let stolen = reading
            .stolen_ns
            .saturating_sub(state.stolen.load(Ordering::Relaxed));
        let took = first.ns().saturating_sub(stamp).saturating_sub(alone);
        self.shared
            .push(stamp, took, taken.saturating_sub(again), stolen);
    }

    /// All run, one after the other. Nothing is kept while some come back from a
    /// pause, and once one has left for the next: what a thread does to sleep and to
    /// wake is no hand-over.
    fn yield_on(&self, own: usize, begin: Nanos, member: &Member) {
        let state = self.shared.state();
        let number = own as u64 + 1;
        let mut is_first = self.plan.way.are_processes;
        let over = begin + self.plan.length;
        let mut from = begin;
        let mut all_came = 0;
        while from < over && !self.is_over() {
            clock::sleep_until(from);
            all_came += self.threads as u64;
            state.came.fetch_add(1, Ordering::Relaxed);
            let until = from + RUN;
            let mut now = clock::now();
            while now < until && !self.is_over() {
                let are_here = state.came.load(Ordering::Relaxed) >= all_came;
                state.last.store(number, Ordering::Relaxed);
                self.stamp(are_here);
                // SAFETY: takes nothing; cannot fail on Linux.
                unsafe { libc::sched_yield() };
                let stamp = state.stamp.load(Ordering::Relaxed);
                let arrived = self.arrive(own);
                now = arrived.0;
                let is_other = state.last.load(Ordering::Relaxed) != number;
                // Whose last run was an earlier one may find a stamp of that; who is
                // interrupted before it has read the clock, that of a later hand-over.
                let is_of_run =
                    stamp >= from.ns() && state.left.load(Ordering::Relaxed) < from.ns();
                let is_last = state.stamp.load(Ordering::Relaxed) == stamp;
                if is_other && is_of_run && is_last && !std::mem::take(&mut is_first) {
                    self.keep(stamp, arrived, member);
                } else if is_other {
                    self.leave_out(member);
                }
            }
            state.left.fetch_max(from.ns(), Ordering::Relaxed);
            self.leave_out(member);
            from = from + RUN + PAUSE;
        }
    }

    /// Who has the token runs.
    fn pass_on(
        &self,
        own: usize,
        begin: Nanos,
        token: &dyn Token,
        member: &Member,
    ) -> io::Result<()> {
        let state = self.shared.state();
        // What a process runs for the first time is not mapped yet.
        let mut is_first = self.plan.way.are_processes;
        let over = begin + self.plan.length;
        if own == 0 {
            clock::sleep_until(begin);
        } else {
            token.wait(own)?;
        }
        self.leave_out(member);
        loop {
            let arrived = self.arrive(own);
            let now = arrived.0;
            let stamp = state.stamp.load(Ordering::Acquire);
            if self.is_over() {
                return Ok(());
            }
            if stamp > 0 && !std::mem::take(&mut is_first) {
                self.keep(stamp, arrived, member);
            } else if stamp > 0 {
                self.leave_out(member);
            }
            if now >= over {
                self.end();
                return Ok(());
            }
            let into = now.saturating_sub(begin).ns() % (RUN + PAUSE).ns();
            if into >= RUN.ns() {
                self.leave_out(member);
                clock::sleep_until(now + Nanos::from_ns((RUN + PAUSE).ns() - into));
            }
            let next = (own + 1) % self.threads;
            self.stamp(true);
            token.pass(next)?;
            token.wait(own)?;
        }
    }

    /// A thread has left the CPU, and that was no hand-over to be measured.
    fn leave_out(&self, member: &Member) {
        member.unkept.fetch_add(1, Ordering::Relaxed);
        self.shared.state().is_apart.store(1, Ordering::Relaxed);
    }
}

/// How often the calling thread has left its CPU.
fn left_cpu() -> u64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| {
        let all = usage.voluntary_context_switches() + usage.involuntary_context_switches();
        u64::try_from(all).unwrap_or(0)
    })
}
