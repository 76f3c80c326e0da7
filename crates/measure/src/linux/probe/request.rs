//! What of a request is possible on this machine.

use std::io;

use laggard_model::{Caveat, CaveatKind, Nanos, Service};

use super::super::board::LINES_PER_CPU;
use super::super::lines::CpuLines;
use super::super::programs::{MAX_FOLLOWERS, Programs};
use super::super::{online_cpus, policy};
use crate::probe::{ProbeError, Request};

/// Shortest and longest period.
const PERIODS: (Nanos, Nanos) = (Nanos::from_us(10), Nanos::from_secs(10));

pub(super) fn check(request: &Request) -> Result<(), ProbeError> {
    let online = online_cpus();
    if let Some(cpu) = request
        .cpus
        .as_slice()
        .iter()
        .find(|cpu| !online.contains(**cpu))
    {
        return Err(ProbeError::NoCpu(cpu.0, online));
    }
    if request.period < PERIODS.0 || request.period > PERIODS.1 {
        return Err(ProbeError::Period(request.period, PERIODS.0, PERIODS.1));
    }
    Ok(())
}

/// Whether every CPU has room for its lines, and something is measured at all;
/// `has_others`: besides the lines.
pub(super) fn check_lines(plans: &[CpuLines], has_others: bool) -> Result<(), ProbeError> {
    for plan in plans {
        let most = LINES_PER_CPU.min(MAX_FOLLOWERS + plan.lines.len() - plan.followers.len());
        if plan.lines.len() > most {
            return Err(ProbeError::TooManyLines(plan.lines.len(), most));
        }
    }
    if !has_others && plans.iter().all(|plan| plan.lines.is_empty()) {
        return Err(ProbeError::NoService);
    }
    Ok(())
}

/// Drops the services that cannot be had, or refuses where they were asked
/// for by name.
pub(super) fn keep_possible(
    request: &mut Request,
    programs: Option<&Programs>,
    caveats: &mut Vec<Caveat>,
) -> Result<(), ProbeError> {
    let mut kept = Vec::new();
    for &service in &request.services {
        let (reason, remedy) = match (service.is_thread(), programs) {
            (true, _) => match may_be_scheduled_as(service) {
                Ok(()) => {
                    kept.push(service);
                    continue;
                }
                Err(err) => (
                    err.to_string(),
                    "run as root, or raise the limit with `ulimit -r 99`",
                ),
            },
            (false, Some(programs)) if programs.gives(service) => {
                kept.push(service);
                continue;
            }
            (false, Some(programs)) => (
                programs.reason_against(service),
                "`laggard doctor` lists what this kernel allows",
            ),
            (false, None) => ("it needs BPF".into(), "run as root on a kernel with BTF"),
        };
        if !request.optional {
            return Err(ProbeError::Service {
                service,
                reason,
                remedy: remedy.into(),
            });
        }
        caveats.push(Caveat::new(
            CaveatKind::ServiceAbsent,
            format!("`{service}` is not measured: {reason}"),
            remedy,
        ));
    }
    request.services = kept;
    Ok(())
}

/// Whether a thread of ours may have the service's policy.
pub(crate) fn may_be_scheduled_as(service: Service) -> io::Result<()> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| policy::schedule_as(service))
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the trial thread panicked")))
    })
}
