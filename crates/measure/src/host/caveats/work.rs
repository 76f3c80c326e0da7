//! Warnings about background activity of the kernel and its helpers.

use laggard_model::{Caveat, CaveatKind};

use super::{Check, Setup};

pub(super) const CHECKS: [Check; 7] = [
    swap,
    numa_balancing,
    huge_pages,
    watchdog,
    irqbalance,
    timer_migration,
    autogroup,
];

fn swap(setup: &Setup<'_>) -> Option<Caveat> {
    let bytes = setup.host.settings.swap_bytes?;
    (bytes > 0).then(|| {
        Caveat::new(
            CaveatKind::Swap,
            format!(
                "{} MiB of swap in use: unlocked memory can be swapped out",
                bytes >> 20
            ),
            "`swapoff -a`, or lock the application's memory (mlockall)",
        )
    })
}

fn numa_balancing(setup: &Setup<'_>) -> Option<Caveat> {
    (setup.host.settings.numa_balancing == Some(true)).then(|| {
        Caveat::new(
            CaveatKind::NumaBalancing,
            "NUMA balancing unmaps pages to track their use, which causes page faults",
            "`sysctl -w kernel.numa_balancing=0`",
        )
    })
}

fn huge_pages(setup: &Setup<'_>) -> Option<Caveat> {
    (setup.host.huge_pages.as_deref() == Some("always")).then(|| {
        Caveat::new(
            CaveatKind::HugePages,
            "transparent huge pages are enabled for every program (khugepaged, longer page faults)",
            "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`",
        )
    })
}

fn watchdog(setup: &Setup<'_>) -> Option<Caveat> {
    let settings = &setup.host.settings;
    (settings.watchdog == Some(true)).then(|| {
        let how = match settings.nmi_watchdog {
            Some(true) => " and non-maskable interrupts",
            _ => "",
        };
        Caveat::new(
            CaveatKind::Watchdog,
            format!("the lockup watchdog interrupts every CPU with a timer and a thread of the highest priority{how}"),
            "`sysctl -w kernel.watchdog=0`",
        )
    })
}

fn irqbalance(setup: &Setup<'_>) -> Option<Caveat> {
    setup.host.settings.irqbalance.then(|| {
        Caveat::new(
            CaveatKind::IrqBalance,
            "irqbalance moves interrupts between CPUs while the machine runs",
            "`systemctl stop irqbalance`, then choose CPUs in /proc/irq/*/smp_affinity_list",
        )
    })
}

fn timer_migration(setup: &Setup<'_>) -> Option<Caveat> {
    let single = setup.host.processor.threads == 1;
    (setup.host.settings.timer_migration == Some(true) && !single).then(|| {
        Caveat::new(
            CaveatKind::TimerMigration,
            "timers that are not pinned move from idle CPUs to busy ones",
            "`sysctl -w kernel.timer_migration=0`",
        )
    })
}

fn autogroup(setup: &Setup<'_>) -> Option<Caveat> {
    let is_on = setup.host.settings.autogroup == Some(true);
    let has_normal = setup
        .services
        .iter()
        .any(|service| service.is_normal_thread());
    (is_on && has_normal).then(|| {
        Caveat::new(
            CaveatKind::Autogroup,
            "autogroup shares the CPU per session among SCHED_OTHER threads: nice values apply only within a session",
            "`sysctl -w kernel.sched_autogroup_enabled=0`",
        )
    })
}
