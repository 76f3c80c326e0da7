//! From the other answers to the overview.

use std::collections::BTreeSet;

use laggard_model::{
    CauseClass, Caveat, CaveatKind, Cpu, LoadLabel, Nanos, Route, RowsOf, Service, Severity,
    UsagePattern,
};

use super::{
    Conditions, First, Fit, Late, LateService, Measurement, NextHour, OVERVIEW_SCHEMA, Overview,
    Subject, late,
};
use crate::forecast::next_hour;
use crate::load::Load;
use crate::qos::{Application, QosError, runs, today};
use crate::show::{RecordingReport, ServiceRow, representative_row, still_waiting};
use crate::trust::{Distrust, Trust};
use crate::why::{Explained, WhyReport};

/// Own cost of less time than this is no share: beginning and ending weigh more.
const LEAST_FOR_COST: Nanos = Nanos::from_ms(100);
/// The threads of the default plan. The second stands for other real-time
/// threads, and is not shown where the first is.
const DEFAULT_THREADS: [Service; 3] = [Service::Fifo(90), Service::Fifo(50), Service::Other];

/// What an overview is made of: all of the same recording.
#[derive(Clone, Copy, Debug)]
pub struct Grounds<'a> {
    /// Its figures, CPUs together.
    pub report: &'a RecordingReport,
    /// Its late activations; `None`: none were kept.
    pub late: Option<&'a Explained<'a>>,
    /// Its samples, and no other recording's; `None`: it holds no activation.
    pub load: Option<&'a Load>,
    /// The application that is asked about; `None`: those of the catalogue.
    pub asked: Option<&'a Application>,
}

/// The answer of a recording on one screen.
pub fn overview(seen: &Grounds<'_>) -> Overview {
    let report = seen.report;
    let (fits, unanswered) = fits(seen);
    let lines = seen.load.map(Load::lines).unwrap_or_default();
    let asked = seen.asked.map(|asked| asked.service);
    let main = match fits.first().filter(|_| asked.is_some()) {
        Some(fit) => Some((fit.service, fit.route)),
        None => runs(asked.flatten(), lines)
            .or_else(|| representative_row(report).map(|row| (row.service, row.route))),
    };
    let late = seen.late.and_then(|late| late::late(late, main));
    let why = late.as_ref().map(|(why, _)| why);
    Overview {
        schema: OVERVIEW_SCHEMA,
        path: report.path.clone(),
        conditions: conditions(seen),
        trust: report.trust.clone(),
        still_waiting: still_waiting(report),
        waiting: report.waiting.clone(),
        beware: beware(report, why),
        fits,
        unanswered,
        subject: main.map(|(service, route)| Subject { service, route }),
        contexts: report.contexts.clone(),
        more_services: more_services(report, main),
        services: services(report, main),
        threshold_ns: seen.late.and_then(|explained| {
            let of = match &late {
                Some((why, route)) => why.service.zip(*route),
                None => main,
            };
            late::threshold(explained, of)
        }),
        first: why.and_then(|why| First::of(why, report)),
        is_explained: seen.late.is_some(),
        late: late.as_ref().map(Late::of),
        next_hour: seen
            .load
            .zip(main)
            .and_then(|(load, main)| hour(load, main)),
        measurement: measurement(seen),
    }
}

fn fits(seen: &Grounds<'_>) -> (Vec<Fit>, Option<String>) {
    // Beside processes that take all of a CPU, and asked as seldom as there, no
    // application of the catalogue is meant.
    if seen.report.contexts.is_some() && seen.asked.is_none() {
        return (Vec::new(), None);
    }
    let Some(load) = seen.load else {
        let nothing = seen.asked.map(|_| "nothing was measured".into());
        return (Vec::new(), nothing);
    };
    let of = |application: &Application| {
        let line = runs(application.service, load.lines()).ok_or(QosError::NoThread)?;
        Fit::of(load, application, line)
    };
    match seen.asked {
        Some(asked) => match of(asked) {
            Ok(fit) => (vec![fit], None),
            Err(err) => (Vec::new(), Some(err.to_string())),
        },
        None => {
            let all = today().unwrap_or_default().into_iter();
            let (mut fits, refused) = apart(all.map(|one| (of(&one), one.name)));
            fits.sort_by_key(|one| one.application.slack_ns);
            let is_any = load.lines().iter().any(|line| line.0.is_thread());
            let why = match seen.report.plan.rows {
                RowsOf::Activations => {
                    "threads were watched as they are; `laggard attach` holds them against deadlines"
                }
                RowsOf::Expiries
                | RowsOf::HandOvers { .. }
                | RowsOf::Waits { .. }
                | RowsOf::Traced => "no thread that could run an application was measured",
            };
            let why = if is_any { refused } else { Some(why.into()) };
            (fits, why)
        }
    }
}

/// What is answered, and of which applications nothing is, with the first one's
/// reason. That no thread was measured is said of all together.
fn apart<T>(all: impl Iterator<Item = (Result<T, QosError>, String)>) -> (Vec<T>, Option<String>) {
    let (mut answered, mut names, mut reason) = (Vec::new(), Vec::new(), None);
    for (found, name) in all {
        match found {
            Ok(one) => answered.push(one),
            Err(QosError::NoThread) => {}
            Err(err @ (QosError::Input(_) | QosError::TooShort { .. })) => {
                names.push(name);
                reason.get_or_insert(err);
            }
        }
    }
    let refused = reason.map(|err| format!("{}: {err}", names.join(", ")));
    (answered, refused)
}

