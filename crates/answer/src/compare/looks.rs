//! Comparing again and again while recordings are made in turn.

use laggard_analyze::InputError;
use laggard_analyze::compare::RoundLooks;
use laggard_model::name::line_name;
use laggard_model::text::listed;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Change, CompareReport, LevelComparison, Unclear};

/// One of several looks at recordings that are made in turn.
#[derive(Clone, Debug)]
pub struct TrialLook {
    /// When is looked.
    pub looks: RoundLooks,
    /// Which look this is, from 1.
    pub number: usize,
}

/// How often was looked while the recordings were made.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TrialLooks {
    /// Recordings of each side that were planned.
    pub rounds: usize,
    /// After how many of them was looked, or was to be; the last after all.
    pub after: Vec<usize>,
    /// How sure the verdicts and intervals of each look are, so that those of all
    /// looks together are as sure as they are to be, which is 95 %.
    pub confidence_of_each: Vec<f64>,
    /// Which look this is, from 1.
    pub look: usize,
    /// Why no more was recorded; absent where it went on.
    pub ended: Option<TrialEnd>,
}

/// Why no more recordings are made in turn.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialEnd {
    /// Every service has a verdict.
    Decided,
    /// All that were planned were made.
    AllRounds,
}

impl TrialLook {
    /// How sure this look must be, for `all` of them together to be.
    pub(super) fn confidence(&self, all: f64) -> Result<f64, InputError> {
        self.looks.confidence(self.number.saturating_sub(1), all)
    }

    /// What becomes of it, by whether all is decided.
    pub(super) fn found(&self, is_decided: bool, all: f64) -> Result<TrialLooks, InputError> {
        let after = self.looks.after();
        let each = (0..after.len()).map(|look| self.looks.confidence(look, all));
        Ok(TrialLooks {
            rounds: after.last().copied().unwrap_or_default(),
            after: after.to_vec(),
            confidence_of_each: each.collect::<Result<_, _>>()?,
            look: self.number,
            ended: match (self.number >= after.len(), is_decided) {
                (true, _) => Some(TrialEnd::AllRounds),
                (false, true) => Some(TrialEnd::Decided),
                (false, false) => None,
            },
        })
    }
}

impl CompareReport {
    /// Services of which more rounds may tell whether they changed. Where some service
    /// has a verdict, none of them is one that was never so late on either side, or is
    /// always.
    pub fn undecided(&self) -> Vec<String> {
        let is_one_told = self.is_one_told();
        let is_open = |level: &LevelComparison| !is_one_told || is_open(level.change);
        let services = self.services.iter();
        let open = services.filter(|one| one.levels.iter().any(is_open));
        let mut names: Vec<String> = open.map(|one| line_name(one.service, one.route)).collect();
        names.dedup();
        names
    }

    /// Whether some service has a verdict, and more rounds would tell of no other.
    pub fn is_decided(&self) -> bool {
        self.is_one_told() && self.undecided().is_empty()
    }

    fn is_one_told(&self) -> bool {
        let mut levels = self.services.iter().flat_map(|one| &one.levels);
        levels.any(|level| !matches!(level.change, Change::Unclear(_)))
    }

    /// How sure the intervals of ratios of rates are, in per cent rounded down:
    /// `95`, `99.6`.
    pub fn percent_sure(&self) -> String {
        percent_down(self.confidence)
    }
}

const fn is_open(change: Change) -> bool {
    match change {
        Change::Worse
        | Change::Better
        | Change::Equivalent
        | Change::Unclear(Unclear::Never | Unclear::NotKept | Unclear::TooOften) => false,
        Change::Unclear(_) => true,
    }
}

/// Rounded down, so that no more is promised than is held.
fn percent_down(share: f64) -> String {
    // What is 95 % but for the last bit is.
    let tenths = (share * 1_000.0 + 1e-9).floor();
    let text = format!("{:.1}", tenths / 10.0);
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Why it ended when it did, where it could have ended sooner.
pub(super) fn sentences(report: &CompareReport) -> Vec<String> {
    let Some(looks) = report.looks.as_ref().filter(|one| one.after.len() > 1) else {
        return Vec::new();
    };
    let rounds = looks.rounds;
    let last = looks.after.len() - 1;
    let now = looks
        .after
        .get(looks.look.saturating_sub(1))
        .copied()
        .unwrap_or(rounds);
    let why = match looks.ended {
        Some(TrialEnd::Decided) => {
            format!("It ended after {now} of {rounds} rounds, when every service was decided.")
        }
        Some(TrialEnd::AllRounds) => format!(
            "All {rounds} rounds were made: after {} not every service was decided.",
            listed(&looks.after[..last])
        ),
        None => format!("After {now} of {rounds} rounds not every service is decided; it goes on."),
    };
    let sure = format!(
        "Intervals are of {} %, so that {} looks together are wrong in 5 of 100 comparisons at most.",
        report.percent_sure(),
        match looks.after.len() {
            2 => "both".into(),
            count => format!("all {count}"),
        }
    );
    vec![format!("{why} {sure}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confidence_is_not_rounded_up() {
        let told = [0.95, 0.996_949, 0.999_985, 0.969_299].map(percent_down);

        assert_eq!(told, ["95", "99.6", "99.9", "96.9"]);
    }

    #[test]
    fn the_last_look_ends_it_and_an_earlier_one_where_all_is_decided() {
        let at = |number: usize, is_decided: bool| {
            let looks = RoundLooks::planned(8, 4);
            TrialLook { looks, number }.found(is_decided, 0.95).unwrap()
        };

        assert_eq!(at(1, false).ended, None);
        assert_eq!(at(2, true).ended, Some(TrialEnd::Decided));
        assert_eq!(at(3, true).ended, Some(TrialEnd::AllRounds));
        assert_eq!(
            (at(1, false).after, at(1, false).rounds),
            (vec![4, 6, 8], 8)
        );
    }
}
