//! Where activations come from: what a request means, and what every source can
//! do, whatever it measures with.

use std::fmt::Debug;
use std::path::PathBuf;

use laggard_model::{
    Account, Backend, Batch, Caveat, CpuList, Line, LineId, Losses, Nanos, ProgramCost, Service,
    Tid,
};

use crate::probe::{Drive, ProbeError, Request};

/// One source of activations, ready to begin.
///
/// Order of calls: `start`, `warm_up`, `begin`, then `drain` (and `begin`, to
/// begin anew) as often as wanted, `end_at`, `is_at_rest` until it is or nobody
/// waits any more, `settle`, one last `drain`.
pub trait Source: Debug {
    /// What its stages come from.
    fn backend(&self) -> Backend;

    /// The lines that it measures, one after the other.
    fn lines(&self) -> &[Line];

    /// Begins to measure, with the first expiry after `at`. `first`: the number
    /// of the first of its lines.
    ///
    /// # Errors
    /// When something cannot be started.
    fn start(&mut self, at: Nanos, first: LineId) -> Result<(), ProbeError>;

    /// Runs, from `at` on, for as long as it takes to do as it will do later.
    fn warm_up(&mut self, _at: Nanos) {}

    /// Records and counts what is due from `from` on, and nothing that was
    /// before.
    fn begin(&mut self, from: Nanos);

    /// Appends what has come since the last call, line by line in order; after
    /// `settle`, all that is left.
    fn drain(&mut self, into: &mut Batch);

    /// Records nothing that is due from `until` on.
    fn end_at(&mut self, until: Nanos);

    /// Whether all that was due before the end has been served.
    fn is_at_rest(&mut self) -> bool;

    /// Ends, and puts back what was set. Whatever has not been served by now,
    /// `given_up`, is given up, and will be drained as such.
    fn settle(&mut self, given_up: Nanos);

    /// What became of each line's plan, complete after the last drain.
    fn accounts(&self) -> Vec<Account>;

    /// Reasons to doubt that showed while preparing or measuring.
    fn caveats(&self) -> Vec<Caveat>;

    /// What has been lost and is in no account yet.
    fn unsettled(&self) -> Losses {
        Losses::default()
    }

    /// When it gave up by itself, because it took so much that what came could
    /// not be collected.
    fn given_up(&self) -> Option<Nanos> {
        None
    }

    /// Why it gave up, where that is another reason.
    fn failure(&self) -> Option<String> {
        None
    }

    /// The thread that is the service of a line, by its place in `lines`.
    fn thread_of(&self, _line: usize) -> Option<Tid> {
        None
    }

    /// Where programs can see what is due.
    #[cfg(target_os = "linux")]
    fn board(&self) -> Option<crate::board::BoardMaps> {
        None
    }

    /// What measuring takes, as it was tried out: a share of the time of its
    /// CPUs.
    fn price(&self) -> Option<f64> {
        None
    }

    /// CPU time of its measuring threads so far.
    fn measuring_cpu(&self) -> Nanos {
        Nanos::ZERO
    }

    /// CPU time so far of those that compute all the time beside the load, which is
    /// no cost of measuring.
    fn competing_cpu(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Page faults of its measuring threads that have ended.
    fn faults(&self) -> u64 {
        0
    }

    /// What its programs cost in `wall`, the time recorded.
    fn programs(&self, _wall: Nanos) -> Vec<ProgramCost> {
        Vec::new()
    }
}

/// One source that a request means, before anything of it is opened.
#[derive(Clone, Debug)]
pub enum SourcePlan {
    /// Threads, softirqs and work items of ours, on timers.
    Timer(Request),
    /// A thread of ours that waits for the interrupt of this device.
    Uio(Request, PathBuf),
    /// The kernel's timerlat tracer, with threads of its own.
    Tracer {
        /// Where it has one.
        cpus: CpuList,
        /// How often each runs.
        period: Nanos,
    },
}

/// Why there is no tracer.
pub fn no_tracer(reason: impl ToString) -> ProbeError {
    ProbeError::Service {
        service: Service::Kthread,
        reason: reason.to_string(),
        remedy: "it needs root, tracefs, and the kernel's timerlat tracer (CONFIG_TIMERLAT_TRACER=y) for itself; `laggard doctor` says what is there".into(),
    }
}

/// The sources that a request means, in the order of their lines.
///
/// # Errors
/// When no source gives what is asked for together.
pub fn plan(mut request: Request) -> Result<Vec<SourcePlan>, ProbeError> {
    if matches!(request.drive, Drive::Uio(_)) && request.is_unasked() {
        // All that may be used count as not asked.
        request.services = vec![Service::Fifo(90)];
    }
    let watched = request
        .services
        .iter()
        .find(|one| matches!(one, Service::Task(_) | Service::Traced(_)));
    if let Some(&service) = watched {
        return Err(ProbeError::Service {
            service,
            reason: "it is a thread of another program".into(),
            remedy: "`laggard attach` watches such".into(),
        });
    }
    let is_of_windows = |one: &&Service| {
        matches!(
            one,
            Service::Realtime(_) | Service::Mmcss | Service::Dpc | Service::SystemThread(_)
        )
    };
    if let Some(&service) = request.services.iter().find(is_of_windows) {
        return Err(ProbeError::Service {
            service,
            reason: "it is a service of Windows".into(),
            remedy: "use fifo:1 to fifo:99, softirq or kthread".into(),
        });
    }
    let (of_tracer, of_threads): (Vec<Service>, Vec<Service>) = request
        .services
        .iter()
        .partition(|&&service| service == Service::Kthread);
    let tracer = (!of_tracer.is_empty()).then(|| SourcePlan::Tracer {
        cpus: request.cpus.clone(),
        period: request.period,
    });
    request.services = of_threads;
    let is_alone = request.services.is_empty() && tracer.is_some();
    let threads = match (request.drive.clone(), &tracer) {
        (Drive::Wait(api), _) => {
            return Err(ProbeError::System {
                action: format!("wait by {}, a timer of Windows", api.name()),
                remedy: "leave `--source` out".into(),
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
            .map(|one| one.parse().unwrap())
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

    /// The sources of a request, each with its services.
    fn planned(services: &str, drive: Drive, optional: bool) -> Result<Vec<String>, String> {
        let plan = plan(request(services, drive, optional)).map_err(|err| err.to_string())?;
        let words = |one: SourcePlan| match one {
            SourcePlan::Timer(request) => format!("timer {:?}", request.services),
            SourcePlan::Uio(request, device) => {
                format!("{} {:?}", device.display(), request.services)
            }
            SourcePlan::Tracer { cpus, period } => format!("tracer {cpus} {period}"),
        };
        Ok(plan.into_iter().map(words).collect())
    }

    #[test]
    fn every_service_has_the_source_that_gives_it() {
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
                &["timer [Other]", "tracer 0-1 1ms"],
            ),
            ("kthread", Drive::Timer, false, &["tracer 0-1 1ms"]),
            ("other", device(), false, &["/dev/uio0 [Other]"]),
            // By default there are more than one thread can be.
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
    fn a_tracer_does_not_wait_for_a_device() {
        let drive = Drive::Uio("/dev/uio0".into());

        let said = planned("kthread", drive, false).unwrap_err();

        assert!(said.contains("wait for timers, not for a device"), "{said}");
    }
}
