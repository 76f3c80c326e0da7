//! Comparing again and again while recordings are made in turn.

use laggard_analyze::InputError;
use laggard_analyze::compare::RoundLooks;
use laggard_model::name::line_name;
use laggard_model::text::{Unit, listed};
use laggard_model::{Nanos, Route, Service};
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
    /// The verdicts of those before, in their order.
    pub earlier: Vec<EarlierVerdict>,
}

/// What an earlier look told of a service at a level.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct EarlierVerdict {
    /// After so many recordings of each side.
    pub after: usize,
    /// The service.
    pub service: Service,
    /// How it is reached.
    pub route: Route,
    /// Which of its levels, from 0: each look may choose them anew.
    pub level: usize,
    /// Later than this.
    pub level_ns: Nanos,
    /// Worse, better or equivalent.
    pub change: Change,
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
    /// What an earlier look told and this one does not; the last of each.
    pub not_borne_out: Vec<EarlierVerdict>,
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
    pub(super) fn found(&self, report: &CompareReport, all: f64) -> Result<TrialLooks, InputError> {
        let after = self.looks.after();
        let each = (0..after.len()).map(|look| self.looks.confidence(look, all));
        Ok(TrialLooks {
            rounds: after.last().copied().unwrap_or_default(),
            after: after.to_vec(),
            confidence_of_each: each.collect::<Result<_, _>>()?,
            look: self.number,
            ended: self.ended(report.is_decided()),
            not_borne_out: self.not_borne_out(report),
        })
    }

    fn ended(&self, is_decided: bool) -> Option<TrialEnd> {
        match (self.number >= self.looks.after().len(), is_decided) {
            (true, _) => Some(TrialEnd::AllRounds),
            (false, true) => Some(TrialEnd::Decided),
            (false, false) => None,
        }
    }

    fn not_borne_out(&self, report: &CompareReport) -> Vec<EarlierVerdict> {
        let mut last: Vec<&EarlierVerdict> = Vec::new();
        for one in &self.earlier {
            last.retain(|known| !known.is_of(one));
            last.push(one);
        }
        let now = report.verdicts(0);
        let is_told = |one: &&EarlierVerdict| {
            let now = now.iter().find(|now| now.is_of(one));
            now.is_some_and(|now| now.change == one.change)
        };
        last.retain(|one| !is_told(one));
        last.into_iter().cloned().collect()
    }
}

impl EarlierVerdict {
    fn is_of(&self, other: &Self) -> bool {
        (self.service, self.route, self.level) == (other.service, other.route, other.level)
    }

    /// `fifo:90 is worse (later than 1.00 ms)`; `is` may be `was`.
    fn in_words(&self, is: &str) -> String {
        let line = line_name(self.service, self.route);
        let level = Unit::Auto.write_nanos(self.level_ns);
        let what = match self.change {
            Change::Worse => "worse",
            Change::Better => "better",
            Change::Equivalent => "equal",
            Change::Unclear(_) => "not told",
        };
        format!("{line} {is} {what} (later than {level})")
    }
}

impl CompareReport {
    /// What is told of each service and level after so many rounds.
    pub fn verdicts(&self, after: usize) -> Vec<EarlierVerdict> {
        let services = self.services.iter();
        let levels =
            services.flat_map(|one| one.levels.iter().enumerate().map(move |it| (one, it)));
        let told = levels.filter(|(_, (_, level))| !matches!(level.change, Change::Unclear(_)));
        told.map(|(one, (number, level))| EarlierVerdict {
            after,
            service: one.service,
            route: one.route,
            level: number,
            level_ns: level.level_ns,
            change: level.change,
        })
        .collect()
    }

    /// Those in words: `fifo:90 is worse (later than 1.00 ms)`.
    pub fn told(&self) -> Vec<String> {
        let all = self.verdicts(0).into_iter();
        all.map(|one| one.in_words("is")).collect()
    }

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
    let mut all = vec![format!("{why} {sure}")];
    all.extend(looks.not_borne_out.iter().map(|one| {
        format!(
            "After {} rounds {}, which {now} do not bear out: more changed meanwhile than what was to be, or it was \
             chance.",
            one.after,
            one.in_words("was"),
        )
    }));
    all
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
            let look = TrialLook {
                looks: RoundLooks::planned(8, 4),
                number,
                earlier: Vec::new(),
            };
            look.ended(is_decided)
        };

        assert_eq!(at(1, false), None);
        assert_eq!(at(2, true), Some(TrialEnd::Decided));
        assert_eq!(at(3, true), Some(TrialEnd::AllRounds));
    }
}
