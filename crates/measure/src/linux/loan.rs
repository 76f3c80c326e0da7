//! A normal thread that has a real-time priority for its work alone, lent by who asks
//! for it through a PI futex (futex(2)): Heubaum's "priority VM event".
//!
//! ```text
//! lender    sleeps until the expiry   asks, waits for a lock ........ has it, returns it
//! borrower  sleeps, holds the lock                 works, returns it
//! ```
//!
//! The lender is a real-time thread. From when it waits for the lock until it has it,
//! the kernel runs the borrower by its priority. The borrower takes a lock back when it
//! is asked again, and needs one then that it holds already: so there are two, by turns.

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

/// What lender and borrower share.
pub(super) struct Loan {
    locks: [ChosenMutex; 2],
    /// How often the borrower was asked.
    asked: AtomicU32,
    is_over: AtomicBool,
    /// When it last came, ns,
    came: AtomicU64,
    /// and whether it was on another CPU then.
    is_elsewhere: AtomicBool,
}

impl std::fmt::Debug for Loan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loan").finish_non_exhaustive()
    }
}

impl Loan {
    /// # Errors
    /// Where the kernel has no PI futexes.
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

    fn lock_of(&self, asked: u32) -> &ChosenMutex {
        &self.locks[(asked & 1) as usize]
    }

    fn ask(&self) -> u32 {
        let asked = self.asked.load(Ordering::Relaxed).wrapping_add(1);
        self.asked.store(asked, Ordering::Release);
        // Cannot fail for a word that is there.
        let _ = wake_one(&self.asked);
        asked
    }
}

/// The service that the lender is.
pub(super) const fn lender_service(priority: u8) -> Service {
    Service::Fifo(priority)
}

/// Works when it is asked.
#[derive(Debug)]
pub(super) struct Borrower {
    pub(super) loan: Arc<Loan>,
    /// What it is while nobody lends it anything: one like those that it competes with,
    /// beside which it would else not come to sleep again before it is asked.
    pub(super) own: Service,
}

impl Duty for Borrower {
    fn name_suffix(&self) -> &'static str {
        ""
    }

    fn serves(&self) -> Option<bool> {
        Some(true)
    }

    /// Before anybody asks.
    fn prepare(&self) -> io::Result<()> {
        policy::schedule_as(self.own)?;
        self.loan.locks.iter().try_for_each(ChosenMutex::lock)
    }

    fn measure(&self, _: &RunState, cpu: Cpu, _: LineWriter<'_>, _: Option<LinePlan>) {
        let loan = &*self.loan;
        let mut served = 0;
        loop {
            while loan.asked.load(Ordering::Acquire) == served {
                // Asked meanwhile, or woken for no reason: looked at again.
                let _ = wait_while(&loan.asked, served);
            }
            let came = clock::now();
            if loan.is_over.load(Ordering::Acquire) {
                break;
            }
            // Who asks has returned the lock of the time before, of which there is none
            // at the first.
            let has_lock = served == 0 || loan.lock_of(served).lock().is_ok();
            let is_elsewhere = policy::current_cpu() != Some(cpu);
            loan.is_elsewhere.store(is_elsewhere, Ordering::Relaxed);
            loan.came.store(came.ns(), Ordering::Release);
            served = served.wrapping_add(1);
            if !has_lock || loan.lock_of(served).unlock().is_err() {
                break;
            }
        }
        // Of those that it does not hold it is refused.
        loan.locks.iter().for_each(|lock| drop(lock.unlock()));
    }
}

/// Asks at each expiry, and lends its priority.
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
        // A lock that cannot be had lends nothing: the borrower comes as it can.
        if lock.lock().is_ok() {
            let _ = lock.unlock();
        }
    }

    /// The borrower did.
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

    /// A limit against hanging, not an expectation: so many are asked for at most.
    const ROUNDS: u64 = 40;
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

    /// How the kernel's list of a thread has its priority: 20 for a normal one at nice
    /// 0, negative for a real-time one, those that are lent too (`proc_pid_stat(5)`).
    fn priority(stat: &str) -> i64 {
        let (_, fields) = stat.rsplit_once(')').unwrap();
        fields
            .split_ascii_whitespace()
            .nth(15)
            .unwrap()
            .parse()
            .unwrap()
    }

    /// Runs until so many have been served; what `borrower` says of itself meanwhile.
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
        while head.load(Ordering::Acquire) < ROUNDS {
            std::thread::sleep(PERIOD.into());
        }
        shared.stop.store(true, Ordering::Relaxed);
        lending.join().unwrap();
        borrowing.join().unwrap();
        let ring = shared.board.ring(shared.board.cpu(0), 0);
        let times = ring.iter().take(usize::try_from(ROUNDS).unwrap());
        times
            .map(|slot| {
                let user = slot.end();
                (slot.expiry(), user)
            })
            .collect()
    }

    #[test]
    fn the_borrower_comes_once_for_each_time_that_it_is_asked() {
        let times = served(&shared(), clock::now() + PERIOD);

        assert!(
            times.iter().all(|(expiry, user)| user >= expiry),
            "{times:?}"
        );
        let users: Vec<Nanos> = times.iter().map(|one| one.1).collect();
        assert!(users.is_sorted_by(|one, next| one < next), "{users:?}");
    }

    /// While a thread waits for its lock the holder has that one's priority, and only
    /// then.
    #[test]
    fn a_priority_is_lent_for_as_long_as_somebody_waits() {
        let loan = Loan::new().unwrap();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        let holder = {
            let loan = Arc::clone(&loan);
            std::thread::spawn(move || {
                let seen = || priority(&std::fs::read_to_string("/proc/thread-self/stat").unwrap());
                loan.locks.iter().for_each(|lock| lock.lock().unwrap());
                let before = seen();
                ready.send(()).unwrap();
                if may_go.recv().is_err() {
                    return (before, before, before);
                }
                // Until somebody waits at the lock, or nobody will.
                let limit = clock::now() + Nanos::from_secs(30);
                let mut lent = seen();
                while lent == before && clock::now() < limit {
                    std::thread::yield_now();
                    lent = seen();
                }
                loan.locks.iter().for_each(|lock| lock.unlock().unwrap());
                (before, lent, seen())
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
