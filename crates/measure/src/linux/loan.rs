//! `SCHED_OTHER` thread that has a real-time priority only for its work, lent by the requesting
//! thread through a PI futex (futex(2)): Heubaum's "priority VM event".
//!
//! ```text
//! lender    sleeps until the expiry   requests, waits for a lock .... has it, releases it
//! borrower  sleeps, holds the lock                 works, releases it
//! ```
//!
//! The lender is a real-time thread. While it waits for the lock, the kernel runs the borrower at
//! the lender's priority. The borrower takes a lock back at the next request, and at that time
//! must already hold another. There are therefore two locks, used alternately.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use laggard_model::{Cpu, Nanos, Service};

use super::door::{wait_while, wake_one};
use super::lock::{ChosenMutex, LockProtocol};
use super::sleeper::{self, Alarm};
use super::thread::{Duty, LinePlan, RunState};
use super::{clock, policy};
use crate::board::LineWriter;

/// State that lender and borrower share.
pub(super) struct Loan {
    locks: [ChosenMutex; 2],
    /// Number of requests.
    asked: AtomicU32,
    is_over: AtomicBool,
    /// Time of the borrower's last run, in ns.
    came: AtomicU64,
    /// Whether that run was on another CPU.
    is_elsewhere: AtomicBool,
}

impl std::fmt::Debug for Loan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loan").finish_non_exhaustive()
    }
}

impl Loan {
    /// # Errors
    ///
    /// Returns an error if the kernel lacks PI futexes.
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let lock = || ChosenMutex::new(LockProtocol::Inherit);
        Ok(Arc::new(Self {
            locks: [lock()?, lock()?],
            asked: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
            came: AtomicU64::new(0),
            is_elsewhere: AtomicBool::new(false),
        }))
    }

    fn lock_of(&self, request: u32) -> &ChosenMutex {
        &self.locks[(request & 1) as usize]
    }

    fn ask(&self) -> u32 {
        let request = self.asked.load(Ordering::Relaxed).wrapping_add(1);
        self.asked.store(request, Ordering::Release);
        // The call cannot fail for a valid word.
        let _ = wake_one(&self.asked);
        request
    }
}

pub(super) const fn lender_service(priority: u8) -> Service {
    Service::Fifo(priority)
}

/// Thread that works when it is requested.
#[derive(Debug)]
pub(super) struct Borrower {
    pub(super) loan: Arc<Loan>,
    /// Scheduling without a lent priority. It equals the scheduling of the competing threads. With
    /// a lower priority the borrower would not sleep again before the next request.
    pub(super) own: Service,
}

impl Duty for Borrower {
    fn name_suffix(&self) -> &'static str {
        ""
    }

    fn serves(&self) -> Option<bool> {
        Some(true)
    }

    /// Before the first request.
    fn prepare(&self) -> io::Result<()> {
        policy::schedule_as(self.own)?;
        self.loan.locks.iter().try_for_each(ChosenMutex::lock)
    }

    fn measure(&self, _: &RunState, cpu: Cpu, _: LineWriter<'_>, _: Option<LinePlan>) {
        let loan = &*self.loan;
        let mut served = 0;
        loop {
            while loan.asked.load(Ordering::Acquire) == served {
                // A request came in between, or the wakeup was spurious: the loop checks again.
                let _ = wait_while(&loan.asked, served);
            }
            let came = clock::now();
            if loan.is_over.load(Ordering::Acquire) {
                break;
            }
            // The lender has released the previous lock. The first request does not have a previous
            // lock.
            let has_lock = served == 0 || loan.lock_of(served).lock().is_ok();
            let is_elsewhere = policy::current_cpu() != Some(cpu);
            loan.is_elsewhere.store(is_elsewhere, Ordering::Relaxed);
            loan.came.store(came.ns(), Ordering::Release);
            served = served.wrapping_add(1);
            if !has_lock || loan.lock_of(served).unlock().is_err() {
                break;
            }
        }
        // The call fails for a lock that this thread does not hold.
        loan.locks.iter().for_each(|lock| drop(lock.unlock()));
    }
}

/// Thread that requests at each expiry and lends its priority.
#[derive(Debug)]
pub(super) struct Lender(pub(super) Arc<Loan>);

impl Duty for Lender {
    fn name_suffix(&self) -> &'static str {
        "l"
    }

    fn serves(&self) -> Option<bool> {
        Some(false)
    }

    fn measure(&self, shared: &RunState, cpu: Cpu, line: LineWriter<'_>, plan: Option<LinePlan>) {
        sleeper::measure(shared, cpu, line, plan, self);
        self.0.is_over.store(true, Ordering::Release);
        self.0.ask();
    }
}

impl Alarm for Lender {
    fn arm(&self, _: Nanos) -> bool {
        false
    }

    fn wait(&self, time: Nanos) {
        clock::sleep_until(time);
        let loan = &*self.0;
        let lock = loan.lock_of(loan.ask());
        // Without the lock no priority is lent, and the borrower runs at its own.
        if lock.lock().is_ok() {
            let _ = lock.unlock();
        }
    }

