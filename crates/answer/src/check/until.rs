//! Checking again and again while it is recorded, until that decides.

use laggard_analyze::counts::Looks;
use laggard_model::text::{percent, rough_time};
use laggard_model::{LoadLabel, Manifest, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    CheckReport, CheckVerdict, CheckedRow, Requirement, RequirementError, Requirements, Undecided,
    Wrong,
};

/// One of several looks at what grows.
#[derive(Clone, Copy, Debug)]
pub struct CheckLook {
    /// Which, from 1.
    pub number: usize,
    /// How many there are at most.
    pub of: usize,
    /// How much may be recorded.
    pub at_most: Nanos,
    /// Whether the user has ended it.
    pub is_interrupted: bool,
}

/// How often was looked while recording went on.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct UntilDecided {
    /// Which look this is, from 1.
    pub look: usize,
    /// How many there are at most.
    pub looks: usize,
    /// How sure each look's verdicts are, so that those of all looks together are
    /// as sure as `confidence` says.
    pub confidence_of_each: f64,
    /// How much may be recorded.
    pub at_most_ns: Nanos,
    /// Why it ended; absent where it goes on.
    pub ended: Option<EndedBy>,
}

/// Why no more is recorded.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Everything is met.
    Met,
    /// Something is broken: more can only add to that.
    Broken,
    /// More would decide nothing of what is left.
    NoTimeWould,
    /// As much was recorded as may be.
    AtMost,
    /// The user ended it.
    User,
}

impl CheckLook {
    /// How sure each verdict of this look is to be, for all looks to hold at
    /// `confidence`.
    pub(super) fn confidence(look: Option<&Self>, confidence: f64) -> f64 {
        look.map_or(confidence, |look| {
            Looks::each_confidence(look.of, confidence)
        })
    }

    /// What it comes to, by the verdict on all and on each row.
    pub(super) fn found(
        &self,
        confidence: f64,
        verdict: CheckVerdict,
        rows: &[CheckedRow],
    ) -> UntilDecided {
        let ended = match verdict {
            CheckVerdict::Met => Some(EndedBy::Met),
            CheckVerdict::Broken => Some(EndedBy::Broken),
            CheckVerdict::NotDecided if !rows.iter().any(would_be_decided) => {
                Some(EndedBy::NoTimeWould)
            }
            CheckVerdict::NotDecided if self.is_interrupted => Some(EndedBy::User),
            CheckVerdict::NotDecided => (self.number >= self.of).then_some(EndedBy::AtMost),
        };
        UntilDecided {
            look: self.number,
            looks: self.of,
            confidence_of_each: Self::confidence(Some(self), confidence),
            at_most_ns: self.at_most,
            ended,
        }
    }
}

/// Whether longer recordings might decide a row.
fn would_be_decided(row: &CheckedRow) -> bool {
    let why = row.why.as_ref();
    row.verdict == CheckVerdict::NotDecided && why.is_some_and(Undecided::is_of_length)
}

/// How long it took, and why it ended.
pub(super) fn sentences(report: &CheckReport, until: &UntilDecided) -> Vec<String> {
    let time = |ns: Nanos| rough_time(ns.as_f64(), 2);
    let took = time(report.duration_ns);
    let most = time(until.at_most_ns);
    let why = match until.ended {
        None => format!("Not decided yet after {took}; it goes on, for {most} at most."),
        Some(EndedBy::Met) => {
            format!("Recorded {took}, of {most} at most: then all was decided.")
        }
        Some(EndedBy::Broken) => {
            format!("Recorded {took}, of {most} at most: then it was sure to be broken.")
        }
        Some(EndedBy::NoTimeWould) => format!(
            "Recorded {took}, of {most} at most: to go on would not decide what is not decided."
        ),
        Some(EndedBy::AtMost) => format!("Recorded {took}, which is the most that was asked."),
        Some(EndedBy::User) => {
            format!("Recorded {took}, of {most} at most, when it was interrupted.")
        }
    };
    let looks = format!(
        "It was looked at {}, of {} at most; each look is sure to {} %, so that all together hold.",
        times(until.look),
        until.looks,
        percent(until.confidence_of_each)
    );
    vec![why, looks]
}

fn times(count: usize) -> String {
    match count {
        1 => "once".into(),
        2 => "twice".into(),
        more => format!("{more} times"),
    }
}

impl Requirements {
    /// Whether what will be recorded can be checked against all of it.
    ///
    /// # Errors
    /// When a requirement is of another load or service, or takes recordings made
    /// in turn with a baseline.
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
            if let Some(asked) = row.load.as_deref().filter(|one| *one != load.as_str()) {
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
            let asked = row.service.map(|service| service.to_string());
            if let Some(service) = asked.filter(|asked| !measured.contains(asked)) {
                return Err(wrong(Wrong::NotMeasured {
                    service,
                    load: String::new(),
                    measured: measured.join(", "),
                }));
            }
        }
        Ok(())
    }
}
