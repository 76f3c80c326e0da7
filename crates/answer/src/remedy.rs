//! What to do about a cause of lateness on the machine that was recorded: only
//! what it has not done already, with the price of it.

mod windows;

use laggard_model::{Because, CauseClass, GroupQuota, Remedy, printable};

use crate::show::RecordingReport;
use crate::why::CauseRow;

/// What helps where laggard's own threads made its activations late.
const OWN: &str = "Leave this out of the machine's account, or give laggard less to do: fewer `--services`, a longer \
     `--period`, or `--episodes off`, each of which shows less.";
/// Shortest words for the file that sets a control group's quota, if it is not known.
const QUOTA_FILES: &str = "`cpu.max`, or `cpu.cfs_quota_us` of version 1";
const RT_RUNTIME: &str = "Let the real-time thread sleep in each period, or set `kernel.sched_rt_runtime_us=-1`: a \
     real-time thread that loops can then hang the machine.";
const FAIR_SERVER: &str = "Let the real-time thread that keeps the CPU sleep, or write 0 to each \
     `/sys/kernel/debug/sched/fair_server/cpu*/runtime` (debugfs; Linux 6.12 and later): normal threads then starve \
     while a real-time thread loops.";

/// What helps against a cause in this recording; `None` where nothing does that
/// a user could do.
pub(crate) fn remedy(row: &CauseRow, report: &RecordingReport) -> Option<String> {
    if row.is_ours {
        return Some(Remedy::LessMeasuring.label(OWN));
    }
    if report.host.is_windows() {
        return windows::remedy(row).map(|words| Remedy::Windows.label(words));
    }
    let is_virtual = report.host.hypervisor.is_some();
    let preemption = report.host.preemption.as_deref();
    let (remedy, words) = match row.class {
        CauseClass::IdleExit => idle(report.plan.held_awake, is_virtual)?,
        CauseClass::Stolen => (
            Remedy::DedicatedCpus,
            "Give the virtual machine CPUs of its own, which no other can use then, or run on hardware without a hypervisor.",
        ),
        CauseClass::Stall if is_virtual => (
            Remedy::DedicatedCpus,
            "Find out whether the hypervisor shares its CPUs: CPUs of this machine's own are lost to others.",
        ),
        CauseClass::Stall => (
            Remedy::Firmware,
            "Look for system management interrupts: what the firmware's settings can switch off is then not done.",
        ),
        CauseClass::InterruptsOff => (
            Remedy::MoveThread,
            "Keep what calls this code off the CPU, so that it runs on another; `laggard why --flame` shows who does.",
        ),
        CauseClass::Interrupt => return Some(interrupt(row.irq)),
        CauseClass::Softirq if preemption == Some("rt") => (
            Remedy::AboveSoftirqs,
            "Run the application above the threads that run it here (`ksoftirqd`, `irq/...`): they wait for it then.",
        ),
        CauseClass::Softirq => (
            Remedy::MoveSoftirqs,
            "Keep its source off this CPU, or use a PREEMPT_RT kernel, where softirqs run in threads, at some throughput.",
        ),
        CauseClass::PreemptionOff => match preemption {
            Some("rt") => (
                Remedy::MoveThread,
                "Keep this thread off the CPU (`taskset`, `cpuset`), so that it runs on another; no kernel is preempted more.",
            ),
            Some("full") => (
                Remedy::PreemptKernel,
                "Use a PREEMPT_RT kernel, at some throughput, or keep this thread off the CPU (`taskset`, `cpuset`).",
            ),
            _ => (
                Remedy::PreemptKernel,
                "Use a kernel that can be preempted there (`preempt=full`, or PREEMPT_RT), at some throughput, or keep this \
                 thread off the CPU (`taskset`, `cpuset`).",
            ),
        },
        CauseClass::HigherPriority => (
            Remedy::MoveThread,
            "Keep the thread off the CPU (`taskset`, `cpuset`), or run the application above its priority, if what it does \
             may wait for the application.",
        ),
        CauseClass::Equal => (
            Remedy::RaisePriority,
            "Run the application at a priority above this thread's (a real-time one, if both are normal), for among equals \
             it waits for its turn: the others wait then, and starve if it never sleeps.",
        ),
        CauseClass::GroupWeight => return Some(weight(row)),
        CauseClass::Throttled => return Some(quota(row)),
        // An earlier version did not tell the fair server from throttling.
        CauseClass::RtThrottled if report.host.has_fair_server() && !report.host.has_rt_groups() => {
            (Remedy::FairServer, FAIR_SERVER)
        }
        CauseClass::RtThrottled => (Remedy::RtRuntime, RT_RUNTIME),
        CauseClass::FairServer => (Remedy::FairServer, FAIR_SERVER),
        CauseClass::DeadlineThrottled => (
            Remedy::DeadlineBudget,
            "Raise the runtime of the SCHED_DEADLINE thread (`chrt --sched-runtime`), or reduce its execution time: it ran \
             for longer than it had reserved. The others get less time then.",
        ),
        CauseClass::Migration => (
            Remedy::Pin,
            "Pin the threads of this CPU (`taskset`), so that nothing is moved; their load is not balanced then.",
        ),
        CauseClass::ReturnToUser if report.cost.measuring_faults > 0 => (
            Remedy::LockMemory,
            "Lock the application's memory (`mlockall`) and touch all of it before it matters; none of it can be swapped \
             out then.",
        ),
        CauseClass::ReturnToUser | CauseClass::Unexplained => return Some(look(row)),
        CauseClass::ContextSwitch
        | CauseClass::OwnPath
        | CauseClass::OwnWork
        | CauseClass::Overrun
        | CauseClass::SystemCall
        | CauseClass::PageFault
        | CauseClass::Lock
        | CauseClass::KernelLock
        | CauseClass::Blocked
        | CauseClass::Wait
        | CauseClass::Frozen
        | CauseClass::Stopped
        // Of Windows.
        | CauseClass::Dpc => return None,
    };
    Some(remedy.label(words))
}

