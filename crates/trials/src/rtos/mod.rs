//! Tests of the requirements on a real-time operating system (Timmerman 1998), with
//! real-time threads on one CPU.
//!
//! A test thread computes for at most 40 ms at a time, and all of them use about half of
//! the CPU. This is below the kernel's real-time throttling limit. If a thread does not
//! stop, the kernel ends this process (`guard.rs`).

#[cfg(target_os = "linux")]
mod call;
#[cfg(target_os = "linux")]
mod competitors;
#[cfg(windows)]
#[path = "no_competitors.rs"]
mod competitors;
#[cfg(target_os = "linux")]
mod deferred;
#[cfg(target_os = "linux")]
mod guard;
#[cfg(target_os = "linux")]
mod hpet;
#[cfg(target_os = "linux")]
mod interrupt_watch;
#[cfg(target_os = "linux")]
mod interrupts;
mod inversion;
#[cfg(target_os = "linux")]
mod memory_group;
mod order;
#[cfg(target_os = "linux")]
mod pages;
mod preemption;
#[cfg(target_os = "linux")]
mod pressed;
#[cfg(target_os = "linux")]
mod queue;
#[cfg(windows)]
#[path = "windows_queue.rs"]
mod queue;
mod response;
mod runs;
mod trial;

use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(target_os = "linux")]
use laggard_model::RtosInterrupt;
use laggard_model::{
    Absence, Cpu, CpuList, InterruptSource, InversionRounds, LockedPages, Nanos, QueueWakes,
    RtosDeferred, RtosInterrupts, RtosPriorities, RtosWakeup, RtosWakeups, StealTotal, WaitQueue,
};

use self::competitors::Competitors;
#[cfg(target_os = "linux")]
use self::deferred::DeferredWatch;
#[cfg(target_os = "linux")]
use self::hpet::Hpet;
#[cfg(target_os = "linux")]
use self::interrupt_watch::InterruptWatch;
#[cfg(target_os = "linux")]
pub(super) use self::interrupt_watch::try_watch;
#[cfg(target_os = "linux")]
use self::interrupts::{Caller, InterruptChunk, Requests};
use self::preemption::{PlannedWakeup, WakeupChunk};
use self::runs::{random_wakeups, runs};
use self::trial::{TrialEnding, TrialPart, play, set_priority};
use crate::random::Random;
use crate::system::flight::{OutsideCounters, StealClock};
pub use crate::system::lock::LockProtocol;
#[cfg(target_os = "linux")]
use crate::system::softirqs_are_preempted;
use crate::system::witness::Witness;
use crate::system::{clock, policy};

/// Real-time priority of the computing thread.
const RUNNING_PRIORITY: u8 = RtosWakeups::PRIORITIES[0];
/// Real-time priority of the woken thread.
const WOKEN_PRIORITY: u8 = RtosWakeups::PRIORITIES[1];
/// Time between two wakeups of the test of priorities.
const PRIORITY_INTERVAL: Nanos = Nanos::from_ms(4);
/// A computing thread that is not preempted gives up after this time.
const MAX_COMPUTE: Nanos = Nanos::from_ms(20);
/// The same in the test of neighbouring priorities.
const MAX_COMPUTE_NEIGHBOUR: Nanos = Nanos::from_ms(5);
/// The same against a thread of equal priority, which must not preempt.
const MAX_COMPUTE_EQUAL: Nanos = Nanos::from_us(400);
#[cfg(target_os = "linux")]
/// Parts of a run while an interrupt stays masked until the thread of its handler has run.
const MASKED_PARTS: u64 = 20;
/// Number of pairs of priorities between two checks of the stop flag.
const PAIRS: usize = 20;
/// Rounds of each pair of priorities.
const ROUNDS_OF_A_PAIR: usize = 4;
/// Every tenth priority is also tested against an equal one.
const EQUALS_EVERY: usize = 10;
/// Rounds of the test of each queue.
const ROUNDS_OF_WAKES: u64 = 1_000;
/// Rounds of the test of inversion with each lock.
const ROUNDS_OF_INVERSION: usize = 20;
/// Number of these rounds in one trial.
const INVERSIONS_AT_ONCE: usize = 5;
/// Maximum delay of a reading of the steal clock: one tick at 100 Hz.
const STEAL_CLOCK_DELAY: Nanos = Nanos::from_ms(10);

