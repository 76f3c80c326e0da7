//! Builds the first screen from the other answers.

use std::collections::BTreeSet;

use laggard_model::{
    CauseClass, Caveat, CaveatKind, Cpu, LoadLabel, Nanos, Route, RowsOf, Service, Severity,
};

use super::{
    Conditions, First, Fit, Late, LateService, Measurement, MissingFits, OVERVIEW_SCHEMA, Overview,
    Subject, late,
};
use crate::Doubt;
use crate::load::Load;
use crate::qos::{Application, QosError, runs, today};
use crate::show::{RecordingReport, ServiceRow, representative_row};
use crate::trust::{Distrust, Trust};
use crate::why::{Explained, LateWakeups};

/// Shortest measurement with a share of overhead. In shorter ones, start and end dominate.
const MIN_FOR_OVERHEAD: Nanos = Nanos::from_ms(100);
/// Threads of the default plan. The second is an example of other real-time threads. It is hidden
/// if the first is shown.
const DEFAULT_THREADS: [Service; 3] = [Service::Fifo(90), Service::Fifo(50), Service::Other];

/// Input of an overview. All of it is from the same recording.
#[derive(Clone, Copy, Debug)]
pub struct OverviewInput<'a> {
    /// Figures of all CPUs together.
    pub report: &'a RecordingReport,
    /// Late wakeups with trace data; `None`: none were recorded.
    pub late: Option<&'a Explained<'a>>,
    /// Samples; `None`: they are missing.
    pub load: Option<&'a Load>,
    /// Application of the user; `None`: the profiles of the catalogue.
    pub application: Option<&'a Application>,
}

/// Builds the first screen of a recording.
pub fn overview(input: &OverviewInput<'_>) -> Overview {
    let report = input.report;
    let (fits, missing_fits) = fits(input);
    let lines = input.load.map(Load::lines).unwrap_or_default();
    let application = input.application;
    let service = application.and_then(|application| application.service);
    let main = match fits.first().filter(|_| application.is_some()) {
        Some(fit) => Some((fit.service, fit.route)),
        None => runs(service, lines)
            .or_else(|| representative_row(report).map(|row| (row.service, row.route))),
    };
    let scope = input.late.and_then(|late| late::scope(late, main));
    Overview {
        schema: OVERVIEW_SCHEMA,
        path: report.path.clone(),
        conditions: conditions(input),
        trust: report.trust.clone(),
        waiting: report.waiting.clone(),
        warnings: warnings(report, scope.as_ref().map(|scope| &scope.why)),
        is_for_application: application.is_some(),
        fits,
        missing_fits,
        subject: main.map(|(service, route)| Subject { service, route }),
        contexts: report.contexts.clone(),
        more_services: more_services(report, main),
        services: services(report, main),
        threshold_ns: input.late.and_then(|explained| {
            let series = scope.as_ref().map_or(main, late::Scope::series);
            late::threshold(explained, series)
        }),
        first: scope.as_ref().and_then(|scope| {
            First::new(
                scope,
                report,
                application.map(|application| application.slack_ns),
            )
        }),
        is_explained: input.late.is_some(),
        late: scope.as_ref().map(Late::new),
        measurement: measurement(input),
    }
}

