//! Names of causes of late wakeups, and fixes against them.

use laggard_answer::remedy::Fix;
use laggard_answer::why::{CauseShare, LateWakeups};
use laggard_model::{Because, CauseClass, Cpu, CpuList, NamedCause};

use super::why::{at_least, rhythm};
use crate::doc::{Cell, code};

/// File that sets the quota of a control group, if the recording does not state it.
const QUOTA_FILES: &str = "`cpu.max`, or `cpu.cfs_quota_us` (cgroup v1)";

/// Names a cause: its class, the culprit, and threads that took part without being the
/// cause.
pub(crate) fn name(cause: &NamedCause, contenders: &[String]) -> String {
    let NamedCause {
        class,
        who,
        because,
    } = cause;
    let name = match (class, who, because) {
        (CauseClass::HigherPriority, Some(_), _) => {
            format!("preempted by {}", cause.culprit().unwrap_or_default())
        }
        (
            CauseClass::Equal,
            Some(who),
            Some(because @ (Because::LessWeight | Because::MoreWeight)),
        ) => {
            format!("CPU shared with {who} ({because})")
        }
        (CauseClass::Equal, Some(who), Some(because)) => {
            format!("CPU shared with {who} (same priority; {because})")
        }
        (CauseClass::Equal, Some(who), None) => format!("CPU shared with {who} (same priority)"),
        (_, None, Some(because @ Because::OrOutside)) => format!("{class}, {because}"),
        _ => cause.to_string(),
    };
    if contenders.is_empty() {
        return name;
    }
    let threads: Vec<String> = contenders.iter().map(|thread| code(thread)).collect();
    let threads = threads.join(", ");
    if *class == CauseClass::GroupWeight {
        format!("{name}, against {threads}")
    } else if *class == CauseClass::RtThrottled {
        format!("{name}, because {threads} used up the CPU time")
    } else {
        format!("{name}, because {threads} kept the CPU")
    }
}

/// Names a cause with its CPUs, and with its period if it has one.
pub(crate) fn share(share: &CauseShare) -> String {
    let rhythm = share.rhythm.as_ref().map(rhythm);
    let rhythm = rhythm.map_or_else(String::new, |rhythm| format!(", {rhythm}"));
    format!("{}{rhythm}", on_cpus(share))
}

/// States the share of a cause and the maximum without it.
pub(crate) fn sentence(row: &CauseShare, late: &LateWakeups) -> String {
    format!(
        "{}: {} of the latency, in {} of {} late wakeups, max {}. The max without it would be {}.",
        share(row),
        Cell::Share(row.share),
        Cell::Count(row.wakeups),
        Cell::Count(late.wakeups),
        at_least(row.is_at_least, row.largest_ns),
        at_least(row.largest_without_is_at_least, row.largest_without_ns)
    )
}

pub(crate) fn on_cpus(share: &CauseShare) -> String {
    let name = name(&share.cause, &share.contenders);
    // The culprit ran on another CPU than the late thread.
    let subject = if share.cause.because == Some(Because::Elsewhere) {
        "wakeups of CPU"
    } else {
        "CPU"
    };
    format!("{name} ({subject} {})", cpus(&share.cpus))
}

/// Writes CPUs as ranges, such as `0-63, 66`.
pub(crate) fn cpus(cpus: &[Cpu]) -> String {
    let cpus: CpuList = cpus.iter().copied().collect();
    cpus.to_string().replace(',', ", ")
}

/// Describes a fix without its price.
pub(crate) fn action(fix: &Fix) -> String {
    let (action, _) = action_and_price(fix);
    let is_untested = fix.remedy().is_some_and(|remedy| !remedy.is_tested());
    let label = if is_untested { " (untested)" } else { "" };
    action + label
}

/// Describes a fix, states whether a test has shown that it works, and what it costs.
pub(crate) fn fix(fix: &Fix) -> String {
    let (_, price) = action_and_price(fix);
    format!("{}. {price}.", action(fix))
}