const fn idle(held_awake: bool, is_virtual: bool) -> Option<(Remedy, &'static str)> {
    Some(match (held_awake, is_virtual) {
        (true, false) => return None,
        (true, true) => (
            Remedy::HaltPoll,
            "Have the hypervisor poll before it lets a CPU sleep (KVM: `halt_poll_ns`), which takes CPU time of its machine.",
        ),
        (false, true) => (
            Remedy::PollIdle,
            "Boot with `idle=poll`: the CPU never sleeps then, and is busy all the time for the hypervisor.",
        ),
        (false, false) => (
            Remedy::HoldAwake,
            "Keep the CPU out of deep idle states while it matters: hold `/dev/cpu_dma_latency` open with a 0 in it, which \
             takes power and leaves less for turbo frequencies.",
        ),
    })
}

/// Only an interrupt with a number can be moved.
fn interrupt(irq: Option<u32>) -> String {
    match irq {
        Some(number) => Remedy::MoveIrq.label(&format!(
            "Move this interrupt to a CPU on which nothing urgent runs, which it delays then \
             (`/proc/irq/{number}/smp_affinity_list`)."
        )),
        None => Remedy::IsolateCpu.label(
            "It is the CPU's own and cannot be moved: keep what asks for it off the CPU (timers, and calls from other \
             CPUs), as `isolcpus=` and `nohz_full=` do, at the price of a CPU for this application alone.",
        ),
    }
}

/// With the group and the file of the machine's version of control groups, if known.
fn quota(row: &CauseRow) -> String {
    let words = match &row.quota {
        Some(GroupQuota { group, file, .. }) => format!(
            "Raise the quota of control group {} (`{file}`): others get that much less.",
            printable(group)
        ),
        None => format!(
            "Raise the quota of its control group ({QUOTA_FILES}): others get that much less."
        ),
    };
    Remedy::RaiseQuota.label(&words)
}

/// The words of the cause name the group, and its setting.
fn weight(row: &CauseRow) -> String {
    let is_autogroup = row
        .who
        .as_ref()
        .is_some_and(|who| who.contains("autogroup"));
    if is_autogroup {
        Remedy::DisableAutogroup.label(
        "Disable autogroups (`sysctl -w kernel.sched_autogroup_enabled=0`), or run the application with a real-time \
         priority: nice counts only within an autogroup.",
    )
    } else {
        Remedy::RaiseWeight.label(
        "Raise the weight of this control group (`cpu.weight`, or `cpu.shares` of version 1), or move the thread to \
         another: nice counts only within a group. The others get that much less.",
    )
    }
}

fn look(row: &CauseRow) -> String {
    if row.because == Some(Because::Elsewhere) {
        return Remedy::TimerMigration.label(
            "Look for what was late on the CPU that has the timers at that time (record it too), or keep timers on the CPU \
             that arms them (`sysctl -w kernel.timer_migration=0`), which interrupts CPUs that are to be left alone.",
        );
    }
    format!(
        "Look at `laggard why --episode {}`, of which it took most: what ran before and after often tells.",
        row.largest_episode
    )
}
