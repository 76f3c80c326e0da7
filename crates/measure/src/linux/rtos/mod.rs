//! Trials of what a real-time operating system needs (Timmerman 1998): threads of
//! real-time priorities on one CPU.
//!
//! Nobody of a real-time priority computes for longer than 40 ms at a stretch, and about
//! half of the CPU is taken over any second, which is below what the kernel lets
//! real-time threads have. Should a thread of ours run on, the kernel ends this process (`guard.rs`).

mod call;
mod duel;
mod guard;
mod hpet;
mod interrupt_watch;
mod interrupts;
mod inversion;
mod memory_group;
mod order;
mod pages;
mod pressed;
mod queue;
mod response;
mod rivals;
mod trial;

use std::sync::atomic::{AtomicBool, Ordering};

use laggard_model::{
    Absence, Cpu, CpuList, InterruptSource, InversionRounds, LockedPages, Nanos, QueueWakes,
    RtosInterrupts, RtosPriorities, RtosWakeup, RtosWakeups, StealTotal, WaitQueue,
};

use self::duel::{DuelsDone, PlannedDuel, duels};
use self::hpet::Hpet;
use self::interrupt_watch::InterruptWatch;
pub(super) use self::interrupt_watch::try_watch;
use self::interrupts::{Asking, Caller, InterruptsDone};
use self::rivals::Rivals;
use self::trial::{TrialEnding, TrialPart, be, play};
use super::flight::{Outside, StealClock};
pub use super::lock::LockProtocol;
use super::witness::Witness;
use super::{clock, policy};
use crate::timers::Random;

/// Who computes, and who is woken meanwhile.
const DUELISTS: (u8, u8) = (50, 90);
/// One computes for so long, and the other is woken meanwhile;
const RUN: Nanos = Nanos::from_ms(20);
/// then both leave the CPU for this at least,
const PAUSE: Nanos = Nanos::from_ms(10);
/// and up to so much more: what happens every 40 ms, say, lies in some runs, too, and
/// not in each pause.
const PAUSE_MORE: Nanos = Nanos::from_ms(20);
/// From one wakeup to the next it is at least this,
const EVERY: Nanos = Nanos::from_us(500);
/// and up to so much more: wakeups meet every phase of a tick, and who computes
/// does not sleep between them.
const EVERY_MORE: Nanos = Nanos::from_us(900);
/// The same where only is asked who comes first.
const EVERY_PAIR: Nanos = Nanos::from_ms(4);
/// Who does not give way gives up after this.
const BOUND: Nanos = Nanos::from_ms(20);
/// The same where only is asked whether it does;
const SHORT_BOUND: Nanos = Nanos::from_ms(5);
/// and where it must not.
const OWN_TURN: Nanos = Nanos::from_us(400);
/// Runs that are played without looking whether to go on: 300 ms at most.
const RUNS: usize = 6;
/// They take no longer.
const RUNS_END: Nanos = Nanos::from_ms(300);
/// Pairs that are tried without looking.
const PAIRS: usize = 20;
/// Rounds of each two neighbours in priority.
const ROUNDS_OF_A_PAIR: usize = 4;
/// Of so many priorities one is tried against an equal.
const EQUALS_EVERY: usize = 10;
/// Rounds of wakes by priority.
const ROUNDS_OF_WAKES: u64 = 1_000;
/// Rounds of an inversion, with each lock.
const ROUNDS_OF_INVERSION: usize = 20;
/// Of these with the lock held, in one trial.
const INVERSIONS_AT_ONCE: usize = 5;
/// The steal clock is read at the next tick at the latest, of 100 Hz.
const STEAL_TOLD_AFTER: Nanos = Nanos::from_ms(10);

/// What is to be tried.
#[derive(Clone, Debug)]
pub struct RtosPlan {
    /// Where.
    pub cpu: Cpu,
    /// How long each criterion takes, at most.
    pub duration: Nanos,
    /// What interrupts it.
    pub source: InterruptSource,
}

/// Tries what a real-time operating system needs.
#[derive(Debug)]
pub struct RtosBench {
    plan: RtosPlan,
    witness: Option<Witness>,
    steal: Option<StealClock>,
    outside: Outside,
    rivals: Rivals,
}

impl RtosBench {
    /// Readies this process: its memory is locked as far as it may be. To be called
    /// before there are other threads.
    #[must_use]
    pub fn new(plan: RtosPlan) -> Self {
        // A limit is no reason not to try: what is used was touched before.
        let _ = policy::lock_memory();
        let cpus = CpuList::from_iter([plan.cpu]);
        Self {
            witness: Witness::settled().ok(),
            // Without it, the coarse counter has to do.
            steal: StealClock::new(&cpus).ok(),
            outside: Outside::new(&cpus),
            rivals: Rivals::of(plan.cpu),
            plan,
        }
    }

