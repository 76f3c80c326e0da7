//! Known causes of late wakeups, for forecasts.

use std::collections::{BTreeMap, HashMap};

use laggard_analyze::causes::{Explanation, Pieces, explain_named};
use laggard_analyze::forecast::{CauseSource, ExplainedLatency};
use laggard_model::{
    CauseClass, Culprit, Episode, EpisodeNotes, Line, Manifest, NamedCause, Nanos, Route, RowsOf,
    Service, Symbols,
};

use laggard_record::{OpenError, Recording};
use schemars::JsonSchema;
use serde::Serialize;

use crate::why::late_by;

/// Latency that the pieces of late wakeups could cause together (after ECRTS 2020, de Oliveira et
/// al.).
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Composed {
    /// Total, ns; absent if the higher-priority work leaves the service no time.
    pub latency_ns: Option<f64>,
    /// Longest time in one wakeup during which preemption was impossible.
    pub blocking_ns: Nanos,
    /// Largest part of the blocking time.
    pub blocked_by: Option<NamedCause>,
    /// Time of the wakeup's interrupt, wakeup path, context switch and return.
    pub own_ns: Nanos,
    /// Longest unexplained time in one wakeup. It is not included.
    pub unexplained_ns: Nanos,
    /// Work that preempts the service, longest first.
    pub above: Vec<Above>,
    /// Number of late wakeups that were used.
    pub episodes: usize,
}

/// Cause that delays a service and that the service cannot preempt.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Above {
    #[serde(flatten)]
    pub cause: NamedCause,
    /// Maximum time in a window of the length of the latency, ns.
    pub time_ns: f64,
}

/// Causes whose peaks share one tail or one period.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "set", rename_all = "snake_case")]
pub enum CauseSet {
    Cause(NamedCause),
    /// All causes of a class.
    Class {
        class: CauseClass,
    },
    /// All causes without a separate set.
    Others,
}

/// Reason why late wakeups lack trace data.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingTraces {
    /// `laggard attach` does not keep all late wakeups of the threads that it watches.
    WatchedThreads,
    /// The latency threshold was not known in the first seconds.
    LearnedThreshold,
    /// There were too many late wakeups.
    TooMany,
}

/// Causes of the late wakeups of some recordings.
#[derive(Debug, Default)]
pub struct KnownCauses {
    /// Detailed causes, with the place in the code.
    causes: Vec<NamedCause>,
    numbers: HashMap<NamedCause, usize>,
    /// Per detailed cause: number of the same cause without the place, in `culprits`.
    without_place: Vec<usize>,
    culprits: Vec<NamedCause>,
    /// Positions in `culprits`.
    culprit_numbers: HashMap<NamedCause, usize>,
    recordings: Vec<Vec<(Service, Route, ExplainedLatency)>>,
    pieces: BTreeMap<(Service, Route), Pieces>,
    /// Latency threshold per service.
    thresholds: BTreeMap<(Service, Route), Nanos>,
    /// Names of the pieces.
    symbols: Symbols,
    /// Late wakeups of all recordings that were not kept: because there were too many, and because
    /// the threshold was not known yet.
    not_kept: (u64, u64),
    /// True if some late wakeups belong to threads of other programs.
    has_activations: bool,
}

