//! Sources of activations: the sources of a request, and their common interface.

use std::fmt::Debug;
use std::path::PathBuf;

use laggard_model::{
    Account, Backend, Batch, Caveat, CpuList, Line, LineId, Losses, Nanos, ProgramCost, Service,
    Tid,
};

use crate::probe::{Drive, ProbeError, Request};

/// Source of activations that is ready to start.
///
/// Order of calls: `start`, `warm_up`, `begin`, then any number of `drain` (and `begin`, to
/// restart), `end_at`, `is_at_rest` until it returns true or the wait is over, `settle`, one last
/// `drain`.
pub trait Source: Debug {
    /// Returns the backend that provides its stages.
    fn backend(&self) -> Backend;

    /// Returns the lines that it measures, in order.
    fn lines(&self) -> &[Line];

    /// Starts to measure, with the first expiry after `now`. `first` is the number of the first of
    /// its lines.
    ///
    /// # Errors
    ///
    /// Returns an error if something cannot be started.
    fn start(&mut self, now: Nanos, first: LineId) -> Result<(), ProbeError>;

    /// Runs from `now` until the measurement is in a steady state.
    fn warm_up(&mut self, _now: Nanos) {}

    /// Records and counts only expiries from `from`.
    fn begin(&mut self, from: Nanos);

    /// Appends all activations since the last call, line by line in order; after `settle`, all
    /// remaining activations.
    fn drain(&mut self, into: &mut Batch);

    /// Records no expiry from `until`.
    fn end_at(&mut self, until: Nanos);

    /// Returns whether everything that was due before the end has been served.
    fn is_at_rest(&mut self) -> bool;

    /// Ends, and restores settings. Expiries that have not been served at `given_up`, which is
    /// now, are given up and drained as missed.
    fn settle(&mut self, given_up: Nanos);

    /// Returns the account of each line's plan, complete after the last drain.
    fn accounts(&self) -> Vec<Account>;

    /// Returns warnings that arose during preparation or measurement.
    fn caveats(&self) -> Vec<Caveat>;

    /// Returns losses that are not in an account yet.
    fn unsettled(&self) -> Losses {
        Losses::default()
    }

    /// Returns when it gave up because the collector was starved.
    fn given_up(&self) -> Option<Nanos> {
        None
    }

    /// Returns why it gave up for another reason.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Returns the thread that is the service of a line, by its place in `lines`.
    fn thread_of(&self, _line: usize) -> Option<Tid> {
        None
    }

    /// Returns the maps with the next expiries for BPF programs.
    #[cfg(target_os = "linux")]
    fn board(&self) -> Option<crate::board::BoardMaps> {
        None
    }

    /// Makes its BPF programs record the activity of these CPUs, too. `None` if they cannot.
    #[cfg(target_os = "linux")]
    fn join_flight(&mut self, _cpus: &CpuList) -> Option<crate::linux::FlightRings> {
        None
    }

    /// Returns the cost of the measurement, as measured: a fraction of the time of its CPUs.
    fn price(&self) -> Option<f64> {
        None
    }

