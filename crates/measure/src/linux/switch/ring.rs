//! What one thread of the ring does.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use laggard_model::{Absence, Nanos, SwitchStretch};
use nix::sys::resource::{UsageWho, getrusage};

use super::super::footing::Footing;
use super::token::Token;
use super::{PAUSE, RUN, SwitchPlan, clock, policy, refused};

/// No hand-over takes less: room for more of them is not needed.
const SHORTEST_NS: u64 = 200;
/// Threads that yield do not all run equally often.
const UNEQUAL: u64 = 4;
/// Nobody has handed over yet.
const NOBODY: usize = usize::MAX;

/// What a thread says to who started it.
#[derive(Debug)]
pub(super) enum RingMessage {
    /// It is what it is to be.
    Ready,
    /// It cannot be.
    Refused(Absence),
    /// A call failed on the way.
    Broken(Absence),
    /// What it saw.
    Done(SwitchStretch),
}

/// What the threads share. One runs at a time, so nothing here is contended.
#[derive(Debug)]
pub(super) struct Ring {
    threads: usize,
    token: Option<Box<dyn Token>>,
    /// Planned, ns, pauses included.
    length: Nanos,
    /// When it begins; `None`: not at all.
    start: OnceLock<Option<Nanos>>,
    is_over: AtomicBool,
    /// The instant before the last hand-over, ns; 0 after a pause.
    stamp: AtomicU64,
    /// Who handed over.
    last: AtomicUsize,
    /// How many came back from pauses so far, all threads and pauses together.
    came: AtomicU64,
    /// The latest run that somebody left for its pause: when it began, ns.
    left: AtomicU64,
}

impl Ring {
    pub(super) fn new(threads: usize, token: Option<Box<dyn Token>>, length: Nanos) -> Self {
        Self {
            threads,
            token,
            length,
            start: OnceLock::new(),
            is_over: AtomicBool::new(false),
            stamp: AtomicU64::new(0),
            last: AtomicUsize::new(NOBODY),
            came: AtomicU64::new(0),
            left: AtomicU64::new(0),
        }
    }

    /// Lets all that are ready begin at an instant; `None` sends them home.
    pub(super) fn begin(&self, at: Option<Nanos>) {
        // Said once.
        let _ = self.start.set(at);
    }