impl KnownCauses {
    /// Adds all late wakeups of the next recording, with their causes.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn read(&mut self, recording: &Recording) -> Result<(), OpenError> {
        let lines = &recording.manifest().lines;
        self.start_recording(recording.manifest());
        let read = recording.each_episode(|episode, notes| {
            let line = lines.get(usize::from(episode.line.0));
            if let (Some(episode), Some(&line), Some(notes)) =
                (late_by(episode, notes), line, notes)
            {
                self.add(&episode, line, &notes.symbols);
            }
        })?;
        if let Some(notes) = read.notes {
            self.end_recording(&notes);
        }
        Ok(())
    }

    /// Starts a recording. Late wakeups that are added next belong to it.
    pub(crate) fn start_recording(&mut self, manifest: &Manifest) {
        self.next_recording();
        self.has_activations |= manifest.plan.rows == RowsOf::Activations;
    }

    /// Adds the notes on the late wakeups of a recording.
    pub(crate) fn end_recording(&mut self, notes: &EpisodeNotes) {
        self.name_by(&notes.symbols);
        self.add_choice(notes);
    }

    /// Starts the next recording. Later additions belong to it.
    fn next_recording(&mut self) {
        self.recordings.push(Vec::new());
    }

    /// Adds the names of the current recording. Addresses identify them, so a kernel's names stay
    /// the same until it reboots.
    fn name_by(&mut self, symbols: &Symbols) {
        let names = &mut self.symbols;
        names.kernel.extend(symbols.kernel.clone());
        names.interrupts.extend(symbols.interrupts.clone());
    }

    /// Adds the selection rules of the late wakeups of the current recording.
    fn add_choice(&mut self, notes: &EpisodeNotes) {
        self.not_kept.0 += notes.surplus;
        self.not_kept.1 += notes.lines.iter().map(|line| line.early).sum::<u64>();
    }

    /// Returns why some late wakeups lack trace data; `None` if all have it.
    pub(crate) const fn missing_traces(&self) -> Option<MissingTraces> {
        match self.not_kept {
            (0, 0) => None,
            _ if self.has_activations => Some(MissingTraces::WatchedThreads),
            (0, _) => Some(MissingTraces::LearnedThreshold),
            _ => Some(MissingTraces::TooMany),
        }
    }

    /// Adds a late wakeup of `line`; `symbols` belong to its recording.
    pub(crate) fn add(&mut self, episode: &Episode, line: Line, symbols: &Symbols) {
        let explanation = explain_named(episode, line.service, line.route, symbols);
        self.add_explained(episode, line, symbols, &explanation);
    }

    /// Adds a late wakeup of `line` that is already explained.
    pub(crate) fn add_explained(
        &mut self,
        episode: &Episode,
        line: Line,
        symbols: &Symbols,
        explanation: &Explanation,
    ) {
        let parts: Vec<(usize, Nanos)> = explanation
            .causes
            .iter()
            .map(|cause| {
                let number = self.number(cause.class, &cause.culprit, symbols);
                (number, cause.time_ns)
            })
            .collect();
        let threshold = self
            .thresholds
            .entry((line.service, line.route))
            .or_default();
        *threshold = episode.threshold_ns.max(*threshold);
        // Normal threads share the CPU in turns, and no piece bounds the length of a turn.
        if !line.service.is_normal_thread() {
            self.pieces
                .entry((line.service, line.route))
                .or_default()
                .add(explanation);
        }
        let read = episode.readings();
        if self.recordings.is_empty() {
            self.next_recording();
        }
        let Some(recording) = self.recordings.last_mut() else {
            return;
        };
        // The interrupts of all lines form a separate service. The causes of the episode up to the
        // interrupt apply to it, too.
        if let Some(latency) = read.irq {
            let mut left = latency;
            let mut early: Vec<(usize, Nanos)> = Vec::new();
            let causes = explanation.causes.iter().zip(&parts);
            let numbers: HashMap<(CauseClass, &Culprit), usize> = causes
                .map(|(cause, (number, _))| ((cause.class, &cause.culprit), *number))
                .collect();
            for part in &explanation.parts {
                if left == Nanos::ZERO {
                    break;
                }
                let time = part.time().min(left);
                left = left.saturating_sub(time);
                let number = numbers.get(&(part.class, &part.culprit));
                early.extend(number.map(|&number| (number, time)));
            }
            let explained = ExplainedLatency {
                expiry: episode.expiry_ns,
                latency,
                parts: summed(early),
            };
            let irqs = line.interrupts();
            recording.push((irqs.service, irqs.route, explained));
        }
        let explained = ExplainedLatency {
            expiry: episode.expiry_ns,
            latency: read.own,
            parts: summed(parts),
        };
        recording.push((line.service, line.route, explained));
    }

    fn number(&mut self, class: CauseClass, culprit: &Culprit, symbols: &Symbols) -> usize {
        let cause = NamedCause::from_culprit(class, culprit, symbols);
        if let Some(&number) = self.numbers.get(&cause) {
            return number;
        }
        let coarse = NamedCause::without_place(class, culprit, symbols);
        let culprits = &mut self.culprits;
        let coarse = self.culprit_numbers.entry(coarse);
        let coarse = *coarse.or_insert_with_key(|coarse| {
            culprits.push(coarse.clone());
            culprits.len() - 1
        });
        let number = self.causes.len();
        self.without_place.push(coarse);
        self.causes.push(cause.clone());
        self.numbers.insert(cause, number);
        number
    }

    /// Returns the late wakeups of a service in one recording, in order of expiry.
    pub(crate) fn of(
        &self,
        service: Service,
        route: Route,
        recording: usize,
    ) -> Vec<ExplainedLatency> {
        let matching = self
            .recordings
            .get(recording)
            .map_or(&[][..], Vec::as_slice);
        let mut late: Vec<ExplainedLatency> = matching
            .iter()
            .filter(|entry| (entry.0, entry.1) == (service, route))
            .map(|entry| entry.2.clone())
            .collect();
        late.sort_by_key(|latency| latency.expiry);
        late
    }

    /// Returns the latency threshold of a service, ns.
    pub(crate) fn threshold(&self, service: Service, route: Route) -> f64 {
        self.thresholds
            .get(&(service, route))
            .map_or(0.0, |threshold| threshold.as_f64())
    }

    /// Computes the latency that the pieces of a service's latencies could cause together.
    pub(crate) fn composed(&self, service: Service, route: Route) -> Option<Composed> {
        let composition = self.pieces.get(&(service, route))?.compose()?;
        let name = |(class, culprit): &(CauseClass, Culprit)| {
            NamedCause::from_culprit(*class, culprit, &self.symbols)
        };
        Some(Composed {
            latency_ns: composition.latency,
            blocking_ns: composition.blocking,
            blocked_by: composition.blocked_by.as_ref().map(name),
            own_ns: composition.own,
            unexplained_ns: composition.unexplained,
            above: composition
                .above
                .iter()
                .map(|(source, time_ns)| Above {
                    cause: name(source),
                    time_ns: *time_ns,
                })
                .collect(),
            episodes: composition.episodes,
        })
    }

    /// Returns the number of a cause with its place in the code.
    pub(crate) fn number_of(&self, cause: &NamedCause) -> Option<usize> {
        self.numbers.get(cause).copied()
    }

    /// Returns the number of a cause without its place.
    pub(crate) fn culprit_of(&self, cause: usize) -> Option<usize> {
        self.without_place.get(cause).copied()
    }

    /// Returns the class number of each culprit.
    pub(crate) fn classes(&self) -> Vec<usize> {
        self.culprits
            .iter()
            .map(|culprit| culprit.class as usize)
            .collect()
    }

    /// Returns the causes of a source of a mixture.
    pub(crate) fn set(&self, source: CauseSource) -> CauseSet {
        let set = match source {
            CauseSource::Cause(culprit) => self.culprits.get(culprit).cloned().map(CauseSet::Cause),
            CauseSource::Class(number) => CauseClass::ALL
                .into_iter()
                .find(|class| *class as usize == number)
                .map(|class| CauseSet::Class { class }),
            CauseSource::Others => None,
        };
        set.unwrap_or(CauseSet::Others)
    }
}

