//! Why something cannot be had here, and what helps: values that know their
//! words.

use std::fmt::{self, Display, Formatter};
use std::io;

use laggard_model::{Absence, Lacks};

use super::reason_of;

/// Why something cannot be had.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Obstacle {
    /// The system refused it, in these words.
    System(String),
    /// This user may not use real-time priorities.
    Policy,
    /// The CPUs of the machine are parted (cpusets), or this process may not use all:
    /// the kernel takes a deadline thread only where it may run on all that share
    /// their bandwidth.
    DeadlineCpus,
    /// Deadline threads have been promised as much time as the kernel gives them.
    DeadlineBandwidth,
    /// The control group gives real-time threads no time.
    NoRealTime,
    /// Its programs need the softirq service, which cannot be had.
    NoSoftirq,
    /// It needs programs inside the kernel, and there are none.
    NoBpf,
}

/// What helps against an [`Obstacle`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Help {
    /// To be root, or to have capabilities.
    Rights,
    /// A kernel that describes its own types and takes programs.
    TypesOfKernel,
    /// The same in short, where `laggard doctor` says more.
    KernelWithBtf,
    /// That of `laggard doctor`.
    Doctor,
    /// To be allowed to lock memory.
    LockLimit,
    /// A control group with time for real-time threads.
    ControlGroup,
    /// The capability that a container's root lacks.
    CapSysNice,
    /// A limit on priorities that is above 0.
    PriorityLimit,
    /// A priority within the limit.
    LowerPriority,
    /// All CPUs, or an exclusive set of them.
    AllCpus,
    /// Fewer deadline threads.
    FewerDeadlines,
    /// A scheduler with slices of each thread's own.
    OwnSlices,
    /// A tracepoint of x86.
    TimerTracepoint,
    /// Tracepoints of x86, of calls from other CPUs.
    CallTracepoints,
    /// The tracepoints of softirqs.
    SoftirqTracepoints,
    /// Timers of programs, and loops.
    BpfTimers,
    /// Work items of programs.
    BpfWork,
    /// Performance counters.
    Counters,
    /// Software events.
    PerfEvents,
    /// Stolen time, counted for each CPU's queue.
    StealClock,
    /// Registers of the processor.
    Registers,
    /// The tracer of the kernel.
    TimerlatTracer,
    /// To ask as root first; then what else would help.
    RootThen(Box<Self>),
    /// To give a container's root more rights first; then what else would help.
    CapabilitiesThen(Box<Self>),
}

impl From<&io::Error> for Obstacle {
    fn from(err: &io::Error) -> Self {
        Self::System(reason_of(err))
    }
}

impl Obstacle {
    /// An ability that cannot be had because of this.
    pub fn absence(&self, help: &Help) -> Absence {
        Absence {
            reason: self.to_string(),
            remedy: help.to_string(),
            lacks: help.lacks(),
        }
    }
}

impl Help {
    /// What is lacking where this helps.
    const fn lacks(&self) -> Lacks {
        match self {
            Self::Rights
            | Self::LockLimit
            | Self::ControlGroup
            | Self::CapSysNice
            | Self::PriorityLimit
            | Self::LowerPriority
            | Self::AllCpus
            | Self::RootThen(_)
            | Self::CapabilitiesThen(_) => Lacks::Rights,
            Self::Counters | Self::Registers | Self::FewerDeadlines => Lacks::Machine,
            Self::TypesOfKernel
            | Self::KernelWithBtf
            | Self::Doctor
            | Self::TimerTracepoint
            | Self::CallTracepoints
            | Self::SoftirqTracepoints
            | Self::BpfTimers
            | Self::BpfWork
            | Self::PerfEvents
            | Self::StealClock
            | Self::OwnSlices
            | Self::TimerlatTracer => Lacks::Kernel,
        }
    }
}