fn fits(input: &OverviewInput<'_>) -> (Vec<Fit>, Option<MissingFits>) {
    // A measurement of deferred work while processes keep a CPU busy is not meant for an
    // application.
    if input.report.contexts.is_some() && input.application.is_none() {
        return (Vec::new(), None);
    }
    let Some(load) = input.load else {
        let missing = input.application.map(|_| MissingFits::NothingMeasured);
        return (Vec::new(), missing);
    };
    let fit = |application: &Application| {
        let line = runs(application.service, load.lines()).ok_or(QosError::NoThread)?;
        Fit::new(load, application, line)
    };
    if let Some(application) = input.application {
        return match fit(application) {
            Ok(fit) => (vec![fit], None),
            Err(error) => (
                Vec::new(),
                Some(MissingFits::new(&error, &application.name)),
            ),
        };
    }
    if !load.lines().iter().any(|line| line.0.is_thread()) {
        let missing = match input.report.plan.rows {
            RowsOf::Activations => MissingFits::WatchedThreads,
            RowsOf::Expiries | RowsOf::HandOvers { .. } | RowsOf::Waits { .. } | RowsOf::Traced => {
                MissingFits::NoThread
            }
        };
        return (Vec::new(), Some(missing));
    }
    let profiles = today().unwrap_or_default().into_iter();
    let (mut fits, missing) = divide(profiles.map(|profile| (fit(&profile), profile.name)));
    fits.sort_by_key(|fit| fit.application.slack_ns);
    (fits, missing)
}

/// Divides the verdicts from the applications without one. A missing thread is not reported
/// per application.
fn divide<T>(
    verdicts: impl Iterator<Item = (Result<T, QosError>, String)>,
) -> (Vec<T>, Option<MissingFits>) {
    let (mut fits, mut missing) = (Vec::new(), None);
    for (verdict, name) in verdicts {
        match (verdict, &mut missing) {
            (Ok(fit), _) => fits.push(fit),
            (Err(QosError::NoThread), _) => {}
            (Err(_), Some(missing)) => MissingFits::add(missing, name),
            (Err(error), none) => *none = Some(MissingFits::new(&error, &name)),
        }
    }
    (fits, missing)
}

impl MissingFits {
    fn new(error: &QosError, application: &str) -> Self {
        let applications = vec![application.to_owned()];
        match *error {
            QosError::NoThread => Self::NoThread,
            QosError::Input(_) => Self::OutOfRange { applications },
            QosError::TooShort { buffer, least, .. } => Self::TooShort {
                applications,
                buffer_ns: buffer,
                min_ns: least,
            },
        }
    }

    fn add(&mut self, application: String) {
        match self {
            Self::TooShort { applications, .. } | Self::OutOfRange { applications } => {
                applications.push(application);
            }
            Self::NothingMeasured | Self::NoThread | Self::WatchedThreads => {}
        }
    }
}

fn conditions(input: &OverviewInput<'_>) -> Conditions {
    let (report, host) = (input.report, &input.report.host);
    Conditions {
        duration_ns: report.duration_ns,
        started: report.started.clone(),
        state: report.state.clone(),
        backend: report.backend,
        load: LoadLabel::of(report.load.as_ref()),
        cpus: cpus(input),
        period_ns: report.plan.period_ns,
        kernel: host.kernel.clone(),
        preemption: host.preemption.clone(),
        hypervisor: host.hypervisor.clone(),
        processor: host.processor.model.clone(),
    }
}

fn cpus(input: &OverviewInput<'_>) -> usize {
    let runs = input.load.into_iter().flat_map(|load| &load.runs);
    let streams = runs.flat_map(|run| &run.streams);
    let cpus: BTreeSet<Cpu> = streams.map(|stream| stream.cpu).collect();
    cpus.len()
}

/// Returns what is missing from the recording, and the warnings that spoil the figures.
fn warnings(report: &RecordingReport, why: Option<&LateWakeups>) -> Vec<Doubt> {
    let is_stolen = why.is_some_and(|why| {
        let mut causes = why.causes.iter();
        causes.any(|row| row.cause.class == CauseClass::Stolen)
    });
    let is_rescheduled = |reason: &Distrust| matches!(reason, Distrust::Rescheduled { .. });
    let is_rescheduled = report.trust.reasons().iter().any(is_rescheduled);
    let is_bad = report.trust != Trust::Good;
    // The conditions, the causes and the distrust state these.
    let stated = [
        (CaveatKind::Stolen, is_stolen),
        (CaveatKind::Losses, is_bad),
        (CaveatKind::Overload, is_bad),
        (CaveatKind::Rescheduled, is_rescheduled),
    ];
    let is_stated = |caveat: &Caveat| {
        caveat.kind.severity() != Severity::Spoils || stated.contains(&(caveat.kind, true))
    };
    let missing = report.shortfalls.iter();
    let missing = missing.filter(|shortfall| !shortfall.is_of_end());
    let spoilt = report.caveats.iter().filter(|caveat| !is_stated(caveat));
    let missing = missing.cloned().map(Doubt::Missing);
    missing.chain(spoilt.cloned().map(Doubt::Caveat)).collect()
}

