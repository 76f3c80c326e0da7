//! Misses that `laggard attach` reports for simulated programs with faults, compared with the
//! number of cycles that the programs end after their deadline.

use laggard_answer::attach::AttachRequest;
use laggard_model::{ActivationEnd, WokenBy};

use crate::attended::{
    POLL, SLEEP_UNTIL, Script, TIMER, Wait, by_thread, report, request, us, wait,
};

const PERIOD: u64 = 10_000;
const DEADLINE: u64 = 5_000;
const READ: Wait = wait("read", 5, 0, 0);
const CONDITION: Wait = wait("futex", 64, 0x89, 0);

/// Program, after the system call that it waits with and its reaction to a late cycle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Program {
    /// Sleeps until a time; catches up.
    CatchUp,
    /// Sleeps until a time; skips the cycles that it is late for.
    Skip,
    /// Sleeps until a time; after a late cycle, the next one is due a period later.
    Rebase,
    Timerfd,
    /// Timeouts in ms for the time that is left; catches up.
    Timeouts,
    RebaseTimeouts,
    /// Timeouts, too; skips cycles if it is late by more than a period.
    MixedTimeouts,
    /// The same timeout after each cycle.
    Relative,
    /// Waits for a condition for the same time after each cycle.
    WaitFor,
    /// A further timer of 70 ms in the same loop, with timeouts in ms.
    TwoTimeouts,
    TwoConditions,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    /// Another thread has the CPU.
    Hog,
    /// Some cycles take long.
    Work,
    /// Signals.
    Stop,
    /// Three times 804 ms.
    Freeze,
}

/// Thread with its clock in us.
struct Thread {
    script: Script,
    fault: Fault,
    now: u64,
    /// Activation that goes on: source, due time, and start.
    open: (WokenBy, u64, u64),
    /// Next interval without the CPU.
    fault_at: (u64, u64),
    faults: u32,
    works: u64,
    random: u64,
    wait: Wait,
    /// Longest work of a cycle without a fault.
    max_work: u64,
    missed: u64,
    /// Due times that the program skipped less than the deadline after them.
    skipped_in_time: u64,
}

impl Thread {
    fn new(fault: Fault, seed: u64, wait: Wait) -> Self {
        let mut thread = Self {
            script: Script::new(1),
            fault,
            now: 0,
            open: (TIMER, 0, 0),
            fault_at: (u64::MAX, u64::MAX),
            faults: 0,
            works: 0,
            random: seed,
            wait,
            max_work: [320, 2_500][usize::from(seed.is_multiple_of(2))],
            missed: 0,
            skipped_in_time: 0,
        };
        thread.plan_fault(700_000);
        thread
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        from + (self.random >> 33) % (to - from)
    }

    fn plan_fault(&mut self, after: u64) {
        self.faults += 1;
        self.fault_at = match self.fault {
            Fault::Work => (u64::MAX, u64::MAX),
            Fault::Freeze if self.faults > 3 => (u64::MAX, u64::MAX),
            Fault::Freeze => (after + 650_300, after + 650_300 + 804_000),
            Fault::Hog | Fault::Stop => {
                let from = after + self.between(150_000, 280_000);
                (from, from + self.between(6_000, 34_000))
            }
        };
    }

    fn close(&mut self, to: u64, wait: Wait) {
        let (woken, due, from) = self.open;
        self.script.add(woken, (due, from, to), wait);
    }

    fn run(&mut self, length: u64) {
        let mut left = length;
        while self.now + left > self.fault_at.0 {
            let (from, to) = self.fault_at;
            left -= from.max(self.now) - self.now;
            if matches!(self.fault, Fault::Stop | Fault::Freeze) && from >= self.now {
                self.close(from, (ActivationEnd::Stopped, self.wait.1));
                self.open = (by_thread(7, "kill"), to, to + 10);
            }
            self.now = self.now.max(to);
            self.plan_fault(to);
        }
        self.now += left;
    }

