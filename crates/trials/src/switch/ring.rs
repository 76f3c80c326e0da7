//! Work of one thread of the ring.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use laggard_model::{Absence, Cpu, Nanos, Service, SwitchPolicy, SwitchStretch, SwitchSums};

use super::shared::{Member, MemberStep, SharedRing};
use super::token::{self, Token};
use super::watch::{WatchMemory, WatchReading};
use super::working_set::WorkingSets;
use super::{PAUSE, RUN, SwitchPlan, clock, no_deadline, policy, refused};
use crate::footing::ThreadPlacement;

/// Minimum duration of a context switch, which limits the room for them.
const MIN_SWITCH_NS: u64 = 200;

/// Threads that switch, and their shared state. Only one runs at a time, so the state is never
/// contended.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(super) plan: SwitchPlan,
    threads: usize,
    sets: Option<WorkingSets>,
    token: Option<Box<dyn Token>>,
    pub(super) shared: SharedRing,
    watch: Option<Arc<WatchMemory>>,
    /// Earlier sums of the programs.
    sums: Option<SwitchSums>,
}

impl Ring {
    /// Returns the maximum number of context switches in a stretch of this length.
    fn room(length: Nanos) -> u64 {
        length.ns() / 2 / MIN_SWITCH_NS + 1_024
    }

    /// Returns the memory for them in bytes.
    pub(super) fn kept_bytes(length: Nanos) -> u64 {
        Self::room(length) * SharedRing::STORED_BYTES
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

    /// Prepares the calling thread as number `own`.
    fn ready(&self, own: usize) -> Result<ThreadPlacement, Absence> {
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
        Ok(ThreadPlacement::on(cpu))
    }

    fn schedule(&self, cpu: Cpu) -> Result<(), Absence> {
        let service = match self.plan.way.service {
            SwitchPolicy::Fifo(priority) => Service::Fifo(priority),
            SwitchPolicy::Realtime(priority) => Service::Realtime(priority),
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

    /// Ends the stretch: wakes all waiting threads.
    pub(super) fn end(&self) {
        self.shared.state().is_over.store(1, Ordering::Release);
        if let Some(token) = &self.token {
            for thread in 0..self.threads {
                // A thread that has ended does not need a wakeup.
                let _ = token.pass(thread);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.shared.state().is_over.load(Ordering::Acquire) != 0
    }

    /// Returns the observations of all threads, once they have ended.
    pub(super) fn seen(&self) -> SwitchStretch {
        let sums = self.watch.as_ref().zip(self.sums);
        self.shared
            .seen(sums.map(|(watch, before)| watch.sums().since(before)))
    }

    /// Takes part as a separate process. `is_ours`: whether it ends together with this process.
    #[cfg(target_os = "linux")]
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

    /// Does the work of thread `own` from its start to its end.
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

    /// Does the first work of thread `own` when it has the CPU: accesses its working set, if it
    /// has one. Returns the time after that and the interruptions so far.
    fn arrive(&self, own: usize) -> (Nanos, WatchReading) {
        if let Some(sets) = &self.sets {
            sets.go_through(own);
        }
        self.read()
    }

    /// Returns the current time, read first, and the interruptions so far.
    fn read(&self) -> (Nanos, WatchReading) {
        match &self.watch {
            Some(watch) => watch.read(),
            None => {
                let time = clock::now();
                let reading = WatchReading {
                    at: time,
                    ..WatchReading::default()
                };
                (time, reading)
            }
        }
    }

    /// Stores the time before a context switch. `is_kept`: whether this switch is measured.
    fn stamp(&self, is_kept: bool) {
        let state = self.shared.state();
        let (_, reading) = self.read();
        state.taken.store(reading.taken_ns, Ordering::Relaxed);
        state.stolen.store(reading.stolen_ns, Ordering::Relaxed);
        let stamp = if is_kept { reading.at.ns() } else { 0 };
        state.stamp.store(stamp, Ordering::Release);
    }

    /// Stores a switch from `stamp` to an arrival, without the time of the thread's working set.
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

    /// Lets all threads run in turn. Switches are not stored while some threads return from a
    /// pause, nor after a thread has left for the next pause: the work to sleep and to wake is
    /// not part of a context switch.
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
                // `sched_yield`, on Windows `SwitchToThread`.
                std::thread::yield_now();
                let stamp = state.stamp.load(Ordering::Relaxed);
                let arrived = self.arrive(own);
                now = arrived.0;
                let is_other = state.last.load(Ordering::Relaxed) != number;
                // A thread whose last run was an earlier one may see a stamp of that run. A
                // thread that is interrupted before it has read the clock may see the stamp of a
                // later switch.
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

    /// Lets the thread with the token run.
    fn pass_on(
        &self,
        own: usize,
        begin: Nanos,
        token: &dyn Token,
        member: &Member,
    ) -> io::Result<()> {
        let state = self.shared.state();
        // Pages that a process uses for the first time are not mapped yet.
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

    /// Counts that a thread has left the CPU in a switch that is not measured.
    fn leave_out(&self, member: &Member) {
        member.unkept.fetch_add(1, Ordering::Relaxed);
        self.shared.state().is_apart.store(1, Ordering::Relaxed);
    }
}

/// Windows does not count this per thread.
#[cfg(windows)]
const fn left_cpu() -> u64 {
    0
}

/// Returns how often the calling thread has left its CPU.
#[cfg(target_os = "linux")]
fn left_cpu() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};

    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| {
        let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
        u64::try_from(switches).unwrap_or(0)
    })
}