/// Options of the tests.
#[derive(Clone, Debug)]
pub struct RtosPlan {
    /// CPU of the test threads.
    pub cpu: Cpu,
    /// Maximum duration of each test.
    pub duration: Nanos,
    /// Source of the interrupts. `None`: the HPET, or another CPU.
    pub source: Option<InterruptSource>,
    /// Time between two interrupts of the HPET.
    pub hpet_period: Option<Nanos>,
}

/// Runner of the tests.
#[derive(Debug)]
pub struct RtosBench {
    plan: RtosPlan,
    witness: Option<Witness>,
    steal: Option<StealClock>,
    outside: OutsideCounters,
    competitors: Competitors,
    /// Real-time class of this process, if it may have it.
    #[cfg(windows)]
    _class: Option<laggard_measure_windows::RealtimeClass>,
}

impl RtosBench {
    /// Locks the memory of this process, if permitted. Call it before other threads start.
    #[must_use]
    pub fn new(plan: RtosPlan) -> Self {
        // The tests also work without: the memory that they use was touched before.
        let _ = policy::lock_memory();
        let cpus = CpuList::from_iter([plan.cpu]);
        Self {
            witness: Witness::settled().ok(),
            // Without it, the coarse counter is used.
            steal: StealClock::new(&cpus).ok(),
            outside: OutsideCounters::new(&cpus),
            competitors: Competitors::new(plan.cpu),
            #[cfg(windows)]
            _class: policy::hold_class(laggard_model::SwitchPolicy::Realtime(WOKEN_PRIORITY)),
            plan,
        }
    }

    /// Measures wakeups of a `SCHED_FIFO 90` thread while a `SCHED_FIFO 50` thread computes, for
    /// `length` or until `stop` is set.
    ///
    /// # Errors
    ///
    /// Returns an error if a thread cannot get its priority.
    pub fn preemption(&mut self, length: Nanos, stop: &AtomicBool) -> Result<RtosWakeups, Absence> {
        let mut random = Random(clock::now().ns());
        let begin = clock::now();
        let mut wakeups = self.start();
        while clock::now() < begin + length && !stop.load(Ordering::Relaxed) {
            self.chunk(&runs(&mut random), stop, &mut wakeups)?;
        }
        Ok(self.finish(wakeups, begin))
    }

    /// Measures wakeups of a `SCHED_FIFO 90` thread while anything runs on the CPU, for `length`
    /// or until `stop` is set.
    ///
    /// # Errors
    ///
    /// Returns an error if a thread cannot get its priority.
    pub fn wakeups_under_load(
        &mut self,
        length: Nanos,
        stop: &AtomicBool,
    ) -> Result<RtosWakeups, Absence> {
        let woken = WOKEN_PRIORITY;
        let mut random = Random(clock::now().ns());
        let begin = clock::now();
        let mut wakeups = self.start();
        while clock::now() < begin + length && !stop.load(Ordering::Relaxed) {
            // Earlier stops do not matter.
            let _ = self.witness.as_mut().map(Witness::was_stopped);
            let due = random_wakeups(&mut random);
            let planned = due.len() as u64;
            let responses = response::responses(self.plan.cpu, woken, due, stop)?;
            if self.witness.as_mut().is_some_and(Witness::was_stopped) {
                wakeups.excluded += planned;
                continue;
            }
            wakeups.missed += responses.missed;
            let rounds = responses.wakeups.into_iter().map(|(due, ran)| {
                let round = RtosWakeup {
                    running: 0,
                    woken,
                    latency: ran.saturating_sub(due),
                    preempted: true,
                    steal: None,
                };
                (due, round)
            });
            let done = WakeupChunk {
                wakeups: rounds.collect(),
                excluded: 0,
            };
            self.add_wakeups(done, &mut wakeups);
        }
        Ok(self.finish(wakeups, begin))
    }

