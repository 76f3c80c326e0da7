//! Whoever can tell the names of what ran, while it runs.

use std::fmt::Debug;

use crate::{Activity, Address, Culprit, Symbols, Tid};

/// Names that are looked up when something is to be shown, and kept.
pub trait Names: Debug {
    /// Looks up the kernel's functions at these addresses.
    fn learn_stack(&mut self, addresses: &[Address]);

    /// Looks whether a thread is one of our own.
    fn learn_thread(&mut self, tid: Tid);

    /// Looks up the control group with this number, whose CPU quota was used up.
    fn learn_quota(&mut self, _group: u64) {}

    /// Looks up the scheduling entities of a thread.
    fn learn_entities(&mut self, _tid: Tid) {}

    /// All names known so far.
    fn symbols(&self) -> &Symbols;

    /// Looks up the function that an activity is, if it is one.
    fn learn_activity(&mut self, activity: Activity) {
        if let Activity::Hrtimer(function)
        | Activity::Timer(function)
        | Activity::Work(function)
        | Activity::Isr(function)
        | Activity::Dpc(function) = activity
        {
            self.learn_stack(&[function]);
        }
    }

    /// Looks up what a culprit needs to be named.
    fn learn(&mut self, culprit: &Culprit) {
        for activity in [culprit.activity, culprit.function].into_iter().flatten() {
            self.learn_activity(activity);
        }
        self.learn_stack(culprit.frame.as_slice());
    }
}