fn conditions(seen: &Grounds<'_>) -> Conditions {
    let (report, host) = (seen.report, &seen.report.host);
    Conditions {
        duration_ns: report.duration_ns,
        started: report.started.clone(),
        state: report.state.clone(),
        backend: report.backend,
        load: LoadLabel::of(report.load.as_ref()),
        cpus: cpus(seen),
        period_ns: report.plan.period_ns,
        kernel: host.kernel.clone(),
        preemption: host.preemption.clone(),
        hypervisor: host.hypervisor.clone(),
        processor: host.processor.model.clone(),
    }
}

fn cpus(seen: &Grounds<'_>) -> usize {
    let runs = seen.load.into_iter().flat_map(|load| &load.runs);
    let streams = runs.flat_map(|run| &run.streams);
    let cpus: BTreeSet<Cpu> = streams.map(|stream| stream.cpu).collect();
    cpus.len()
}

/// What is missing, and the caveats of the gravest kind.
fn beware(report: &RecordingReport, why: Option<&WhyReport>) -> Vec<Caveat> {
    let is_stolen = why.is_some_and(|why| {
        let mut causes = why.causes.iter();
        causes.any(|cause| cause.class == CauseClass::Stolen)
    });
    let is_rescheduled = match &report.trust {
        Trust::Good => false,
        Trust::None(reasons) => {
            let is_it = |one: &Distrust| matches!(one, Distrust::Rescheduled(_));
            reasons.iter().any(is_it)
        }
    };
    let is_bad = report.trust != Trust::Good;
    // By the conditions, the causes, or why it cannot be trusted.
    let told = [
        (CaveatKind::Unfinished, true),
        (CaveatKind::Stolen, is_stolen),
        (CaveatKind::Losses, is_bad),
        (CaveatKind::Overload, is_bad),
        (CaveatKind::Rescheduled, is_rescheduled),
    ];
    let is_told = |caveat: &Caveat| {
        caveat.kind.severity() != Severity::Spoils || told.contains(&(caveat.kind, true))
    };
    let missing = report.shortfalls.iter();
    let missing = missing.filter(|one| one.kind != CaveatKind::Unfinished);
    let spoilt = report.caveats.iter().filter(|one| !is_told(one));
    missing.chain(spoilt).cloned().collect()
}

/// Services by a route that the first screen leaves out.
fn more_services(report: &RecordingReport, main: Option<(Service, Route)>) -> usize {
    let rows = report.services.iter();
    let rows = rows.filter(|row| row.cpu.is_none() && row.minute.is_none());
    rows.count() - services(report, main).len()
}

/// The services that a person asks about: each the direct way, where there are
/// two.
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
    let mut shown: Vec<LateService> = rows().filter(is_shown).map(LateService::of).collect();
    // As they follow each other on the way: a work item is run by a thread, but
    // who asks for one asks the kernel.
    let urgency = |one: &LateService| {
        let is_worker = one.service == Service::Worker;
        if is_worker {
            Service::Softirq
        } else {
            one.service
        }
        .rank()
    };
    shown.sort_by_key(urgency);
    shown
}

impl LateService {
    fn of(row: &ServiceRow) -> Self {
        let share = |q: f64| row.latency.share(q).copied().unwrap_or_default();
        Self {
            service: row.service,
            route: row.route,
            samples: row.latency.samples,
            median: share(0.5),
            one_in_100: share(0.99),
            one_in_1000: share(0.999),
            largest_ns: row.latency.largest_ns,
            largest_is_at_least: row.latency.largest_is_at_least,
        }
    }
}

fn hour(load: &Load, (service, route): (Service, Route)) -> Option<NextHour> {
    let usage = load.usage().unwrap_or(UsagePattern::ALWAYS);
    let groups = load.runs.iter().flat_map(|run| &run.groups);
    let largest = groups
        .filter(|group| (group.key.service, group.key.route) == (service, route))
        .filter_map(|group| group.latency.histogram().max())
        .max()?;
    let waits = load.runs.iter().flat_map(|run| &run.waiting);
    // What cannot be told of an hour is not told.
    let ahead = next_hour(load, usage, (service, route)).ok()?;
    Some(NextHour {
        largest_ns: largest,
        largest_is_at_least: waits
            .into_iter()
            .any(|one| (one.service, one.route) == (service, route)),
        usage,
        ahead,
    })
}

fn measurement(seen: &Grounds<'_>) -> Measurement {
    let report = seen.report;
    let rows = report.services.iter().filter(|row| row.service.has_lines());
    let (cost, cpus) = (&report.cost, cpus(seen));
    let share = cost.total().as_secs_f64() / cost.wall_ns.as_secs_f64() / cpus.max(1) as f64;
    Measurement {
        activations: rows.map(|row| row.latency.samples).sum(),
        lost: report.losses.activations(),
        cost: (cost.wall_ns >= LEAST_FOR_COST && cpus > 0).then_some(share),
        caveats: report.caveats.len() + report.shortfalls.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_that_cannot_be_replayed_is_named_with_the_reason() {
        let too_short = || QosError::TooShort {
            buffer: Nanos::from_us(667),
            service: Service::Fifo(90),
            jobs: 300_000_000,
            least: Nanos::from_ms(1),
        };
        let all = [
            (Ok(1), "jack-512".to_owned()),
            (Err(QosError::NoThread), "softirq-only".to_owned()),
            (Err(too_short()), "jack-32".to_owned()),
            (Err(too_short()), "ethercat-1ms".to_owned()),
        ];

        let (answered, refused) = apart(all.into_iter());

        assert_eq!(answered, [1]);
        let refused = refused.unwrap();
        assert!(
            refused.starts_with(
                "jack-32, ethercat-1ms: buffers of 667us are too short to be replayed: `fifo:90` was"
            ),
            "{refused}"
        );
    }
}
