//! Caveats about the kernel's build and boot.

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

/// Options that make every lock or memory access slow.
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

/// Clock sources that the processor reads by itself, in some tens of ns.
const FAST_CLOCKS: [&str; 5] = [
    "tsc",
    "arch_sys_counter",
    "riscv_clocksource",
    "timebase",
    "tod",
];

/// Cures that are paid for at every entry to the kernel, every switch of
/// tasks or every return of a function.
const DEAR_CURES: [&str; 7] = [
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
            format!("the kernel is locked down ({level}): parts of it cannot be read, so some causes may stay unnamed"),
            "boot without lockdown= and, where it forces lockdown, without Secure Boot",
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
                "the kernel checks itself and is slower for it ({})",
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
            "kernel code delays normal threads until the next tick, and spinlocks delay every thread"
        }
        _ => {
            "kernel code is preempted only where it allows it, so a long system call delays every thread"
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
            format!("boot with preempt=full; for less still, {real_time}")
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
            "the scheduler's tick comes every {} ms: normal threads share a CPU in slices no shorter",
            1000 / hz
        ),
        "boot a kernel built with CONFIG_HZ=1000, where normal threads matter",
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
            "`echo {better} > /sys/devices/system/clocksource/clocksource0/current_clocksource`, after `dmesg | grep -i clocksource` tells why it was not chosen"
        ),
        None => {
            "look with `dmesg | grep -i tsc` why the kernel does not trust the processor's counter"
                .into()
        }
    };
    Some(Caveat::new(
        CaveatKind::Clocksource,
        format!("the clock source is {current}, dearer to read than the processor's own counter"),
        advice,
    ))
}

fn mitigations(setup: &Setup<'_>) -> Option<Caveat> {
    let dear: Vec<&str> = setup
        .host
        .mitigations
        .iter()
        .filter_map(|line| {
            let (name, cure) = line.split_once(": ")?;
            DEAR_CURES
                .iter()
                .any(|dear| cure.contains(dear))
                .then_some(name)
        })
        .collect();
    (!dear.is_empty()).then(|| {
        Caveat::new(
            CaveatKind::Mitigations,
            format!(
                "cures of {} make every entry to the kernel slower",
                dear.join(", ")
            ),
            "boot with mitigations=off where only trusted code runs; otherwise keep them",
        )
    })
}
