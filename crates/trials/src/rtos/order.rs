//! Order of the wakeups of waiting threads of different priorities.
//!
//! All threads are on one CPU, and the conductor has the lowest priority: when it runs, all other
//! threads wait. It therefore knows without a clock that a thread has reached the queue, or that a
//! woken thread has run. Half of the threads start to wait before the first wakeup and half after
//! it: the queue must put a late thread of higher priority in front.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use laggard_model::{Absence, Cpu, Lacks, Nanos, QueueWake, QueueWakes, WaitQueue};

use super::queue::{self, Queue};
use super::trial::{TrialEnding, TrialPart, play, refused};
use crate::random::Random;
use crate::system::clock;
use crate::system::door::Door;

/// Number of waiting threads.
pub(super) const WAITERS: usize = 8;
/// Priority of the conductor.
pub(super) const CONDUCTOR: u8 = if cfg!(windows) { 17 } else { 40 };
/// Priority of the thread that holds the lock at the start of a round.
const OWNER: u8 = CONDUCTOR + 1;
/// Lowest priority of the waiting threads.
const LOWEST: u8 = OWNER + 1;
/// Length of a run. A pause follows it.
const RUN: Nanos = Nanos::from_ms(10);
/// Length of a pause. Other programs get the CPU during a pause.
const PAUSE: Nanos = Nanos::from_ms(10);
/// Number of rounds at the start that are not counted.
const WARM_UP: u64 = 3;
/// Number of checks for a woken thread, which may be delayed, for example by a page fault.
const MAX_CHECKS: u64 = 50;
/// Time between two checks.
const CHECK_INTERVAL: Nanos = Nanos::from_ms(1);
/// Value before the first wakeup.
const NOT_WOKEN: usize = usize::MAX;

/// State that the threads share.
struct Hall {
    queue: Box<dyn Queue>,
    /// Doors where the threads wait before they enter the queue.
    doors: [Door; WAITERS + 1],
    /// Doors where the threads wait before they release a lock.
    exits: [Door; WAITERS + 1],
    /// Number of wakeups so far.
    woken: AtomicUsize,
    /// Number of the thread that was woken last.
    last: AtomicUsize,
    /// Number of failed calls.
    failed: AtomicUsize,
    is_over: Arc<AtomicBool>,
}

/// Returns the priority of a thread.
fn priority(number: usize) -> u8 {
    match u8::try_from(number) {
        Ok(number) if usize::from(number) < WAITERS => LOWEST + number,
        _ => OWNER,
    }
}

/// Runs `rounds` rounds with a queue, or fewer if `length` is over.
pub(super) fn wakes(
    cpu: Cpu,
    queue: WaitQueue,
    rounds: u64,
    length: Nanos,
    stop: &AtomicBool,
) -> QueueWakes {
    let mut result = QueueWakes {
        queue,
        absence: None,
        rounds: 0,
        wakes: Vec::new(),
    };
    let opened = queue::open(queue).map_err(|err| refused(queue.name(), &err));
    match opened.and_then(|queue| played(cpu, queue, rounds, length, stop)) {
        Ok(conducted) => {
            result.rounds = conducted.rounds;
            result.wakes = conducted.wakes;
            result.absence = conducted.broken;
        }
        Err(absence) => result.absence = Some(absence),
    }
    result
}

/// Observations of the conductor.
#[derive(Debug, Default)]
struct ConductorResult {
    rounds: u64,
    wakes: Vec<QueueWake>,
    broken: Option<Absence>,
}

fn played(
    cpu: Cpu,
    queue: Box<dyn Queue>,
    rounds: u64,
    length: Nanos,
    stop: &AtomicBool,
) -> Result<ConductorResult, Absence> {
    let is_over = Arc::new(AtomicBool::new(false));
    let hall = Arc::new(Hall {
        queue,
        doors: Default::default(),
        exits: Default::default(),
        woken: AtomicUsize::new(0),
        last: AtomicUsize::new(NOT_WOKEN),
        failed: AtomicUsize::new(0),
        is_over: Arc::clone(&is_over),
    });
    let mut parts = Vec::with_capacity(WAITERS + 2);
    for own in 0..=WAITERS {
        let hall = Arc::clone(&hall);
        parts.push(TrialPart::new(priority(own), move |_| {
            hall.take_part(own);
            ConductorResult::default()
        }));
    }
    let room = usize::try_from(rounds).unwrap_or(0) * WAITERS;
    // Touches the memory, so that no page fault occurs later.
    let mut wakes = vec![NO_WAKE; room];
    wakes.clear();
    parts.push(TrialPart::new(CONDUCTOR, move |begin| {
        let conducted = ConductorResult {
            wakes,
            ..ConductorResult::default()
        };
        hall.conduct(begin, rounds, length, conducted)
    }));
    let ending = TrialEnding {
        length,
        stop,
        is_over,
    };
    let mut results = play(cpu, parts, &ending)?;
    Ok(results.pop().unwrap_or_default())
}

const NO_WAKE: QueueWake = QueueWake {
    woken: u8::MAX,
    highest: u8::MAX,
};