    /// Ends it: whoever waits is woken.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(token) = &self.token {
            for thread in 0..self.threads {
                // Who is gone needs no waking.
                let _ = token.pass(thread);
            }
        }
    }

    /// What thread `own` does from its start to its end.
    pub(super) fn take_part(&self, own: usize, plan: &SwitchPlan, tell: &Sender<RingMessage>) {
        let room = self.length.ns() / 2 / SHORTEST_NS / self.threads as u64 * UNEQUAL;
        let mut seen = HandOversSeen::new(room + 1_024);
        let (footing, told) = match ready(plan) {
            Ok(footing) => (Some(footing), RingMessage::Ready),
            Err(absence) => (None, RingMessage::Refused(absence)),
        };
        // Whoever is gone has given up waiting.
        let _ = tell.send(told);
        let (Some(begin), Some(footing)) = (*self.start.wait(), footing) else {
            return;
        };
        let before = left_cpu();
        let result = match &self.token {
            None => {
                self.yield_on(own, begin, &mut seen);
                Ok(())
            }
            Some(token) => self.pass_on(own, begin, &**token, &mut seen),
        };
        let after = left_cpu();
        if result.is_err() {
            self.end();
        }
        let changed = footing.changed();
        let _ = tell.send(match (result, changed) {
            (Err(err), _) => RingMessage::Broken(refused(plan.via.name(), &err)),
            (Ok(()), Some(absence)) => RingMessage::Broken(absence),
            (Ok(()), None) => RingMessage::Done(SwitchStretch {
                took_ns: seen.took_ns,
                counted_by_kernel: after.saturating_sub(before),
                left_out: seen.left_out,
                unkept: seen.unkept,
            }),
        });
    }

    /// All run, one after the other. Nothing is kept while some come back from a
    /// pause, and once one has left for the next: what a thread does to sleep and to
    /// wake is no hand-over.
    fn yield_on(&self, own: usize, begin: Nanos, seen: &mut HandOversSeen) {
        let over = begin + self.length;
        let mut from = begin;
        let mut all_came = 0;
        while from < over && !self.is_over.load(Ordering::Relaxed) {
            clock::sleep_until(from);
            all_came += self.threads as u64;
            self.came.fetch_add(1, Ordering::Relaxed);
            let until = from + RUN;
            let mut now = clock::now();
            while now < until && !self.is_over.load(Ordering::Relaxed) {
                let are_here = self.came.load(Ordering::Relaxed) >= all_came;
                let stamped = if are_here { clock::now().ns() } else { 0 };
                self.last.store(own, Ordering::Relaxed);
                self.stamp.store(stamped, Ordering::Relaxed);
                // SAFETY: takes nothing; cannot fail on Linux.
                unsafe { libc::sched_yield() };
                let stamp = self.stamp.load(Ordering::Relaxed);
                now = clock::now();
                let is_other = self.last.load(Ordering::Relaxed) != own;
                // Whose last run was an earlier one may find a stamp of that; who is
                // interrupted before it has read the clock, that of a later hand-over.
                let is_of_run = stamp >= from.ns() && self.left.load(Ordering::Relaxed) < from.ns();
                let is_last = self.stamp.load(Ordering::Relaxed) == stamp;
                if is_other && is_of_run && is_last {
                    seen.push(now.ns().saturating_sub(stamp));
                } else if is_other {
                    seen.unkept += 1;
                }
            }
            self.left.fetch_max(from.ns(), Ordering::Relaxed);
            seen.unkept += 1;
            from = from + RUN + PAUSE;
        }
    }

    /// Who has the token runs.
    fn pass_on(
        &self,
        own: usize,
        begin: Nanos,
        token: &dyn Token,
        seen: &mut HandOversSeen,
    ) -> io::Result<()> {
        let over = begin + self.length;
        if own == 0 {
            clock::sleep_until(begin);
        } else {
            token.wait(own)?;
        }
        seen.unkept += 1;
        loop {
            let now = clock::now();
            let stamp = self.stamp.load(Ordering::Relaxed);
            if self.is_over.load(Ordering::Acquire) {
                return Ok(());
            }
            if stamp > 0 {
                seen.push(now.ns().saturating_sub(stamp));
            }
            if now >= over {
                self.end();
                return Ok(());
            }
            let into = now.saturating_sub(begin).ns() % (RUN + PAUSE).ns();
            if into >= RUN.ns() {
                seen.unkept += 1;
                clock::sleep_until(now + Nanos::from_ns((RUN + PAUSE).ns() - into));
            }
            let next = (own + 1) % self.threads;
            self.stamp.store(clock::now().ns(), Ordering::Relaxed);
            token.pass(next)?;
            token.wait(own)?;
        }
    }
}

/// What one thread saw.
struct HandOversSeen {
    took_ns: Vec<u32>,
    left_out: u64,
    /// How often it left the CPU for a pause, or around one.
    unkept: u64,
}

impl HandOversSeen {
    /// With room for so many, whose pages are there.
    fn new(room: u64) -> Self {
        let mut took_ns = vec![u32::MAX; usize::try_from(room).unwrap_or(0)];
        took_ns.clear();
        Self {
            took_ns,
            left_out: 0,
            unkept: 0,
        }
    }

    fn push(&mut self, ns: u64) {
        if self.took_ns.len() == self.took_ns.capacity() {
            self.left_out += 1;
            return;
        }
        self.took_ns.push(u32::try_from(ns).unwrap_or(u32::MAX));
    }
}

fn ready(plan: &SwitchPlan) -> Result<Footing, Absence> {
    policy::block_signals().map_err(|err| refused("blocking signals", &err))?;
    policy::pin(plan.cpu).map_err(|err| refused(&format!("CPU {}", plan.cpu), &err))?;
    policy::schedule_as(plan.service)
        .map_err(|err| refused(&format!("real-time policy {}", plan.service), &err))?;
    policy::refuse_timer_slack();
    policy::touch_stack();
    Ok(Footing::on(plan.cpu))
}

/// How often the calling thread has left its CPU.
fn left_cpu() -> u64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| {
        let all = usage.voluntary_context_switches() + usage.involuntary_context_switches();
        u64::try_from(all).unwrap_or(0)
    })
}
