//! What a recorder of everything that a machine does can say afterwards.

use std::fmt::Debug;

use laggard_model::{Address, Cpu, Evidence, Nanos, ProgramCost, Symbol, Tid};

/// Keeps what each CPU did in the last moments, for when something was late.
pub trait Flight: Debug {
    /// Reads what moves by itself, such as the counters of hypervisor and
    /// firmware. To be called a few times a second, by the thread that asks for
    /// evidence: the movement between two calls is all that is known.
    fn poll(&mut self);

    /// Copies out what is known of `cpu` from `from` to `to`.
    ///
    /// Call it soon: what is kept is overwritten, after some hundred milliseconds
    /// on a busy CPU, and [`Evidence::overwritten`] says when that was too late.
    fn evidence(&self, cpu: Cpu, from: Nanos, to: Nanos) -> Evidence;

    /// How many switches of threads it has missed so far, at least: what ran
    /// between is not known.
    fn unseen_switches(&self) -> u64;

    /// What it has cost so far.
    fn cost(&self) -> Vec<ProgramCost>;
}

/// What a kernel tells of itself, of which a probe has the newest: evidence of what made
/// something late, and its names.
pub trait KernelRecord: Debug + Send + Sync {
    /// As [`Flight::evidence`].
    fn evidence(&self, cpu: Cpu, from: Nanos, to: Nanos) -> Evidence;

    /// As [`Flight::unseen_switches`].
    fn unseen_switches(&self) -> u64;

    /// What is at an address of the kernel.
    fn symbol(&self, address: Address) -> Symbol;

    /// The threads of this process, also those that ended.
    fn own_threads(&self) -> std::collections::BTreeSet<Tid>;
}
