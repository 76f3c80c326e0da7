//! Lookup of the names of running code.

use std::fmt::Debug;

use crate::{Activity, Address, Culprit, Symbols, Tid};

/// Lookup and cache of names.
pub trait Names: Debug {
    /// Looks up the kernel's functions at these addresses.
    fn learn_stack(&mut self, addresses: &[Address]);

    /// Checks whether a thread belongs to this program.
    fn learn_thread(&mut self, tid: Tid);

    /// Looks up the control group with this number, whose CPU quota was used up.
    fn learn_quota(&mut self, _group: u64) {}

    /// Looks up the scheduling entities of a thread.
    fn learn_entities(&mut self, _tid: Tid) {}

    /// Returns what a file descriptor of a process refers to: a path, or a kind such as
    /// `pipe`. `None`: unknown.
    fn descriptor(&mut self, _process: u32, _number: u64) -> Option<String> {
        None
    }

    /// Returns whether a process is a Go program: its runtime runs a goroutine on any thread.
    fn is_go(&mut self, _process: u32) -> bool {
        false
    }

    /// Returns all names so far.
    fn symbols(&self) -> &Symbols;

    /// Looks up the function that an activity is, if it is one.
    fn learn_activity(&mut self, activity: Activity) {
        if let Activity::Hrtimer(function)
        | Activity::Timer(function)
        | Activity::Work(function)
        | Activity::Poll(function)
        | Activity::Function(function)
        | Activity::Isr(function)
        | Activity::Dpc(function) = activity
        {
            self.learn_stack(&[function]);
        }
    }

    /// Looks up the names for a culprit.
    fn learn(&mut self, culprit: &Culprit) {
        for activity in [culprit.activity, culprit.function].into_iter().flatten() {
            self.learn_activity(activity);
        }
        self.learn_stack(culprit.frame.as_slice());
    }
}
