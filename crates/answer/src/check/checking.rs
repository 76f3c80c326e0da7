//! What every requirement is checked with.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use laggard_analyze::InputError;
use laggard_analyze::counts::{
    AgainstLimit, LimitVerdict, Tallied, against_limit, rate_upper_limit,
};
use laggard_model::name::line_name;
use laggard_model::{Route, Service};
use laggard_record::OpenError;

use super::{
    CheckLook, CheckVerdict, CheckedRow, RequirementError, RequirementRow, Requirements, Undecided,
    Wrong, sentences,
};
use crate::compare::CompareError;
use crate::load::{Load, LoadError};
use crate::qos::QosError;

/// What is to be checked.
#[derive(Clone, Debug)]
pub struct CheckQuestion {
    /// The recordings.
    pub recordings: Vec<PathBuf>,
    /// Recordings to compare with.
    pub baseline: Vec<PathBuf>,
    /// What is required of them.
    pub requirements: Requirements,
    /// Which look at recordings that go on, where they do.
    pub look: Option<CheckLook>,
    /// At most so many threads read; no answer depends on it.
    pub threads: NonZeroUsize,
}

impl CheckQuestion {
    /// How sure each verdict is to be.
    pub(super) fn confidence(&self) -> f64 {
        CheckLook::confidence(self.look.as_ref(), self.requirements.confidence)
    }
}

/// Why recordings cannot be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// One cannot be opened, or is given twice.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// One cannot be read again.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What is required is not in them.
    #[error(transparent)]
    Requirement(#[from] RequirementError),
    /// They cannot be compared with the baseline.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// How often an application misses cannot be told.
    #[error(transparent)]
    Qos(#[from] QosError),
    /// A figure is out of its range.
    #[error(transparent)]
    Input(#[from] InputError),
}

impl CheckError {
    /// Whether it is because of what was measured, not of what was asked.
    pub const fn is_untrustworthy(&self) -> bool {
        matches!(self, Self::Compare(error) if error.is_untrustworthy())
    }
}

/// A question, and what was recorded.
pub(super) struct Checking<'a> {
    pub(super) question: &'a CheckQuestion,
    pub(super) loads: &'a [Load],
}

/// A count and its limit.
pub(super) struct CountAndLimit<'a> {
    pub(super) seen: &'a Tallied,
    pub(super) found: AgainstLimit,
    /// Whether what was still waiting when measuring ended was too late already;
    /// none where nothing was.
    pub(super) is_waiting_late: Option<bool>,
    /// Whether all that counts was kept.
    pub(super) is_kept: bool,
    /// Late wakeups in one stall as far as the recording shows it; `None` of what does
    /// not depend on the length of stalls.
    pub(super) together: Option<f64>,
}

impl<'a> Checking<'a> {
    /// What is wrong with a row, where it is.
    pub(super) fn wrong(&self, row: &RequirementRow, wrong: Wrong) -> CheckError {
        CheckError::Requirement(RequirementError::At {
            file: self.question.requirements.file.clone(),
            place: row.place,
            source: wrong.into(),
        })
    }

