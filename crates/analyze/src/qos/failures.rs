//! When a stream of jobs failed, and how many independent failures that is.

use super::late::Stalls;
use super::observed::Pick;
use super::{Buffering, LateJobs, Observed};
use crate::InputError;
use crate::counts::{Clusters, Event};

/// Phases over which each replay is averaged.
pub(super) const PHASES: u32 = 16;
/// A run of more late jobs than this counts once per so many: an application
/// that is always late does not fail once.
pub(super) const LONG_RUN: f64 = 100.0;

/// The failures that `episodes` runs of late jobs with `misses` jobs in all
/// count as: a run of more than 100 counts once per 100.
pub const fn failures_of_counts(episodes: f64, misses: f64) -> f64 {
    episodes.max(misses / LONG_RUN)
}

/// The failures of one list of blackouts, all CPUs together, means over phases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failures {
    /// Failures.
    pub(super) count: f64,
    /// Late jobs.
    pub(super) misses: f64,
    /// What is independent in them; `None` without any.
    pub(super) clusters: Option<Clusters>,
    /// How long was observed by the clock on the wall.
    pub(super) span: f64,
}

impl Failures {
    pub(super) fn of(
        observed: &[Observed],
        pick: Pick,
        buffering: Buffering,
    ) -> Result<Self, InputError> {
        let (starts, span) = recordings(observed);
        let (mut count, mut misses) = (0.0, 0.0);
        let mut events = Vec::new();
        for (one, start) in observed.iter().zip(starts) {
            let found = of_cpu(one, pick, buffering)?;
            count += found.count;
            misses += found.misses;
            let since = |event: Event| Event {
                // A job that is due at the very end belongs to this recording.
                at: start + event.at.min(one.exposure),
                ..event
            };
            events.extend(found.events.into_iter().map(since));
        }
        events.sort_by(|one: &Event, other| one.at.total_cmp(&other.at));
        Ok(Self {
            count,
            misses,
            clusters: Clusters::of(&events, span)?,
            span,
        })
    }
}

/// When the recording of each began, were they made one after the other, and
/// how long all take. CPUs of one recording began together.
fn recordings(observed: &[Observed]) -> (Vec<f64>, f64) {
    let mut known: Vec<(usize, f64)> = Vec::new();
    for one in observed {
        match known.iter_mut().find(|(name, _)| *name == one.recording) {
            Some((_, length)) => *length = length.max(one.exposure),
            None => known.push((one.recording, one.exposure)),
        }
    }
    let before = |recording: usize| -> f64 {
        let earlier = known.iter().take_while(|(name, _)| *name != recording);
        earlier.map(|(_, length)| length).sum()
    };
    let starts = observed.iter().map(|one| before(one.recording)).collect();
    (starts, known.iter().map(|(_, length)| length).sum())
}

struct OfCpu {
    count: f64,
    misses: f64,
    events: Vec<Event>,
}

fn of_cpu(one: &Observed, pick: Pick, buffering: Buffering) -> Result<OfCpu, InputError> {
    let share = 1.0 / f64::from(PHASES);
    let (mut episodes, mut misses) = (0, 0);
    let mut pieces = Vec::new();
    let stalls = Stalls::new(pick(&one.blackouts), one.exposure, buffering, one.base)?;
    for index in 0..PHASES {
        let phase = (f64::from(index) + 0.5) * share * buffering.period();
        let late = stalls.late_jobs(phase)?;
        episodes += late.episodes.len();
        misses += late.misses.len();
        pieces_of(&late, share, &mut pieces);
    }
    pieces.sort_by(|one: &Event, other| one.at.total_cmp(&other.at));
    let misses = misses as f64 * share;
    Ok(OfCpu {
        count: failures_of_counts(episodes as f64 * share, misses),
        misses,
        events: incidents(pieces, buffering.period()),
    })
}

/// The runs of late jobs, a long one in pieces of 100 jobs.
fn pieces_of(late: &LateJobs, share: f64, all: &mut Vec<Event>) {
    let mut begin = 0;
    for length in late.runs() {
        let jobs = &late.misses[begin..begin + length];
        for piece in jobs.chunks(crate::sample::index(LONG_RUN)) {
            let whole = length as f64 <= LONG_RUN;
            let size = if whole {
                1.0
            } else {
                piece.len() as f64 / LONG_RUN
            };
            let at = piece[0];
            let size = size * share;
            all.push(Event { at, size });
        }
        begin += length;
    }
}

/// The same failure in several phases as one: its first late jobs are due
/// within one period, two failures of one phase are not.
fn incidents(pieces: Vec<Event>, period: f64) -> Vec<Event> {
    let mut found: Vec<Event> = Vec::new();
    for piece in pieces {
        match found.last_mut() {
            Some(last) if piece.at < last.at + period => last.size += piece.size,
            _ => found.push(piece),
        }
    }
    found
}
