//! What the page draws besides the figures. Columns instead of rows: a page
//! with many points stays small.

use laggard_answer::advice::{Advice, advice};
use laggard_answer::course::CourseView;
use laggard_answer::show::{HistogramView, RecordingReport, ServiceRow};
use laggard_answer::why::Explained;
use schemars::JsonSchema;
use serde::Serialize;

use super::causes::{CausesView, causes};

/// What the page draws of one recording.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Charts {
    /// What to do, the most important first.
    pub advice: Vec<Advice>,
    /// The services, CPU by CPU.
    pub by_cpu: Vec<ServiceRow>,
    /// Their counts of latencies.
    pub by_cpu_histograms: Vec<HistogramView>,
    /// Latency over time, by service.
    pub courses: Vec<CourseView>,
    /// Who made activations late, where the recording has episodes.
    pub causes: Option<CausesView>,
}

/// What the page draws of a recording: `report` has its CPUs together,
/// `by_cpu` apart; `late` is what explains its episodes.
pub fn charts(
    report: &RecordingReport,
    by_cpu: RecordingReport,
    courses: Vec<CourseView>,
    late: Option<&Explained<'_>>,
) -> Charts {
    let causes = late.map(causes);
    Charts {
        advice: advice(report, causes.as_ref().map(|causes| &causes.why)),
        by_cpu: by_cpu.services,
        by_cpu_histograms: by_cpu.histograms,
        courses,
        causes,
    }
}
