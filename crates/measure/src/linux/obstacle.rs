//! Reasons why an ability is absent, and remedies. Each value formats its text.

use std::fmt::{self, Display, Formatter};
use std::io;

use laggard_model::{Absence, Lacks};

use super::reason_of;

/// Reason why an ability is absent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Obstacle {
    /// Text of the system's error when it refused.
    System(String),
    Policy,
    /// This user's limit of real-time priority is lower.
    PriorityAbove(u8),
    /// The CPUs of the machine are partitioned (cpusets), or this process may not use all of
    /// them. The kernel accepts a deadline thread only if it may run on all CPUs that share their
    /// bandwidth.
    DeadlineCpus,
    /// The bandwidth for deadline threads is used up.
    DeadlineBandwidth,
    /// The control group does not give time to real-time threads.
    NoRealTime,
    NoSoftirq,
    NoBpf,
}

/// Remedy for an [`Obstacle`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Help {
    /// Root or capabilities.
    Rights,
    /// Kernel with BTF and BPF programs.
    TypesOfKernel,
    /// The same in short, because `laggard doctor` prints the details.
    KernelWithBtf,
    Doctor,
    /// Right to lock memory.
    LockLimit,
    /// Control group with time for real-time threads.
    ControlGroup,
    /// Capability that root of a container lacks.
    CapSysNice,
    /// Priority limit above 0.
    PriorityLimit,
    /// Priority within the limit.
    LowerPriority,
    /// All CPUs, or an exclusive set of them.
    AllCpus,
    FewerDeadlines,
    /// Scheduler with a slice length per thread.
    OwnSlices,
    TimerTracepoint,
    CallTracepoints,
    SoftirqTracepoints,
    BpfTimers,
    BpfWork,
    Tracefs,
    /// Right to observe threads of the same user.
    Paranoid,
    Schedstats,
    Counters,
    /// Performance counters that interrupt code with interrupts disabled.
    CountersAsNmi,
    PerfEvents,
    /// Steal time per run queue.
    StealClock,
    /// Model-specific registers of the processor.
    Registers,
    TimerlatTracer,
    /// Root rights first; then the remedy that remains.
    RootThen(Box<Self>),
    /// More rights for a container's root first; then the remedy that remains.
    CapabilitiesThen(Box<Self>),
}

impl From<&io::Error> for Obstacle {
    fn from(err: &io::Error) -> Self {
        Self::System(reason_of(err))
    }
}

impl Obstacle {
    /// Returns the absence of an ability because of this obstacle.
    pub fn absence(&self, help: &Help) -> Absence {
        Absence::new(self.to_string(), help.to_string(), help.lacks())
    }
}

impl Help {
    /// Returns the kind of shortage that this remedy ends.
    const fn lacks(&self) -> Lacks {
        match self {
            Self::Rights
            | Self::LockLimit
            | Self::ControlGroup
            | Self::CapSysNice
            | Self::PriorityLimit
            | Self::LowerPriority
            | Self::Paranoid
            | Self::AllCpus
            | Self::RootThen(_)
            | Self::CapabilitiesThen(_) => Lacks::Rights,
            Self::Counters | Self::Registers | Self::FewerDeadlines => Lacks::Machine,
            _ => Lacks::Kernel,
        }
    }
}

impl Display for Obstacle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System(message) => message,
            Self::Policy => "this user may not use real-time priorities",
            Self::PriorityAbove(limit) => {
                return write!(f, "this user may use real-time priorities up to {limit}");
            }
            Self::DeadlineCpus => {
                "the kernel refuses a deadline thread that may not run on every CPU of its bandwidth domain, and this process may not use all of them (a cpuset)"
            }
            Self::DeadlineBandwidth => {
                "the bandwidth for deadline threads is used up; each deadline thread of laggard takes 5 ms per 20 ms"
            }
            Self::NoRealTime => {
                "the control group of this process gives real-time threads no time (cpu.rt_runtime_us is 0)"
            }
            Self::NoSoftirq => "it needs the softirq service",
            Self::NoBpf => "it needs BPF",
        })
    }
}

