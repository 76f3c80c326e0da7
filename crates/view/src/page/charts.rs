//! What the page draws besides the figures. Columns instead of rows: a page
//! with many points stays small.

use std::collections::BTreeSet;

use laggard_answer::course::CourseView;
use laggard_answer::overview::Overview;
use laggard_answer::show::{
    HistogramView, RecordingReport, ServiceRow, foremost, leading, named_losses,
};
use laggard_answer::why::{self, Explained};
use laggard_model::name::line_name;
use laggard_model::{Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::causes::{CausesView, causes};
use crate::advice::{Advice, advice};
use crate::doc::{Detail, Document};
use crate::overview::document;
use crate::phrase::show as phrase;
use crate::why::handlers;

/// Number of handlers in each table of the page.
const MAX_HANDLERS: usize = 20;

/// What the page draws of one recording.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Charts {
    /// First screen of the recording.
    pub summary: Document,
    /// Facts about deferred work beside busy processes.
    pub contexts: Vec<String>,
    /// What to do, the most important first.
    pub advice: Vec<Advice>,
    /// With what it was measured, and what that sees.
    pub measured_with: String,
    /// From where its latencies are counted, in words.
    pub beginning: &'static str,
    /// To where they are counted.
    pub ending: &'static str,
    /// The names of its services by the ways they are reached.
    pub lines: Vec<LineView>,
    /// The service that stands for all, by name; absent where nothing was
    /// recorded.
    pub foremost: Option<String>,
    /// The services that are drawn at first, by name.
    pub leading: Vec<String>,
    /// Activations that are in no figure.
    pub lost: u64,
    /// Every reason for a loss, in words.
    pub losses: Vec<LossView>,
    /// The services, CPU by CPU.
    pub by_cpu: Vec<ServiceRow>,
    /// Their counts of latencies.
    pub by_cpu_histograms: Vec<HistogramView>,
    /// Latency over time, by service.
    pub courses: Vec<CourseView>,
    /// Causes of late wakeups. Absent: the recording has no episodes.
    pub causes: Option<CausesView>,
    /// Handlers that the kernel ran outside threads. Absent: they were not counted.
    pub handlers: Option<Document>,
}

/// A service that is reached by one way.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LineView {
    /// The service.
    pub service: Service,
    /// The way.
    pub route: Route,
    /// Both in one name.
    pub name: String,
}

/// How often something was lost for one reason.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LossView {
    /// The reason, in words.
    pub words: String,
    /// Activations that were lost for it.
    pub times: u64,
}

/// What the page draws of a recording: `report` has its CPUs together,
/// `by_cpu` apart; `late` is what explains its episodes, `overview` its answer in
/// short.
pub fn charts(
    report: &RecordingReport,
    by_cpu: RecordingReport,
    courses: Vec<CourseView>,
    late: Option<&Explained<'_>>,
    overview: &Overview,
) -> Charts {
    let causes = late.map(causes);
    let first_late = causes.as_ref().and_then(|causes| causes.why.series.first());
    let name = |(service, route)| line_name(service, route);
    let losses = named_losses(&report.losses).map(|(words, times)| LossView {
        words: words.into(),
        times,
    });
    Charts {
        summary: document(overview, Detail::Full),
        contexts: report.contexts.iter().flat_map(phrase::contexts).collect(),
        advice: advice(report, first_late),
        measured_with: phrase::measured_with(report),
        beginning: phrase::start(report),
        ending: phrase::end(report),
        lines: lines(report),
        foremost: foremost(report).map(name),
        leading: leading(report).into_iter().map(name).collect(),
        lost: report.losses.activations(),
        losses: losses.collect(),
        by_cpu: by_cpu.services,
        by_cpu_histograms: by_cpu.histograms,
        courses,
        causes,
        handlers: late.and_then(|late| Some(handlers(&why::handlers(late.late)?, MAX_HANDLERS))),
    }
}

/// The lines that a report tells of, each once.
fn lines(report: &RecordingReport) -> Vec<LineView> {
    let ran = report.services.iter().map(|row| (row.service, row.route));
    let waiting = report.waiting.iter().map(|one| (one.service, one.route));
    let all: BTreeSet<(Service, Route)> = ran.chain(waiting).collect();
    let view = |(service, route)| LineView {
        service,
        route,
        name: line_name(service, route),
    };
    all.into_iter().map(view).collect()
}
