//! Warnings about the rights of this process.

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

/// Memory in bytes that the measuring threads and their rings may need to lock.
const MIN_LOCK_LIMIT_BYTES: u64 = 64 << 20;

fn bpf(setup: &Setup<'_>) -> Option<Caveat> {
    (!setup.rights.bpf).then(|| {
        Caveat::new(
            CaveatKind::NotRoot,
            "this user may not trace the kernel: only threads and their stages expiry, running and user can be measured",
            "run with sudo, or give the program file CAP_BPF, CAP_PERFMON, CAP_SYS_NICE and CAP_IPC_LOCK (`laggard doctor` shows the `setcap` command)",
        )
    })
}

fn btf(setup: &Setup<'_>) -> Option<Caveat> {
    (!setup.host.settings.btf).then(|| {
        Caveat::new(
            CaveatKind::NoBtf,
            "the kernel has no type information (/sys/kernel/btf/vmlinux)",
            "boot a kernel with CONFIG_DEBUG_INFO_BTF=y, as in most distributions",
        )
    })
}

fn priority(setup: &Setup<'_>) -> Option<Caveat> {
    let (wanted, allowed) = (setup.priority()?, setup.rights.priority);
    (wanted > allowed).then(|| {
        Caveat::new(
            CaveatKind::Priority,
            format!("real-time priority {wanted} is requested, but this user may use at most {allowed}"),
            format!("run with sudo, or add `@realtime - rtprio {wanted}` to /etc/security/limits.d/realtime.conf, join that group and log in again"),
        )
    })
}

fn rt_group(setup: &Setup<'_>) -> Option<Caveat> {
    setup.priority()?;
    (setup.rights.rt_group? == Nanos::ZERO).then(|| {
        Caveat::new(
            CaveatKind::RtGroup,
            "the control group of this process gives real-time threads no time (cpu.rt_runtime_us is 0)",
            "move the shell to the root group: `echo $$ > /sys/fs/cgroup/cpu/cgroup.procs`",
        )
    })
}

/// With a fair server, `sched_rt_runtime_us` alone does not have an effect: the fair server stops
/// the same threads for the same time. Its setting is often hidden (debugfs is not mounted, or the
/// kernel is locked down); the kernel's default is assumed then.
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
    // Without its server, the kernel limits only real-time threads in control groups.
    if setup.host.has_fair_server() && !setup.host.has_rt_groups() {
        return None;
    }
    let runtime = limits.runtime_ns?;
    let stopped = limits.period_ns.saturating_sub(runtime);
    (stopped > Nanos::ZERO).then(|| {
        Caveat::new(
            CaveatKind::RtThrottling,
            format!(
                "real-time throttling: after {} of {}, real-time threads are stopped for {}",
                Unit::Auto.write_nanos(runtime),
                Unit::Auto.write_nanos(limits.period_ns),
                Unit::Auto.write_nanos(stopped)
            ),
            "`sysctl -w kernel.sched_rt_runtime_us=-1` (a looping real-time thread can then hang the machine)",
        )
    })
}

/// Every real-time thread waits for the fair server.
fn fair_server(server: FairServer, source: &str) -> Caveat {
    Caveat::new(
        CaveatKind::RtThrottling,
        format!(
            "the kernel's fair server stops busy real-time threads for {} per {}{source} if SCHED_OTHER threads wait; kernel.sched_rt_runtime_us does not change that",
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
                "{} online, but outside the cpuset of this process (for example in a container): not measured, and no load runs there",
                named(cpus)
            ),
            "run outside the cpuset, or enlarge cpuset.cpus of the control group",
        )
    })
}

fn quota(setup: &Setup<'_>) -> Option<Caveat> {
    quota_caveat(setup.rights)
}

/// Returns the warning about a limit on CPU time, independent of services and CPUs.
pub(super) fn quota_caveat(rights: &Rights) -> Option<Caveat> {
    let (quota, period) = rights.quota?;
    Some(Caveat::new(
        CaveatKind::CpuQuota,
        format!(
            "a control group limits this program to {quota} of CPU time per {period}; after that, `other` threads, a load and laggard itself wait for the next period"
        ),
        "run outside that group, or remove the limit: `echo max > /sys/fs/cgroup/GROUP/cpu.max` (version 1: `echo -1 > /sys/fs/cgroup/cpu/GROUP/cpu.cfs_quota_us`)",
    ))
}

fn memory_lock(setup: &Setup<'_>) -> Option<Caveat> {
    let allowed = setup.rights.lock_bytes?;
    (allowed < MIN_LOCK_LIMIT_BYTES).then(|| {
        Caveat::new(
            CaveatKind::MemoryLock,
            format!(
                "this user may lock only {} KiB of memory, so measuring threads may have page faults",
                allowed / 1024
            ),
            "run with sudo, or with `ulimit -l unlimited` if the hard limit allows it",
        )
    })
}