impl Display for Obstacle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System(said) => said,
            Self::Policy => "this user may not use real-time priorities",
            Self::DeadlineCpus => {
                "the kernel refuses a deadline thread that may not run on all CPUs which share their bandwidth, and this process may not use all (a cpuset)"
            }
            Self::DeadlineBandwidth => {
                "deadline threads have been promised as much time as the kernel gives them; each of laggard's takes 5 ms of each 20 ms"
            }
            Self::NoRealTime => {
                "this process's control group gives real-time threads no time (cpu.rt_runtime_us is 0)"
            }
            Self::NoSoftirq => "nothing starts it without the softirq service",
            Self::NoBpf => "it needs BPF",
        })
    }
}

impl Display for Help {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rights => {
                "run as root, or give the program's file what it needs, once: `sudo setcap cap_bpf,cap_perfmon,cap_sys_nice,cap_ipc_lock+ep \"$(command -v laggard)\"`"
            }
            Self::TypesOfKernel => {
                "run as root on a kernel with CONFIG_DEBUG_INFO_BTF=y and CONFIG_BPF_SYSCALL=y"
            }
            Self::KernelWithBtf => "run as root on a kernel with BTF",
            Self::Doctor => "`laggard doctor` lists what this kernel allows",
            Self::LockLimit => "run as root, or `ulimit -l unlimited`",
            Self::ControlGroup => {
                "move the shell to the root group first, `echo $$ > /sys/fs/cgroup/cpu/cgroup.procs`, or give the group some, `echo 100000 > /sys/fs/cgroup/cpu/GROUP/cpu.rt_runtime_us`"
            }
            Self::CapSysNice => {
                "this root lacks CAP_SYS_NICE, as in a container: give it that (`--cap-add SYS_NICE`)"
            }
            Self::PriorityLimit => {
                return write!(f, "{}, or raise the limit with `ulimit -r 99`", Self::Rights);
            }
            Self::LowerPriority => "ask for a lower priority, or run as root",
            Self::AllCpus => {
                "run where all CPUs may be used, in a cpuset of its own (`cpuset.cpus.partition`), or with kernel.sched_rt_runtime_us at -1"
            }
            Self::FewerDeadlines => {
                "measure fewer CPUs (`--cpus`), or end other deadline threads (`ps -eLo cls,tid,comm | grep DLN`)"
            }
            Self::OwnSlices => "the kernel needs slices of each thread's own (Linux 6.12)",
            Self::TimerTracepoint => {
                "the kernel needs the tracepoint irq_vectors:local_timer_entry (x86)"
            }
            Self::CallTracepoints => {
                "the kernel needs BTF and the tracepoints irq_vectors:call_function_* (x86)"
            }
            Self::SoftirqTracepoints => "the kernel needs the tracepoints irq:softirq_*",
            Self::BpfTimers => {
                "the kernel needs BPF timers and bpf_loop (Linux 5.17); PREEMPT_RT refuses the timers"
            }
            Self::BpfWork => "the kernel needs BPF work queues (Linux 6.10)",
            Self::Counters => {
                "use a machine with performance counters; in a virtual machine, pass them through (vPMU)"
            }
            Self::PerfEvents => "the kernel needs perf events (CONFIG_PERF_EVENTS=y)",
            Self::StealClock => {
                "the kernel must count it per run queue (CONFIG_PARAVIRT_TIME_ACCOUNTING); /proc/stat, in ticks, is used instead"
            }
            Self::Registers => "load the module msr (`modprobe msr`); Intel processors only",
            Self::TimerlatTracer => {
                "the kernel needs CONFIG_TIMERLAT_TRACER=y, tracefs at /sys/kernel/tracing, and nobody else who uses the tracer; then ask for it with `--services kthread`"
            }
            Self::RootThen(other) => {
                return write!(f, "run as root; if it is refused then: {other}");
            }
            Self::CapabilitiesThen(other) => {
                return write!(
                    f,
                    "this root may not, as in a container or under lockdown: give it CAP_PERFMON, CAP_BPF and CAP_SYS_ADMIN; if it is refused then: {other}"
                );
            }
        })
    }
}
