//! Who made activations late, and what to do about it first.

use laggard_model::CauseClass;

use super::{First, Late, LateCause};
use crate::remedy::remedy;
use crate::show::RecordingReport;
use crate::why::{self, CauseRow, Explained, WhyReport};
use laggard_model::{Nanos, Route, Service};

/// So many causes are listed.
const MOST: usize = 3;

/// The late activations of `main`, of its service by the other route where it had
/// none, or all where that had none either; and by which route they are.
pub(super) fn late(
    explained: &Explained<'_>,
    main: Option<(Service, Route)>,
) -> Option<(WhyReport, Option<Route>)> {
    let of = |late: Explained<'_>, route| {
        let report = late.report(MOST);
        (report.episodes > 0).then_some((report, route))
    };
    let routes = main.into_iter().flat_map(|(service, own)| {
        let other = match own {
            Route::Direct => Route::Deferred,
            Route::Deferred => Route::Direct,
        };
        [own, other].map(|route| (explained.only(Some(service)).by(route), route))
    });
    let mut routes = routes.filter_map(|(late, route)| of(late, Some(route)));
    routes.next().or_else(|| of(explained.only(None), None))
}

impl Late {
    pub(crate) fn of((why, route): &(WhyReport, Option<Route>)) -> Self {
        Self {
            service: why.service,
            route: *route,
            activations: why.episodes,
            wakeups: why.wakeups,
            untraced: why.untraced.clone(),
            total_ns: why.total_ns,
            largest_ns: why.largest_ns,
            largest_is_at_least: why.largest_is_at_least,
            causes: why.causes.iter().map(LateCause::of).collect(),
            more_causes: why.more_causes,
            surplus: why.surplus,
        }
    }
}

/// The smallest and the largest threshold of the lines of one service, or of all.
pub(super) fn threshold(
    explained: &Explained<'_>,
    of: Option<(Service, Route)>,
) -> Option<(Nanos, Nanos)> {
    let late = explained.late;
    let lines = late.manifest.lines.iter().zip(&late.notes.thresholds_ns);
    let thresholds = || {
        lines
            .clone()
            .filter(|(line, _)| of.is_none_or(|of| of == (line.service, line.route)))
            .filter_map(|(_, threshold)| *threshold)
    };
    Some((thresholds().min()?, thresholds().max()?))
}

impl LateCause {
    /// Who, where `words` name them before what they did.
    pub fn named_first(&self) -> Option<&str> {
        named_first(self.class, self.who.as_deref())
    }

    fn of(row: &CauseRow) -> Self {
        Self {
            class: row.class,
            who: row.who.clone(),
            how: row.class.in_short().into(),
            words: words(row),
            is_ours: row.is_ours,
            share: row.share,
            times: row.wakeups,
            largest_ns: row.largest_ns,
            is_at_least: row.is_at_least,
            rhythm: row.rhythm.clone(),
        }
    }
}

impl First {
    /// Against the first of the leading causes that a user can do anything
    /// about. What laggard's own threads took is not the machine's.
    pub(super) fn of(why: &WhyReport, report: &RecordingReport) -> Option<Self> {
        why::leading(&why.causes)
            .filter(|row| !row.is_ours)
            .find_map(|row| {
                Some(Self {
                    class: row.class,
                    cause: words(row),
                    what: remedy(row, report)?,
                    largest_without_ns: row.largest_without_ns,
                    largest_without_is_at_least: row.largest_without_is_at_least,
                })
            })
    }
}

/// Who did what a class says; an activity says what it is itself, behind its kind.
fn named_first(class: CauseClass, who: Option<&str>) -> Option<&str> {
    let is_activity = matches!(
        class,
        CauseClass::Interrupt
            | CauseClass::Softirq
            | CauseClass::Throttled
            | CauseClass::GroupWeight
    );
    who.filter(|_| !is_activity)
}

/// A cause in few words, who first: `kworker/1:2, preemption disabled`.
fn words(row: &CauseRow) -> String {
    if !row.contenders.is_empty() || row.class == CauseClass::Throttled {
        return row.name();
    }
    let how = row.class.in_short();
    let who = row.who.as_deref();
    match (named_first(row.class, who), who) {
        (Some(who), _) => format!("{who}, {how}"),
        (None, Some(who)) => format!("{how} {who}"),
        (None, None) => how.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use laggard_made::late::{episode, manifest, notes};
    use laggard_model::{Line, LineId};

    use super::*;
    use crate::why::RecordedEpisodes;

    /// Three late by the deferred route, of which the last is `deferred`, and `direct`
    /// late by the other.
    fn kept(direct: u64) -> RecordedEpisodes {
        let mut manifest = manifest();
        let line = manifest.lines[0];
        manifest.lines.push(Line {
            route: Route::Deferred,
            ..line
        });
        let deferred = LineId(u16::try_from(manifest.lines.len() - 1).unwrap());
        let mut episodes: Vec<_> = (1..=direct + 3).map(episode).collect();
        for one in episodes.iter_mut().filter(|one| one.number > direct) {
            one.line = deferred;
        }
        RecordedEpisodes {
            path: "r.laggard".into(),
            manifest,
            episodes,
            notes: notes(),
            latest: Vec::new(),
            shortfalls: Vec::new(),
        }
    }

    /// Else the largest that a remedy leaves can be above the largest of the table,
    /// which has the subject's own route.
    #[test]
    fn the_late_activations_are_those_of_the_route_that_the_table_has() {
        let told = |direct: u64, main: Option<(Service, Route)>| {
            let kept = kept(direct);
            let all = Explained::new(&kept, None);
            let late = Late::of(&late(&all, main).unwrap());
            (late.service, late.route, late.activations)
        };
        let service = manifest().lines[0].service;
        let own = Some((service, Route::Direct));

        let (direct, deferred) = (Some(Route::Direct), Some(Route::Deferred));
        assert_eq!(told(2, own), (Some(service), direct, 2));
        assert_eq!(told(0, own), (Some(service), deferred, 3));
        assert_eq!(
            told(2, Some((Service::Worker, Route::Direct))),
            (None, None, 5)
        );
        assert_eq!(told(2, None), (None, None, 5));
    }
}
