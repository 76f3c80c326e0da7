//! Choice of the fix to try first.

use std::cmp::Reverse;

use laggard_model::{NamedCause, Nanos};

use super::late::{Scope, threshold};
use super::{First, StallsAboveSlack};
use crate::remedy::fix;
use crate::show::RecordingReport;
use crate::why::{CauseShare, Explained, named};

impl First {
    /// Chooses the cause whose removal avoids the most stalls above the slack of the user's
    /// application, then lowers the max most, then saves the most time. Without an application,
    /// or if none avoids a stall or lowers the max, this is the first fix of `why`. Episodes do not
    /// contain stalls below the latency threshold, so stalls are not counted for a smaller slack.
    pub(super) fn new(
        scope: &Scope<'_>,
        report: &RecordingReport,
        slack: Option<Nanos>,
    ) -> Option<Self> {
        let threshold = threshold(&scope.explained, scope.series()).map(|(_, max)| max);
        let slack = slack.filter(|slack| threshold.is_some_and(|threshold| *slack >= threshold));
        let stalls = slack.map(|slack| Stalls::new(&scope.explained, slack));
        let max = scope.why.largest_ns;
        let rows = scope.why.causes.iter();
        let candidates = rows.filter(|row| row.is_fixable()).filter(|row| {
            row.lowers(max)
                || stalls
                    .as_ref()
                    .is_some_and(|stalls| stalls.are_avoided_without(row))
        });
        let chosen = choose(candidates, stalls.as_ref());
        let row = match (chosen, &stalls) {
            (Some(row), Some(_)) => row,
            (chosen, _) => CauseShare::first(&scope.why.causes, chosen)?,
        };
        Some(Self {
            cause: row.clone(),
            fix: fix(row, report)?,
            max_ns: scope.why.largest_ns,
            max_without_ns: row.largest_without_ns,
            max_without_is_at_least: row.largest_without_is_at_least,
            stalls: stalls.map(|stalls| StallsAboveSlack {
                slack_ns: stalls.slack,
                count: stalls.latencies.len(),
                without: stalls.without(row),
            }),
        })
    }
}

fn choose<'a>(
    candidates: impl Iterator<Item = &'a CauseShare>,
    stalls: Option<&Stalls>,
) -> Option<&'a CauseShare> {
    candidates.min_by_key(|row| {
        (
            stalls.map(|stalls| stalls.without(row)),
            row.largest_without_ns,
            Reverse(row.time_ns),
        )
    })
}

type Causes = Vec<(NamedCause, Nanos)>;

/// Stalls that are longer than a slack, with the time of each cause.
struct Stalls {
    slack: Nanos,
    latencies: Vec<(Nanos, Causes)>,
}

impl Stalls {
    fn new(explained: &Explained<'_>, slack: Nanos) -> Self {
        let symbols = explained.symbols();
        let stalls = explained.episodes.iter().map(|episode| {
            let causes = episode.causes().iter();
            let causes = causes.map(|cause| (named(cause, symbols), cause.time_ns));
            (episode.episode.latency(), causes.collect())
        });
        Self {
            slack,
            latencies: stalls.filter(|(latency, _)| *latency > slack).collect(),
        }
    }

    fn are_avoided_without(&self, row: &CauseShare) -> bool {
        self.without(row) < self.latencies.len()
    }

    /// Counts the stalls that would still be longer than the slack without this cause.
    fn without(&self, row: &CauseShare) -> usize {
        let is_long = |(latency, causes): &&(Nanos, Causes)| {
            let took = causes
                .iter()
                .filter(|(cause, _)| *cause == row.cause)
                .fold(Nanos::ZERO, |sum, (_, time)| sum + *time);
            latency.saturating_sub(took) > self.slack
        };
        self.latencies.iter().filter(is_long).count()
    }
}

#[cfg(test)]
mod tests {
    use laggard_made::late::{episode, manifest, notes};
    use laggard_model::CauseClass;

    use super::*;
    use crate::why::RecordedEpisodes;

    fn row(class: CauseClass, total_us: u64, without_us: u64) -> CauseShare {
        let recorded = RecordedEpisodes::new("r.laggard", manifest(), vec![episode(1)], notes());
        let report = Explained::new(&recorded, None).report(1);
        CauseShare {
            cause: NamedCause::new(class, None),
            time_ns: Nanos::from_us(total_us),
            largest_without_ns: Nanos::from_us(without_us),
            ..report.causes[0].clone()
        }
    }

    fn chosen(rows: &[CauseShare], stalls: Option<&Stalls>) -> CauseClass {
        choose(rows.iter(), stalls).unwrap().cause.class
    }

    #[test]
    fn first_fix_is_the_one_that_lowers_the_max_most() {
        let rows = [
            row(CauseClass::Stolen, 9_000, 5_000),
            row(CauseClass::HigherPriority, 800, 700),
        ];

        assert_eq!(chosen(&rows, None), CauseClass::HigherPriority);
    }

    #[test]
    fn first_fix_is_the_one_that_avoids_most_stalls_above_the_slack() {
        let rows = [
            row(CauseClass::HigherPriority, 800, 700),
            row(CauseClass::Stolen, 9_000, 5_000),
        ];
        let stall = |latency, class| {
            let took = Nanos::from_us(latency - 100);
            (
                Nanos::from_us(latency),
                vec![(NamedCause::new(class, None), took)],
            )
        };
        let stalls = Stalls {
            slack: Nanos::from_us(200),
            latencies: vec![
                stall(5_000, CauseClass::HigherPriority),
                stall(900, CauseClass::Stolen),
                stall(900, CauseClass::Stolen),
            ],
        };

        assert_eq!(stalls.without(&rows[0]), 2);
        assert_eq!(stalls.without(&rows[1]), 1);
        assert_eq!(chosen(&rows, Some(&stalls)), CauseClass::Stolen);
    }
}
