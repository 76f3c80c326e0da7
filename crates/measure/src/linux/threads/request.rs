//! Checks of a request against this machine.

use std::io;
use std::sync::RwLock;
use std::sync::mpsc::channel;
use std::time::Duration;

use laggard_model::{Caveat, CaveatKind, CpuList, Nanos, ProbePlan, Service, Stage};

use super::super::lines::CpuLines;
use super::super::loan::{Loan, lender_service};
use super::super::obstacle::{Help, Obstacle};
use super::super::programs::{MAX_FOLLOWERS, Programs};
use super::super::{allowed_cpus, descriptors, online_cpus, policy};
use crate::board::{LINES_PER_CPU, Stamps};
use crate::host::{Files, Rights};
use crate::probe::{ProbeError, RefusedService, Request, check_number};

pub(crate) fn check(cpus: &CpuList, period: Nanos) -> Result<(), ProbeError> {
    let (online, allowed) = (online_cpus(), allowed_cpus());
    for &cpu in cpus.as_slice() {
        if !online.contains(cpu) {
            return Err(ProbeError::NoCpu(cpu.0, online));
        }
        if !allowed.contains(cpu) {
            return Err(ProbeError::ForbiddenCpu(cpu.0, allowed));
        }
    }
    let (shortest, longest) = ProbePlan::PERIODS;
    if period < shortest || period > longest {
        return Err(ProbeError::Period(period, shortest, longest));
    }
    Ok(())
}

/// Checks that every CPU has room for its lines, and a recording for all lines.
pub(super) fn check_lines(plans: &[CpuLines]) -> Result<(), ProbeError> {
    for plan in plans {
        let most = LINES_PER_CPU.min(MAX_FOLLOWERS + plan.lines.len() - plan.followers.len());
        if plan.lines.len() > most {
            return Err(ProbeError::TooManyLines(plan.lines.len(), most));
        }
    }
    check_number(plans.iter().map(|plan| plan.lines.len()).sum())
}

/// Checks that this process may have enough files open for the measurement.
pub(super) fn check_descriptors(plans: &[CpuLines]) -> Result<(), ProbeError> {
    let Some(first) = plans.first() else {
        return Ok(());
    };
    let (cpus, limit) = (plans.len(), descriptors::allow_all());
    let needed = descriptors::needed(cpus, first);
    if needed <= limit {
        Ok(())
    } else {
        Err(ProbeError::Descriptors {
            cpus,
            needed,
            limit,
        })
    }
}

/// Returns the requested stages. Removes service `irq`, which is a stage, from the request if
/// that stage is excluded.
pub(super) fn stamps_of(request: &mut Request) -> Result<Stamps, ProbeError> {
    let Some(stages) = &request.stages else {
        return Ok(Stamps::default());
    };
    let stamps = Stamps::from_stages(stages);
    if !stamps.has(Stage::Irq) {
        let is_asked = !request.optional.contains(&Service::Irq);
        if is_asked && request.services.contains(&Service::Irq) {
            return Err(ProbeError::Service {
                service: Service::Irq,
                reason: "its stage is excluded".into(),
                remedy: "add irq to the stages, or remove it from the services".into(),
            });
        }
        request.services.retain(|&service| service != Service::Irq);
    }
    Ok(stamps)
}

/// Removes the services that are not available, or returns an error if the user named them.
/// Tracepoints provide the stage `irq` of threads.
pub(super) fn keep_possible(
    request: &mut Request,
    programs: Option<&Programs>,
    has_tracepoints: bool,
    caveats: &mut Vec<Caveat>,
) -> Result<(), ProbeError> {
    let mut kept = Vec::new();
    let mut refused = Vec::new();
    for &service in &request.services {
        let (obstacle, help) = match (service.is_thread(), programs) {
            (true, _) => match may_all_be_scheduled_as(service, request.cpus.len()) {
                Ok(()) => {
                    kept.push(service);
                    continue;
                }
                Err(err) if service == Service::Deadline => no_deadline(&err),
                Err(err) if err.kind() == io::ErrorKind::Unsupported => {
                    ((&err).into(), Help::OwnSlices)
                }
                Err(err) => refusal(&err, &Rights::read(&Files::default())),
            },
            (false, Some(programs)) if programs.gives(service) => {
                kept.push(service);
                continue;
            }
            (false, Some(programs)) => (
                Obstacle::System(programs.reason_against(service)),
                Help::Doctor,
            ),
            (false, None) if has_tracepoints && service == Service::Irq => {
                kept.push(service);
                continue;
            }
            (false, None) => (Obstacle::NoBpf, without_bpf()),
        };
        if !request.optional.contains(&service) {
            refused.push(RefusedService {
                service,
                reason: obstacle.to_string(),
                remedy: help.to_string(),
            });
            continue;
        }
        caveats.push(Caveat::new(
            CaveatKind::ServiceAbsent,
            format!("`{service}` is not measured: {obstacle}"),
            help.to_string(),
        ));
    }
    request.services = kept;
    match <[RefusedService; 1]>::try_from(refused) {
        Ok([one]) => Err(ProbeError::Service {
            service: one.service,
            reason: one.reason,
            remedy: one.remedy,
        }),
        Err(none) if none.is_empty() => Ok(()),
        Err(several) => Err(ProbeError::Services(several)),
    }
}