/// Merges equal causes.
fn summed(parts: Vec<(usize, Nanos)>) -> Vec<(usize, Nanos)> {
    let mut sums: Vec<(usize, Nanos)> = Vec::new();
    let mut places: HashMap<usize, usize> = HashMap::new();
    for (cause, time) in parts {
        let place = *places.entry(cause).or_insert(sums.len());
        if place == sums.len() {
            sums.push((cause, Nanos::ZERO));
        }
        sums[place].1 += time;
    }
    sums
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use laggard_made::Made;
    use laggard_model::{LineWatch, Stage};

    use super::*;
    use crate::{Ask, loads};

    #[test]
    fn the_causes_of_a_load_are_those_of_all_its_recordings() {
        let dir = tempfile::tempdir().unwrap();
        let line = laggard_made::late::manifest().lines[0];
        let recorded = |name: &str, episodes: std::ops::Range<u64>, seed| {
            let mut made = Made::new(&[line]).served(0, 10, &[(Stage::User, 16_000)]);
            made.manifest.plan.seed = seed;
            let late: Vec<Episode> = episodes.map(laggard_made::late::episode).collect();
            let path = dir.path().join(name);
            made.record_with(&path, &late, &laggard_made::late::notes());
            path
        };
        let dirs = [recorded("a", 1..4, 1), recorded("b", 4..6, 2)];

        let causes = loads(&Ask::of(&dirs)).unwrap()[0].causes().unwrap();

        // One entry belongs to the thread and one to its interrupt.
        let of_each = causes.recordings.iter().map(Vec::len);
        assert_eq!(of_each.collect::<Vec<_>>(), [6, 4]);
        let names: BTreeSet<_> = causes
            .culprits
            .iter()
            .map(|culprit| culprit.who.clone())
            .collect();
        assert!(names.contains(&Some("hog".into())), "{names:?}");
        assert!(causes.threshold(line.service, line.route) > 0.0);
    }

    #[test]
    fn reason_for_missing_traces_is_known() {
        let missing = |has_activations, surplus, early| {
            let mut causes = KnownCauses {
                has_activations,
                ..KnownCauses::default()
            };
            causes.add_choice(&EpisodeNotes {
                surplus,
                lines: vec![LineWatch {
                    early,
                    ..LineWatch::default()
                }],
                ..EpisodeNotes::default()
            });
            causes.missing_traces()
        };

        assert_eq!(missing(false, 0, 0), None);
        assert_eq!(missing(false, 0, 2), Some(MissingTraces::LearnedThreshold));
        assert_eq!(missing(false, 9, 2), Some(MissingTraces::TooMany));
        for (surplus, early) in [(9, 2), (9, 0), (0, 2)] {
            let missing = missing(true, surplus, early);
            assert_eq!(missing, Some(MissingTraces::WatchedThreads));
        }
    }
}
