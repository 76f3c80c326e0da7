//! Settings of this Windows that affect latency, and remedies.

use std::arch::x86_64::__cpuid;

use laggard_model::text::Unit;
use laggard_model::{Caveat, CaveatKind};
use windows_sys::core::w;

use super::power::Power;
use super::timers::{TickLengths, tick_lengths};
use super::{host, registry, signing};

/// First build that applies a requested tick length only to the requesting program, and first build
/// that does not apply it while the program's window is hidden.
const PER_PROCESS: u32 = 19_041;
const UNLESS_HIDDEN: u32 = 22_000;

/// Power plans that let a CPU slow down or sleep, by GUID and name.
const SAVING: [(&str, &str); 2] = [
    ("381b4222-f694-41f0-9685-ff5bb260df2e", "Balanced"),
    ("a1841308-3541-4fab-bc81-f71556f20b4a", "Power saver"),
];
/// Command for a plan without power saving. Other plans do not cause a warning.
const FAST: &str = "powercfg /setactive 8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c (High performance)";

/// Settings that affect latency; `None` if Windows does not report them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Setup {
    build: u32,
    tick: Option<TickLengths>,
    plan: Option<String>,
    power: Power,
    /// Name of the hypervisor, and whether this Windows is its guest.
    hypervisor: Option<(String, bool)>,
    has_memory_integrity: Option<bool>,
}

/// Returns the settings of this machine that harm latency, the worst first. An unreadable setting
/// does not cause a warning, because laggard does not guess.
pub fn setup_caveats() -> Vec<Caveat> {
    let setup = Setup {
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
    let mut caveats = host::caveats();
    caveats.extend(of(&setup));
    caveats.sort_by_key(|caveat| caveat.kind.severity());
    caveats
}

fn of(setup: &Setup) -> Vec<Caveat> {
    let caveats = [
        setup.hypervisor.as_ref().map(|(maker, is_guest)| of_hypervisor(maker, *is_guest)),
        setup.plan.as_deref().and_then(of_plan),
        setup.tick.and_then(|tick| of_tick(tick, setup.build)),
        (setup.has_memory_integrity == Some(true)).then(|| {
            Caveat::new(
                CaveatKind::Mitigations,
                "memory integrity (HVCI) is on: a hypervisor protects the kernel's memory, which slows kernel entries",
                "it protects this machine; to measure its cost, compare a test machine with and without it (Windows Security, Core isolation)",
            )
        }),
    ];
    caveats
        .into_iter()
        .flatten()
        .chain(setup.power.caveats())
        .collect()
}

fn of_hypervisor(maker: &str, is_guest: bool) -> Caveat {
    if is_guest {
        Caveat::new(
            CaveatKind::VirtualMachine,
            format!("this is a virtual machine ({maker}), so its host can stop it at any time"),
            "measure on a physical machine; these results include the host's latency",
        )
    } else {
        Caveat::new(
            CaveatKind::VirtualMachine,
            format!("Windows runs on its hypervisor ({maker}), which takes CPU time"),
            "if nothing needs it (memory integrity, WSL, Hyper-V), run `bcdedit /set hypervisorlaunchtype off` and restart",
        )
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
    // laggard requests no shorter tick. In these builds, another program's request applies only
    // to that program.
    let (own, of_whom) = match build {
        PER_PROCESS.. => (
            tick.longest,
            " for a program that does not request a shorter tick",
        ),
        _ => (tick.now, ""),
    };
    if own <= tick.shortest {
        return None;
    }
    let whose = match build {
        UNLESS_HIDDEN.. => {
            "only for the calling program, and not while its window is hidden (unless SetProcessInformation is used)"
        }
        PER_PROCESS.. => "only for the calling program",
        _ => "for all programs",
    };
    Some(Caveat::new(
        CaveatKind::TickRate,
        format!(
            "the clock tick is {}{of_whom}, and could be {}: plain timers expire at a tick",
            Unit::Auto.write_nanos(own),
            Unit::Auto.write_nanos(tick.shortest)
        ),
        format!(
            "use high-resolution timers (`laggard bench timers` compares them); on this build timeBeginPeriod shortens the tick {whose}"
        ),
    ))
}

/// Returns the name of the hypervisor and whether this system is its guest. The root partition of
/// Hyper-V, which is Windows on its own hypervisor, may create others.
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
    fn setting_that_harms_latency_has_a_remedy() {
        let caveats = of(&worst());

        assert_eq!(caveats.len(), 6, "{caveats:?}");
        assert!(
            caveats.iter().all(|caveat| !caveat.advice.is_empty()),
            "{caveats:?}"
        );
        let texts = caveats
            .iter()
            .map(|caveat| caveat.what.as_str())
            .collect::<String>();
        for what in [
            "virtual machine (KVMKVMKVM)",
            "plan is Balanced",
            "battery",
            "may be parked",
            "tick is 15.6 ms",
        ] {
            assert!(texts.contains(what), "{what}: {texts}");
        }
    }

    #[test]
    fn unknown_and_good_settings_give_no_caveat() {
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
    fn tick_shortened_by_another_program_stays_long_for_this_one_since_2004() {
        let text = |build| {
            let tick = TickLengths {
                shortest: Nanos::from_us(500),
                longest: Nanos::from_us(15_625),
                now: Nanos::from_us(500),
            };
            of_tick(tick, build).map(|caveat| caveat.what)
        };

        assert_eq!(text(PER_PROCESS - 1), None);
        let message = text(PER_PROCESS).unwrap();
        assert!(
            message.contains("15.6 ms for a program that does not request"),
            "{message}"
        );
    }

    #[test]
    fn scope_of_a_shorter_tick_depends_on_the_build() {
        let advice = |build| {
            let setup = Setup { build, ..worst() };
            of(&setup)
                .into_iter()
                .find(|caveat| caveat.kind == CaveatKind::TickRate)
                .unwrap()
                .advice
        };

        assert!(advice(18_363).ends_with("for all programs"));
        assert!(advice(19_041).ends_with("only for the calling program"));
        assert!(advice(22_000).contains("not while its window is hidden"));
    }
}
