//! `laggard report`: a page for the browser that needs nothing else.
//!
//! The page (`web/`) is built beforehand and is in the program. Here the data
//! is put into it, as JSON in an element that is not executed.

mod causes;
mod charts;
mod flame;

use std::io::Read as _;

use laggard_answer::Report;
use laggard_answer::forecast::ForecastReport;
use laggard_answer::qos::{Application, LoadOutlook, QOS_SCHEMA, QosError, QosReport};
use laggard_answer::sched::SchedReport;
use schemars::JsonSchema;
use serde::Serialize;

use crate::doc::{Detail, Document, code};
use crate::{forecast, qos, sched};

pub use causes::{CausesView, ClassView, EpisodeView, SampleView, SliceView};
pub use charts::{Charts, LineView, LossView, charts};
pub use flame::FlameNode;

/// Compressed page. The repository contains the built page, because Node is not needed to
/// build the program.
const PAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/page.zlib"));

/// The element of the page that holds the data.
const PLACE: &str = r#"<script id="laggard-data" type="application/json">"#;

/// All that the page shows.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PageData {
    /// Answer of `laggard show --json` for the recordings.
    pub report: Report,
    /// Further data of the figures, per recording.
    pub charts: Vec<Charts>,
    /// Answer of `laggard forecast`; absent if the recordings have no wakeup.
    pub forecast: Option<ForecastPage>,
    /// Answers of `laggard qos`, one per application that the page offers.
    pub qos: Vec<QosPage>,
    /// Answers of `laggard sched` about the task set of the user, one per load.
    pub sched: Vec<SchedPage>,
}

/// Answer of `laggard forecast`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ForecastPage {
    /// Figures under each load.
    pub report: ForecastReport,
    /// Text that is always shown.
    pub short: Document,
    /// Text that is shown on request.
    pub full: Document,
}

impl ForecastPage {
    /// Creates the answer.
    pub fn new(report: ForecastReport) -> Self {
        Self {
            short: forecast::summary(&report),
            full: forecast::document(&report, Detail::Full),
            report,
        }
    }
}

/// Answer of `laggard sched` about one load.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SchedPage {
    /// The verdicts.
    pub report: SchedReport,
    /// Text of the section.
    pub document: Document,
}

impl SchedPage {
    /// Creates the answer.
    pub fn new(report: SchedReport) -> Self {
        Self {
            document: sched::document(&report, Detail::Full),
            report,
        }
    }
}

/// Answer of `laggard qos` for one application.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct QosPage {
    /// The application.
    pub application: Application,
    /// Figures under each load; empty if the application cannot be evaluated.
    pub loads: Vec<LoadOutlook>,
    /// Text below the figure.
    pub document: Document,
}

impl QosPage {
    /// Creates the answer, or a text with the reason why there is none.
    pub fn new(application: Application, loads: Result<Vec<LoadOutlook>, QosError>) -> Self {
        let report = loads.map(|loads| QosReport {
            schema: QOS_SCHEMA,
            application: application.clone(),
            loads,
        });
        match report {
            Ok(report) => Self {
                application,
                document: qos::document(&report, Detail::Full),
                loads: report.loads,
            },
            Err(error) => {
                let mut document = Document::new("");
                document.paragraph(format!(
                    "No answer for {}: {error}",
                    code(&application.name)
                ));
                Self {
                    application,
                    loads: Vec::new(),
                    document,
                }
            }
        }
    }
}

/// Reason why a page cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The data cannot be written as JSON.
    #[error("write the figures as JSON")]
    Json(#[source] serde_json::Error),
}

/// The page with its data: one file that asks the network for nothing.
///
/// # Errors
/// If the data cannot be written as JSON.
pub fn html(data: &PageData) -> Result<String, PageError> {
    let mut page = String::new();
    let read = flate2::read::ZlibDecoder::new(PAGE).read_to_string(&mut page);
    read.expect("the build compressed a text");
    let parts = page.split_once(PLACE);
    let (before, after) = parts.expect("the page has this element, as a test shows");
    let json = serde_json::to_string(data).map_err(PageError::Json)?;
    // A name in the data must not end the element: `</script>`, `<!--`.
    let json = json.replace('<', "\\u003c");
    Ok([before, PLACE, &json, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_answer::SHOW_SCHEMA;

    fn data(version: &str) -> PageData {
        PageData {
            report: Report {
                schema: SHOW_SCHEMA,
                version: version.into(),
                recordings: Vec::new(),
                overviews: Vec::new(),
            },
            charts: Vec::new(),
            forecast: None,
            qos: Vec::new(),
            sched: Vec::new(),
        }
    }

    #[test]
    fn no_text_of_the_data_can_end_its_element() {
        let hostile = "</script><script>alert(1)</script><!--";

        let page = html(&data(hostile)).unwrap();

        let (_, rest) = page.split_once(PLACE).unwrap();
        let (inner, _) = rest.split_once("</script>").unwrap();
        assert!(!inner.contains('<'), "{inner}");
        let json: serde_json::Value = serde_json::from_str(inner).unwrap();
        assert_eq!(json["report"]["version"], hostile);
    }
}