    /// Reads the priorities of the system, and wakes a thread of each priority while a thread of
    /// the next lower priority computes.
    ///
    /// # Errors
    ///
    /// Returns an error if no priority is permitted.
    pub fn priorities(&mut self, stop: &AtomicBool) -> Result<RtosPriorities, Absence> {
        let stated = stated_priorities();
        let usable = self.usable(stated, stop)?;
        let begin = clock::now();
        let mut priorities = self.start();
        let mut pairs: Vec<(u8, u8, Nanos)> = usable
            .windows(2)
            .map(|pair| (pair[0], pair[1], MAX_COMPUTE_NEIGHBOUR))
            .collect();
        let equals = usable.iter().step_by(EQUALS_EVERY);
        pairs.extend(equals.map(|&priority| (priority, priority, MAX_COMPUTE_EQUAL)));
        for chunk in pairs.chunks(PAIRS) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let mut due = Nanos::ZERO;
            let rounds = chunk.iter().flat_map(|pair| [pair; ROUNDS_OF_A_PAIR]);
            let rounds: Vec<PlannedWakeup> = rounds
                .map(|&(running, woken, max_compute)| {
                    due += PRIORITY_INTERVAL;
                    PlannedWakeup {
                        running,
                        woken,
                        due,
                        max_compute,
                    }
                })
                .collect();
            self.chunk(&rounds, stop, &mut priorities)?;
        }
        let wakeups = self.finish(priorities, begin);
        Ok(RtosPriorities {
            stated,
            usable,
            wakeups,
        })
    }

    /// Returns the priorities that a thread of this process may use.
    fn usable(&self, stated: (u8, u8), stop: &AtomicBool) -> Result<Vec<u8>, Absence> {
        let ending = TrialEnding {
            length: Nanos::ZERO,
            stop,
            is_over: AtomicBool::new(false).into(),
        };
        let trial = TrialPart::new(stated.0, move |_| {
            let is_usable = |priority: &u8| set_priority(*priority).is_ok();
            let usable: Vec<u8> = (stated.0..=stated.1).filter(is_usable).collect();
            // The trial checks that the first priority is unchanged.
            let _ = set_priority(stated.0);
            usable
        });
        let mut usable = play(self.plan.cpu, vec![trial], &ending)?;
        Ok(usable.pop().unwrap_or_default())
    }

    /// Measures the order of wakeups of threads that wait in `queue`.
    pub fn order(&mut self, queue: WaitQueue, stop: &AtomicBool) -> QueueWakes {
        let queues = WaitQueue::HERE.len() as u64;
        let length = Nanos::from_ns(self.plan.duration.ns() / queues);
        order::wakes(self.plan.cpu, queue, ROUNDS_OF_WAKES, length, stop)
    }

    /// Measures the wait for a lock that a thread of lower priority holds, while a thread of
    /// middle priority computes, with both kinds of locks.
    ///
    /// # Errors
    ///
    /// Returns an error if a thread or a lock is refused.
    pub fn inversion(&mut self, stop: &AtomicBool) -> Result<InversionRounds, Absence> {
        let mut rounds = InversionRounds {
            hold: inversion::HOLD,
            middle: inversion::MIDDLE_COMPUTES,
            ..InversionRounds::default()
        };
        for _ in 0..ROUNDS_OF_INVERSION / INVERSIONS_AT_ONCE {
            for (protocol, rounds) in [
                (LockProtocol::Plain, &mut rounds.plain),
                (LockProtocol::Inherit, &mut rounds.inherit),
            ] {
                let cpu = self.plan.cpu;
                rounds.extend(inversion::inversions(
                    cpu,
                    protocol,
                    INVERSIONS_AT_ONCE,
                    stop,
                )?);
            }
        }
        Ok(rounds)
    }

    #[cfg(target_os = "linux")]
    /// Measures whether locked pages stay in memory under memory pressure.
    ///
    /// # Errors
    ///
    /// Returns an error if the memory of a process cannot be limited, or if it may not lock
    /// memory.
    pub fn locked(&self, stop: &AtomicBool) -> Result<LockedPages, Absence> {
        pages::pages(self.plan.duration, stop)
    }

    #[cfg(target_os = "linux")]
    /// Measures whether a `SCHED_FIFO 90` thread that is woken during a softirq preempts it.
    ///
    /// # Errors
    ///
    /// Returns an error if a thread cannot get its priority, or if the BPF programs that observe
    /// the softirq are refused.
    pub fn deferred(&self, stop: &AtomicBool) -> Result<RtosDeferred, Absence> {
        let mut random = Random(clock::now().ns());
        let watch = DeferredWatch::start(self.plan.cpu, WOKEN_PRIORITY)?;
        let begin = clock::now();
        while clock::now() < begin + self.plan.duration && !stop.load(Ordering::Relaxed) {
            let due = random_wakeups(&mut random);
            response::responses(self.plan.cpu, WOKEN_PRIORITY, due, stop)?;
        }
        watch.read()
    }

    #[cfg(target_os = "linux")]
    /// Measures interrupts of a computing `SCHED_FIFO 90` thread.
    ///
    /// # Errors
    ///
    /// Returns an error if a source of interrupts is missing, if the thread cannot get its
    /// priority, or if the BPF programs that observe the handler are refused.
    pub fn interrupts(&mut self, stop: &AtomicBool) -> Result<RtosInterrupts, Absence> {
        let cpu = self.plan.cpu;
        self.outside.read();
        let begin = clock::now();
        let threaded = match self.plan.source {
            Some(InterruptSource::Cpu) => Vec::new(),
            // Without the HPET this part is missing.
            Some(InterruptSource::Hpet) | None => self.threaded(stop).unwrap_or_default(),
        };
        // Interrupts come until the source is dropped.
        let period = self.plan.hpet_period.unwrap_or(hpet::PERIOD);
        let (hpet, caller) = match self.plan.source {
            Some(InterruptSource::Cpu) => (None, Some(Caller::start(cpu)?)),
            Some(InterruptSource::Hpet) => (Some(Hpet::start(cpu, period)?), None),
            None => any_source(cpu, period)?,
        };
        let irq = hpet.as_ref().map(|hpet| hpet.irq);
        let period = hpet.as_ref().map(|hpet| Requests::Periodic(hpet.period));
        let requests = period.or_else(|| caller.as_ref().map(Caller::requests));
        let requests = requests.expect("one of the two interrupts the CPU");
        let watch = InterruptWatch::start(cpu, irq, None)?;
        let (end, place) = (clock::now() + self.plan.duration, (cpu, WOKEN_PRIORITY));
        // The thread of the handler cannot preempt the computing thread, and the interrupt stays
        // masked until it has run: one interrupt per part.
        let thread = hpet.as_ref().and_then(Hpet::thread);
        let is_masked = thread.is_some_and(|(_, priority)| priority <= WOKEN_PRIORITY);
        let parts = if is_masked { MASKED_PARTS } else { 1 };
        let mut results = self.interrupts_until(end, place, parts, &watch, &requests, stop)?;
        results.source = match hpet {
            Some(_) => InterruptSource::Hpet,
            None => InterruptSource::Cpu,
        };
        results.threaded = threaded;
        results.steal = self.steal_total(begin);
        Ok(results)
    }

    #[cfg(target_os = "linux")]
    /// Measures interrupts of a computing thread that the thread of the HPET's handler preempts,
    /// for a tenth of the duration. Returns no interrupts if the handler runs in the interrupt.
    fn threaded(&mut self, stop: &AtomicBool) -> Result<Vec<RtosInterrupt>, Absence> {
        let cpu = self.plan.cpu;
        // More frequent ones could leave no time for anything but that thread.
        let period = self.plan.hpet_period.unwrap_or_default().max(hpet::PERIOD);
        let hpet = Hpet::start(cpu, period)?;
        let Some((thread, priority @ 2..)) = hpet.thread() else {
            return Ok(Vec::new());
        };
        let watch = InterruptWatch::start(cpu, Some(hpet.irq), Some(thread))?;
        let (place, requests) = ((cpu, priority - 1), Requests::Periodic(hpet.period));
        let end = clock::now() + Nanos::from_ns(self.plan.duration.ns() / 10);
        let results = self.interrupts_until(end, place, 1, &watch, &requests, stop)?;
        Ok(results.samples)
    }

    #[cfg(target_os = "linux")]
    /// Measures interrupts of a computing thread with a CPU and a priority until `end`, or until
    /// `stop` is set.
    fn interrupts_until(
        &mut self,
        end: Nanos,
        place: (Cpu, u8),
        parts: u64,
        watch: &InterruptWatch,
        requests: &Requests,
        stop: &AtomicBool,
    ) -> Result<RtosInterrupts, Absence> {
        let mut results = RtosInterrupts::default();
        let mut readings = 0;
        let mut time = Nanos::ZERO;
        while clock::now() < end && !stop.load(Ordering::Relaxed) {
            // Earlier stops do not matter.
            let _ = self.witness.as_mut().map(Witness::was_stopped);
            let done = interrupts::interrupts(place, parts, &watch.memory, requests, stop)?;
            if self.witness.as_mut().is_some_and(Witness::was_stopped) {
                results.excluded += done.excluded + done.interrupts.len() as u64;
                continue;
            }
            readings += done.readings;
            time += done.time;
            self.add_interrupts(done, &mut results);
        }
        results.reading = Nanos::from_ns(time.ns() / readings.max(1));
        Ok(results)
    }

    #[cfg(target_os = "linux")]
    /// Adds interrupts with the steal time of each.
    fn add_interrupts(&self, done: InterruptChunk, results: &mut RtosInterrupts) {
        results.excluded += done.excluded;
        let gaps: Vec<_> = done
            .interrupts
            .iter()
            .map(|(from, to, _)| (*from, *to))
            .collect();
        let steals = self.steal_times(&gaps);
        for ((_, _, mut interrupt), steal) in done.interrupts.into_iter().zip(steals) {
            interrupt.steal = steal;
            results.samples.push(interrupt);
        }
    }

    /// Runs some rounds, and excludes them if laggard was stopped during them.
    fn chunk(
        &mut self,
        rounds: &[PlannedWakeup],
        stop: &AtomicBool,
        results: &mut RtosWakeups,
    ) -> Result<(), Absence> {
        // Earlier stops do not matter.
        let _ = self.witness.as_mut().map(Witness::was_stopped);
        let done = preemption::wakeups(self.plan.cpu, rounds, stop)?;
        if self.witness.as_mut().is_some_and(Witness::was_stopped) {
            results.excluded += rounds.len() as u64;
            return Ok(());
        }
        results.excluded += done.excluded;
        self.add_wakeups(done, results);
        Ok(())
    }

    /// Adds wakeups with the steal time of each.
    fn add_wakeups(&self, done: WakeupChunk, results: &mut RtosWakeups) {
        let times: Vec<_> = done
            .wakeups
            .iter()
            .map(|(due, wakeup)| (*due, *due + wakeup.latency))
            .collect();
        let steals = self.steal_times(&times);
        for ((_, mut wakeup), steal) in done.wakeups.into_iter().zip(steals) {
            wakeup.steal = steal;
            results.samples.push(wakeup);
        }
    }

    /// Returns an upper bound of the steal time in each of these intervals, which are in
    /// order.
    fn steal_times(&self, times: &[(Nanos, Nanos)]) -> Vec<Option<Nanos>> {
        let begin = times.first().map(|(from, _)| *from);
        let end = times.iter().map(|(_, to)| *to).max();
        let (Some(steal_clock), Some(begin), Some(end)) = (&self.steal, begin, end) else {
            return vec![None; times.len()];
        };
        clock::sleep_until(end + STEAL_CLOCK_DELAY);
        let steals = steal_clock.steals(self.plan.cpu.0, begin, end);
        let bound = |&(from, to): &(Nanos, Nanos)| {
            // A reading only shows that the time was stolen since the reading before.
            let overlapping = steals
                .iter()
                .filter(|steal| steal.since_ns < to && steal.at_ns > from);
            let total = overlapping.fold(Nanos::ZERO, |sum, steal| sum + steal.time_ns);
            Some(total.min(to.saturating_sub(from)))
        };
        times.iter().map(bound).collect()
    }

    fn start(&mut self) -> RtosWakeups {
        self.outside.read();
        self.competitors = Competitors::new(self.plan.cpu);
        RtosWakeups::default()
    }

    fn finish(&mut self, mut wakeups: RtosWakeups, begin: Nanos) -> RtosWakeups {
        wakeups.steal = self.steal_total(begin);
        wakeups.competitors = self.competitors.that_ran();
        wakeups
    }

    /// Returns the steal time since `begin` by the coarse counter.
    fn steal_total(&mut self, begin: Nanos) -> Option<StealTotal> {
        self.outside.read();
        let cpu = self.plan.cpu;
        let stolen = self.outside.stolen(cpu, begin, clock::now());
        stolen.map(|stolen| StealTotal {
            time: stolen.time_ns,
            step: stolen.step_ns,
            has_counted: self.outside.has_stolen(cpu),
        })
    }
}

