//! Late wakeups and their causes.

use laggard_model::{Nanos, Route, Service};

use super::{Late, OtherCauses};
use crate::why::{CauseShare, Explained, LateWakeups};

/// Number of causes that are listed.
const MAX_CAUSES: usize = 3;

/// Late wakeups of one scope, with all their causes.
pub(super) struct Scope<'a> {
    /// The episodes.
    pub(super) explained: Explained<'a>,
    /// Their causes (all).
    pub(super) why: LateWakeups,
    route: Option<Route>,
}

/// Returns the late wakeups of the subject. If the list is empty, returns the late wakeups of its
/// service on the other route. If that list is empty too, returns the late wakeups of all services.
pub(super) fn scope<'a>(
    explained: &Explained<'a>,
    subject: Option<(Service, Route)>,
) -> Option<Scope<'a>> {
    let some = |explained: Explained<'a>, route| {
        let why = explained.report(usize::MAX);
        (why.episodes > 0).then_some(Scope {
            explained,
            why,
            route,
        })
    };
    let routes = subject.into_iter().flat_map(|(service, own)| {
        let other = match own {
            Route::Direct => Route::Deferred,
            Route::Deferred => Route::Direct,
        };
        [own, other].map(|route| (explained.only(Some(service)).by(route), route))
    });
    let mut scopes = routes.filter_map(|(late, route)| some(late, Some(route)));
    scopes.next().or_else(|| some(explained.only(None), None))
}

impl Scope<'_> {
    /// Returns the series of the wakeups; `None`: all series.
    pub(super) fn series(&self) -> Option<(Service, Route)> {
        self.why.service.zip(self.route)
    }
}

impl Late {
    pub(super) fn new(scope: &Scope<'_>) -> Self {
        let why = &scope.why;
        let (causes, rest) = why.causes.split_at(MAX_CAUSES.min(why.causes.len()));
        Self {
            service: why.service,
            route: scope.route,
            episodes: why.episodes,
            wakeups: why.wakeups,
            untraced: why.untraced.clone(),
            total_ns: why.total_ns,
            is_incomplete: why.is_incomplete,
            max_ns: why.largest_ns,
            max_is_at_least: why.largest_is_at_least,
            causes: causes.to_vec(),
            others: OtherCauses::new(rest),
        }
    }
}

impl OtherCauses {
    fn new(rows: &[CauseShare]) -> Option<Self> {
        Some(Self {
            causes: rows.len(),
            share: rows.iter().map(|row| row.share).sum(),
            max_ns: rows.iter().map(|row| row.largest_ns).max()?,
        })
    }
}

/// Returns the smallest and the largest threshold of one series, or of all.
pub(super) fn threshold(
    explained: &Explained<'_>,
    series: Option<(Service, Route)>,
) -> Option<(Nanos, Nanos)> {
    let late = explained.late;
    let lines = late.manifest.lines.iter().zip(&late.notes.thresholds_ns);
    let thresholds = || {
        lines
            .clone()
            .filter(|(line, _)| series.is_none_or(|series| series == (line.service, line.route)))
            .filter_map(|(_, threshold)| *threshold)
    };
    Some((thresholds().min()?, thresholds().max()?))
}

#[cfg(test)]
mod tests {
    use laggard_made::late::{episode, manifest, notes};
    use laggard_model::{Line, LineId};

    use super::*;
    use crate::why::RecordedEpisodes;

    /// Three late wakeups by the deferred route, and `direct` by the other one.
    fn recorded(direct: u64) -> RecordedEpisodes {
        let mut manifest = manifest();
        let line = manifest.lines[0];
        manifest.lines.push(Line {
            route: Route::Deferred,
            ..line
        });
        let deferred = LineId(u16::try_from(manifest.lines.len() - 1).unwrap());
        let mut episodes: Vec<_> = (1..=direct + 3).map(episode).collect();
        for episode in episodes
            .iter_mut()
            .filter(|episode| episode.number > direct)
        {
            episode.line = deferred;
        }
        RecordedEpisodes::new("r.laggard", manifest, episodes, notes())
    }

    /// Otherwise the max that a fix leaves can be above the max of the table, which has the
    /// subject's own route.
    #[test]
    fn late_wakeups_have_the_route_of_the_subject_if_it_was_late() {
        let late = |direct: u64, subject: Option<(Service, Route)>| {
            let recorded = recorded(direct);
            let explained = Explained::new(&recorded, None);
            let late = Late::new(&scope(&explained, subject).unwrap());
            (late.service, late.route, late.episodes)
        };
        let service = manifest().lines[0].service;
        let own = Some((service, Route::Direct));

        let (direct, deferred) = (Some(Route::Direct), Some(Route::Deferred));
        assert_eq!(late(2, own), (Some(service), direct, 2));
        assert_eq!(late(0, own), (Some(service), deferred, 3));
        assert_eq!(
            late(2, Some((Service::Worker, Route::Direct))),
            (None, None, 5)
        );
        assert_eq!(late(2, None), (None, None, 5));
    }

    #[test]
    fn heading_and_rows_count_expiries_that_passed_during_an_episode() {
        let mut passed = episode(1);
        passed.passed_ns = vec![Nanos::from_us(500), Nanos::from_ms(1)];
        let recorded = RecordedEpisodes {
            episodes: vec![passed],
            ..recorded(1)
        };
        let explained = Explained::new(&recorded, None);

        let late = Late::new(&scope(&explained, None).unwrap());

        assert_eq!((late.episodes, late.wakeups), (1, 3));
        assert_eq!(late.causes[0].wakeups, 3);
    }
}
