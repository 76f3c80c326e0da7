//! What of a request this system has: its CPUs, its period, its timers and its services.

use laggard_model::{Caveat, CaveatKind, ProbePlan, Service, TimerApi};

use super::priority::RealtimeClass;
use super::processors::allowed_cpus;
use laggard_measure::probe::{ProbeError, RefusedService, Request};

/// As many as winmm has for a process at once.
const MULTIMEDIA_TIMERS: usize = 16;

/// What of a request is out of range.
pub(super) fn check(request: &Request) -> Result<(), ProbeError> {
    let allowed = allowed_cpus();
    for &cpu in request.cpus.as_slice() {
        if !allowed.contains(cpu) {
            return Err(ProbeError::NoCpu(cpu.0, allowed));
        }
    }
    let (shortest, longest) = ProbePlan::PERIODS;
    if request.period < shortest || request.period > longest {
        return Err(ProbeError::Period(request.period, shortest, longest));
    }
    Ok(())
}

/// Refuses what Windows has too few timers for: the thread that got none would else end
/// the recording in its midst.
pub(super) fn check_timers(api: TimerApi, threads: usize) -> Result<(), ProbeError> {
    if api != TimerApi::TimeSetEvent || threads <= MULTIMEDIA_TIMERS {
        return Ok(());
    }
    Err(ProbeError::System {
        action: format!(
            "have {threads} threads (one for each service on each CPU) wait by {}",
            api.name()
        ),
        remedy: format!(
            "Windows gives a process {MULTIMEDIA_TIMERS} such timers: choose fewer CPUs or services, or another `--source`"
        ),
        said: None,
    })
}

/// The least priority of the real-time class, at which what measures nothing runs.
const OWN: u8 = Service::REALTIME.0;

/// Drops the services that cannot be had, or refuses where they were asked for by
/// name. Takes the class that they need.
#[allow(clippy::wildcard_enum_match_arm, reason = "the others are Linux's")]
pub(super) fn keep_possible(
    request: &mut Request,
    caveats: &mut Vec<Caveat>,
) -> Result<Option<RealtimeClass>, ProbeError> {
    let is_realtime = |one: &Service| matches!(one, Service::Realtime(_));
    let wants_class = request.services.iter().any(is_realtime);
    let class = wants_class.then(RealtimeClass::take).transpose();
    let has_class = matches!(class, Ok(Some(_)));
    let mut refused = Vec::new();
    request.services.retain(|&service| {
        let (reason, remedy) = match service {
            Service::Realtime(OWN) if has_class => (
                "laggard collects and writes at this priority, and takes turns with it",
                "use realtime:17 to realtime:31",
            ),
            Service::Realtime(_) if has_class => return true,
            Service::Other | Service::Mmcss if !has_class => return true,
            Service::Realtime(_) => (
                "Windows does not let this process have the real-time class",
                "run as an administrator, who has the right to increase priorities",
            ),
            Service::Other => (
                "all threads of a process of the real-time class are real-time ones",
                "record it apart, with --services other",
            ),
            Service::Mmcss => (
                "all threads of a process of the real-time class have such priorities, with MMCSS or without",
                "record it apart, with --services mmcss,other",
            ),
            _ => (
                "there is no such service on Windows",
                "use realtime:17 to realtime:31, mmcss, other, or with the driver dpc and kthread:16 to kthread:31",
            ),
        };
        refused.push(RefusedService {
            service,
            reason: reason.into(),
            remedy: remedy.into(),
        });
        false
    });
    let (left_out, named): (Vec<_>, Vec<_>) = refused
        .into_iter()
        .partition(|one| request.optional.contains(&one.service));
    caveats.extend(left_out.into_iter().map(|one| {
        Caveat::new(
            CaveatKind::ServiceAbsent,
            format!("`{}` is not measured: {}", one.service, one.reason),
            one.remedy,
        )
    }));
    match <[RefusedService; 1]>::try_from(named) {
        Ok([one]) => Err(ProbeError::Service {
            service: one.service,
            reason: one.reason,
            remedy: one.remedy,
        }),
        Err(none) if none.is_empty() => match request.services.is_empty() {
            true => Err(ProbeError::NoService),
            false => Ok(class.ok().flatten()),
        },
        Err(several) => Err(ProbeError::Services(several)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_windows_has_multimedia_timers_for_are_refused_at_the_start() {
        let said = check_timers(TimerApi::TimeSetEvent, 17).unwrap_err();

        assert_eq!(
            said.to_string(),
            "cannot have 17 threads (one for each service on each CPU) wait by timeSetEvent; Windows gives a process 16 such timers: choose fewer CPUs or services, or another `--source`"
        );
        assert!(check_timers(TimerApi::TimeSetEvent, 16).is_ok());
        assert!(check_timers(TimerApi::HighResTimer, 17).is_ok());
    }
}