impl Hall {
    fn take_part(&self, own: usize) {
        loop {
            self.doors[own].pass();
            if self.is_over.load(Ordering::Acquire) {
                return;
            }
            if self.queue.wait().is_err() {
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
            self.last.store(own, Ordering::Relaxed);
            self.woken.fetch_add(1, Ordering::Release);
            if self.queue.is_lock() {
                self.exits[own].pass();
                if self.queue.wake().is_err() {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn conduct(
        &self,
        begin: Nanos,
        rounds: u64,
        length: Nanos,
        mut done: ConductorResult,
    ) -> ConductorResult {
        let mut random = Random(begin.ns());
        let over = begin + length;
        let mut run = clock::now();
        for number in 0..rounds + WARM_UP {
            let now = clock::now();
            if now >= over || self.is_over.load(Ordering::Relaxed) {
                break;
            }
            if now >= run + RUN {
                clock::sleep_until(now + PAUSE);
                run = clock::now();
            }
            let kept = done.wakes.len();
            if let Err(broken) = self.round(&mut random, &mut done.wakes) {
                done.wakes.truncate(kept);
                done.broken = Some(broken);
                break;
            }
            if number < WARM_UP {
                done.wakes.clear();
            } else {
                done.rounds += 1;
            }
        }
        self.is_over.store(true, Ordering::Release);
        // Releases threads that are stuck in the queue, if possible.
        for number in 0..=WAITERS {
            self.exits[number].open();
            if done.broken.is_some() && !self.queue.is_lock() {
                let _ = self.queue.wake();
            }
            self.doors[number].open();
        }
        done
    }

    fn round(&self, random: &mut Random, wakes: &mut Vec<QueueWake>) -> Result<(), Absence> {
        let mut order: [usize; WAITERS] = std::array::from_fn(|number| number);
        for place in (1..WAITERS).rev() {
            let with = random.number_below(place + 1);
            order.swap(place, with);
        }
        let mut waits = [false; WAITERS];
        let come = |some: &[usize], waits: &mut [bool; WAITERS]| {
            for &number in some {
                self.doors[number].open();
                waits[number] = true;
            }
        };
        if self.queue.is_lock() {
            let before = self.woken.load(Ordering::Acquire);
            self.doors[WAITERS].open();
            self.wait_for_wakeups(before + 1)?;
        }
        let mut holder = WAITERS;
        let (early, late) = order.split_at(WAITERS / 2);
        come(early, &mut waits);
        for number in 0..WAITERS {
            if number == 1 {
                come(late, &mut waits);
            }
            let before = self.woken.load(Ordering::Acquire);
            if self.queue.is_lock() {
                self.exits[holder].open();
            } else {
                self.queue.wake().map_err(|err| refused("waking", &err))?;
            }
            self.wait_for_wakeups(before + 1)?;
            let highest = waits.iter().rposition(|&waits| waits).unwrap_or(WAITERS);
            holder = self.last.load(Ordering::Relaxed);
            if !waits.get(holder).is_some_and(|&waits| waits) {
                return Err(broken("woke a thread that did not wait"));
            }
            waits[holder] = false;
            wakes.push(QueueWake {
                woken: priority(holder),
                highest: priority(highest),
            });
        }
        if self.queue.is_lock() {
            self.exits[holder].open();
        }
        Ok(())
    }

    /// Waits until the total number of wakeups is `expected`.
    fn wait_for_wakeups(&self, expected: usize) -> Result<(), Absence> {
        for _ in 0..MAX_CHECKS {
            let woken = self.woken.load(Ordering::Acquire);
            if self.failed.load(Ordering::Relaxed) > 0 {
                return Err(broken("a wait call failed"));
            }
            if woken == expected {
                return Ok(());
            }
            clock::sleep_until(clock::now() + CHECK_INTERVAL);
        }
        Err(broken("a wake call did not wake exactly one thread"))
    }
}

fn broken(what: &str) -> Absence {
    Absence::new(
        what,
        "repeat the test; if it fails again, suspect the C library",
        Lacks::Machine,
    )
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io;
    use std::os::fd::OwnedFd;

    use nix::unistd::{pipe, read, write};

    use super::*;
    use crate::system::{allowed_cpus, may_run_as};

    /// A pipe, whose readers the kernel wakes in the order of their arrival.
    struct FirstCome(OwnedFd, OwnedFd);

    impl Queue for FirstCome {
        fn wait(&self) -> io::Result<()> {
            read(&self.0, &mut [0]).map(drop).map_err(io::Error::from)
        }

        fn wake(&self) -> io::Result<()> {
            write(&self.1, &[1]).map(drop).map_err(io::Error::from)
        }
    }

    #[test]
    fn first_come_queue_wakes_out_of_order() {
        if !may_run_as(laggard_model::Service::Fifo(priority(WAITERS - 1))) {
            return println!("skipped: no right for real-time threads");
        }
        let (from, to) = pipe().unwrap();
        let cpu = *allowed_cpus().as_slice().last().unwrap();
        let stop = AtomicBool::new(false);
        let length = Nanos::from_secs(20);

        let result = played(cpu, Box::new(FirstCome(from, to)), 50, length, &stop).unwrap();

        assert_eq!(result.broken, None);
        if result.rounds < 50 {
            return println!("skipped: {} of 50 rounds in {length}", result.rounds);
        }
        let wrong = result
            .wakes
            .iter()
            .filter(|wake| wake.woken < wake.highest)
            .count();
        // Eight threads in random order: about five per round are expected.
        assert!(wrong > 50, "{wrong} of {} wakes", result.wakes.len());
        assert!(result.wakes.iter().all(|wake| wake.woken <= wake.highest));
    }

    #[test]
    fn conductor_has_the_lowest_priority_and_all_others_differ() {
        let priorities: Vec<u8> = (0..=WAITERS).map(priority).collect();

        assert!(
            priorities.iter().all(|&priority| priority > CONDUCTOR),
            "{priorities:?}"
        );
        let mut once = priorities.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), priorities.len());
        assert_eq!(priorities[WAITERS], OWNER);
    }
}
