//! Timers that expire on a CPU other than the waiting thread's.
//!
//! The kernel queues the timers of an isolated CPU (`nohz_full`) on another CPU if possible:
//! timers of sleeping threads and of timer descriptors.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::Ordering;

use laggard_model::{Caveat, CaveatKind, CpuList};

use crate::board::{Board, LineReader};

/// Returns whether timers of one of `cpus` may be queued on another CPU.
pub(super) fn may_leave(cpus: &CpuList) -> bool {
    // If the list is empty, the file contains `(null)`.
    fs::read_to_string("/sys/devices/system/cpu/nohz_full")
        .ok()
        .and_then(|text| text.trim().parse::<CpuList>().ok())
        .is_some_and(|left_alone| {
            let left_alone = left_alone.as_slice();
            cpus.as_slice().iter().any(|cpu| left_alone.contains(cpu))
        })
}

/// Makes the programs search every CPU for timers that expire elsewhere. This costs time at each
/// timer.
pub(super) fn expect(board: &Board, nr_cpus: usize) {
    for cpu in 0..u32::try_from(nr_cpus).expect("a CPU's number is a u32") {
        board.cpu(cpu).has_strays.store(1, Ordering::Relaxed);
    }
}

/// Returns warnings about CPUs whose timers expired on another CPU.
pub(super) fn caveats(readers: &[(u32, LineReader)], board: &Board) -> Vec<Caveat> {
    let mut counts = BTreeMap::new();
    for (cpu, reader) in readers.iter().filter(|(_, reader)| reader.elsewhere() > 0) {
        *counts.entry(*cpu).or_insert(0) += reader.elsewhere();
    }
    counts
        .into_iter()
        .map(|(cpu, count)| {
            let unstarted = board.cpu(cpu).unstarted.load(Ordering::Relaxed);
            let work = match unstarted {
                0 => String::new(),
                count => format!("; {count} work items could not be started there and count as lost"),
            };
            Caveat::new(
                CaveatKind::TimerElsewhere,
                format!(
                    "timers of CPU {cpu} expired on another CPU in {count} wakeups, as is usual for nohz_full CPUs; their interrupt (irq_elsewhere) ran on that CPU, and a wakeup from there takes another interrupt to get here{work}",
                ),
                "to keep timers on the CPU that arms them, run `sysctl -w kernel.timer_migration=0`",
            )
        })
        .collect()
}