    /// The loads that a requirement is of.
    pub(super) fn chosen(&self, row: &RequirementRow) -> Result<Vec<&'a Load>, CheckError> {
        let is_it = |load: &&Load| {
            let asked = row.load.as_deref();
            asked.is_none_or(|asked| load.label.as_str() == asked)
        };
        let chosen: Vec<&Load> = self.loads.iter().filter(is_it).collect();
        if let (true, Some(load)) = (chosen.is_empty(), &row.load) {
            let recorded: Vec<&str> = self.loads.iter().map(|one| one.label.as_str()).collect();
            let wrong = Wrong::NotLoaded {
                load: load.clone(),
                recorded: recorded.join(", "),
            };
            return Err(self.wrong(row, wrong));
        }
        Ok(chosen)
    }

    /// What was measured under `load` of the service that is asked for.
    pub(super) fn lines(
        &self,
        row: &RequirementRow,
        load: &Load,
        only: Option<Service>,
    ) -> Result<Vec<(Service, Route)>, CheckError> {
        let mut lines = load.lines();
        lines.retain(|line| only.is_none_or(|only| only.takes_in(line.0)));
        if lines.is_empty() {
            Err(self.not_measured(row, load, only))
        } else {
            Ok(lines)
        }
    }

    /// That a row asks for a service, or for any thread, that `load` was not
    /// recorded with.
    pub(super) fn not_measured(
        &self,
        row: &RequirementRow,
        load: &Load,
        service: Option<Service>,
    ) -> CheckError {
        let all = load.lines().into_iter();
        let names = all.map(|(service, route)| line_name(service, route));
        let under = load.label.load().map(|load| format!(" under `{load}`"));
        let wrong = Wrong::NotMeasured {
            service: service.map_or_else(|| "a thread".into(), |it| it.to_string()),
            load: under.unwrap_or_default(),
            measured: names.collect::<Vec<_>>().join(", "),
        };
        self.wrong(row, wrong)
    }

    /// A row of which nothing is known yet.
    pub(super) fn row(
        &self,
        row: &RequirementRow,
        load: &Load,
        line: Option<(Service, Route)>,
    ) -> CheckedRow {
        CheckedRow {
            place: row.place,
            name: row.name.clone(),
            title: sentences::title(&row.requirement),
            requirement: row.requirement.clone(),
            load: load.label.clone(),
            service: line.map(|line| line.0),
            route: line.map(|line| line.1),
            verdict: CheckVerdict::NotDecided,
            why: None,
            figure: None,
            needed_ns: None,
            longest_stall_ns: None,
            holds_to_ns: None,
            holds_to_burst: None,
            sentence: String::new(),
        }
    }

    pub(super) fn against(&self, seen: &Tallied, limit: f64) -> Result<AgainstLimit, InputError> {
        against_limit(seen, limit, self.question.confidence())
    }

    /// The verdict on a count.
    pub(super) fn judge(
        &self,
        checked: &mut CheckedRow,
        (row, load): (&RequirementRow, &Load),
        count: &CountAndLimit<'_>,
    ) -> Result<(), InputError> {
        let found = &count.found;
        let undecided = match (count.is_waiting_late, found.verdict) {
            _ if row.is_of_less_than(load) => Some(Undecided::LoadEnded),
            // It has not ended, so no share or mean time of it is known.
            (Some(true), _) => None,
            _ if !load.is_trusted() => Some(Undecided::NotTrustworthy),
            (_, LimitVerdict::Beyond) => None,
            (Some(false), _) => Some(Undecided::StillWaiting),
            _ if !count.is_kept => Some(Undecided::NotKept),
            _ if load.has_ended_early() => Some(Undecided::LoadEnded),
            (None, LimitVerdict::Within) => {
                checked.verdict = CheckVerdict::Met;
                return Ok(());
            }
            (None, LimitVerdict::Unclear) => Some(self.unclear(count)?),
        };
        if undecided.is_none() {
            checked.verdict = CheckVerdict::Broken;
        }
        if matches!(undecided, Some(Undecided::TooShort | Undecided::LongStalls)) {
            let runs = load.runs.iter();
            let recorded: f64 = runs.map(|run| run.duration.as_f64()).sum();
            let mut least_times = 0.0;
            if checked.longest_stall_ns.is_some() {
                // If nothing else is late, the answer must still cover the longest stall.
                let stalls = rate_upper_limit(0.0, 1.0, self.question.confidence())?;
                least_times = stalls * count.seen.together / found.limit;
            }
            let times = found.times.map(|times| times.max(least_times));
            checked.needed_ns = times.map(|times| times * recorded);
        }
        checked.why = undecided;
        Ok(())
    }

    /// Returns why a count is not decided: lost wakeups, stalls that are longer than
    /// the recording can exclude, or its length.
    fn unclear(&self, count: &CountAndLimit<'_>) -> Result<Undecided, InputError> {
        let all_known = Tallied {
            most: count.seen.least,
            ..*count.seen
        };
        let is_lost = count.seen.most > count.seen.least
            && self.against(&all_known, count.found.limit)?.verdict == LimitVerdict::Within;
        let of_seen = count.found.holds_to.zip(count.together);
        Ok(if is_lost {
            Undecided::NotKept
        } else if of_seen.is_some_and(|(holds_to, seen)| holds_to >= seen) {
            Undecided::LongStalls
        } else {
            Undecided::TooShort
        })
    }
}