/// Returns the remedy if BPF programs are not available.
fn without_bpf() -> Help {
    if nix::unistd::geteuid().is_root() {
        Help::KernelWithBtf
    } else {
        Help::Rights
    }
}

/// Returns why a thread of laggard may not have a real-time policy, and the remedy.
pub fn refusal(err: &io::Error, rights: &Rights) -> (Obstacle, Help) {
    if rights.rt_group == Some(Nanos::ZERO) {
        return (Obstacle::NoRealTime, Help::ControlGroup);
    }
    let help = match (rights.priority, nix::unistd::geteuid().is_root()) {
        (0, true) => Help::CapSysNice,
        (0, false) => Help::PriorityLimit,
        (1.., _) => Help::LowerPriority,
    };
    let obstacle = match err.raw_os_error() {
        Some(libc::EPERM) if rights.priority > 0 => Obstacle::PriorityAbove(rights.priority),
        Some(libc::EPERM) => Obstacle::Policy,
        _ => err.into(),
    };
    (obstacle, help)
}

/// Returns why the kernel refuses a deadline thread of laggard, and the remedy. No limit of a
/// user allows deadline threads, so a process that passes the check of rights is root or has the
/// capability.
fn no_deadline(err: &io::Error) -> (Obstacle, Help) {
    let is_root = nix::unistd::geteuid().is_root();
    match (err.raw_os_error(), is_root) {
        (Some(libc::EBUSY), _) => (Obstacle::DeadlineBandwidth, Help::FewerDeadlines),
        (Some(libc::EPERM), false) => (Obstacle::Policy, Help::Rights),
        (Some(libc::EPERM), true) if allowed_cpus() != online_cpus() => {
            (Obstacle::DeadlineCpus, Help::AllCpus)
        }
        (Some(libc::EPERM), true) => (Obstacle::Policy, Help::CapSysNice),
        _ => (err.into(), Help::Doctor),
    }
}

/// Checks whether a thread on each of `cpus` CPUs may have the service's policy at the same time:
/// the kernel accepts deadline threads only up to a total bandwidth.
fn may_all_be_scheduled_as(service: Service, cpus: usize) -> io::Result<()> {
    /// The kernel releases the bandwidth of an ended thread after its period.
    const GIVEN_BACK: Duration = Duration::from_millis(5);
    if service != Service::Deadline {
        return may_be_scheduled_as(service);
    }
    // No thread ends before the last one was tried.
    let gate = RwLock::new(());
    let tried = std::thread::scope(|scope| {
        let (sender, results) = channel();
        let closed = gate.write();
        for _ in 0..cpus {
            let (gate, sender) = (&gate, sender.clone());
            policy::trial().spawn_scoped(scope, move || {
                // The caller receives the result, or is gone.
                let _ = sender.send(policy::schedule_as(service));
                drop(gate.read());
            })?;
        }
        drop(sender);
        let tried = results.iter().take(cpus).fold(Ok(()), io::Result::and);
        drop(closed);
        tried
    });
    std::thread::sleep(GIVEN_BACK);
    tried
}

/// Checks whether a thread of laggard may have the service's policy.
pub(crate) fn may_be_scheduled_as(service: Service) -> io::Result<()> {
    let service = match service.lent() {
        // The lender needs the right, and both need the futex.
        Some(priority) => {
            Loan::new()?;
            lender_service(priority)
        }
        None => service,
    };
    std::thread::scope(|scope| {
        policy::trial()
            .spawn_scoped(scope, || policy::schedule_as(service))?
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the trial thread panicked")))
    })
}

#[cfg(test)]
mod tests {
    use laggard_model::{Cpu, Every, LineId};

    use super::super::super::lines::Deferral;
    use super::*;

    fn plans(cpus: u32) -> Vec<CpuLines> {
        let services = [
            Service::Softirq,
            Service::Worker,
            Service::Fifo(90),
            Service::Fifo(50),
            Service::Other,
        ];
        let plan = |cpu| CpuLines::new(Cpu(cpu), &services, &Every::default(), Deferral::Callback);
        (0..cpus).map(plan).collect()
    }

    #[test]
    fn more_lines_than_a_recording_can_number_are_refused() {
        // Eight lines on each CPU.
        let most = u32::try_from(LineId::MOST / 8).unwrap();
        assert!(check_lines(&plans(most)).is_ok());

        let message = check_lines(&plans(most + 1)).unwrap_err().to_string();

        assert!(message.starts_with("65544 series ("), "{message}");
        assert!(
            message.contains("the maximum of 65536 in a recording"),
            "{message}"
        );
        assert!(
            message.ends_with("choose fewer CPUs or services"),
            "{message}"
        );
    }
}