    /// Lets a `fifo:90` thread be woken again and again while a `fifo:50` one
    /// computes, for so long or until `stop` is set.
    ///
    /// # Errors
    /// When a thread of such a priority cannot be had.
    pub fn take_overs(&mut self, length: Nanos, stop: &AtomicBool) -> Result<RtosWakeups, Absence> {
        let mut random = Random(clock::now().ns());
        let begin = clock::now();
        let mut seen = self.begun();
        while clock::now() < begin + length && !stop.load(Ordering::Relaxed) {
            self.chunk(&runs(&mut random), stop, &mut seen)?;
        }
        Ok(self.ended(seen, begin))
    }

    /// Lets a `fifo:90` thread be woken again and again whatever else runs on the CPU,
    /// for so long or until `stop` is set.
    ///
    /// # Errors
    /// When a thread of such a priority cannot be had.
    pub fn responses(&mut self, length: Nanos, stop: &AtomicBool) -> Result<RtosWakeups, Absence> {
        let (_, woken) = DUELISTS;
        let mut random = Random(clock::now().ns());
        let begin = clock::now();
        let mut seen = self.begun();
        while clock::now() < begin + length && !stop.load(Ordering::Relaxed) {
            // What was before is none of its business.
            let _ = self.witness.as_mut().map(Witness::was_stopped);
            let due = wakeups(&mut random);
            let planned = due.len() as u64;
            let came = response::responses(self.plan.cpu, woken, due, stop)?;
            if self.witness.as_mut().is_some_and(Witness::was_stopped) {
                seen.excluded += planned;
                continue;
            }
            seen.missed += came.missed;
            let rounds = came.came.into_iter().map(|(due, ran)| {
                let round = RtosWakeup {
                    running: 0,
                    woken,
                    latency: ran.saturating_sub(due),
                    preempted: true,
                    steal: None,
                };
                (due, round)
            });
            let done = DuelsDone {
                rounds: rounds.collect(),
                unkept: 0,
            };
            self.told(done, &mut seen);
        }
        Ok(self.ended(seen, begin))
    }