    /// Returns the CPU time of its measuring threads so far.
    fn measuring_cpu(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Returns the CPU time so far of threads that compute all the time in addition to the load.
    /// It is not overhead.
    fn competing_cpu(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Returns the page faults of its measuring threads that have ended.
    fn faults(&self) -> u64 {
        0
    }

    /// Returns the cost of its programs in `wall`, the recorded time.
    fn programs(&self, _wall: Nanos) -> Vec<ProgramCost> {
        Vec::new()
    }
}

/// Source of a request, before it is opened.
#[derive(Clone, Debug)]
pub enum SourcePlan {
    /// laggard's threads, softirqs and work items, on timers.
    Timer(Request),
    /// Thread of laggard that waits for the interrupt of this device.
    Uio(Request, PathBuf),
    /// The kernel's timerlat tracer with its threads.
    Tracer {
        cpus: CpuList,
        /// Period of each thread.
        period: Nanos,
        /// `SCHED_FIFO` priority of each thread.
        priority: u8,
    },
}

/// Returns the error that the tracer is not available.
pub fn no_tracer(reason: impl ToString) -> ProbeError {
    ProbeError::Service {
        service: Service::KTHREAD,
        reason: reason.to_string(),
        remedy: "run as root with tracefs and the kernel's timerlat tracer (CONFIG_TIMERLAT_TRACER=y), which no other program may use; see `laggard doctor`".into(),
    }
}

/// Returns the sources of a request in the order of their lines.
///
/// # Errors
///
/// Returns an error if no source provides the requested combination.
pub fn plan(mut request: Request) -> Result<Vec<SourcePlan>, ProbeError> {
    if matches!(request.drive, Drive::Uio(_)) && request.is_default() {
        // A request for all usable CPUs counts as no request.
        request.services = vec![Service::Fifo(90)];
    }
    let watched = request
        .services
        .iter()
        .find(|service| matches!(service, Service::Task(_) | Service::Traced(_)));
    if let Some(&service) = watched {
        return Err(ProbeError::Service {
            service,
            reason: "it is a thread of another program".into(),
            remedy: "use `laggard attach`".into(),
        });
    }
    let is_of_windows = |service: &&Service| {
        matches!(
            service,
            Service::Realtime(_) | Service::Mmcss | Service::Dpc | Service::SystemThread(_)
        )
    };
    if let Some(&service) = request.services.iter().find(is_of_windows) {
        return Err(ProbeError::Service {
            service,
            reason: "it is a service of Windows".into(),
            remedy: "use fifo:1 to fifo:99, softirq, kthread or kthread:32 to kthread:99".into(),
        });
    }
    let (of_tracer, of_threads): (Vec<Service>, Vec<Service>) = request
        .services
        .iter()
        .partition(|&&service| matches!(service, Service::Kthread(_)));
    if let [first, .., second] = of_tracer[..]
        && first != second
    {
        return Err(ProbeError::Service {
            service: second,
            reason: format!("the tracer's threads have one priority, and {first} another"),
            remedy: "make a recording for each".into(),
        });
    }
    let tracer = of_tracer.first().and_then(|&service| match service {
        Service::Kthread(priority) => Some(SourcePlan::Tracer {
            cpus: request.cpus.clone(),
            period: request.period,
            priority,
        }),
        _ => None,
    });
    request.services = of_threads;
    let is_alone = request.services.is_empty() && tracer.is_some();
    let threads = match (request.drive.clone(), &tracer) {
        (Drive::Wait(api), _) => {
            return Err(ProbeError::System {
                action: format!("wait with {}, a timer of Windows", api.name()),
                remedy: "omit `--source`".into(),
                said: None,
            });
        }
        (Drive::Uio(_), Some(_)) => {
            return Err(no_tracer(
                "the tracer's threads wait for timers, not for a device",
            ));
        }
        (Drive::Uio(device), None) => Some(SourcePlan::Uio(request, device)),
        (Drive::Timer, _) => (!is_alone).then_some(SourcePlan::Timer(request)),
    };
    Ok(threads.into_iter().chain(tracer).collect())
}

#[cfg(test)]
mod tests {
    use laggard_model::Every;

    use super::*;

    fn request(services: &str, drive: Drive, optional: bool) -> Request {
        let services: Vec<Service> = services
            .split(',')
            .map(|service| service.parse().unwrap())
            .collect();
        Request {
            cpus: "0-1".parse().unwrap(),
            optional: if optional {
                services.clone()
            } else {
                Vec::new()
            },
            services,
            period: Nanos::from_ms(1),
            every: Every::default(),
            dither: true,
            seed: 1,
            drive,
            stages: None,
            contexts: None,
        }
    }

    /// Returns the sources of a request, each with its services.
    fn planned(services: &str, drive: Drive, optional: bool) -> Result<Vec<String>, String> {
        let plan = plan(request(services, drive, optional)).map_err(|err| err.to_string())?;
        let words = |source: SourcePlan| match source {
            SourcePlan::Timer(request) => format!("timer {:?}", request.services),
            SourcePlan::Uio(request, device) => {
                format!("{} {:?}", device.display(), request.services)
            }
            SourcePlan::Tracer {
                cpus,
                period,
                priority,
            } => format!("tracer {cpus} {period} {priority}"),
        };
        Ok(plan.into_iter().map(words).collect())
    }

    #[test]
    fn every_service_has_the_source_that_provides_it() {
        let device = || Drive::Uio("/dev/uio0".into());
        for (services, drive, optional, sources) in [
            (
                "irq,other",
                Drive::Timer,
                false,
                &["timer [Irq, Other]"][..],
            ),
            (
                "other,kthread",
                Drive::Timer,
                false,
                &["timer [Other]", "tracer 0-1 1ms 95"],
            ),
            ("kthread", Drive::Timer, false, &["tracer 0-1 1ms 95"]),
            ("other", device(), false, &["/dev/uio0 [Other]"]),
            // By default there are several services, but only one thread can wait.
            (
                "irq,other,kthread",
                device(),
                true,
                &["/dev/uio0 [Fifo(90)]"],
            ),
        ] {
            let planned = planned(services, drive, optional).unwrap();

            assert_eq!(planned, sources, "for {services}");
        }
    }

    #[test]
    fn tracer_does_not_wait_for_a_device() {
        let drive = Drive::Uio("/dev/uio0".into());

        let message = planned("kthread", drive, false).unwrap_err();

        assert!(
            message.contains("wait for timers, not for a device"),
            "{message}"
        );
    }
}
