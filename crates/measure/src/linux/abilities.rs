//! What can be measured here, for `laggard doctor`. Everything is tried, and
//! nothing is left behind.

use std::fs;
use std::io;

use laggard_bpf::object::ObjectRefused;
use laggard_model::{Ability, Absence, Service};

use super::descriptors;
use super::flight::{self, FlightError, FlightOptions, FlightRecorder};
use super::objects;
use super::policy;
use super::programs::{Extent, Programs};
use super::reason_of;
use super::threads::{may_be_scheduled_as, refusal};
use crate::board::Stamps;
use crate::host::{Files, Rights};

const NEEDS_ROOT: &str = "run as root, or give the program's file what it needs, once: `sudo setcap cap_bpf,cap_perfmon,cap_sys_nice,cap_ipc_lock+ep \"$(command -v laggard)\"`";
const NEEDS_BTF: &str =
    "run as root on a kernel with CONFIG_DEBUG_INFO_BTF=y and CONFIG_BPF_SYSCALL=y";

/// Tries everything that recording `services` uses.
pub fn abilities(services: &[Service]) -> Vec<Ability> {
    descriptors::allow_all();
    let mut all = bpf_abilities(services);
    for &service in services.iter().filter(|service| service.is_thread()) {
        all.push(Ability {
            name: format!("service {service}"),
            gives: "threads of this policy".into(),
            is_needed: true,
            absence: may_be_scheduled_as(service).err().map(|err| {
                let (reason, remedy) = refusal(&err, &Rights::read(&Files::default()));
                Absence { reason, remedy }
            }),
        });
    }
    all.push(Ability {
        name: "memory lock".into(),
        gives: "no page faults on measuring threads".into(),
        is_needed: true,
        absence: policy::lock_memory().err().map(|err| Absence {
            reason: reason_of(&err),
            remedy: "run as root, or `ulimit -l unlimited`".into(),
        }),
    });
    all.extend(evidence());
    all
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
    let ability = |object: &str, service: &str, gives: &str, remedy: &str| {
        let absence = match &loaded {
            Err(refused) => Some(Absence {
                reason: refused.reason.clone(),
                remedy: if nix::unistd::geteuid().is_root() {
                    NEEDS_BTF.into()
                } else {
                    NEEDS_ROOT.into()
                },
            }),
            Ok(programs) => programs
                .refused
                .iter()
                .find(|(name, _)| *name == object)
                .map(|(_, refused)| Absence {
                    reason: refused.reason.clone(),
                    remedy: remedy.into(),
                })
                .or_else(|| {
                    let lacks_softirq =
                        object == objects::WORKER.name && !programs.gives(Service::Softirq);
                    lacks_softirq.then(|| Absence {
                        reason: "nothing starts it without the softirq service".into(),
                        remedy: remedy.into(),
                    })
                }),
        };
        Ability {
            name: format!("BPF object {object}{service}"),
            gives: gives.into(),
            // Timer descriptors serve as well.
            is_needed: object != objects::DEFERRED.name || !has_soft_timers,
            absence,
        }
    };
    let mut all = vec![
        ability("chain", "", "stages expire, waking, running", NEEDS_BTF),
        ability(
            "irq",
            " (service irq)",
            "stage irq",
            "the kernel needs the tracepoint irq_vectors:local_timer_entry (x86)",
        ),
        ability(
            "raise",
            "",
            "stage raise",
            "the kernel needs the tracepoints irq:softirq_*",
        ),
        ability(
            "deferred",
            " (service softirq)",
            "stage softirq, the deferred route",
            "the kernel needs BPF timers and bpf_loop (Linux 5.17); PREEMPT_RT refuses the timers",
        ),
        ability(
            "worker",
            " (service worker)",
            "stage worker",
            "the kernel needs BPF work queues (Linux 6.10)",
        ),
    ];
    if has_soft_timers {
        all.push(Ability {
            name: "timer descriptors (service softirq)".into(),
            gives: "stage softirq, the deferred route; they expire in softirq context here".into(),
            is_needed: true,
            absence: None,
        });
    }
    all
}

