//! `laggard report`: a page for the browser that needs nothing else.
//!
//! The page (`web/`) is built beforehand and is in the program. Here the data
//! is put into it, as JSON in an element that is not executed.

mod causes;
mod charts;
mod flame;

use laggard_answer::Report;
use laggard_answer::forecast::ForecastReport;
use laggard_answer::qos::BuffersView;
use laggard_answer::sched::SchedReport;
use schemars::JsonSchema;
use serde::Serialize;

use crate::text::ForecastTold;

pub use causes::{CausesView, ClassView, EpisodeView, ForemostWhy, SampleView, SliceView};
pub use charts::{Charts, LineView, LossView, charts};
pub use flame::FlameNode;

/// The built page; empty where it was not built.
const TEMPLATE: &str = include_str!(concat!(env!("OUT_DIR"), "/page.html"));

/// The element of the page that holds the data.
const PLACE: &str = r#"<script id="laggard-data" type="application/json">"#;

/// All that the page shows.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PageData {
    /// What `laggard show --json` says of the same recordings.
    pub report: Report,
    /// What the page draws besides, one entry per recording.
    pub charts: Vec<Charts>,
    /// What `laggard forecast --json` says of them; absent where they hold no
    /// activation, like the next.
    pub forecast: Option<ForecastReport>,
    /// What `laggard forecast` says of each load.
    pub forecast_told: Vec<ForecastTold>,
    /// What `laggard qos` would start from.
    pub buffers: Option<BuffersView>,
    /// What `laggard sched --json` says of the task set that was given, one
    /// entry per load.
    pub sched: Vec<SchedReport>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The program was built without it.
    #[error("the page is not built; run `make page`, build again, or use --markdown")]
    NotBuilt,
    /// The data has no JSON.
    #[error("write the figures as JSON")]
    Json(#[source] serde_json::Error),
}

/// The page with its data: one file that asks the network for nothing.
///
/// # Errors
/// When the program was built without the page.
pub fn html(data: &PageData) -> Result<String, PageError> {
    fill(TEMPLATE, data)
}

/// Whether the program was built with the page: to be asked before reading
/// recordings for it, which can take long.
///
/// # Errors
/// When it was not.
pub fn check() -> Result<(), PageError> {
    match TEMPLATE.contains(PLACE) {
        true => Ok(()),
        false => Err(PageError::NotBuilt),
    }
}

fn fill(template: &str, data: &PageData) -> Result<String, PageError> {
    let (before, after) = template.split_once(PLACE).ok_or(PageError::NotBuilt)?;
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
            forecast_told: Vec::new(),
            buffers: None,
            sched: Vec::new(),
        }
    }

    #[test]
    fn no_text_of_the_data_can_end_its_element() {
        let hostile = "</script><script>alert(1)</script><!--";
        let template = format!("<head>{PLACE}</script></head>");

        let page = fill(&template, &data(hostile)).unwrap();

        let inner = page
            .strip_prefix(&format!("<head>{PLACE}"))
            .and_then(|rest| rest.strip_suffix("</script></head>"))
            .unwrap();
        assert!(!inner.contains('<'), "{inner}");
        let json: serde_json::Value = serde_json::from_str(inner).unwrap();
        assert_eq!(json["report"]["version"], hostile);
    }

    #[test]
    fn a_program_without_the_page_says_what_to_do() {
        assert_eq!(
            fill("", &data("1")).unwrap_err().to_string(),
            "the page is not built; run `make page`, build again, or use --markdown"
        );
    }
}
