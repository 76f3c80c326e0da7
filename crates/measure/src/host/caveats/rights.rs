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

/// On a kernel with a fair server `sched_rt_runtime_us` changes nothing by itself: the
/// fair server stops the same threads for as long. Its setting is often hidden (debugfs is
/// not mounted, or the kernel is locked down); the kernel's default is assumed then.
fn throttling(setup: &Setup<'_>) -> Option<Caveat> {
    /// `fair_server_period` and `fair_server_runtime` of the kernel's
    /// `kernel/sched/deadline.c`.
    const DEFAULT: FairServer = FairServer {
        period_ns: Nanos::from_secs(1),
        runtime_ns: Nanos::from_ms(50),
    };
    setup.priority()?;
    let limits = setup.host.throttling?;
    let is_served = |server: &FairServer| server.runtime_ns > Nanos::ZERO;
    if setup.host.has_fair_server() && limits.fair_server.as_ref().is_none_or(is_served) {
        let (server, source) = match limits.fair_server {
            Some(server) => (server, ""),
            None => (DEFAULT, " by default (its setting is hidden)"),
        };
        return Some(fair_server(server, source));
    }
    // Without its server, the kernel limits real-time threads in control groups alone.
    if setup.host.has_fair_server() && !setup.host.has_rt_groups() {
        return None;
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

/// Every real-time priority waits for the fair server.
fn fair_server(server: FairServer, source: &str) -> Caveat {
    Caveat::new(
        CaveatKind::RtThrottling,
        format!(
            "the kernel's fair server stops real-time threads that keep a CPU for {} of each {}{source} if normal threads wait there; kernel.sched_rt_runtime_us does not change that",
            Unit::Auto.write_nanos(server.runtime_ns),
            Unit::Auto.write_nanos(server.period_ns),
        ),
        "let every real-time thread sleep, or `sysctl -w kernel.sched_rt_runtime_us=-1; for f in /sys/kernel/debug/sched/fair_server/cpu*/runtime; do echo 0 >$f; done` with debugfs mounted (some 6.12 refuse the loop without the sysctl; a real-time thread that loops can then hang the machine)",
    )
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
        "run outside of that group, or lift the limit: `echo max > /sys/fs/cgroup/GROUP/cpu.max` (control groups of version 1: `echo -1 > /sys/fs/cgroup/cpu/GROUP/cpu.cfs_quota_us`)",
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
