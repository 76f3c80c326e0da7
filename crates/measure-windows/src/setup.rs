//! How this Windows is set up, as far as it bears on latency, and what helps.

use std::arch::x86_64::__cpuid;

use laggard_model::text::Unit;
use laggard_model::{Caveat, CaveatKind};
use windows_sys::core::w;

use super::power::Power;
use super::timers::{TickLengths, tick_lengths};
use super::{host, registry, signing};

/// Since this build a tick that a program asks for is its own, and since that one no
/// longer while its window is hidden.
const PER_PROCESS: u32 = 19_041;
const UNLESS_HIDDEN: u32 = 22_000;

/// Plans of Windows that let a CPU slow down or sleep, by number and name.
const SAVING: [(&str, &str); 2] = [
    ("381b4222-f694-41f0-9685-ff5bb260df2e", "Balanced"),
    ("a1841308-3541-4fab-bc81-f71556f20b4a", "Power saver"),
];
/// And those that do not; of others nothing is told.
const FAST: &str = "powercfg /setactive 8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c (High performance)";

/// What of this machine bears on latency. Where Windows does not tell: none.
#[derive(Clone, Debug, Default, PartialEq)]
struct Setup {
    build: u32,
    tick: Option<TickLengths>,
    plan: Option<String>,
    power: Power,
    /// Who made the hypervisor below, and whether this Windows is a guest of it.
    hypervisor: Option<(String, bool)>,
    has_memory_integrity: Option<bool>,
}

/// Settings of this machine that spoil latency, the worst first. What cannot be read
/// gives no caveat: nothing is guessed.
pub fn setup_caveats() -> Vec<Caveat> {
    let found = Setup {
        build: host::build(),
        tick: tick_lengths(),
        plan: registry::text(
            w!("SYSTEM\\CurrentControlSet\\Control\\Power\\User\\PowerSchemes"),
            w!("ActivePowerScheme"),
        ),
        power: Power::read(),
        hypervisor: hypervisor(),
        has_memory_integrity: signing().has_memory_integrity,
    };
    let mut all = host::caveats();
    all.extend(of(&found));
    all.sort_by_key(|one| one.kind.severity());
    all
}

fn of(found: &Setup) -> Vec<Caveat> {
    let all = [
        found.hypervisor.as_ref().map(|(maker, is_guest)| of_hypervisor(maker, *is_guest)),
        found.plan.as_deref().and_then(of_plan),
        found.tick.and_then(|tick| of_tick(tick, found.build)),
        (found.has_memory_integrity == Some(true)).then(|| {
            Caveat::new(
                CaveatKind::Mitigations,
                "memory integrity (HVCI) is on: a hypervisor guards the kernel's memory, which makes entering the kernel dearer",
                "it protects this machine; to know what it costs, measure a machine for tests with it and without (Windows Security, Core isolation)",
            )
        }),
    ];
    all.into_iter()
        .flatten()
        .chain(found.power.caveats())
        .collect()
}

fn of_hypervisor(maker: &str, is_guest: bool) -> Caveat {
    match is_guest {
        true => Caveat::new(
            CaveatKind::VirtualMachine,
            format!("this is a virtual machine ({maker}), which its host can stop at any time"),
            "measure on the machine itself, or take what you see for this host's as well",
        ),
        false => Caveat::new(
            CaveatKind::VirtualMachine,
            format!("Windows' own hypervisor ({maker}) runs below it, and takes time for itself"),
            "where nothing needs it (memory integrity, WSL, Hyper-V): `bcdedit /set hypervisorlaunchtype off`, and a restart",
        ),
    }
}

fn of_plan(plan: &str) -> Option<Caveat> {
    let plan = plan.trim_matches(['{', '}']).to_ascii_lowercase();
    let (_, name) = SAVING.into_iter().find(|(number, _)| *number == plan)?;
    Some(Caveat::new(
        CaveatKind::Governor,
        format!("the power plan is {name}: CPUs slow down and sleep between wakeups"),
        FAST,
    ))
}

