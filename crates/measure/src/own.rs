//! Threads of this process.
//!
//! They are recognised by their TID, never by their name, because any program can call a thread
//! `laggard`. The kernel's tracepoints use TIDs of the initial PID namespace. `/proc` uses TIDs of
//! the current namespace. In any other namespace all threads are treated as foreign, which is
//! better than a wrong match.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use laggard_model::Tid;

/// Initial PID namespace: `PROC_PID_INIT_INO` of the kernel's `include/linux/proc_ns.h`, the same
/// since 3.8.
const INITIAL_NAMESPACE: &str = "pid:[4026531836]";
/// A thread counts as foreign for this time without another check of `/proc`. Its TID cannot be
/// reused for a thread of this process in less time: the kernel uses all other TIDs first.
const FOREIGN_FOR: Duration = Duration::from_millis(100);

/// Threads of this process among the checked threads.
#[derive(Debug)]
pub(crate) struct OwnThreads {
    is_known: bool,
    threads: BTreeSet<Tid>,
    /// Threads of other processes that were checked since that time.
    strangers: BTreeSet<Tid>,
    strangers_since: Instant,
}

/// Returns whether `/proc` shows threads with the kernel's TIDs.
pub(crate) fn is_first_namespace() -> bool {
    let namespace = fs::read_link("/proc/self/ns/pid");
    namespace.is_ok_and(|path| path == *INITIAL_NAMESPACE)
}

impl Default for OwnThreads {
    fn default() -> Self {
        Self {
            is_known: is_first_namespace(),
            threads: BTreeSet::new(),
            strangers: BTreeSet::new(),
            strangers_since: Instant::now(),
        }
    }
}

impl OwnThreads {
    /// Records `tid` if the thread belongs to this process. Call it while the thread lives.
    pub(crate) fn note(&mut self, tid: Tid) {
        self.note_at(Instant::now(), tid, |tid| {
            Path::new(&format!("/proc/self/task/{}", tid.0)).exists()
        });
    }

    /// Checks each thread only once in a while, because a check of `/proc` takes longer than all
    /// other work for an event.
    fn note_at(&mut self, now: Instant, tid: Tid, is_ours: impl FnOnce(Tid) -> bool) {
        if !self.is_known || tid.0 == 0 || self.threads.contains(&tid) {
            return;
        }
        if now.duration_since(self.strangers_since) > FOREIGN_FOR {
            self.strangers.clear();
            self.strangers_since = now;
        }
        if self.strangers.contains(&tid) {
            return;
        }
        let threads = if is_ours(tid) {
            &mut self.threads
        } else {
            &mut self.strangers
        };
        threads.insert(tid);
    }

    pub(crate) const fn threads(&self) -> &BTreeSet<Tid> {
        &self.threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_of_this_process_is_own_and_init_is_not() {
        let mut own = OwnThreads::default();
        let me = Tid(std::process::id());

        for tid in [me, Tid(1), Tid(0)] {
            own.note(tid);
        }

        if !own.is_known {
            eprintln!("skipped: this is not the first PID namespace");
            assert!(own.threads().is_empty());
            return;
        }
        assert_eq!(own.threads(), &BTreeSet::from([me]));
    }

    #[test]
    fn foreign_threads_are_checked_once_in_a_while() {
        let mut own = OwnThreads {
            is_known: true,
            ..OwnThreads::default()
        };
        let mut lookups = 0;
        for after in [0, 1, 200] {
            let now = own.strangers_since + Duration::from_millis(after);
            for tid in (1..=10).cycle().take(1_000) {
                own.note_at(now, Tid(tid), |_| {
                    lookups += 1;
                    false
                });
            }
        }

        // The first check, and another after the interval.
        assert_eq!(lookups, 20);
    }

    #[test]
    fn no_thread_is_own_outside_the_initial_namespace() {
        let mut own = OwnThreads {
            is_known: false,
            ..OwnThreads::default()
        };

        own.note(Tid(std::process::id()));

        assert!(own.threads().is_empty());
    }
}