    /// Sleeps until a timer expires.
    fn sleep(&mut self, until: u64) {
        if until <= self.now {
            return;
        }
        self.close(self.now, self.wait);
        while matches!(self.fault, Fault::Stop | Fault::Freeze) && self.fault_at.0 < until {
            let (from, to) = self.fault_at;
            let kill = by_thread(7, "kill");
            let stopped = (ActivationEnd::Stopped, self.wait.1);
            self.script.add(kill, (from, from + 20, from + 40), stopped);
            self.open = (kill, to, to + 10);
            self.now = to + 20;
            self.plan_fault(to);
            if self.now >= until {
                return;
            }
            self.close(self.now, self.wait);
        }
        self.now = until;
        let latency = self.between(5, 40);
        self.run(latency);
        self.open = (TIMER, until, self.now);
    }

    fn work(&mut self) {
        self.works += 1;
        let length = if self.fault == Fault::Work && self.works.is_multiple_of(23) {
            self.between(6_300, 34_300)
        } else {
            self.between(300, self.max_work)
        };
        self.run(length);
    }

    fn end(&mut self, due: u64) {
        self.missed += u64::from(self.now > due + DEADLINE);
    }

    /// Calls `epoll_wait` with the time that is left, rounded up to 1 ms.
    fn poll(&mut self, due: u64) {
        let left = due.saturating_sub(self.now).div_ceil(1_000) * 1_000;
        if left > 0 {
            let called = self.between(2, 6);
            self.run(called);
            self.sleep(self.now + left);
        }
    }
}

fn run(program: Program, fault: Fault, seed: u64) -> Thread {
    let wait = match program {
        Program::CatchUp | Program::Skip | Program::Rebase => SLEEP_UNTIL,
        Program::Timerfd => READ,
        Program::WaitFor | Program::TwoConditions => CONDITION,
        _ => POLL,
    };
    let mut thread = Thread::new(fault, seed, wait);
    let first = 400_000;
    let last = first + 5_000_000;
    let mut due = first;
    match program {
        Program::CatchUp | Program::Rebase => {
            while due < last {
                thread.sleep(due);
                thread.work();
                thread.end(due);
                due += PERIOD;
                if program == Program::Rebase && due < thread.now {
                    due = thread.now + PERIOD;
                }
            }
        }
        Program::Skip | Program::Timerfd => {
            while due < last {
                thread.sleep(due);
                let seen = thread.now;
                thread.work();
                thread.end(due);
                due += PERIOD;
                let until = if program == Program::Skip {
                    thread.now
                } else {
                    seen
                };
                while due <= until {
                    let missed = thread.missed;
                    thread.end(due);
                    let is_in_time = thread.missed == missed;
                    thread.skipped_in_time += u64::from(program == Program::Skip && is_in_time);
                    due += PERIOD;
                }
            }
        }
        Program::Timeouts | Program::RebaseTimeouts | Program::MixedTimeouts => {
            while due < last {
                thread.poll(due);
                if thread.now < due {
                    continue;
                }
                thread.work();
                thread.end(due);
                due += PERIOD;
                let limit = match program {
                    Program::RebaseTimeouts => due,
                    Program::MixedTimeouts => due + PERIOD,
                    _ => u64::MAX,
                };
                if limit < thread.now {
                    due = thread.now + PERIOD;
                }
            }
        }
        Program::Relative | Program::WaitFor => {
            while thread.now < last {
                let due = thread.now + PERIOD;
                if program == Program::WaitFor {
                    thread.sleep(due + 2);
                } else {
                    thread.poll(due);
                }
                thread.work();
                thread.end(due);
            }
        }
        Program::TwoTimeouts | Program::TwoConditions => {
            let mut due = [first, first + 3_000];
            while due[0] < last {
                let timer = usize::from(due[1] < due[0]);
                if program == Program::TwoTimeouts {
                    thread.poll(due[timer]);
                } else {
                    thread.sleep(due[timer]);
                }
                if thread.now < due[timer] {
                    continue;
                }
                thread.work();
                thread.end(due[timer]);
                due[timer] += [PERIOD, 7 * PERIOD][timer];
            }
        }
    }
    let end = thread.now;
    let wait = thread.wait;
    thread.close(end, wait);
    thread
}