/// Abilities that explain latency rather than measure it.
fn evidence() -> Vec<Ability> {
    let optional = |name: &str, gives: &str, result: io::Result<()>, remedy: &str| Ability {
        name: name.into(),
        gives: gives.into(),
        is_needed: false,
        absence: result.err().map(|err| Absence {
            remedy: remedy_of(&err, nix::unistd::geteuid().is_root(), remedy),
            reason: reason_of(&err),
        }),
    };
    vec![
        optional(
            "flight recorder",
            "episodes: who made an activation late",
            record_a_moment(),
            NEEDS_BTF,
        ),
        optional(
            "PMU (cycles, NMI)",
            "stack samples in code with interrupts disabled",
            sample_with(HARDWARE_CYCLES),
            "use a machine with performance counters; in a virtual machine, pass them through (vPMU)",
        ),
        optional(
            "cpu-clock",
            "stack samples elsewhere",
            sample_with(SOFTWARE_CPU_CLOCK),
            "the kernel needs perf events (CONFIG_PERF_EVENTS=y)",
        ),
        optional(
            "steal clock",
            "time that the hypervisor took, to the ns",
            flight::try_steal_clock().map_err(|refused| not_loaded(refused.reason)),
            "the kernel must count it per run queue (CONFIG_PARAVIRT_TIME_ACCOUNTING); /proc/stat, in ticks, is used instead",
        ),
        optional(
            "SMI count",
            "stalls by the firmware, counted",
            fs::File::open("/dev/cpu/0/msr").map(|_| ()),
            "load the module msr (`modprobe msr`); Intel processors only",
        ),
        optional(
            "timerlat tracer",
            "service kthread",
            super::timerlat::check(),
            "the kernel needs CONFIG_TIMERLAT_TRACER=y, tracefs at /sys/kernel/tracing, and nobody else who uses the tracer; then ask for it with `--services kthread`",
        ),
    ]
}

/// What helps against `err`; `otherwise`: where it is not this user who may
/// not.
fn remedy_of(err: &io::Error, is_root: bool, otherwise: &str) -> String {
    match (err.kind(), is_root) {
        // What the machine has cannot be told before this user may ask.
        (io::ErrorKind::PermissionDenied, false) => {
            format!("run as root; if it is refused then: {otherwise}")
        }
        (io::ErrorKind::PermissionDenied, true) => format!(
            "this root may not, as in a container or under lockdown: give it CAP_PERFMON, CAP_BPF and CAP_SYS_ADMIN; if it is refused then: {otherwise}"
        ),
        _ => otherwise.into(),
    }
}

/// Whether the flight recorder starts; its stack samples are abilities of
/// their own.
fn record_a_moment() -> io::Result<()> {
    let options = FlightOptions { stacks_hz: None };
    match FlightRecorder::new(&super::allowed_cpus(), options, None) {
        Ok(_) => Ok(()),
        Err(FlightError::Refused(reason)) => Err(not_loaded(reason)),
        Err(err) => Err(io::Error::other(err)),
    }
}

/// A BPF object that was not loaded: whoever is not root has to be, before
/// the kernel can be asked.
fn not_loaded(reason: String) -> io::Error {
    match nix::unistd::geteuid().is_root() {
        true => io::Error::other(reason),
        false => io::Error::new(io::ErrorKind::PermissionDenied, reason),
    }
}

/// `PERF_TYPE_HARDWARE` and `PERF_COUNT_HW_CPU_CYCLES` of `linux/perf_event.h`.
const HARDWARE_CYCLES: (u32, u32) = (0, 0);
/// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_CPU_CLOCK`.
const SOFTWARE_CPU_CLOCK: (u32, u32) = (1, 0);

/// Whether this event can be counted on CPU 0, kernel included.
fn sample_with((kind, config): (u32, u32)) -> io::Result<()> {
    /// The first published size of `perf_event_attr`; every kernel takes it.
    const SIZE: u32 = 64;
    let mut attr = [0_u32; SIZE as usize / 4];
    attr[0] = kind;
    attr[1] = SIZE;
    attr[2] = config;
    let (any_process, cpu, no_group, close_on_exec) = (-1, 0, -1, 8_u64);
    // SAFETY: `attr` is valid for reads of the size that it states.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attr.as_ptr(),
            any_process,
            cpu,
            no_group,
            close_on_exec,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just given to us. Closing it undoes the trial.
    unsafe { libc::close(i32::try_from(fd).unwrap_or(-1)) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_ask_is_told_to_ask_as_root_first() {
        let denied = io::Error::from_raw_os_error(libc::EACCES);
        let absent = io::Error::from_raw_os_error(libc::ENOENT);
        let machine = "use a machine with performance counters";

        let remedy = |err, is_root| remedy_of(err, is_root, machine);

        assert!(remedy(&denied, false).starts_with("run as root; if"));
        assert!(remedy(&denied, true).contains("CAP_PERFMON"));
        assert_eq!(remedy(&absent, false), machine);
        assert_eq!(remedy(&absent, true), machine);
    }

    #[test]
    fn what_the_system_says_has_no_numbers_of_its_own() {
        let err = io::Error::from_raw_os_error(libc::ENOENT);

        assert_eq!(reason_of(&err), "no such file or directory");
        assert_eq!(reason_of(&io::Error::other("no ring")), "no ring");
    }
}
