//! What to do about a cause of lateness.

use laggard_model::CauseClass;

/// What helps where laggard's own threads made its activations late.
pub(crate) const OWN: &str = "Leave this out of the machine's account, or give laggard less to do: fewer `--services`, \
     a longer `--period`, or `--episodes off`.";

/// What helps against causes of this class; `None` where nothing does that a
/// user could do.
pub(crate) const fn remedy(class: CauseClass) -> Option<&'static str> {
    Some(match class {
        CauseClass::IdleExit => {
            "Keep the CPU out of deep idle states while it matters: hold `/dev/cpu_dma_latency` open with a 0 in it."
        }
        CauseClass::Stolen => {
            "Give the virtual machine CPUs of its own, or run on hardware without a hypervisor."
        }
        CauseClass::Stall => {
            "Look for system management interrupts in the firmware's settings, or for a hypervisor that shares the CPUs."
        }
        CauseClass::InterruptsOff => {
            "Keep what calls this code off the CPU; the flame graph and `laggard why --episode` show who does."
        }
        CauseClass::Interrupt => {
            "Move this interrupt to another CPU (`/proc/irq/N/smp_affinity_list`)."
        }
        CauseClass::Softirq => {
            "Keep its source off this CPU, or let threads do it: `threadirqs` on the kernel's command line, or PREEMPT_RT."
        }
        CauseClass::PreemptionOff => {
            "Use a kernel that can be preempted there (`preempt=full`, or PREEMPT_RT), or keep this thread off the CPU."
        }
        CauseClass::HigherPriority => {
            "Run the application above this thread's priority, or keep the thread off the CPU (`taskset`, `cpuset`)."
        }
        CauseClass::Equal => {
            "Run the application at a real-time priority: among equals it waits for its turn."
        }
        CauseClass::Throttled => {
            "Raise the quota: `cpu.max` of its control group, or `kernel.sched_rt_runtime_us`."
        }
        CauseClass::Migration => "Pin the threads of this CPU, so that nothing is moved.",
        CauseClass::ReturnToUser => {
            "Lock the application's memory (`mlockall`) and touch all of it before it matters."
        }
        CauseClass::Unexplained => {
            "Look at the episodes one by one (`laggard why --episode`): what ran before and after often tells."
        }
        _ => return None,
    })
}
