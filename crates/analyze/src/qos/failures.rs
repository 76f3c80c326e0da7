//! Times of failures of a stream of jobs, and the number of independent failures.

use super::late::Stalls;
use super::observed::Pick;
use super::{Buffering, LateJobs, Observed};
use crate::counts::{Clusters, Event, clustered_interval};
use crate::{InputError, Interval};

/// Number of phases over which each replay is averaged.
pub(super) const PHASES: u32 = 16;
/// Number of late jobs that count as one failure in a longer run: an application that
/// is always late does not fail once.
pub(super) const LONG_RUN: f64 = 100.0;

/// Returns the number of failures for `episodes` runs of late jobs with `misses` jobs
/// in all: a run of more than 100 counts once per 100.
pub const fn failures_of_counts(episodes: f64, misses: f64) -> f64 {
    episodes.max(misses / LONG_RUN)
}

/// Failures from one list of blackouts over all CPUs, averaged over phases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failures {
    /// Number of failures.
    pub(super) count: f64,
    /// Number of late jobs.
    pub(super) misses: f64,
    /// Independent clusters of failures; `None` without failures.
    pub(super) clusters: Option<Clusters>,
    /// Observed wall-clock time.
    pub(super) span: f64,
}

impl Failures {
    pub(super) fn new(
        observed: &[Observed],
        pick: Pick,
        buffering: Buffering,
    ) -> Result<Self, InputError> {
        let (starts, span) = recordings(observed);
        let (mut count, mut misses) = (0.0, 0.0);
        let mut events = Vec::new();
        for (cpu, start) in observed.iter().zip(starts) {
            let late = of_cpu(cpu, pick, buffering)?;
            count += late.count;
            misses += late.misses;
            let since = |event: Event| Event {
                // A job that is due at the very end belongs to this recording.
                at: start + event.at.min(cpu.exposure),
                ..event
            };
            events.extend(late.events.into_iter().map(since));
        }
        events.sort_by(|a: &Event, b| a.at.total_cmp(&b.at));
        Ok(Self {
            count,
            misses,
            clusters: Clusters::find(&events, span)?,
            span,
        })
    }

    /// Returns the interval of the expected number of failures.
    pub(super) fn interval(&self, confidence: f64) -> Result<Interval, InputError> {
        interval_of_failures(self.count, self.clusters, confidence)
    }
}

/// Returns the interval of the expected number of failures: the wider limits of clusters, and
/// of a rate that may vary slowly even if the recording does not show it.
pub(super) fn interval_of_failures(
    count: f64,
    clusters: Option<Clusters>,
    confidence: f64,
) -> Result<Interval, InputError> {
    let steady = clustered_interval(count, clusters, confidence)?;
    let Some(slow) = clusters.and_then(|clusters| clusters.slow) else {
        return Ok(steady);
    };
    let slow = slow.interval(count, confidence)?;
    Ok(Interval::new(
        steady.low.min(slow.low),
        steady.high.max(slow.high),
    ))
}

/// Returns the start of each recording if they had been made one after the other, and
/// their total duration. CPUs of one recording start together.
fn recordings(observed: &[Observed]) -> (Vec<f64>, f64) {
    let mut recordings: Vec<(usize, f64)> = Vec::new();
    for cpu in observed {
        match recordings
            .iter_mut()
            .find(|(name, _)| *name == cpu.recording)
        {
            Some((_, length)) => *length = length.max(cpu.exposure),
            None => recordings.push((cpu.recording, cpu.exposure)),
        }
    }
    let before = |recording: usize| -> f64 {
        let earlier = recordings.iter().take_while(|(name, _)| *name != recording);
        earlier.map(|(_, length)| length).sum()
    };
    let starts = observed.iter().map(|cpu| before(cpu.recording)).collect();
    (starts, recordings.iter().map(|(_, length)| length).sum())
}

struct OfCpu {
    count: f64,
    misses: f64,
    events: Vec<Event>,
}

fn of_cpu(cpu: &Observed, pick: Pick, buffering: Buffering) -> Result<OfCpu, InputError> {
    let share = 1.0 / f64::from(PHASES);
    let (mut episodes, mut misses) = (0, 0);
    let mut pieces = Vec::new();
    let stalls = Stalls::new(pick(&cpu.blackouts), cpu.exposure, buffering, cpu.base)?;
    for index in 0..PHASES {
        let phase = (f64::from(index) + 0.5) * share * buffering.period();
        let late = stalls.late_jobs(phase)?;
        episodes += late.episodes.len();
        misses += late.misses.len();
        pieces_of(&late, share, &mut pieces);
    }
    pieces.sort_by(|a: &Event, b| a.at.total_cmp(&b.at));
    let misses = misses as f64 * share;
    Ok(OfCpu {
        count: failures_of_counts(episodes as f64 * share, misses),
        misses,
        events: incidents(pieces, buffering.period()),
    })
}

/// Appends the runs of late jobs; long ones in pieces of 100 jobs.
fn pieces_of(late: &LateJobs, share: f64, pieces: &mut Vec<Event>) {
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
            let time = piece[0];
            let size = size * share;
            pieces.push(Event { at: time, size });
        }
        begin += length;
    }
}

/// Merges the same failure in several phases: its first late jobs are due within one
/// period, and two failures of one phase are not.
fn incidents(pieces: Vec<Event>, period: f64) -> Vec<Event> {
    let mut incidents: Vec<Event> = Vec::new();
    for piece in pieces {
        match incidents.last_mut() {
            Some(last) if piece.at < last.at + period => last.size += piece.size,
            _ => incidents.push(piece),
        }
    }
    incidents
}
