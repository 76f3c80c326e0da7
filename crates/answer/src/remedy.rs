//! What to do about a cause of lateness on the machine that was recorded: only
//! what it has not done already, with the price of it.

mod windows;

use laggard_model::{Because, CauseClass, CaveatKind};

use crate::show::RecordingReport;
use crate::why::CauseRow;

/// What helps where laggard's own threads made its activations late.
const OWN: &str = "Leave this out of the machine's account, or give laggard less to do: fewer `--services`, a longer \
     `--period`, or `--episodes off`, each of which shows less.";
const QUOTA: &str = "Raise the quota of its control group (`cpu.max`): others get that much less.";
const RUNTIME: &str = "Raise `kernel.sched_rt_runtime_us`, where no real-time thread can run away: one that never sleeps \
     then keeps the CPU from all others for longer.";

const FAIR_SERVER: &str = "Set the part that normal threads are given (since Linux 6.12 \
     `/sys/kernel/debug/sched/fair_server/cpu*/runtime`, no longer `kernel.sched_rt_runtime_us` alone) to 0, where no \
     real-time thread can run away: one that never sleeps then keeps the CPU from all others.";

/// What helps against a cause in this recording; `None` where nothing does that
/// a user could do.
pub(crate) fn remedy(row: &CauseRow, report: &RecordingReport) -> Option<String> {
    if row.is_ours {
        return Some(OWN.into());
    }
    if report.host.is_windows() {
        return windows::remedy(row).map(Into::into);
    }
    let is_virtual = report.host.hypervisor.is_some();
    let preemption = report.host.preemption.as_deref();
    let fixed = match row.class {
        CauseClass::IdleExit => return idle(report.plan.held_awake, is_virtual).map(Into::into),
        CauseClass::Stolen => {
            "Give the virtual machine CPUs of its own, which no other can use then, or run on hardware without a hypervisor."
        }
        CauseClass::Stall if is_virtual => {
            "Find out whether the hypervisor shares its CPUs: CPUs of this machine's own are lost to others."
        }
        CauseClass::Stall => {
            "Look for system management interrupts: what the firmware's settings can switch off is then not done."
        }
        CauseClass::InterruptsOff => {
            "Keep what calls this code off the CPU, so that it runs on another; `laggard why --flame` shows who does."
        }
        CauseClass::Interrupt => return Some(interrupt(row.irq)),
        CauseClass::Softirq if preemption == Some("rt") => {
            "Run the application above the threads that run it here (`ksoftirqd`, `irq/...`): they wait for it then."
        }
        CauseClass::Softirq => {
            "Keep its source off this CPU, or use a PREEMPT_RT kernel, where softirqs run in threads, at some throughput."
        }
        CauseClass::PreemptionOff => match preemption {
            Some("rt") => {
                "Keep this thread off the CPU (`taskset`, `cpuset`), so that it runs on another; no kernel is preempted more."
            }
            Some("full") => {
                "Use a PREEMPT_RT kernel, at some throughput, or keep this thread off the CPU (`taskset`, `cpuset`)."
            }
            _ => {
                "Use a kernel that can be preempted there (`preempt=full`, or PREEMPT_RT), at some throughput, or keep this \
                 thread off the CPU (`taskset`, `cpuset`)."
            }
        },
        CauseClass::HigherPriority => {
            "Keep the thread off the CPU (`taskset`, `cpuset`), or run the application above its priority, if what it does \
             may wait for the application."
        }
        CauseClass::Equal => {
            "Run the application at a priority above this thread's (a real-time one, if both are normal), for among equals \
             it waits for its turn: the others wait then, and starve if it never sleeps."
        }
        CauseClass::Throttled => return Some(throttled(report)),
        CauseClass::Migration => {
            "Pin the threads of this CPU (`taskset`), so that nothing is moved; their load is not balanced then."
        }
        CauseClass::ReturnToUser if report.cost.measuring_faults > 0 => {
            "Lock the application's memory (`mlockall`) and touch all of it before it matters; none of it can be swapped \
             out then."
        }
        CauseClass::ReturnToUser | CauseClass::Unexplained => return Some(look(row)),
        CauseClass::ContextSwitch
        | CauseClass::OwnPath
        | CauseClass::OwnWork
        // Of Windows.
        | CauseClass::Dpc => return None,
    };
    Some(fixed.into())
}

const fn idle(held_awake: bool, is_virtual: bool) -> Option<&'static str> {
    Some(match (held_awake, is_virtual) {
        (true, false) => return None,
        (true, true) => {
            "Have the hypervisor poll before it lets a CPU sleep (KVM: `halt_poll_ns`), which takes CPU time of its machine."
        }
        (false, true) => {
            "Boot with `idle=poll`: the CPU never sleeps then, and is busy all the time for the hypervisor."
        }
        (false, false) => {
            "Keep the CPU out of deep idle states while it matters: hold `/dev/cpu_dma_latency` open with a 0 in it, which \
             takes power and leaves less for turbo frequencies."
        }
    })
}

/// Only an interrupt with a number can be moved.
fn interrupt(irq: Option<u32>) -> String {
    match irq {
        Some(number) => format!(
            "Move this interrupt to a CPU on which nothing urgent runs, which it delays then \
             (`/proc/irq/{number}/smp_affinity_list`)."
        ),
        None => "It is the CPU's own and cannot be moved: keep what asks for it off the CPU (timers, and calls from other \
                 CPUs), as `isolcpus=` and `nohz_full=` do, at the price of a CPU for this application alone."
            .into(),
    }
}

/// By what is known to limit threads here.
fn throttled(report: &RecordingReport) -> String {
    let runtime = match report.host.has_fair_server() {
        true => FAIR_SERVER,
        false => RUNTIME,
    };
    let has = |kind| report.caveats.iter().any(|caveat| caveat.kind == kind);
    match (
        has(CaveatKind::CpuQuota),
        has(CaveatKind::RtThrottling) || has(CaveatKind::RtGroup),
    ) {
        (true, false) => QUOTA.into(),
        (false, true) => runtime.into(),
        _ => format!("{QUOTA} Or, for real-time threads: {runtime}"),
    }
}

fn look(row: &CauseRow) -> String {
    if row.because == Some(Because::Elsewhere) {
        return "Look for what was late on the CPU that has the timers at that time (record it too), or keep timers on the CPU \
                that arms them (`sysctl -w kernel.timer_migration=0`), which interrupts CPUs that are to be left alone."
            .into();
    }
    format!(
        "Look at `laggard why --episode {}`, of which it took most: what ran before and after often tells.",
        row.largest_episode
    )
}