impl Drop for RtosBench {
    fn drop(&mut self) {
        policy::unlock_memory();
    }
}

#[cfg(target_os = "linux")]
/// Starts the source that is best for this kernel: the HPET, because it has a separate clock. On
/// `PREEMPT_RT`, whose threads keep the HPET's line masked for milliseconds, another CPU.
fn any_source(cpu: Cpu, period: Nanos) -> Result<(Option<Hpet>, Option<Caller>), Absence> {
    if softirqs_are_preempted() {
        let caller = Caller::start(cpu);
        return match caller {
            Ok(caller) => Ok((None, Some(caller))),
            Err(absence) => match Hpet::start(cpu, period) {
                Ok(hpet) => Ok((Some(hpet), None)),
                Err(_) => Err(absence),
            },
        };
    }
    match Hpet::start(cpu, period) {
        Ok(hpet) => Ok((Some(hpet), None)),
        Err(_) => Ok((None, Some(Caller::start(cpu)?))),
    }
}

#[cfg(target_os = "linux")]
/// Returns the lowest and the highest real-time priority according to the system.
fn stated_priorities() -> (u8, u8) {
    // SAFETY: the arguments are integers; cannot fail for a known policy.
    let stated = unsafe {
        [
            libc::sched_get_priority_min(libc::SCHED_FIFO),
            libc::sched_get_priority_max(libc::SCHED_FIFO),
        ]
    };
    let [lowest, highest] = stated.map(|priority| u8::try_from(priority).unwrap_or(0));
    (lowest, highest)
}

/// Returns the priorities of the real-time class.
#[cfg(windows)]
const fn stated_priorities() -> (u8, u8) {
    laggard_model::Service::REALTIME
}

/// Tests that need Linux.
#[cfg(windows)]
#[allow(clippy::unused_self, reason = "as on Linux")]
impl RtosBench {
    /// # Errors
    ///
    /// Always returns an error.
    pub fn locked(&self, _: &AtomicBool) -> Result<LockedPages, Absence> {
        Err(crate::system::only_linux("the test of locked pages"))
    }

    /// # Errors
    ///
    /// As above.
    pub fn deferred(&self, _: &AtomicBool) -> Result<RtosDeferred, Absence> {
        Err(crate::system::only_linux("the test of softirqs"))
    }

    /// # Errors
    ///
    /// As above.
    pub fn interrupts(&mut self, _: &AtomicBool) -> Result<RtosInterrupts, Absence> {
        Err(crate::system::only_linux("tracing of interrupt handlers"))
    }
}