/// Counts the series that the first screen leaves out.
fn more_services(report: &RecordingReport, main: Option<(Service, Route)>) -> usize {
    let rows = report.services.iter();
    let rows = rows.filter(|row| row.cpu.is_none() && row.minute.is_none());
    rows.count() - services(report, main).len()
}

/// Returns the main series: each service by its direct route if it has two.
fn services(report: &RecordingReport, main: Option<(Service, Route)>) -> Vec<LateService> {
    let rows = || {
        report.services.iter().filter(|row| {
            row.cpu.is_none()
                && row.minute.is_none()
                && (row.route == Route::Direct || !row.service.is_thread())
        })
    };
    let threads: Vec<Service> = rows()
        .map(|row| row.service)
        .filter(|service| service.is_thread())
        .collect();
    let is_default = threads == DEFAULT_THREADS;
    let is_shown = |row: &&ServiceRow| {
        let is_second = is_default && row.service == DEFAULT_THREADS[1];
        !is_second || main == Some((row.service, row.route))
    };
    let mut shown: Vec<LateService> = rows().filter(is_shown).map(LateService::new).collect();
    // In the order of the wakeup path. A kworker comes after the softirqs.
    let urgency = |row: &LateService| {
        if row.service == Service::Worker {
            Service::Softirq.rank()
        } else {
            row.service.rank()
        }
    };
    shown.sort_by_key(urgency);
    shown
}

impl LateService {
    fn new(row: &ServiceRow) -> Self {
        let share = |q: f64| row.latency.share(q).copied().unwrap_or_default();
        Self {
            service: row.service,
            route: row.route,
            samples: row.latency.samples,
            median: share(0.5),
            p99: share(0.99),
            p999: share(0.999),
            max_ns: row.latency.largest_ns,
            max_is_at_least: row.latency.largest_is_at_least,
        }
    }
}

fn measurement(input: &OverviewInput<'_>) -> Measurement {
    let report = input.report;
    let rows = report.services.iter().filter(|row| row.service.has_lines());
    let (cost, cpus) = (&report.cost, cpus(input));
    let share = cost.total().as_secs_f64() / cost.wall_ns.as_secs_f64() / cpus.max(1) as f64;
    Measurement {
        samples: rows.map(|row| row.latency.samples).sum(),
        lost: report.losses.activations(),
        overhead: (cost.wall_ns >= MIN_FOR_OVERHEAD && cpus > 0).then_some(share),
        warnings: report.caveats.len() + report.doubts.len() + report.shortfalls.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_that_cannot_be_replayed_are_listed_with_the_reason() {
        let too_short = || QosError::TooShort {
            buffer: Nanos::from_us(667),
            service: Service::Fifo(90),
            jobs: 300_000_000,
            least: Nanos::from_ms(1),
        };
        let verdicts = [
            (Ok(1), "jack-512".to_owned()),
            (Err(QosError::NoThread), "softirq-only".to_owned()),
            (Err(too_short()), "jack-32".to_owned()),
            (Err(too_short()), "ethercat-1ms".to_owned()),
        ];

        let (fits, missing) = divide(verdicts.into_iter());

        assert_eq!(fits, [1]);
        assert_eq!(
            missing.unwrap(),
            MissingFits::TooShort {
                applications: vec!["jack-32".into(), "ethercat-1ms".into()],
                buffer_ns: Nanos::from_us(667),
                min_ns: Nanos::from_ms(1),
            }
        );
    }
}
