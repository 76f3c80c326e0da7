//! Checks of a request against this system: its CPUs, its period, its timers and its services.

use laggard_model::{Caveat, CaveatKind, ProbePlan, Service, TimerApi};

use super::priority::RealtimeClass;
use super::processors::allowed_cpus;
use laggard_measure::probe::{ProbeError, RefusedService, Request};

/// Maximum number of timers of winmm per process.
const MAX_MULTIMEDIA_TIMERS: usize = 16;

/// Checks the ranges of a request.
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

/// Refuses requests that need more timers than Windows has. Otherwise a thread without a timer
/// would end the recording while it runs.
pub(super) fn check_timers(api: TimerApi, threads: usize) -> Result<(), ProbeError> {
    if api != TimerApi::TimeSetEvent || threads <= MAX_MULTIMEDIA_TIMERS {
        return Ok(());
    }
    Err(ProbeError::System {
        action: format!(
            "use {} for {threads} threads (one per service and CPU)",
            api.name()
        ),
        remedy: format!(
            "Windows gives a process {MAX_MULTIMEDIA_TIMERS} such timers; choose fewer CPUs or services, or another `--source`"
        ),
        said: None,
    })
}

/// Lowest priority of the real-time class. Threads that do not measure run at this priority.
const OTHER_THREADS_PRIORITY: u8 = Service::REALTIME.0;

/// Removes the services that are not available, or returns an error if the user named them. Sets
/// the class that they need.
pub(super) fn keep_possible(
    request: &mut Request,
    caveats: &mut Vec<Caveat>,
) -> Result<Option<RealtimeClass>, ProbeError> {
    let is_realtime = |refused: &Service| matches!(refused, Service::Realtime(_));
    let wants_class = request.services.iter().any(is_realtime);
    let class = wants_class.then(RealtimeClass::take).transpose();
    let has_class = matches!(class, Ok(Some(_)));
    let mut refused = Vec::new();
    request.services.retain(|&service| {
        let (reason, remedy) = match service {
            Service::Realtime(OTHER_THREADS_PRIORITY) if has_class => (
                "laggard collects and writes at this priority and would compete with it",
                "use realtime:17 to realtime:31",
            ),
            Service::Realtime(_) if has_class => return true,
            Service::Other | Service::Mmcss if !has_class => return true,
            Service::Realtime(_) => (
                "Windows refuses this process the real-time class",
                "run as an administrator, with the right to increase priorities",
            ),
            Service::Other => (
                "in a process of the real-time class every thread is a real-time thread",
                "record it separately with --services other",
            ),
            Service::Mmcss => (
                "in a process of the real-time class every thread has a real-time priority, with or without MMCSS",
                "record it separately with --services mmcss,other",
            ),
            _ => (
                "Windows has no such service",
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
        .partition(|refused| request.optional.contains(&refused.service));
    caveats.extend(left_out.into_iter().map(|refused| {
        Caveat::new(
            CaveatKind::ServiceAbsent,
            format!("`{}` is not measured: {}", refused.service, refused.reason),
            refused.remedy,
        )
    }));
    match <[RefusedService; 1]>::try_from(named) {
        Ok([refused]) => Err(ProbeError::Service {
            service: refused.service,
            reason: refused.reason,
            remedy: refused.remedy,
        }),
        Err(none) if none.is_empty() => {
            if request.services.is_empty() {
                Err(ProbeError::NoService)
            } else {
                Ok(class.ok().flatten())
            }
        }
        Err(several) => Err(ProbeError::Services(several)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_multimedia_timers_are_refused_at_the_start() {
        let error = check_timers(TimerApi::TimeSetEvent, 17).unwrap_err();

        assert_eq!(
            error.to_string(),
            "cannot use timeSetEvent for 17 threads (one per service and CPU); Windows gives a process 16 such timers; choose fewer CPUs or services, or another `--source`"
        );
        assert!(check_timers(TimerApi::TimeSetEvent, 16).is_ok());
        assert!(check_timers(TimerApi::HighResTimer, 17).is_ok());
    }
}
