//! Caveats about what this process may do.

use laggard_model::text::Unit;
use laggard_model::{Caveat, CaveatKind, FairServer, Nanos};

use super::cpus::named;
use super::{Check, Rights, Setup};

pub(super) const CHECKS: [Check; 8] = [
    bpf,
    btf,
    priority,
    rt_group,
    throttling,
    memory_lock,
    forbidden,
    quota,
];

/// What the measuring threads and their rings may need to lock.
const LOCKED_BYTES: u64 = 64 << 20;

fn bpf(setup: &Setup<'_>) -> Option<Caveat> {
    (!setup.rights.bpf).then(|| {
        Caveat::new(
            CaveatKind::NotRoot,
            "this user may not trace the kernel: only expiry and user stage can be measured",
            "run with sudo, or give the program's file CAP_BPF, CAP_PERFMON, CAP_SYS_NICE and CAP_IPC_LOCK (`setcap`, as `laggard doctor` says)",
        )
    })
}

fn btf(setup: &Setup<'_>) -> Option<Caveat> {
    (!setup.host.settings.btf).then(|| {
        Caveat::new(
            CaveatKind::NoBtf,
            "the kernel has no type information (/sys/kernel/btf/vmlinux)",
            "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y, as distributions' kernels are",
        )
    })
}

fn priority(setup: &Setup<'_>) -> Option<Caveat> {
    let (wanted, allowed) = (setup.priority()?, setup.rights.priority);
    (wanted > allowed).then(|| {
        Caveat::new(
            CaveatKind::Priority,
            format!("real-time priority {wanted} is asked for, but this user may use at most {allowed}"),
            format!("run with sudo, or put `@realtime - rtprio {wanted}` into /etc/security/limits.d/realtime.conf, join that group and log in again"),
        )
    })
}

fn rt_group(setup: &Setup<'_>) -> Option<Caveat> {
    setup.priority()?;
    (setup.rights.rt_group? == Nanos::ZERO).then(|| {
        Caveat::new(
            CaveatKind::RtGroup,
            "this process's control group gives real-time threads no time (cpu.rt_runtime_us is 0)",
            "move the shell to the root group first: `echo $$ > /sys/fs/cgroup/cpu/cgroup.procs`",
        )
    })
}

fn throttling(setup: &Setup<'_>) -> Option<Caveat> {
    setup.priority()?;
    let limits = setup.host.throttling?;
    if setup.host.has_fair_server() {
        return limits.fair_server.and_then(given_way);
    }
    let runtime = limits.runtime_ns?;
    let stopped = limits.period_ns.saturating_sub(runtime);
    (stopped > Nanos::ZERO).then(|| {
        Caveat::new(
            CaveatKind::RtThrottling,
            format!(
                "real-time threads that ran for {} of {} are stopped for {}",
                Unit::Auto.write_nanos(runtime),
                Unit::Auto.write_nanos(limits.period_ns),
                Unit::Auto.write_nanos(stopped)
            ),
            "`sysctl -w kernel.sched_rt_runtime_us=-1` (a real-time thread that loops can then hang the machine)",
        )
    })
}

/// A thread of any real-time priority is among those that wait for it: it comes before
/// none of the threads that are served so.
fn given_way(server: FairServer) -> Option<Caveat> {
    (server.runtime_ns > Nanos::ZERO).then(|| {
        Caveat::new(
            CaveatKind::RtThrottling,
            format!(
                "on a CPU that real-time threads keep, normal threads that wait have {} of each {} (the kernel's fair server): so long the real-time threads wait",
                Unit::Auto.write_nanos(server.runtime_ns),
                Unit::Auto.write_nanos(server.period_ns),
            ),
            "`sysctl -w kernel.sched_rt_runtime_us=-1; for one in /sys/kernel/debug/sched/fair_server/cpu*/runtime; do echo 0 >$one; done`, which some 6.12 refuse without the first (a real-time thread that loops can then hang the machine)",
        )
    })
}

fn forbidden(setup: &Setup<'_>) -> Option<Caveat> {
    let cpus = &setup.rights.forbidden;
    (!cpus.is_empty()).then(|| {
        Caveat::new(
            CaveatKind::Cpuset,
            format!(
                "{} online, but outside of this process's set of CPUs (cpuset, as of a container): not measured, and no load runs there",
                named(cpus)
            ),
            "run outside of that set, or enlarge it: cpuset.cpus of the control group",
        )
    })
}

fn quota(setup: &Setup<'_>) -> Option<Caveat> {
    of_quota(setup.rights)
}

/// What a limit on CPU time does, whatever is measured on whichever CPUs.
pub(super) fn of_quota(rights: &Rights) -> Option<Caveat> {
    let (quota, period) = rights.quota?;
    Some(Caveat::new(
        CaveatKind::CpuQuota,
        format!(
            "a control group gives this program {quota} of CPU time in each {period}: when that is used up, `other` threads, a load and laggard's own work wait for the next"
        ),
        "run outside of that group, or lift the limit: `echo max > /sys/fs/cgroup/GROUP/cpu.max`",
    ))
}

fn memory_lock(setup: &Setup<'_>) -> Option<Caveat> {
    let allowed = setup.rights.lock_bytes?;
    (allowed < LOCKED_BYTES).then(|| {
        Caveat::new(
            CaveatKind::MemoryLock,
            format!(
                "this user may lock {} KiB of memory; measuring threads may have page faults",
                allowed / 1024
            ),
            "run with sudo, or `ulimit -l unlimited` where the hard limit allows it",
        )
    })
}