    /// Returns the borrower's run.
    fn came(&self, _: Cpu) -> (Nanos, bool) {
        let came = Nanos::from_ns(self.0.came.load(Ordering::Acquire));
        (came, self.0.is_elsewhere.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicU64;

    use super::super::lines::Turn;
    use super::*;
    use crate::board::{Board, Timeline};
    use crate::exhaustion::Exhaustion;

    /// Limit against hanging, not an expectation: maximum number of requests.
    const MAX_ROUNDS: u64 = 40;
    const PERIOD: Nanos = Nanos::from_ms(2);

    fn shared() -> Arc<RunState> {
        let shared = Arc::new(RunState {
            board: Board::owned(1, 64),
            enlist: None,
            stop: AtomicBool::new(false),
            exhaustion: Exhaustion::new(1, crate::used::used),
            faults: AtomicU64::new(0),
            passed: BTreeMap::new(),
        });
        let bits = &shared.board.cpu(0).ring_bits;
        bits.store(6, Ordering::Relaxed);
        shared
    }

    /// Returns the kernel's priority of a thread in its list: 20 for a `SCHED_OTHER` thread at nice
    /// 0, negative for a real-time priority, also a lent one (`proc_pid_stat(5)`).
    fn priority(stat: &str) -> i64 {
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields
            .split_ascii_whitespace()
            .nth(15)
            .unwrap()
            .parse()
            .unwrap()
    }

    /// Runs until all requests have been served and returns the times that `borrower` recorded.
    fn served(shared: &Arc<RunState>, first: Nanos) -> Vec<(Nanos, Nanos)> {
        let loan = Loan::new().unwrap();
        let (of_borrower, of_lender) = (Arc::clone(shared), Arc::clone(shared));
        let borrower = Borrower {
            loan: Arc::clone(&loan),
            own: Service::Other,
        };
        let (ready, is_ready) = std::sync::mpsc::channel();
        let borrowing = std::thread::spawn(move || {
            borrower.prepare().unwrap();
            ready.send(()).unwrap();
            let line = of_borrower.board.writer(0, 0);
            borrower.measure(&of_borrower, Cpu(0), line, None);
        });
        is_ready.recv().unwrap();
        let lending = std::thread::spawn(move || {
            let timeline = Timeline::new(0, PERIOD, false, 0, 1, first);
            let plan = Some((timeline, Turn::default()));
            let line = of_lender.board.writer(0, 0);
            Lender(loan).measure(&of_lender, Cpu(0), line, plan);
        });
        let head = &shared.board.cpu(0).lines[0].head;
        while head.load(Ordering::Acquire) < MAX_ROUNDS {
            std::thread::sleep(PERIOD.into());
        }
        shared.stop.store(true, Ordering::Relaxed);
        lending.join().unwrap();
        borrowing.join().unwrap();
        let ring = shared.board.ring(shared.board.cpu(0), 0);
        let times = ring.iter().take(usize::try_from(MAX_ROUNDS).unwrap());
        times
            .map(|slot| {
                let user = slot.end();
                (slot.expiry(), user)
            })
            .collect()
    }

    #[test]
    fn borrower_runs_once_per_request() {
        let times = served(&shared(), clock::now() + PERIOD);

        assert!(
            times.iter().all(|(expiry, user)| user >= expiry),
            "{times:?}"
        );
        let users: Vec<Nanos> = times.iter().map(|time| time.1).collect();
        assert!(users.is_sorted_by(|time, next| time < next), "{users:?}");
    }

    /// Only while a thread waits for a lock does the holder have the waiter's priority.
    #[test]
    fn priority_is_lent_while_a_thread_waits() {
        let loan = Loan::new().unwrap();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        let holder = {
            let loan = Arc::clone(&loan);
            std::thread::spawn(move || {
                let current_priority =
                    || priority(&std::fs::read_to_string("/proc/thread-self/stat").unwrap());
                loan.locks.iter().for_each(|lock| lock.lock().unwrap());
                let before = current_priority();
                ready.send(()).unwrap();
                if may_go.recv().is_err() {
                    return (before, before, before);
                }
                // Until a thread waits for the lock, or the limit has passed.
                let limit = clock::now() + Nanos::from_secs(30);
                let mut lent = current_priority();
                while lent == before && clock::now() < limit {
                    std::thread::yield_now();
                    lent = current_priority();
                }
                loan.locks.iter().for_each(|lock| lock.unlock().unwrap());
                (before, lent, current_priority())
            })
        };
        is_ready.recv().unwrap();
        let waiter = std::thread::spawn(move || {
            policy::schedule_as(lender_service(30))?;
            go.send(()).unwrap();
            let lock = loan.lock_of(0);
            lock.lock()?;
            lock.unlock()
        });
        let waited = waiter.join().unwrap();
        let (before, lent, after) = holder.join().unwrap();
        if let Err(err) = waited {
            return println!("skipped: no real-time priority: {err}");
        }

        assert_eq!(lent, -31);
        assert!(before > 0 && before == after, "{before}, {after}");
    }
}