fn of_tick(tick: TickLengths, build: u32) -> Option<Caveat> {
    // laggard asks for none; that another program did shortens its own alone by now.
    let (own, of_whom) = match build {
        PER_PROCESS.. => (tick.longest, " for a program that asks for no shorter tick"),
        _ => (tick.now, ""),
    };
    if own <= tick.shortest {
        return None;
    }
    let whose = match build {
        UNLESS_HIDDEN.. => {
            "for itself alone, and not while its window is hidden (SetProcessInformation keeps it)"
        }
        PER_PROCESS.. => "for itself alone",
        _ => "for all programs at once",
    };
    Some(Caveat::new(
        CaveatKind::TickRate,
        format!(
            "the clock ticks every {}{of_whom}, and could every {}: plain timers end at a tick",
            Unit::Auto.write_nanos(own),
            Unit::Auto.write_nanos(tick.shortest)
        ),
        format!(
            "use timers of high resolution (`laggard timers` compares them); timeBeginPeriod shortens the tick on this build {whose}"
        ),
    ))
}

/// Who made the hypervisor below, and whether this system is its guest: the root
/// partition of Hyper-V, which is Windows beside its own hypervisor, may make others.
fn hypervisor() -> Option<(String, bool)> {
    let is_there = __cpuid(1).ecx >> 31 & 1 == 1;
    if !is_there {
        return None;
    }
    let leaf = __cpuid(0x4000_0000);
    let name = [leaf.ebx, leaf.ecx, leaf.edx]
        .map(u32::to_le_bytes)
        .concat();
    let name = String::from_utf8_lossy(&name);
    let name = name.trim_matches(['\0', ' ']);
    let may_create =
        name == "Microsoft Hv" && leaf.eax >= 0x4000_0003 && __cpuid(0x4000_0003).ebx & 1 == 1;
    Some((name.to_owned(), !may_create))
}

#[cfg(test)]
mod tests {
    use laggard_model::Nanos;

    use super::*;

    fn worst() -> Setup {
        Setup {
            build: 22_631,
            tick: Some(TickLengths {
                shortest: Nanos::from_us(500),
                longest: Nanos::from_us(15_625),
                now: Nanos::from_us(15_625),
            }),
            plan: Some("{381B4222-F694-41F0-9685-FF5BB260DF2E}".into()),
            power: Power {
                is_on_battery: Some(true),
                unparked_percent: Some(50),
            },
            hypervisor: Some(("KVMKVMKVM".into(), true)),
            has_memory_integrity: Some(true),
        }
    }

    #[test]
    fn each_setting_that_spoils_latency_is_told_with_a_remedy() {
        let told = of(&worst());

        assert_eq!(told.len(), 6, "{told:?}");
        assert!(told.iter().all(|one| !one.advice.is_empty()), "{told:?}");
        let all = told.iter().map(|one| one.what.as_str()).collect::<String>();
        for what in [
            "virtual machine (KVMKVMKVM)",
            "plan is Balanced",
            "battery",
            "may be parked",
            "every 15.6 ms",
        ] {
            assert!(all.contains(what), "{what}: {all}");
        }
    }

    #[test]
    fn what_windows_does_not_tell_is_no_caveat_and_neither_is_what_is_well() {
        let well = Setup {
            tick: Some(TickLengths {
                shortest: Nanos::from_us(500),
                longest: Nanos::from_us(15_625),
                now: Nanos::from_us(500),
            }),
            plan: Some("8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c".into()),
            power: Power {
                is_on_battery: Some(false),
                unparked_percent: Some(100),
            },
            has_memory_integrity: Some(false),
            ..Setup::default()
        };

        assert_eq!(of(&Setup::default()), []);
        assert_eq!(of(&well), []);
    }

    /// As while a browser plays a video.
    #[test]
    fn a_tick_that_another_program_shortened_is_long_for_this_one_since_2004() {
        let told = |build| {
            let tick = TickLengths {
                shortest: Nanos::from_us(500),
                longest: Nanos::from_us(15_625),
                now: Nanos::from_us(500),
            };
            of_tick(tick, build).map(|one| one.what)
        };

        assert_eq!(told(PER_PROCESS - 1), None);
        let said = told(PER_PROCESS).unwrap();
        assert!(
            said.contains("every 15.6 ms for a program that asks"),
            "{said}"
        );
    }

    #[test]
    fn who_shortens_the_tick_depends_on_the_build() {
        let advice = |build| {
            let found = Setup { build, ..worst() };
            of(&found)
                .into_iter()
                .find(|one| one.kind == CaveatKind::TickRate)
                .unwrap()
                .advice
        };

        assert!(advice(18_363).ends_with("for all programs at once"));
        assert!(advice(19_041).ends_with("for itself alone"));
        assert!(advice(22_000).contains("not while its window is hidden"));
    }
}