fn action_and_price(fix: &Fix) -> (String, &'static str) {
    let (action, price) = match fix {
        Fix::MeasureLess => (
            "Ignore this share, which is laggard's, or reduce its load: fewer `--services`, a longer `--period` or `--episodes off`",
            "Each of them shows less",
        ),
        Fix::HoldAwake => (
            "Keep CPUs out of deep idle states while latency matters: hold `/dev/cpu_dma_latency` open at 0",
            "This takes power and leaves less for turbo frequencies",
        ),
        Fix::PollIdle => (
            "Boot with `idle=poll` (arm64: `nohlt`)",
            "The CPU then never sleeps, and takes all the time of its host CPU",
        ),
        Fix::HaltPoll => (
            "Have the hypervisor poll before it stops an idle CPU (KVM: `halt_poll_ns`)",
            "This takes CPU time of the host",
        ),
        Fix::DedicatedCpus => (
            "Pin the virtual machine's CPUs to dedicated host CPUs, or use bare metal",
            "Other virtual machines then cannot use those CPUs",
        ),
        Fix::CheckOvercommit => (
            "Check whether the hypervisor overcommits its CPUs, and dedicate CPUs to this machine",
            "Other virtual machines then cannot use those CPUs",
        ),
        Fix::Firmware => (
            "Look for activity of the firmware (on x86: system management interrupts, SMI), and disable its sources in the firmware settings",
            "The firmware then no longer does that work",
        ),
        Fix::MoveCaller => (
            "Keep the callers of this code off the CPU (`laggard why --flame` shows them)",
            "They then load another CPU",
        ),
        Fix::MoveIrq { irq } => {
            return (
                format!(
                    "Move this interrupt to a CPU without urgent threads (`/proc/irq/{irq}/smp_affinity_list`)"
                ),
                "It then delays the threads there",
            );
        }
        Fix::IsolateCpu => (
            "This interrupt belongs to the CPU and cannot be moved. Keep its sources (timers, calls from other CPUs) off the CPU with `isolcpus=` and `nohz_full=`",
            "The price is a CPU for this application alone",
        ),
        Fix::AboveSoftirqs => (
            "Run the application above the threads that run softirqs (`ksoftirqd`, `irq/...`)",
            "They then wait for it",
        ),
        Fix::MoveSoftirqs => (
            "Keep the source of this softirq off the CPU, or use PREEMPT_RT, which runs softirqs in threads",
            "PREEMPT_RT costs throughput",
        ),
        Fix::MoveThread => (
            "Keep this thread off the CPU (`taskset`, cpuset), because no kernel preempts in more places",
            "The thread then loads another CPU",
        ),
        Fix::PreemptRt => (
            "Use PREEMPT_RT, or keep this thread off the CPU (`taskset`, cpuset)",
            "PREEMPT_RT costs throughput",
        ),
        Fix::PreemptFull => (
            "Use `preempt=full` or PREEMPT_RT, or keep this thread off the CPU (`taskset`, cpuset)",
            "More preemption costs throughput",
        ),
        Fix::LowerPriority => (
            "Lower the priority of this thread below the application, or move it to another CPU (`taskset`, cpuset)",
            "It then waits for the application, or loads the other CPU",
        ),
        Fix::RaisePriority => (
            "Run the application at a higher priority than this thread (a real-time one, if both are SCHED_OTHER)",
            "Other threads then wait, and starve if the application never sleeps",
        ),
        Fix::RaiseQuota { quota: Some(quota) } => {
            return (
                format!(
                    "Raise the quota of control group {} ({})",
                    code(&quota.group),
                    code(&quota.file)
                ),
                "Others then get less CPU time",
            );
        }
        Fix::RaiseQuota { quota: None } => {
            return (
                format!("Raise the CPU quota of its control group ({QUOTA_FILES})"),
                "Others then get less CPU time",
            );
        }
        Fix::RaiseWeight => (
            "Raise the weight of this control group (`cpu.weight`, or `cpu.shares` in cgroup v1), or move the thread to another one: nice counts only within a group",
            "Others then get less CPU time",
        ),
        Fix::DisableAutogroup => (
            "Disable autogroups (`sysctl -w kernel.sched_autogroup_enabled=0`), or run the application with a real-time priority: nice counts only within an autogroup",
            "Other threads then get less CPU time",
        ),
        Fix::RtRuntime => (
            "Let the real-time thread sleep in each period, or set `kernel.sched_rt_runtime_us=-1`",
            "A real-time thread that loops can then hang the machine",
        ),
        Fix::FairServer => (
            "Let the real-time thread that keeps the CPU sleep, or run `sysctl -w kernel.sched_rt_runtime_us=-1` and then write 0 to each `/sys/kernel/debug/sched/fair_server/cpu*/runtime` (debugfs)",
            "SCHED_OTHER threads then starve while a real-time thread loops",
        ),
        Fix::DeadlineBudget => (
            "Raise the runtime of the SCHED_DEADLINE thread (`chrt --sched-runtime`), or shorten its execution: it ran for longer than its reservation",
            "A larger reservation leaves less for other threads",
        ),
        Fix::Pin => (
            "Pin the threads of this CPU (`taskset`), so that none is migrated",
            "The kernel then no longer balances their load",
        ),
        Fix::LockMemory => (
            "Lock the memory of the application (`mlockall`) and touch all of it in advance",
            "The kernel then cannot swap it out",
        ),
        Fix::RaiseMemoryLimit => (
            "Raise the memory limit of the control group (`memory.high`, `memory.max`), or use less memory",
            "Less memory is left for other groups",
        ),
        Fix::ShortenLock => (
            "Hold this lock for a shorter time, or use a mutex with priority inheritance (PTHREAD_PRIO_INHERIT)",
            "The holder then runs at the priority of the thread that waits",
        ),
        Fix::MapElsewhere => (
            "Do not map memory, unmap it or fork in this process while the thread runs its cycles",
            "It then has to get its memory in advance",
        ),
        Fix::MoveWait => (
            "Move this system call to another thread",
            "The threads then need a queue between them",
        ),
        Fix::ShortenSleep => (
            "Do not sleep within the cycle, sleep for a shorter time, or use a shorter timeout",
            "A shorter timeout ends before a slow event",
        ),
        Fix::ReduceWork => (
            "Reduce the work per cycle, or use a longer period",
            "A longer period then adds latency",
        ),
        Fix::FindStopper => (
            "Find the program that stops the thread (SIGSTOP, a debugger) or freezes its control group (`docker pause`, `systemctl freeze`)",
            "That program then does without it",
        ),
        Fix::TimerMigration => (
            "Look for the cause on the CPU that handled the timer (record that CPU too), or keep timers on the CPU that starts them (`sysctl -w kernel.timer_migration=0`)",
            "Timers then also interrupt CPUs that should be left alone",
        ),
        Fix::Inspect { episode } => {
            return (
                format!(
                    "Look at episode {episode} (`--episode {episode}`), the one with the most time of this cause"
                ),
                "Activity before and after often shows the source",
            );
        }
        Fix::Driver => (
            "Update the named driver, or disable its device. If Windows runs the work of other drivers there (ntoskrnl.exe, ndis.sys, storport.sys, Wdf01000.sys), find the driver in a system trace",
            "A disabled device then does not work",
        ),
        Fix::MoveRaised => (
            "Keep this thread off the CPU (`start /affinity`): code at a raised level prevents all threads of any priority from running",
            "The thread then loads another CPU",
        ),
        Fix::MoveOrRaise => (
            "Keep the thread off the CPU (`start /affinity`), or run the application above its priority (MMCSS `Pro Audio`, or the REALTIME class)",
            "The thread then waits for the application, or loads another CPU",
        ),
        Fix::RaiseAbove => (
            "Run the application at a higher priority than this thread",
            "Other threads then wait, and starve if the application never sleeps",
        ),
        Fix::VirtualLock => (
            "Lock the memory of the application (`VirtualLock`) and touch all of it in advance",
            "Windows then cannot page it out",
        ),
    };
    (action.to_owned(), price)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_cpus_are_ranges() {
        let many: Vec<Cpu> = (0..64).chain([66]).map(Cpu).collect();

        assert_eq!(cpus(&many), "0-63, 66");
        assert_eq!(cpus(&[Cpu(1)]), "1");
    }

    #[test]
    fn contenders_are_named_with_their_part() {
        let contenders = ["planner".to_owned(), "other".into()];

        assert_eq!(
            name(&NamedCause::new(CauseClass::FairServer, None), &contenders),
            "fair server, because `planner`, `other` kept the CPU"
        );
        assert_eq!(
            name(
                &NamedCause::new(CauseClass::HigherPriority, Some("hog")),
                &[]
            ),
            "preempted by hog"
        );
    }

    #[test]
    fn reason_follows_the_culprit() {
        let named = |class, who, because| {
            let cause = NamedCause {
                because: Some(because),
                ..NamedCause::new(class, who)
            };
            name(&cause, &[])
        };

        assert_eq!(
            named(CauseClass::HigherPriority, Some("hog"), Because::Boosted),
            "preempted by hog, boosted because it holds a lock"
        );
        assert_eq!(
            named(CauseClass::Equal, Some("make"), Because::NiceInGroup),
            "CPU shared with make (same priority; nice counts only within a control group)"
        );
        assert_eq!(
            named(CauseClass::Equal, Some("make"), Because::MoreWeight),
            "CPU shared with make (more weight, by nice value or policy)"
        );
        assert_eq!(
            named(CauseClass::InterruptsOff, None, Because::OrOutside),
            "interrupts disabled, or an external stop of the CPU"
        );
        assert_eq!(
            named(CauseClass::Unexplained, None, Because::Lost),
            "unexplained: the trace data was lost"
        );
    }
}
