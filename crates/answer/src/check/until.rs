//! Evaluations while recording continues, until the requirements are decided.

use laggard_analyze::counts::{Looks, VerdictConfidence};
use laggard_model::{LoadLabel, Manifest, Nanos, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    CheckedRow, Requirement, RequirementError, Requirements, TestVerdict, Undecided, Wrong,
};

/// One of several evaluations of growing recordings.
#[derive(Clone, Copy, Debug)]
pub struct CheckLook {
    /// Number of the evaluation, from 1.
    pub number: usize,
    /// Maximum number of evaluations.
    pub of: usize,
    /// Maximum total length of the recordings.
    pub at_most: Nanos,
    /// Whether the user interrupted the recording.
    pub is_interrupted: bool,
}

/// State of `record --until-decided`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct UntilDecided {
    /// Number of the evaluation, from 1.
    pub look: usize,
    /// Maximum number of evaluations.
    pub looks: usize,
    /// Confidence of a FAIL of each evaluation, so that all of them together hold at
    /// `confidence`.
    pub confidence_of_each: f64,
    pub pass_confidence_of_each: f64,
    /// Maximum total length of the recordings.
    pub at_most_ns: Nanos,
    /// Reason for the end; absent while recording continues.
    pub ended: Option<EndedBy>,
}

/// Reason why recording ended.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// All requirements pass.
    Pass,
    Fail,
    /// A longer recording would decide nothing more.
    NoTimeWould,
    /// The maximum length was recorded.
    AtMost,
    User,
}

impl CheckLook {
    /// Returns the confidence that each verdict needs so that all evaluations hold at `confidence`.
    pub(super) fn confidence(look: Option<&Self>, confidence: f64) -> VerdictConfidence {
        look.map_or_else(
            || confidence.into(),
            |look| Looks::each_confidence(look.of, confidence),
        )
    }

    /// Returns the state after an evaluation with this verdict.
    pub(super) fn state(
        &self,
        confidence: f64,
        verdict: TestVerdict,
        rows: &[CheckedRow],
    ) -> UntilDecided {
        let each = Self::confidence(Some(self), confidence);
        let ended = match verdict {
            TestVerdict::Pass => Some(EndedBy::Pass),
            TestVerdict::Fail => Some(EndedBy::Fail),
            TestVerdict::Unknown if !rows.iter().any(would_be_decided) => {
                Some(EndedBy::NoTimeWould)
            }
            TestVerdict::Unknown if self.is_interrupted => Some(EndedBy::User),
            TestVerdict::Unknown => (self.number >= self.of).then_some(EndedBy::AtMost),
        };
        UntilDecided {
            look: self.number,
            looks: self.of,
            confidence_of_each: each.beyond,
            pass_confidence_of_each: each.within,
            at_most_ns: self.at_most,
            ended,
        }
    }
}

/// Returns whether a longer recording might decide a row.
fn would_be_decided(row: &CheckedRow) -> bool {
    let why = row.why.as_ref();
    row.verdict == TestVerdict::Unknown && why.is_some_and(Undecided::is_of_length)
}

impl Requirements {
    /// Refuses requirements that a recording with this manifest cannot decide.
    ///
    /// # Errors
    /// When a requirement is on another load or service, or needs a baseline.
    pub fn refuse_for(&self, manifest: &Manifest) -> Result<(), RequirementError> {
        let load = LoadLabel::of(manifest.load.as_ref());
        for row in &self.rows {
            let wrong = |source: Wrong| RequirementError::At {
                file: self.file.clone(),
                place: row.place,
                source: source.into(),
            };
            if let Requirement::NotWorseThan { .. } = row.requirement {
                return Err(wrong(Wrong::TakesBaseline));
            }
            if let Some(asked) = row.load.as_deref().filter(|name| *name != load.as_str()) {
                return Err(wrong(Wrong::NotLoaded {
                    load: asked.into(),
                    recorded: load.as_str().into(),
                }));
            }
            let mut measured: Vec<String> = Vec::new();
            for name in manifest.lines.iter().map(|line| line.service.to_string()) {
                if !measured.contains(&name) {
                    measured.push(name);
                }
            }
            let is_missing = |service: &Service| !measured.contains(&service.to_string());
            if let Some(service) = row.service.filter(is_missing) {
                return Err(wrong(Wrong::NotMeasured {
                    service: Some(service),
                    load: None,
                    measured: measured.join(", "),
                }));
            }
        }
        Ok(())
    }
}
