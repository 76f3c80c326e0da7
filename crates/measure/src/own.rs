//! Which threads are our own.
//!
//! Told by number, never by name: anybody can call a thread `laggard`. The
//! kernel's tracepoints count threads in the first PID namespace, `/proc` in the
//! one that we are in; elsewhere none is known rather than a wrong one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use laggard_model::Tid;

/// The first PID namespace: `PROC_PID_INIT_INO` of the kernel's
/// `include/linux/proc_ns.h`, the same since 3.8.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// The threads of this process among those that were asked about.
#[derive(Debug)]
pub(crate) struct OwnThreads {
    is_known: bool,
    threads: BTreeSet<Tid>,
}

impl Default for OwnThreads {
    fn default() -> Self {
        let namespace = fs::read_link("/proc/self/ns/pid");
        Self {
            is_known: namespace.is_ok_and(|path| path == *FIRST_NAMESPACE),
            threads: BTreeSet::new(),
        }
    }
}

impl OwnThreads {
    /// Remembers `tid` if it is one of ours. Call it while the thread lives.
    pub(crate) fn note(&mut self, tid: Tid) {
        let is_new = tid.0 != 0 && !self.threads.contains(&tid);
        if self.is_known && is_new && Path::new(&format!("/proc/self/task/{}", tid.0)).exists() {
            self.threads.insert(tid);
        }
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
    fn where_numbers_are_not_the_kernels_none_is_ours() {
        let mut own = OwnThreads {
            is_known: false,
            ..OwnThreads::default()
        };

        own.note(Tid(std::process::id()));

        assert!(own.threads().is_empty());
    }
}
