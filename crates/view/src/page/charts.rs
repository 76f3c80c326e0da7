//! Additional data of the report's figures. Columns instead of rows keep a report with many points
//! small.

use std::collections::BTreeSet;

use laggard_answer::course::CourseView;
use laggard_answer::overview::Overview;
use laggard_answer::show::{
    HistogramView, RecordingReport, ServiceRow, foremost, leading, named_losses,
};
use laggard_answer::why::{self, Explained};
use laggard_model::name::series_words;
use laggard_model::{Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::causes::{CausesView, causes};
use crate::advice::{Advice, advice};
use crate::doc::{Detail, Document};
use crate::overview::document;
use crate::phrase::show as phrase;
use crate::phrase::trust;
use crate::why::handlers;

/// Number of handlers in each table of the page.
const MAX_HANDLERS: usize = 20;

/// Figures of one recording.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Charts {
    /// First screen of the recording.
    pub summary: Document,
    /// Facts about deferred work while busy processes run.
    pub contexts: Vec<String>,
    /// Recommendations, most important first.
    pub advice: Vec<Advice>,
    /// Measuring method and its resolution.
    pub measured_with: String,
    /// Start of its latencies, in words.
    pub beginning: &'static str,
    /// End of its latencies, in words.
    pub ending: &'static str,
    /// Names of its services by route.
    pub lines: Vec<LineView>,
    /// Name of the main service; absent if nothing was recorded.
    pub foremost: Option<String>,
    /// Names of the services that are drawn by default.
    pub leading: Vec<String>,
    /// Lost wakeups, which are in no figure.
    pub lost: u64,
    /// Losses per reason.
    pub losses: Vec<LossView>,
    /// Figures of the services per CPU.
    pub by_cpu: Vec<ServiceRow>,
    /// Histograms of the services per CPU.
    pub by_cpu_histograms: Vec<HistogramView>,
    /// Latency over time, per service.
    pub courses: Vec<CourseView>,
    /// Causes of late wakeups. Absent: the recording has no episodes.
    pub causes: Option<CausesView>,
    /// Missing and damaged parts of the recording.
    pub missing: Vec<String>,
    /// Problems of the measurement that do not invalidate the figures.
    pub doubts: Vec<String>,
    /// Handlers that the kernel ran outside threads. Absent: they were not counted.
    pub handlers: Option<Document>,
}

/// Service with its route.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LineView {
    /// The service.
    pub service: Service,
    /// The way.
    pub route: Route,
    /// Name of service and route.
    pub name: String,
}

/// Number of losses for one reason.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LossView {
    /// Reason in words.
    pub words: String,
    /// Number of lost wakeups.
    pub times: u64,
}

/// Creates the figures of a recording. `report` combines its CPUs, `by_cpu` separates them. `late`
/// explains its episodes, and `overview` is its short answer.
pub fn charts(
    report: &RecordingReport,
    by_cpu: RecordingReport,
    courses: Vec<CourseView>,
    late: Option<&Explained<'_>>,
    overview: &Overview,
) -> Charts {
    let causes = late.map(causes);
    let first_late = causes.as_ref().and_then(|causes| causes.why.series.first());
    let name = |(service, route)| series_words(service, route);
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
        missing: report.shortfalls.iter().map(trust::missing).collect(),
        doubts: report.doubts.iter().map(trust::reason).collect(),
        handlers: late.and_then(|late| Some(handlers(&why::handlers(late.late)?, MAX_HANDLERS))),
    }
}

/// Returns each line of a report once.
fn lines(report: &RecordingReport) -> Vec<LineView> {
    let ran = report.services.iter().map(|row| (row.service, row.route));
    let waiting = report.waiting.iter().map(|wait| (wait.service, wait.route));
    let series: BTreeSet<(Service, Route)> = ran.chain(waiting).collect();
    let view = |(service, route)| LineView {
        service,
        route,
        name: series_words(service, route),
    };
    series.into_iter().map(view).collect()
}
