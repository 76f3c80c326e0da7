//! Evaluations while recordings of both sides are made in turn.

use laggard_analyze::InputError;
use laggard_analyze::compare::RoundLooks;
use laggard_model::{Nanos, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Change, CompareReport, LevelComparison, Unclear};

/// One of several evaluations of recordings that are made in turn.
#[derive(Clone, Debug)]
pub struct TrialLook {
    /// Plan of the evaluations.
    pub looks: RoundLooks,
    /// Number of this evaluation, from 1.
    pub number: usize,
    /// Verdicts of the earlier evaluations, in their order.
    pub earlier: Vec<EarlierVerdict>,
}

/// Verdict of an earlier evaluation on a series at a level.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct EarlierVerdict {
    /// Number of recordings per side at that time.
    pub after: usize,
    pub service: Service,
    /// Route from the timer interrupt to the service.
    pub route: Route,
    /// Number of the level, from 0. Each evaluation may choose other levels.
    pub level: usize,
    pub level_ns: Nanos,
    /// The verdict.
    pub change: Change,
}

/// Evaluations while the recordings were made.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TrialLooks {
    /// Planned recordings per side.
    pub rounds: usize,
    /// Planned evaluations, as numbers of recordings per side.
    pub after: Vec<usize>,
    /// Confidence of each evaluation, so that all together hold at 95 %.
    pub confidence_of_each: Vec<f64>,
    /// Number of this evaluation, from 1.
    pub look: usize,
    /// Reason for the end; absent while recording continues.
    pub ended: Option<TrialEnd>,
    /// Earlier verdicts that this evaluation does not confirm; the last of each series.
    pub not_borne_out: Vec<EarlierVerdict>,
}

/// Reason why recording ended.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialEnd {
    /// Every series has a verdict.
    Decided,
    /// All planned recordings were made.
    AllRounds,
}

impl TrialLook {
    /// Returns the confidence that this evaluation needs so that all evaluations
    /// together hold at `overall`.
    pub(super) fn confidence(&self, overall: f64) -> Result<f64, InputError> {
        self.looks
            .confidence(self.number.saturating_sub(1), overall)
    }

    /// Returns the state of the trial after this evaluation.
    pub(super) fn state(
        &self,
        report: &CompareReport,
        overall: f64,
    ) -> Result<TrialLooks, InputError> {
        let after = self.looks.after();
        let each = (0..after.len()).map(|look| self.looks.confidence(look, overall));
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
        for verdict in &self.earlier {
            last.retain(|earlier| !earlier.has_series_of(verdict));
            last.push(verdict);
        }
        let now = report.verdicts(0);
        let is_confirmed = |verdict: &&EarlierVerdict| {
            let now = now.iter().find(|now| now.has_series_of(verdict));
            now.is_some_and(|now| now.change == verdict.change)
        };
        last.retain(|verdict| !is_confirmed(verdict));
        last.into_iter().cloned().collect()
    }
}

impl EarlierVerdict {
    fn has_series_of(&self, other: &Self) -> bool {
        (self.service, self.route, self.level) == (other.service, other.route, other.level)
    }
}

impl CompareReport {
    /// Returns the verdicts that are not unclear, after this number of rounds.
    pub fn verdicts(&self, after: usize) -> Vec<EarlierVerdict> {
        let services = self.services.iter();
        let levels = services.flat_map(|service| {
            service
                .levels
                .iter()
                .enumerate()
                .map(move |level| (service, level))
        });
        let clear = levels.filter(|(_, (_, level))| !matches!(level.change, Change::Unclear(_)));
        clear
            .map(|(service, (number, level))| EarlierVerdict {
                after,
                service: service.service,
                route: service.route,
                level: number,
                level_ns: level.level_ns,
                change: level.change,
            })
            .collect()
    }

    /// Returns the series that more rounds may decide. If a series has a verdict, the others
    /// exclude series that were never late, or always late, on both sides.
    pub fn undecided(&self) -> Vec<(Service, Route)> {
        let has_verdict = self.has_verdict();
        let is_open = |level: &LevelComparison| !has_verdict || is_open(level.change);
        let services = self.services.iter();
        let open = services.filter(|service| service.levels.iter().any(is_open));
        open.map(|service| (service.service, service.route))
            .collect()
    }

    /// Returns whether a series has a verdict and more rounds would decide no other.
    pub fn is_decided(&self) -> bool {
        self.has_verdict() && self.undecided().is_empty()
    }

    fn has_verdict(&self) -> bool {
        let mut levels = self.services.iter().flat_map(|service| &service.levels);
        levels.any(|level| !matches!(level.change, Change::Unclear(_)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_ends_after_the_last_round_or_when_all_are_decided() {
        let end_of = |number: usize, is_decided: bool| {
            let look = TrialLook {
                looks: RoundLooks::planned(8, 4),
                number,
                earlier: Vec::new(),
            };
            look.ended(is_decided)
        };

        assert_eq!(end_of(1, false), None);
        assert_eq!(end_of(2, true), Some(TrialEnd::Decided));
        assert_eq!(end_of(3, true), Some(TrialEnd::AllRounds));
    }
}