    /// Asks which priorities there are, and lets each be woken while a thread of the
    /// next lower one computes.
    ///
    /// # Errors
    /// When none of them can be had.
    pub fn priorities(&mut self, stop: &AtomicBool) -> Result<RtosPriorities, Absence> {
        let stated = stated_priorities();
        let usable = self.usable(stated, stop)?;
        let begin = clock::now();
        let mut seen = self.begun();
        let mut pairs: Vec<(u8, u8, Nanos)> = usable
            .windows(2)
            .map(|two| (two[0], two[1], SHORT_BOUND))
            .collect();
        let equals = usable.iter().step_by(EQUALS_EVERY);
        pairs.extend(equals.map(|&one| (one, one, OWN_TURN)));
        for some in pairs.chunks(PAIRS) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let mut due = Nanos::ZERO;
            let rounds = some.iter().flat_map(|pair| [pair; ROUNDS_OF_A_PAIR]);
            let rounds: Vec<PlannedDuel> = rounds
                .map(|&(computing, woken, bound)| {
                    due += EVERY_PAIR;
                    PlannedDuel {
                        computing,
                        woken,
                        due,
                        bound,
                    }
                })
                .collect();
            self.chunk(&rounds, stop, &mut seen)?;
        }
        let wakeups = self.ended(seen, begin);
        Ok(RtosPriorities {
            stated,
            usable,
            wakeups,
        })
    }

    /// Those of the stated priorities that a thread of this process may have.
    fn usable(&self, stated: (u8, u8), stop: &AtomicBool) -> Result<Vec<u8>, Absence> {
        let ending = TrialEnding {
            length: Nanos::ZERO,
            stop,
            is_over: AtomicBool::new(false).into(),
        };
        let trial = TrialPart::new(stated.0, move |_| {
            let may_be = |one: &u8| be(*one).is_ok();
            let usable: Vec<u8> = (stated.0..=stated.1).filter(may_be).collect();
            // As it began.
            let _ = be(stated.0);
            usable
        });
        let mut usable = play(self.plan.cpu, vec![trial], &ending)?;
        Ok(usable.pop().unwrap_or_default())
    }

    /// In which order threads that wait in `queue` are woken.
    pub fn wakes(&mut self, queue: WaitQueue, stop: &AtomicBool) -> QueueWakes {
        let queues = WaitQueue::ALL.len() as u64;
        let length = Nanos::from_ns(self.plan.duration.ns() / queues);
        order::wakes(self.plan.cpu, queue, ROUNDS_OF_WAKES, length, stop)
    }

    /// How long a thread waits for a lock that a less urgent one holds, while one
    /// between them computes: with both kinds of locks.
    ///
    /// # Errors
    /// When the threads or the locks cannot be had.
    pub fn inversions(&mut self, stop: &AtomicBool) -> Result<InversionRounds, Absence> {
        let mut seen = InversionRounds {
            hold: inversion::HOLD,
            middle: inversion::MIDDLE_COMPUTES,
            ..InversionRounds::default()
        };
        for _ in 0..ROUNDS_OF_INVERSION / INVERSIONS_AT_ONCE {
            for (protocol, rounds) in [
                (LockProtocol::Plain, &mut seen.plain),
                (LockProtocol::Inherit, &mut seen.inherit),
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
        Ok(seen)
    }

    /// Whether locked pages stay in memory where there is too little of it.
    ///
    /// # Errors
    /// When the memory of a process cannot be limited, or it may lock none.
    pub fn pages(&self, stop: &AtomicBool) -> Result<LockedPages, Absence> {
        pages::pages(self.plan.duration, stop)
    }

    /// How long an interrupt takes to begin and to be left, while a `fifo:90` thread
    /// computes.
    ///
    /// # Errors
    /// When nothing can interrupt it so, the thread cannot be had, or nothing tells when a
    /// handler begins and ends.
    pub fn interrupts(&mut self, stop: &AtomicBool) -> Result<RtosInterrupts, Absence> {
        let cpu = self.plan.cpu;
        // It interrupts as long as it is there.
        let (asking, irq, _caller, _hpet) = match self.plan.source {
            InterruptSource::Cpu => {
                let caller = Caller::start(cpu)?;
                (caller.asking(), None, Some(caller), None)
            }
            InterruptSource::Hpet => {
                let hpet = Hpet::start(cpu)?;
                (Asking::Every(hpet.period), Some(hpet.irq), None, Some(hpet))
            }
        };
        let watch = InterruptWatch::start(cpu, irq)?;
        self.outside.read();
        let begin = clock::now();
        let mut seen = RtosInterrupts {
            source: self.plan.source,
            ..RtosInterrupts::default()
        };
        let mut readings = 0;
        let mut time = Nanos::ZERO;
        while clock::now() < begin + self.plan.duration && !stop.load(Ordering::Relaxed) {
            // What was before is none of its business.
            let _ = self.witness.as_mut().map(Witness::was_stopped);
            let done = interrupts::interrupts(cpu, &watch.seen, &asking, stop)?;
            if self.witness.as_mut().is_some_and(Witness::was_stopped) {
                seen.excluded += done.unkept + done.interrupts.len() as u64;
                continue;
            }
            readings += done.readings;
            time += done.time;
            self.keep(done, &mut seen);
        }
        seen.reading = Nanos::from_ns(time.ns() / readings.max(1));
        seen.steal = self.stolen_in_all(begin);
        Ok(seen)
    }

    /// Keeps interrupts, with what the hypervisor took of each.
    fn keep(&self, done: InterruptsDone, seen: &mut RtosInterrupts) {
        seen.excluded += done.unkept;
        let gaps: Vec<_> = done.interrupts.iter().map(|it| (it.0, it.1)).collect();
        for ((_, _, mut one), stolen) in done.interrupts.into_iter().zip(self.stolen(&gaps)) {
            one.steal = stolen;
            seen.samples.push(one);
        }
    }

    /// Plays rounds; those in which laggard was stopped are left out.
    fn chunk(
        &mut self,
        rounds: &[PlannedDuel],
        stop: &AtomicBool,
        seen: &mut RtosWakeups,
    ) -> Result<(), Absence> {
        // What was before is none of its business.
        let _ = self.witness.as_mut().map(Witness::was_stopped);
        let done = duels(self.plan.cpu, rounds, stop)?;
        if self.witness.as_mut().is_some_and(Witness::was_stopped) {
            seen.excluded += rounds.len() as u64;
            return Ok(());
        }
        seen.excluded += done.unkept;
        self.told(done, seen);
        Ok(())
    }

    /// Keeps rounds, with what the hypervisor took of each.
    fn told(&self, done: DuelsDone, seen: &mut RtosWakeups) {
        let times = done
            .rounds
            .iter()
            .map(|(due, it)| (*due, *due + it.latency));
        let times: Vec<_> = times.collect();
        for ((_, mut round), stolen) in done.rounds.into_iter().zip(self.stolen(&times)) {
            round.steal = stolen;
            seen.samples.push(round);
        }
    }

    /// What the hypervisor took of the CPU in each of these times, which are in order:
    /// at most.
    fn stolen(&self, times: &[(Nanos, Nanos)]) -> Vec<Option<Nanos>> {
        let begin = times.first().map(|(from, _)| *from);
        let end = times.iter().map(|(_, to)| *to).max();
        let (Some(steal_clock), Some(begin), Some(end)) = (&self.steal, begin, end) else {
            return vec![None; times.len()];
        };
        clock::sleep_until(end + STEAL_TOLD_AFTER);
        let steals = steal_clock.steals(self.plan.cpu.0, begin, end);
        let of = |&(from, to): &(Nanos, Nanos)| {
            // A reading tells only that it was since the one before.
            let meets = steals
                .iter()
                .filter(|one| one.since_ns < to && one.at_ns > from);
            let all = meets.fold(Nanos::ZERO, |sum, one| sum + one.time_ns);
            Some(all.min(to.saturating_sub(from)))
        };
        times.iter().map(of).collect()
    }

    fn begun(&mut self) -> RtosWakeups {
        self.outside.read();
        self.rivals = Rivals::of(self.plan.cpu);
        RtosWakeups::default()
    }

    fn ended(&mut self, mut seen: RtosWakeups, begin: Nanos) -> RtosWakeups {
        seen.steal = self.stolen_in_all(begin);
        seen.competitors = self.rivals.that_ran();
        seen
    }

    /// By the coarse counter, from its reading before `begin` to one made now.
    fn stolen_in_all(&mut self, begin: Nanos) -> Option<StealTotal> {
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

/// When each of a few runs begins, from the beginning of the first pause.
fn begins(random: &mut Random) -> Vec<Nanos> {
    let mut end = Nanos::ZERO;
    let begins = std::iter::repeat_with(|| {
        let begin = end + PAUSE + random.below(PAUSE_MORE);
        end = begin + RUN;
        begin
    });
    begins.take(RUNS).collect()
}

/// Wakeups at random instants of a few runs.
fn runs(random: &mut Random) -> Vec<PlannedDuel> {
    let (computing, woken) = DUELISTS;
    let mut rounds = Vec::new();
    for begin in begins(random) {
        let mut due = begin + duel::BEFORE;
        while due < begin + RUN {
            rounds.push(PlannedDuel {
                computing,
                woken,
                due,
                bound: BOUND,
            });
            due = due + EVERY + random.below(EVERY_MORE);
        }
    }
    rounds
}

/// Wakeups at random instants.
fn wakeups(random: &mut Random) -> Vec<Nanos> {
    let gaps = std::iter::repeat_with(|| EVERY + random.below(EVERY_MORE));
    let due = gaps.scan(Nanos::ZERO, |due, gap| {
        *due += gap;
        Some(*due)
    });
    due.take_while(|&due| due < RUNS_END).collect()
}

/// The lowest and the highest real-time priority that the system states.
fn stated_priorities() -> (u8, u8) {
    // SAFETY: takes no pointers; cannot fail for a known policy.
    let stated = unsafe {
        [
            libc::sched_get_priority_min(libc::SCHED_FIFO),
            libc::sched_get_priority_max(libc::SCHED_FIFO),
        ]
    };
    let [least, most] = stated.map(|one| u8::try_from(one).unwrap_or(0));
    (least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_computes_does_not_sleep_between_the_wakeups_of_a_run_and_does_between_runs() {
        let rounds = runs(&mut Random(7));

        let apart = |two: &[PlannedDuel]| two[1].due.saturating_sub(two[0].due);
        let gaps: Vec<Nanos> = rounds.windows(2).map(apart).collect();
        let long = gaps.iter().filter(|&&gap| gap > duel::BEFORE).count();
        assert_eq!(long, RUNS - 1);
        assert!(
            gaps.iter()
                .all(|&gap| gap <= PAUSE + PAUSE_MORE + duel::BEFORE + EVERY + EVERY_MORE)
        );
        let last = rounds.last().unwrap().due;
        assert!(last <= RUNS_END, "{last}");
    }

    /// As long as a run and its pause were once: a cause with that rhythm lay in each
    /// pause of a whole measurement, and the system passed.
    #[test]
    fn no_phase_of_a_rhythm_lies_in_each_pause() {
        const RHYTHM: Nanos = Nanos::from_ms(40);
        let mut random = Random(7);
        let (mut from, mut met) = (Nanos::ZERO, [0; 40]);
        for _ in 0..8 {
            let begins = begins(&mut random);
            for &begin in &begins {
                let first = (from + begin).ns() % RHYTHM.ns() / 1_000_000;
                for ms in first..first + 20 {
                    met[usize::try_from(ms % 40).unwrap()] += 1;
                }
            }
            from += begins[begins.len() - 1] + RUN;
        }

        // 48 runs, of which half would meet each phase.
        assert!(met.iter().all(|&count| count >= 8), "{met:?}");
    }
}
