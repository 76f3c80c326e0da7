//! Evidence from a recorder of all activity of a machine.

use std::fmt::Debug;

use laggard_model::{Address, Cpu, Evidence, Nanos, ProgramCost, Symbol, Tid};

/// Recorder of the recent activity of each CPU, for late wakeups.
pub trait Flight: Debug {
    /// Reads changing counters, such as the counters of hypervisor and firmware. The thread that
    /// requests evidence calls this a few times per second: only the change between two calls is
    /// known.
    fn poll(&mut self);

    /// Copies the evidence of `cpu` from `from` to `to`.
    ///
    /// Call it soon: the rings are overwritten, after some hundred milliseconds on a busy CPU,
    /// and [`Evidence::overwritten`] shows when that has happened.
    fn evidence(&self, cpu: Cpu, from: Nanos, to: Nanos) -> Evidence;

    /// Returns the number of context switches that it has missed so far, at least. The threads in
    /// between are unknown.
    fn unseen_switches(&self) -> u64;

    /// Returns the cost so far.
    fn cost(&self) -> Vec<ProgramCost>;
}

/// Kernel events: evidence of causes, and names. A probe keeps the newest events.
pub trait KernelRecord: Debug + Send + Sync {
    /// Copies evidence as [`Flight::evidence`].
    fn evidence(&self, cpu: Cpu, from: Nanos, to: Nanos) -> Evidence;

    /// Returns the count as [`Flight::unseen_switches`].
    fn unseen_switches(&self) -> u64;

    /// Returns the symbol at an address of the kernel.
    fn symbol(&self, address: Address) -> Symbol;

    /// Returns the threads of this process, including ended ones.
    fn own_threads(&self) -> std::collections::BTreeSet<Tid>;
}
