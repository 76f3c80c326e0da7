//! Shared parts of checking a requirement.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use laggard_analyze::InputError;
use laggard_analyze::counts::{
    AgainstLimit, LimitVerdict, Tallied, VerdictConfidence, against_limit, rate_upper_limit,
};
use laggard_model::name::line_name;
use laggard_model::{Route, Service};
use laggard_record::OpenError;

use super::{
    CheckLook, CheckedRow, RequirementError, RequirementRow, Requirements, TestVerdict, Undecided,
    Wrong,
};
use crate::compare::CompareError;
use crate::load::{Load, LoadError};
use crate::qos::QosError;

/// Recordings and the requirements on them.
#[derive(Clone, Debug)]
pub struct CheckQuestion {
    pub recordings: Vec<PathBuf>,
    /// Recordings to compare with.
    pub baseline: Vec<PathBuf>,
    pub requirements: Requirements,
    /// Number of the evaluation, if recording continues.
    pub look: Option<CheckLook>,
    /// Maximum number of threads that read. The answer does not depend on it.
    pub threads: NonZeroUsize,
}

impl CheckQuestion {
    pub(super) fn confidence(&self) -> VerdictConfidence {
        CheckLook::confidence(self.look.as_ref(), self.requirements.confidence)
    }
}

/// Error of `laggard check`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// A recording cannot be opened, or is given twice.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A recording cannot be read again.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A requirement is wrong, or the recordings do not have its data.
    #[error(transparent)]
    Requirement(#[from] RequirementError),
    /// The recordings cannot be compared with the baseline.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// The rate of misses of an application cannot be computed.
    #[error(transparent)]
    Qos(#[from] QosError),
    /// A figure is out of its range.
    #[error(transparent)]
    Input(#[from] InputError),
}

impl CheckError {
    /// Returns whether the reason is the measurement and not the question.
    pub const fn is_untrustworthy(&self) -> bool {
        matches!(self, Self::Compare(error) if error.is_untrustworthy())
    }
}

/// Question and the recordings per load.
pub(super) struct Checking<'a> {
    pub(super) question: &'a CheckQuestion,
    pub(super) loads: &'a [Load],
}

/// Number of events and its limit.
pub(super) struct CountAndLimit<'a> {
    pub(super) seen: &'a Tallied,
    pub(super) found: AgainstLimit,
    /// Whether a thread that was still waiting when measuring ended was beyond the limit;
    /// `None` if none was waiting.
    pub(super) is_waiting_late: Option<bool>,
    /// Whether the recording has every event.
    pub(super) is_kept: bool,
    /// Number of late wakeups that the recording shows in one stall; `None` if the figure does not
    /// depend on the length of stalls.
    pub(super) together: Option<f64>,
}

impl<'a> Checking<'a> {
    /// Returns an error with the place of the row.
    pub(super) fn wrong(&self, row: &RequirementRow, wrong: Wrong) -> CheckError {
        CheckError::Requirement(RequirementError::At {
            file: self.question.requirements.file.clone(),
            place: row.place,
            source: wrong.into(),
        })
    }

    /// Returns the loads that a requirement applies to.
    pub(super) fn chosen(&self, row: &RequirementRow) -> Result<Vec<&'a Load>, CheckError> {
        let applies = |load: &&Load| {
            let name = row.load.as_deref();
            name.is_none_or(|name| load.label.as_str() == name)
        };
        let chosen: Vec<&Load> = self.loads.iter().filter(applies).collect();
        if let (true, Some(load)) = (chosen.is_empty(), &row.load) {
            let recorded: Vec<&str> = self.loads.iter().map(|load| load.label.as_str()).collect();
            let wrong = Wrong::NotLoaded {
                load: load.clone(),
                recorded: recorded.join(", "),
            };
            return Err(self.wrong(row, wrong));
        }
        Ok(chosen)
    }

    /// Returns the measured series of the service under `load`.
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

    /// Returns the error that the recordings of `load` do not have the service, or any
    /// thread.
    pub(super) fn not_measured(
        &self,
        row: &RequirementRow,
        load: &Load,
        service: Option<Service>,
    ) -> CheckError {
        let lines = load.lines().into_iter();
        let names = lines.map(|(service, route)| line_name(service, route));
        let wrong = Wrong::NotMeasured {
            service,
            load: load.label.load().map(str::to_owned),
            measured: names.collect::<Vec<_>>().join(", "),
        };
        self.wrong(row, wrong)
    }

    /// Returns a row without a verdict.
    pub(super) fn row(
        &self,
        row: &RequirementRow,
        load: &Load,
        line: Option<(Service, Route)>,
    ) -> CheckedRow {
        CheckedRow {
            place: row.place,
            name: row.name.clone(),
            requirement: row.requirement.clone(),
            load: load.label.clone(),
            service: line.map(|line| line.0),
            route: line.map(|line| line.1),
            verdict: TestVerdict::Unknown,
            why: None,
            figure: None,
            needed_ns: None,
            longest_stall_ns: None,
            holds_to_ns: None,
            holds_to_burst: None,
            level_ns: None,
            worst_cpus: None,
            handler: None,
        }
    }

    pub(super) fn against(&self, tally: &Tallied, limit: f64) -> Result<AgainstLimit, InputError> {
        against_limit(tally, limit, self.question.confidence())
    }

    /// Sets the verdict on a number of events.
    pub(super) fn judge(
        &self,
        checked: &mut CheckedRow,
        (row, load): (&RequirementRow, &Load),
        count: &CountAndLimit<'_>,
    ) -> Result<(), InputError> {
        let against = &count.found;
        let undecided = match (count.is_waiting_late, against.verdict) {
            _ if row.is_of_less_than(load) => Some(Undecided::LoadEnded),
            // The wait has not ended, but it is already longer than the limit.
            (Some(true), _) => None,
            _ if !load.is_trusted() => Some(Undecided::NotTrustworthy),
            (_, LimitVerdict::Beyond) => None,
            (Some(false), _) => Some(Undecided::StillWaiting),
            _ if !count.is_kept => Some(Undecided::NotKept),
            _ if load.has_ended_early() => Some(Undecided::LoadEnded),
            (None, LimitVerdict::Within) => {
                checked.verdict = TestVerdict::Pass;
                return Ok(());
            }
            (None, LimitVerdict::Unclear) => Some(self.unclear(count)?),
        };
        if undecided.is_none() {
            checked.verdict = TestVerdict::Fail;
        }
        if matches!(undecided, Some(Undecided::TooShort | Undecided::LongStalls)) {
            let runs = load.runs.iter();
            let recorded: f64 = runs.map(|run| run.duration.as_f64()).sum();
            let mut least_times = 0.0;
            if checked.longest_stall_ns.is_some() {
                // If nothing else is late, the answer must still cover the longest stall.
                let stalls = rate_upper_limit(0.0, 1.0, self.question.confidence().within)?;
                least_times = stalls * count.seen.together / against.limit;
            }
            let times = against.times.map(|times| times.max(least_times));
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
