//! Which threads are our own.
//!
//! Told by number, never by name: anybody can call a thread `laggard`. The
//! kernel's tracepoints count threads in the first PID namespace, `/proc` in the
//! one that we are in; elsewhere none is known rather than a wrong one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use laggard_model::Tid;

/// The first PID namespace: `PROC_PID_INIT_INO` of the kernel's
/// `include/linux/proc_ns.h`, the same since 3.8.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";
/// How long a thread counts as another process's without a look at `/proc`. Its number
/// cannot come to be a new thread of ours in less: the kernel goes through all others
/// first.
const STRANGER_FOR: Duration = Duration::from_millis(100);

/// The threads of this process among those that were asked about.
#[derive(Debug)]
pub(crate) struct OwnThreads {
    is_known: bool,
    threads: BTreeSet<Tid>,
    /// Threads of other processes, looked up since the time.
    strangers: BTreeSet<Tid>,
    strangers_since: Instant,
}

/// Whether `/proc` shows threads by the kernel's numbers.
pub(crate) fn is_first_namespace() -> bool {
    let namespace = fs::read_link("/proc/self/ns/pid");
    namespace.is_ok_and(|path| path == *FIRST_NAMESPACE)
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
    /// Remembers `tid` if it is one of ours. Call it while the thread lives.
    pub(crate) fn note(&mut self, tid: Tid) {
        self.note_at(Instant::now(), tid, |tid| {
            Path::new(&format!("/proc/self/task/{}", tid.0)).exists()
        });
    }

    /// Looks each thread up once in a while, however many events name it: a look at
    /// `/proc` takes longer than all else that is done with an event.
    fn note_at(&mut self, now: Instant, tid: Tid, is_ours: impl FnOnce(Tid) -> bool) {
        if !self.is_known || tid.0 == 0 || self.threads.contains(&tid) {
            return;
        }
        if now.duration_since(self.strangers_since) > STRANGER_FOR {
            self.strangers.clear();
            self.strangers_since = now;
        }
        if self.strangers.contains(&tid) {
            return;
        }
        let known = if is_ours(tid) {
            &mut self.threads
        } else {
            &mut self.strangers
        };
        known.insert(tid);
    }

    pub(crate) const fn threads(&self) -> &BTreeSet<Tid> {
        &self.threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_this_process_is_ours_and_the_first_of_all_is_not() {
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
    fn threads_of_others_are_looked_up_once_in_a_while() {
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

        // At first, and again after the time.
        assert_eq!(lookups, 20);
    }

    #[test]
    fn where_numbers_are_not_the_kernels_none_is_ours() {
        let mut own = OwnThreads {
            is_known: false,
            ..OwnThreads::default()
        };

        own.note(Tid(std::process::id()));

        assert!(own.threads().is_empty());
    }
}