impl Display for Help {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rights => {
                "run as root, or give the program file its capabilities once: `sudo setcap cap_bpf,cap_perfmon,cap_sys_nice,cap_ipc_lock+ep \"$(command -v laggard)\"`"
            }
            Self::TypesOfKernel => {
                "run as root on a kernel with CONFIG_DEBUG_INFO_BTF=y and CONFIG_BPF_SYSCALL=y"
            }
            Self::KernelWithBtf => {
                "run as root on a kernel with BTF, without `--backend user` or `--backend perf`"
            }
            Self::Doctor => "`laggard doctor` lists what this kernel allows",
            Self::LockLimit => "run as root, or `ulimit -l unlimited`",
            Self::ControlGroup => {
                "move the shell to the root group (`echo $$ > /sys/fs/cgroup/cpu/cgroup.procs`), or give the group time (`echo 100000 > /sys/fs/cgroup/cpu/GROUP/cpu.rt_runtime_us`)"
            }
            Self::CapSysNice => {
                "this root lacks CAP_SYS_NICE, for example in a container; add it (`--cap-add SYS_NICE`)"
            }
            Self::PriorityLimit => {
                return write!(f, "{}, or raise the limit with `ulimit -r 99`", Self::Rights);
            }
            Self::LowerPriority => "use a lower priority, or run as root",
            Self::AllCpus => {
                "run without a cpuset, in an exclusive cpuset (`cpuset.cpus.partition`), or with kernel.sched_rt_runtime_us=-1"
            }
            Self::FewerDeadlines => {
                "measure fewer CPUs (`--cpus`), or end other deadline threads (`ps -eLo cls,tid,comm | grep DLN`)"
            }
            Self::OwnSlices => "the kernel needs slice lengths per thread (Linux 6.12)",
            Self::TimerTracepoint => {
                "the kernel needs the tracepoint irq_vectors:local_timer_entry (x86) or irq:irq_handler_entry (other architectures)"
            }
            Self::CallTracepoints => {
                "the kernel needs BTF and the tracepoints irq_vectors:call_function_* (x86), or an IPI `Function call interrupts` in /proc/interrupts (arm64)"
            }
            Self::SoftirqTracepoints => "the kernel needs the tracepoints irq:softirq_*",
            Self::BpfTimers => {
                "the kernel needs BPF timers and bpf_loop (Linux 5.17); PREEMPT_RT refuses the timers"
            }
            Self::BpfWork => "the kernel needs BPF work queues (Linux 6.10)",
            Self::Counters => {
                "use a machine with performance counters; in a virtual machine, pass them through (vPMU)"
            }
            Self::Tracefs => {
                "the kernel needs CONFIG_PERF_EVENTS=y and tracefs at /sys/kernel/tracing; run outside a container"
            }
            Self::Paranoid => {
                "`sudo sysctl kernel.perf_event_paranoid=2`, or run as root"
            }
            Self::Schedstats => "the kernel needs CONFIG_SCHEDSTATS=y",
            Self::PerfEvents => "the kernel needs perf events (CONFIG_PERF_EVENTS=y)",
            Self::StealClock => {
                "the kernel needs steal time per run queue (CONFIG_PARAVIRT_TIME_ACCOUNTING); laggard uses /proc/stat instead, which counts in ticks"
            }
            Self::Registers => {
                "only Intel processors count them, with the module msr (`modprobe msr`); on others such a stall shows as a gap without any activity"
            }
            Self::CountersAsNmi => crate::host::NMI_REMEDY,
            Self::TimerlatTracer => {
                "the kernel needs CONFIG_TIMERLAT_TRACER=y and tracefs at /sys/kernel/tracing, and no other program may use the tracer; then add `--services kthread`"
            }
            Self::RootThen(other) => {
                return write!(f, "run as root; if it still fails: {other}");
            }
            Self::CapabilitiesThen(other) => {
                return write!(
                    f,
                    "this root lacks rights, for example in a container or under lockdown; give it CAP_PERFMON, CAP_BPF and CAP_SYS_ADMIN; if it still fails: {other}"
                );
            }
        })
    }
}
