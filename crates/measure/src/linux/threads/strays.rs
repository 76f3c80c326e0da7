//! Timers that expire on another CPU than the one whose thread waits for them.
//!
//! The kernel queues the timers of a CPU that is to be left alone (`nohz_full`)
//! on another one, where it may: those of threads that sleep, and of timer
//! descriptors.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::Ordering;

use laggard_model::{Caveat, CaveatKind, CpuList};

use crate::board::{Board, LineReader};

/// Whether timers of one of `cpus` may be queued elsewhere.
pub(super) fn may_leave(cpus: &CpuList) -> bool {
    // Where there are none it says `(null)`.
    fs::read_to_string("/sys/devices/system/cpu/nohz_full")
        .ok()
        .and_then(|text| text.trim().parse::<CpuList>().ok())
        .is_some_and(|left_alone| {
            let left_alone = left_alone.as_slice();
            cpus.as_slice().iter().any(|cpu| left_alone.contains(cpu))
        })
}

/// Lets the programs look for such timers on every CPU; that costs each timer a
/// search.
pub(super) fn expect(board: &Board, nr_cpus: usize) {
    for cpu in 0..u32::try_from(nr_cpus).expect("a CPU's number is a u32") {
        board.cpu(cpu).has_strays.store(1, Ordering::Relaxed);
    }
}

/// CPUs whose timers did expire elsewhere.
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
                count => format!("; {count} work items could not be started from there and count as lost"),
            };
            Caveat::new(
                CaveatKind::TimerElsewhere,
                format!(
                    "timers of CPU {cpu} expired on another CPU in {count} activations, as the kernel has it for nohz_full CPUs: their interrupt (irq_elsewhere) is that CPU's, and a wakeup from there takes another interrupt to get here{work}",
                ),
                "`sysctl -w kernel.timer_migration=0` keeps timers on the CPU that arms them",
            )
        })
        .collect()
}