/// Some timelines remain ambiguous: timeouts in ms hide up to 1 ms, and after a long freeze a
/// wakeup may be on the old timeline by chance.
#[test]
fn misses_of_simulated_programs_are_counted() {
    const SEEDS: u64 = 10;
    const MAX_WRONG: f64 = 0.02;
    let programs = [
        Program::CatchUp,
        Program::Skip,
        Program::Rebase,
        Program::Timerfd,
        Program::Timeouts,
        Program::RebaseTimeouts,
        Program::MixedTimeouts,
        Program::Relative,
        Program::WaitFor,
        Program::TwoTimeouts,
        Program::TwoConditions,
    ];
    /// Minimum share of the programs with many late cycles, the others up to a quarter of the period long.
    const MIN_SKIPS: f64 = 0.6;
    let mut wrong = Vec::new();
    let (mut number, mut skipping, mut found) = (0, 0, 0);
    for program in programs {
        for fault in [Fault::Hog, Fault::Work, Fault::Stop, Fault::Freeze] {
            for seed in 1..=SEEDS {
                number += 1;
                let thread = run(program, fault, seed);
                let request = AttachRequest {
                    deadline: Some(us(DEADLINE)),
                    ..request()
                };
                let report = report(request, thread.script.records);
                let misses = report.rows.iter().filter_map(|row| row.deadline.as_ref());
                let misses: u64 = misses.map(|deadline| deadline.misses).sum();
                let mut missed = thread.missed;
                if program == Program::Skip {
                    // Each cycle that was skipped is missed, once it is known that the program skips.
                    let is_long = thread.max_work > 2_000 && fault != Fault::Freeze;
                    let is_found = misses > missed + thread.skipped_in_time / 2;
                    skipping += u32::from(is_long);
                    found += u32::from(is_long && is_found);
                    missed += u64::from(is_found) * thread.skipped_in_time;
                }
                // Rounded timeouts hide up to 1 ms.
                if misses.abs_diff(missed) > missed / 10 + 1 {
                    wrong.push(format!(
                        "{program:?} {fault:?} {seed}: {misses} of {missed}"
                    ));
                }
            }
        }
    }
    let share = wrong.len() as f64 / f64::from(number);
    assert!(share <= MAX_WRONG, "{wrong:#?}");
    let share = f64::from(found) / f64::from(skipping);
    assert!(share >= MIN_SKIPS, "{found} of {skipping}");
}

/// A thread that sleeps for 5 ms and then works for 5, 10 or 15 ms has wakeups at regular times, but no
/// due times: no cycle is missed while another one goes on.
#[test]
fn loop_that_always_sleeps_for_the_same_time_has_no_due_times() {
    const SLEEP: u64 = 5_000;
    const SLEEP_FOR: Wait = wait("clock_nanosleep", 0, 0, 0);
    let mut passed = Vec::new();
    for seed in 1..=20 {
        let mut thread = Thread::new(Fault::Work, seed, SLEEP_FOR);
        for _ in 0..200 {
            thread.sleep(thread.now + SLEEP);
            let work = SLEEP * thread.between(1, 4) + thread.between(0, 20);
            thread.run(work);
        }
        let end = thread.now;
        thread.close(end, SLEEP_FOR);
        let report = report(request(), thread.script.records);
        let deadlines = report.rows.iter().filter_map(|row| row.deadline.as_ref());
        passed.push(deadlines.map(|deadline| deadline.passed).sum::<u64>());
    }
    assert!(passed.iter().all(|passed| *passed == 0), "{passed:?}");
}
