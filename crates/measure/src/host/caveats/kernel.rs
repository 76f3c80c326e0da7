//! Warnings about the kernel's build and boot options.

use laggard_model::{Caveat, CaveatKind};

use super::{Check, Setup};

pub(super) const CHECKS: [Check; 6] = [
    lockdown,
    debug,
    preemption,
    tick_rate,
    clocksource,
    mitigations,
];

/// Options that slow every lock or memory access.
const DEBUG_OPTIONS: [&str; 9] = [
    "DEBUG_ATOMIC_SLEEP",
    "DEBUG_LOCK_ALLOC",
    "DEBUG_MUTEXES",
    "DEBUG_OBJECTS",
    "DEBUG_PREEMPT",
    "DEBUG_SPINLOCK",
    "KASAN",
    "KCSAN",
    "PROVE_LOCKING",
];

/// Clock sources that the processor reads directly, in some tens of ns.
const FAST_CLOCKS: [&str; 5] = [
    "tsc",
    "arch_sys_counter",
    "riscv_clocksource",
    "timebase",
    "tod",
];

/// Mitigations that cost time at every kernel entry, context switch or function return.
const SLOW_MITIGATIONS: [&str; 7] = [
    "Mitigation: PTI",
    "Mitigation: IBRS",
    "Retpoline",
    "untrained return thunk",
    "Safe RET",
    "Clear CPU buffers",
    "IBPB: always-on",
];

fn lockdown(setup: &Setup<'_>) -> Option<Caveat> {
    let level = setup.host.lockdown.as_deref()?;
    (level != "none").then(|| {
        Caveat::new(
            CaveatKind::Lockdown,
            format!("the kernel is locked down ({level}): parts of it are unreadable, so some causes may stay unnamed"),
            "boot without lockdown= and, if Secure Boot forces lockdown, without Secure Boot",
        )
    })
}

fn debug(setup: &Setup<'_>) -> Option<Caveat> {
    let set: Vec<&str> = DEBUG_OPTIONS
        .into_iter()
        .filter(|option| setup.has_option(option))
        .collect();
    (!set.is_empty()).then(|| {
        Caveat::new(
            CaveatKind::DebugKernel,
            format!(
                "the kernel has debug checks that slow it down ({})",
                set.join(", ")
            ),
            "boot the distribution's normal kernel",
        )
    })
}

fn preemption(setup: &Setup<'_>) -> Option<Caveat> {
    let model = setup.host.preemption.as_deref()?;
    let what = match model {
        "rt" => return None,
        "full" => "interrupt handlers, softirqs and spinlocks delay every thread",
        "lazy" => {
            "kernel code delays SCHED_OTHER threads until the next tick, and spinlocks delay every thread"
        }
        _ => {
            "kernel code is preempted only at explicit points, so a long system call delays every thread"
        }
    };
    let debian = match setup.host.architecture.as_str() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let real_time =
        format!("install a PREEMPT_RT kernel (Debian: `apt install linux-image-rt-{debian}`)");
    let advice = match (model, setup.host.build.contains("PREEMPT_DYNAMIC")) {
        ("none" | "voluntary" | "lazy", true) => {
            format!("boot with preempt=full; for lower latency, {real_time}")
        }
        _ => real_time,
    };
    Some(Caveat::new(
        CaveatKind::Preemption,
        format!("preemption model {model}: {what}"),
        advice,
    ))
}

fn tick_rate(setup: &Setup<'_>) -> Option<Caveat> {
    let hz = setup.host.hz.filter(|&hz| hz > 0 && hz < 250)?;
    Some(Caveat::new(
        CaveatKind::TickRate,
        format!(
            "the scheduler tick is {} ms, which is the shortest time slice of SCHED_OTHER threads",
            1000 / hz
        ),
        "if SCHED_OTHER threads matter, boot a kernel with CONFIG_HZ=1000",
    ))
}

fn clocksource(setup: &Setup<'_>) -> Option<Caveat> {
    let clock = &setup.host.clocksource;
    let current = clock.current.as_str();
    if current.is_empty() || FAST_CLOCKS.contains(&current) {
        return None;
    }
    let better = clock
        .available
        .iter()
        .find(|name| FAST_CLOCKS.contains(&name.as_str()));
    let advice = match better {
        Some(better) => format!(
            "`echo {better} > /sys/devices/system/clocksource/clocksource0/current_clocksource`; first see in `dmesg | grep -i clocksource` why the kernel did not choose it"
        ),
        None => {
            let counter = match setup.host.architecture.as_str() {
                "x86_64" => "tsc",
                "aarch64" => "arch_timer",
                _ => "clocksource",
            };
            format!(
                "see in `dmesg | grep -i {counter}` why the kernel does not use the processor's counter"
            )
        }
    };
    Some(Caveat::new(
        CaveatKind::Clocksource,
        format!(
            "the clock source is {current}, which is slower to read than the processor's counter"
        ),
        advice,
    ))
}

fn mitigations(setup: &Setup<'_>) -> Option<Caveat> {
    let slow: Vec<&str> = setup
        .host
        .mitigations
        .iter()
        .filter_map(|line| {
            let (name, mitigation) = line.split_once(": ")?;
            SLOW_MITIGATIONS
                .iter()
                .any(|slow| mitigation.contains(slow))
                .then_some(name)
        })
        .collect();
    (!slow.is_empty()).then(|| {
        Caveat::new(
            CaveatKind::Mitigations,
            format!("mitigations of {} slow every kernel entry", slow.join(", ")),
            "if only trusted code runs, boot with mitigations=off; otherwise keep them",
        )
    })
}
