//! Abilities of this machine, for `laggard doctor`. Each is tried, and no trial leaves traces.

use std::fs;
use std::io;

use laggard_bpf::object::ObjectRefused;
use laggard_model::{Ability, Backend, Cpu, Sampler, Service};

use super::descriptors;
use super::flight::{self, FlightError, FlightOptions, FlightRecorder};
use super::objects;
use super::obstacle::{Help, Obstacle};
use super::perf;
use super::policy;
use super::programs::{Extent, Programs};
use super::reason_of;
use super::threads::{may_be_scheduled_as, refusal, run_delay};
use super::tracepoints::{Tracepoints, try_switches};
use crate::board::Stamps;
use crate::host::{Files, Rights};

/// Name of the ability that is needed for every stage that BPF stamps.
const CHAIN: &str = "BPF object chain";
/// Name of the ability that replaces it for threads.
const TRACEPOINTS: &str = "perf tracepoints";

/// Name of the ability that remains without rights.
const SWITCHES: &str = "context switches";

/// Returns how a recording would stamp the stages of threads, given `abilities`.
pub fn method(abilities: &[Ability]) -> Backend {
    let has = |name| {
        let mut abilities = abilities.iter();
        abilities.any(|ability| ability.name == name && ability.absence.is_none())
    };
    if has(CHAIN) {
        Backend::Bpf
    } else if has(TRACEPOINTS) {
        Backend::Perf
    } else {
        Backend::User
    }
}

/// Tries everything that a recording of `services` uses.
pub fn abilities(services: &[Service]) -> Vec<Ability> {
    descriptors::allow_all();
    let mut abilities = bpf_abilities(services);
    abilities.push(optional_ability(
        TRACEPOINTS,
        Tracepoints::new(Stamps::default()).map(drop),
        Help::Tracefs,
    ));
    abilities.push(Ability {
        name: SWITCHES.into(),
        is_needed: false,
        absence: try_switches().err().map(|err| {
            let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            let level = level.map_or_else(|_| "unknown".into(), |text| text.trim().to_owned());
            let reason = format!(
                "{} (kernel.perf_event_paranoid is {level})",
                reason_of(&err)
            );
            Obstacle::System(reason).absence(&Help::Paranoid)
        }),
    });
    abilities.push(Ability {
        name: "run delay".into(),
        is_needed: false,
        absence: (!run_delay::is_counted()).then(|| {
            let reason = "the kernel does not count scheduling delays".into();
            Obstacle::System(reason).absence(&Help::Schedstats)
        }),
    });
    for &service in services.iter().filter(|service| service.is_thread()) {
        abilities.push(Ability {
            name: format!("service {service}"),
            is_needed: true,
            absence: may_be_scheduled_as(service).err().map(|err| {
                let (obstacle, help) = refusal(&err, &Rights::read(&Files::default()));
                obstacle.absence(&help)
            }),
        });
    }
    abilities.push(Ability {
        name: "memory lock".into(),
        is_needed: true,
        absence: policy::lock_memory()
            .err()
            .map(|err| Obstacle::from(&err).absence(&Help::LockLimit)),
    });
    abilities.extend(evidence());
    abilities
}

fn bpf_abilities(services: &[Service]) -> Vec<Ability> {
    let extent = Extent {
        nr_cpus: super::possible_cpus(),
        nr_slots: 256,
    };
    let loaded = Programs::load(extent, services, Stamps::default()).and_then(|mut programs| {
        programs.attach()?;
        let board =
            super::threads::board(extent, Some(&programs)).map_err(|err| ObjectRefused {
                reason: err.to_string(),
            })?;
        for &cpu in super::allowed_cpus().as_slice().iter().take(1) {
            programs.try_soft_timers(cpu, &board);
        }
        Ok(programs)
    });
    let has_soft_timers = loaded
        .as_ref()
        .is_ok_and(|programs| programs.has_soft_timers);
    let obstacle = |refused: &ObjectRefused| Obstacle::System(refused.reason.clone());
    let ability = |object: &str, service: &str, help: Help| {
        let absence = match &loaded {
            Err(refused) if nix::unistd::geteuid().is_root() => {
                Some(obstacle(refused).absence(&Help::TypesOfKernel))
            }
            Err(refused) => Some(obstacle(refused).absence(&Help::Rights)),
            Ok(programs) => {
                let lacks_softirq =
                    object == objects::WORKER.name && !programs.gives(Service::Softirq);
                let refused = programs.refusal_of(object).map(obstacle);
                let obstacle = refused.or(lacks_softirq.then_some(Obstacle::NoSoftirq));
                obstacle.map(|obstacle| obstacle.absence(&help))
            }
        };
        Ability {
            name: format!("BPF object {object}{service}"),
            // Timer descriptors can replace the softirq timer.
            is_needed: object != objects::DEFERRED.name || !has_soft_timers,
            absence,
        }
    };
    let mut abilities = vec![
        ability("chain", "", Help::TypesOfKernel),
        ability("irq", " (service irq)", Help::TimerTracepoint),
        ability("raise", "", Help::SoftirqTracepoints),
        ability("deferred", " (service softirq)", Help::BpfTimers),
        ability("worker", " (service worker)", Help::BpfWork),
    ];
    if has_soft_timers {
        abilities.push(Ability {
            name: "timer descriptors (service softirq)".into(),
            is_needed: true,
            absence: None,
        });
    }
    abilities
}

/// Returns the abilities that explain latency instead of measuring it.
fn evidence() -> Vec<Ability> {
    vec![
        optional_ability("flight recorder", record_a_moment(), Help::TypesOfKernel),
        optional_ability(
            "PMU (cycles, NMI)",
            sample_by_nmi(),
            if perf::counters_are_nmi() {
                Help::Counters
            } else {
                Help::CountersAsNmi
            },
        ),
        optional_ability(
            "cpu-clock",
            sample_with(Sampler::CpuClock),
            Help::PerfEvents,
        ),
        optional_ability(
            "steal clock",
            flight::try_steal_clock().map_err(|refused| not_loaded(refused.reason)),
            Help::StealClock,
        ),
        optional_ability(
            "SMI count",
            fs::File::open("/dev/cpu/0/msr").map(|_| ()),
            Help::Registers,
        ),
        timerlat_ability(),
    ]
}

/// Tries the kernel's timerlat tracer, which provides [`Service::Kthread`].
pub fn timerlat_ability() -> Ability {
    optional_ability(
        "timerlat tracer",
        super::timerlat::check(),
        Help::TimerlatTracer,
    )
}

/// Returns the remedy for `err`. `otherwise` is the remedy if the user's rights are not the
/// cause.
fn help_against(err: &io::Error, is_root: bool, otherwise: Help) -> Help {
    match (err.kind(), is_root) {
        // The machine's abilities are unknown until the user has the rights.
        (io::ErrorKind::PermissionDenied, false) => Help::RootThen(otherwise.into()),
        (io::ErrorKind::PermissionDenied, true) => Help::CapabilitiesThen(otherwise.into()),
        _ => otherwise,
    }
}

/// Describes an ability that laggard can do without.
pub fn optional_ability(name: &str, result: io::Result<()>, help: Help) -> Ability {
    Ability {
        name: name.into(),
        is_needed: false,
        absence: result.err().map(|err| {
            let help = help_against(&err, nix::unistd::geteuid().is_root(), help);
            Obstacle::from(&err).absence(&help)
        }),
    }
}

/// Starts the flight recorder for a short time. Its stack samples are separate abilities.
fn record_a_moment() -> io::Result<()> {
    let options = FlightOptions { stacks_hz: None };
    match FlightRecorder::new(&super::allowed_cpus(), options, None) {
        Ok(_) => Ok(()),
        Err(FlightError::Refused(reason)) => Err(not_loaded(reason)),
        Err(err) => Err(io::Error::other(err)),
    }
}

/// Returns the error of a BPF object that was not loaded. A user other than root needs root
/// rights before the kernel can be asked.
pub fn not_loaded(reason: String) -> io::Error {
    if nix::unistd::geteuid().is_root() {
        io::Error::other(reason)
    } else {
        io::Error::new(io::ErrorKind::PermissionDenied, reason)
    }
}

/// Checks whether CPU cycles can be counted, and interrupt code with interrupts disabled.
fn sample_by_nmi() -> io::Result<()> {
    if !perf::counters_are_nmi() {
        return Err(io::Error::other(
            "performance counters do not interrupt code that has interrupts disabled",
        ));
    }
    sample_with(Sampler::Nmi)
}

/// Checks whether the event of a sampler can be counted on CPU 0, including the kernel.
fn sample_with(sampler: Sampler) -> io::Result<()> {
    perf::open_sampler(sampler, Cpu(0), None).map(drop)
}

#[cfg(test)]
mod tests {
    use laggard_model::Lacks;

    use super::*;

    #[test]
    fn user_without_rights_gets_the_remedy_to_run_as_root_first() {
        let denied = io::Error::from_raw_os_error(libc::EACCES);
        let absent = io::Error::from_raw_os_error(libc::ENOENT);
        let remedy_for = |err: &io::Error, is_root| {
            let help = help_against(err, is_root, Help::Counters);
            let absence = Obstacle::from(err).absence(&help);
            (absence.lacks, absence.remedy)
        };
        let machine = (Lacks::Machine, Help::Counters.to_string());

        let (lacks, remedy) = remedy_for(&denied, false);

        assert_eq!(lacks, Lacks::Rights);
        assert_eq!(
            remedy,
            format!("run as root; if it still fails: {}", machine.1)
        );
        let (lacks, remedy) = remedy_for(&denied, true);
        assert_eq!(lacks, Lacks::Rights);
        assert!(remedy.contains("CAP_PERFMON"), "{remedy}");
        assert_eq!(remedy_for(&absent, false), machine);
        assert_eq!(remedy_for(&absent, true), machine);
    }

    #[test]
    fn method_is_bpf_then_tracepoints_then_neither() {
        let ability = |name: &str, is_available: bool| Ability {
            name: name.into(),
            is_needed: true,
            absence: (!is_available).then(|| Obstacle::NoBpf.absence(&Help::Doctor)),
        };

        for (chain, tracepoints, expected) in [
            (true, true, Backend::Bpf),
            (true, false, Backend::Bpf),
            (false, true, Backend::Perf),
            (false, false, Backend::User),
        ] {
            let abilities = [ability(CHAIN, chain), ability(TRACEPOINTS, tracepoints)];

            assert_eq!(method(&abilities), expected);
        }
        assert_eq!(CHAIN, format!("BPF object {}", objects::CHAIN.name));
    }

    #[test]
    fn reason_of_a_system_error_has_no_number() {
        let err = io::Error::from_raw_os_error(libc::ENOENT);

        assert_eq!(reason_of(&err), "no such file or directory");
        assert_eq!(reason_of(&io::Error::other("no ring")), "no ring");
    }
}
