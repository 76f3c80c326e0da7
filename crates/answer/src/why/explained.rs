//! Late wakeups of a recording with their explanations, the input of all answers about
//! them.

use std::collections::HashMap;
use std::sync::Arc;

use laggard_analyze::causes::{CpuTimeline, Explanation, Part, explain_named, timelines};
use laggard_analyze::distribution::Group;
use laggard_model::{
    Cause, CauseClass, Cpu, Episode, EpisodeNotes, Evidence, Histogram, Line, Manifest, Nanos,
    Route, RowsOf, Service, Symbols,
};
use laggard_record::{Episodes, Recording, Shortfall};

use super::EpisodesError;
use crate::causes::KnownCauses;

/// Late wakeups of a recording.
#[derive(Debug)]
pub struct RecordedEpisodes {
    pub path: String,
    pub manifest: Manifest,
    pub episodes: Vec<Episode>,
    /// Notes on the selection of the episodes.
    pub notes: EpisodeNotes,
    /// Maxima of each series by its samples. Empty: the samples were not read.
    pub latest: Vec<SeriesMaxima>,
    /// End of the samples, if the recording lacks an end.
    pub samples_end: Option<Nanos>,
    /// Number of kept episodes that could not be read.
    pub missing: u64,
    /// Missing parts of the recording.
    pub shortfalls: Vec<Shortfall>,
}

/// Maximum latencies of a series by its samples.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SeriesMaxima {
    pub service: Service,
    pub route: Route,
    /// Maximum of all samples.
    pub max_ns: Nanos,
    /// Maximum of the samples up to the largest threshold of the series, rounded up to the
    /// edge of its bucket. Episodes do not contain these samples. Absent if the samples or the
    /// threshold are missing.
    pub in_time_max_ns: Option<Nanos>,
}

const LINUX: &str = "record as root on a kernel with BTF, without `--episodes off`";
const WINDOWS: &str =
    "record as an administrator (needed to trace the Windows kernel), without `--episodes off`";

/// Returns the way to record the causes of late wakeups on this system.
fn evidence_remedy(manifest: &Manifest) -> &'static str {
    if manifest.host.is_windows() {
        WINDOWS
    } else {
        LINUX
    }
}

impl RecordedEpisodes {
    /// Returns the late wakeups of a whole recording whose samples were not read.
    pub fn new(
        path: impl Into<String>,
        manifest: Manifest,
        episodes: Vec<Episode>,
        notes: EpisodeNotes,
    ) -> Self {
        Self {
            path: path.into(),
            manifest,
            episodes,
            notes,
            latest: Vec::new(),
            samples_end: None,
            missing: 0,
            shortfalls: Vec::new(),
        }
    }

    /// Reads the late wakeups that a recording kept, without early maxima, and
    /// lists what is missing from it.
    ///
    /// # Errors
    /// When none were recorded, or the notes on their selection cannot be read.
    pub fn read(recording: &Recording) -> Result<Self, EpisodesError> {
        Self::read_with(recording, |_| true)
    }

    /// Reads as [`Self::read`], and keeps only the trace data of `wanted` episodes.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_with(
        recording: &Recording,
        wanted: impl Fn(&Episode) -> bool,
    ) -> Result<Self, EpisodesError> {
        let mut episodes = Vec::new();
        let read = recording.each_episode(|episode, notes| {
            let Some(mut episode) = late_by(episode, notes) else {
                return;
            };
            if !wanted(&episode) {
                drop_evidence(&mut episode);
            }
            episodes.push(episode);
        })?;
        Self::from_recording(recording, Episodes { episodes, ..read })
    }

    /// Reads only the episode with this number.
    ///
    /// # Errors
    /// When it does not exist, or as [`Self::read`].
    pub fn read_one(recording: &Recording, number: u64) -> Result<Self, EpisodesError> {
        let mut episodes = Vec::new();
        let mut kept = 0;
        let read = recording.each_episode(|episode, _| {
            kept += 1;
            if episode.number == number {
                episodes.push(episode);
            }
        })?;
        let late = Self::from_recording(recording, Episodes { episodes, ..read })?;
        if late.episodes.is_empty() {
            return Err(EpisodesError::NoSuch {
                path: late.path,
                number,
                kept,
            });
        }
        Ok(late)
    }

    /// Notes the maxima of the samples. Without them, the effect of a fix is unknown,
    /// because it does not change wakeups that were in time.
    pub fn note_samples<'a>(
        &mut self,
        groups: impl IntoIterator<Item = &'a Group>,
        end: Option<Nanos>,
    ) {
        let maxima = groups.into_iter().filter_map(|group| {
            let (service, route) = (group.key.service, group.key.route);
            let histogram = group.latency.histogram();
            let max_ns = histogram.max()?;
            let in_time = self.max_threshold(service, route).and_then(|threshold| {
                let limit = Histogram::bucket_of(threshold);
                let buckets = histogram.buckets().map(|(bucket, _)| bucket);
                let bucket = buckets.take_while(|bucket| *bucket <= limit).last()?;
                Some(Histogram::upper_edge(bucket).min(threshold).min(max_ns))
            });
            Some(SeriesMaxima {
                service,
                route,
                max_ns,
                in_time_max_ns: in_time,
            })
        });
        self.latest = maxima.collect();
        self.samples_end = end;
    }

    /// Returns the largest threshold of the CPUs of a series.
    fn max_threshold(&self, service: Service, route: Route) -> Option<Nanos> {
        let lines = self.manifest.lines.iter().zip(&self.notes.thresholds_ns);
        lines
            .filter(|(line, _)| (line.service, line.route) == (service, route))
            .filter_map(|(_, threshold)| *threshold)
            .max()
    }

    fn from_recording(recording: &Recording, read: Episodes) -> Result<Self, EpisodesError> {
        let path = recording.dir().display().to_string();
        let damage = read.damaged_notes().cloned();
        let shortfalls = read.shortfalls;
        let notes = match (read.notes, damage) {
            (Some(notes), _) => notes,
            (None, Some(damage)) => {
                return Err(EpisodesError::Damaged {
                    path,
                    damage,
                    shortfalls,
                });
            }
            (None, None) => {
                let plan = &recording.manifest().plan;
                return Err(match plan.rows.words(plan.period_ns) {
                    None => EpisodesError::NotRecorded {
                        path,
                        remedy: evidence_remedy(recording.manifest()),
                        shortfalls,
                    },
                    Some(rows) if plan.rows == RowsOf::Traced => EpisodesError::OfTrace {
                        path,
                        rows,
                        shortfalls,
                    },
                    Some(rows) => EpisodesError::OfRows {
                        path,
                        rows,
                        shortfalls,
                    },
                });
            }
        };
        Ok(Self {
            path,
            manifest: recording.manifest().clone(),
            episodes: read.episodes,
            notes,
            latest: Vec::new(),
            samples_end: None,
            missing: read.missing,
            shortfalls: [recording.shortfalls(), &shortfalls].concat(),
        })
    }

    /// Reads as [`Self::read_with`]. Returns `None` if none were recorded or the notes on their
    /// selection cannot be read, and adds the missing parts to `shortfalls`.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn read_if_any(
        recording: &Recording,
        wanted: impl Fn(&Episode) -> bool,
        shortfalls: &mut Vec<Shortfall>,
    ) -> Result<Option<Self>, EpisodesError> {
        let late = if_any(Self::read_with(recording, wanted), shortfalls)?;
        add_missing(late.as_ref(), shortfalls);
        Ok(late)
    }

    /// Checks that `service` was measured.
    ///
    /// # Errors
    /// When it was not.
    pub fn has(&self, service: Option<Service>) -> Result<(), EpisodesError> {
        let mut lines = self.manifest.lines.iter();
        if service == Some(Service::Irq) {
            return Err(EpisodesError::IsStage);
        }
        match service.filter(|&wanted| lines.all(|line| line.service != wanted)) {
            Some(service) => Err(EpisodesError::NotMeasured {
                path: self.path.clone(),
                service,
            }),
            None => Ok(()),
        }
    }

    /// Returns the length of the recording. If the end is missing, because it runs or was killed,
    /// the end of the samples or of the last late wakeup counts.
    pub fn duration(&self) -> Nanos {
        let clock = &self.manifest.clock;
        let served = self.episodes.iter();
        let last = served.map(|episode| episode.expiry_ns + episode.readings().own);
        let last = last.max();
        let end = clock.end_ns.or(self.samples_end).or(last);
        end.map_or(Nanos::ZERO, |end| end.saturating_sub(clock.start_ns))
    }
}

/// Applies the threshold that was chosen for the line of an episode. Until it was chosen, each
/// new maximum was kept. Returns `None` if this one is below the threshold.
pub(crate) fn late_by(mut episode: Episode, notes: Option<&EpisodeNotes>) -> Option<Episode> {
    let thresholds = notes.map_or(&[][..], |notes| &notes.thresholds_ns);
    if let Some(&Some(threshold)) = thresholds.get(usize::from(episode.line.0)) {
        let latency = episode.latency();
        episode.threshold_ns = threshold;
        let is_late = |after: &Nanos| latency.saturating_sub(*after) > threshold;
        episode.passed_ns.retain(is_late);
        if latency <= threshold {
            return None;
        }
    }
    Some(episode)
}

/// Drops the trace data of an episode, except for its window.
fn drop_evidence(episode: &mut Episode) {
    episode.evidence = Evidence {
        from_ns: episode.evidence.from_ns,
        to_ns: episode.evidence.to_ns,
        ..Evidence::default()
    };
}

/// Adds the missing parts of the episodes to the missing parts of the samples.
fn add_missing(late: Option<&RecordedEpisodes>, shortfalls: &mut Vec<Shortfall>) {
    for shortfall in late.into_iter().flat_map(|late| &late.shortfalls) {
        if !shortfalls.contains(shortfall) {
            shortfalls.push(shortfall.clone());
        }
    }
}

/// `None` if no episodes were recorded; their shortfalls join `shortfalls` then.
fn if_any<T>(
    read: Result<T, EpisodesError>,
    shortfalls: &mut Vec<Shortfall>,
) -> Result<Option<T>, EpisodesError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(
            EpisodesError::NotRecorded {
                shortfalls: missing,
                ..
            }
            | EpisodesError::OfRows {
                shortfalls: missing,
                ..
            }
            | EpisodesError::OfTrace {
                shortfalls: missing,
                ..
            }
            | EpisodesError::Damaged {
                shortfalls: missing,
                ..
            },
        ) => {
            shortfalls.extend(missing);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Episodes that were explained while they were read. Their trace data and the parts of
/// their explanations are dropped, so that memory does not grow with the number of events.
#[derive(Debug)]
pub struct EpisodeCauses {
    /// The episodes, without evidence.
    pub late: RecordedEpisodes,
    /// By episode. `None`: its line is not in the manifest, or its service was not wanted.
    explanations: Vec<Option<Arc<Explanation>>>,
}

impl EpisodeCauses {
    /// Reads and explains the episodes of a recording.
    ///
    /// # Errors
    /// As [`RecordedEpisodes::read`].
    pub fn read(recording: &Recording) -> Result<Self, EpisodesError> {
        Self::read_each(recording, None, |_, _, _, _| ())
    }

    /// Reads as [`Self::read`], and gives the causes in the form that forecasts take.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_known(recording: &Recording) -> Result<(Self, KnownCauses), EpisodesError> {
        let mut causes = KnownCauses::default();
        causes.start_recording(recording.manifest());
        let read = Self::read_each(recording, None, |episode, line, symbols, explanation| {
            causes.add_explained(episode, line, symbols, explanation);
        })?;
        causes.end_recording(&read.late.notes);
        Ok((read, causes))
    }

    /// Reads as [`Self::read`]. `None` if no episodes were recorded; see
    /// [`RecordedEpisodes::read_if_any`]. Explains only the episodes of `service`, if one is
    /// given that has any.
    ///
    /// # Errors
    /// When the recording's directory cannot be read.
    pub fn read_if_any(
        recording: &Recording,
        service: Option<Service>,
        shortfalls: &mut Vec<Shortfall>,
    ) -> Result<Option<Self>, EpisodesError> {
        let read = |service| Self::read_each(recording, service, |_, _, _, _| ());
        let has_none = |causes: &Self| causes.explanations.iter().all(Option::is_none);
        let causes = match read(service) {
            Ok(causes) if service.is_some() && has_none(&causes) => read(None),
            causes => causes,
        };
        let causes = if_any(causes, shortfalls)?;
        add_missing(causes.as_ref().map(|causes| &causes.late), shortfalls);
        Ok(causes)
    }

    fn read_each(
        recording: &Recording,
        service: Option<Service>,
        mut take: impl FnMut(&Episode, Line, &Symbols, &Explanation),
    ) -> Result<Self, EpisodesError> {
        let lines = &recording.manifest().lines;
        let mut episodes = Vec::new();
        let mut explanations = Vec::new();
        let read = recording.each_episode(|episode, notes| {
            let Some(mut episode) = late_by(episode, notes) else {
                return;
            };
            let line = lines.get(usize::from(episode.line.0));
            let line = line.filter(|line| service.is_none_or(|wanted| wanted == line.service));
            let explained = line.zip(notes).map(|(&line, notes)| {
                let symbols = &notes.symbols;
                let explained = explain_named(&episode, line.service, line.route, symbols);
                take(&episode, line, symbols, &explained);
                Arc::new(Explanation {
                    parts: Vec::new(),
                    ..explained
                })
            });
            drop_evidence(&mut episode);
            episodes.push(episode);
            explanations.push(explained);
        })?;
        let late = RecordedEpisodes::from_recording(recording, Episodes { episodes, ..read })?;
        Ok(Self { late, explanations })
    }

    /// Explanations of the episodes (of `service` only, if given). They have
    /// causes and no parts.
    pub fn explained(&self, service: Option<Service>) -> Explained<'_> {
        let lines = &self.late.manifest.lines;
        let episodes = self.late.episodes.iter().zip(&self.explanations);
        let episodes = episodes.filter_map(|(episode, explanation)| {
            let line = *lines.get(usize::from(episode.line.0))?;
            let is_wanted = service.is_none_or(|wanted| wanted == line.service);
            let explanation = explanation.clone().filter(|_| is_wanted)?;
            Some(ExplainedEpisode {
                episode,
                line,
                explanation,
            })
        });
        Explained {
            late: &self.late,
            service,
            route: None,
            episodes: episodes.collect(),
        }
    }
}

/// Class that took most of a late wakeup, by service, route, CPU and programmed time.
pub type Blamed = HashMap<(Service, Route, Cpu, Nanos), CauseClass>;

#[derive(Clone, Debug)]
pub struct ExplainedEpisode<'a> {
    pub episode: &'a Episode,
    /// Its series.
    pub line: Line,
    /// Its parts, which add up to the latency, and their sums per cause.
    pub explanation: Arc<Explanation>,
}

/// Episodes with their explanations.
#[derive(Clone, Debug)]
pub struct Explained<'a> {
    pub late: &'a RecordedEpisodes,
    /// The only service. `None`: all.
    pub service: Option<Service>,
    /// The only route. `None`: all.
    pub route: Option<Route>,
    pub episodes: Vec<ExplainedEpisode<'a>>,
}

impl<'a> ExplainedEpisode<'a> {
    /// Explains an episode of `line`.
    pub fn new(episode: &'a Episode, line: Line, symbols: &Symbols) -> Self {
        Self {
            episode,
            line,
            explanation: Arc::new(explain_named(episode, line.service, line.route, symbols)),
        }
    }

    /// Returns the causes, the one with most time first.
    pub fn causes(&self) -> &[Cause] {
        &self.explanation.causes
    }

    /// Returns the parts in the order of time. Neighbours with the same cause and thread are
    /// merged; a tick between them has another cause and remains.
    pub fn merged(&self) -> Vec<Part> {
        let mut merged: Vec<Part> = Vec::new();
        for part in &self.explanation.parts {
            match merged.last_mut() {
                Some(last)
                    if last.class == part.class
                        && last.culprit == part.culprit
                        && last.slice.context == part.slice.context =>
                {
                    last.slice.to = part.slice.to;
                }
                _ => merged.push(part.clone()),
            }
        }
        merged
    }
}

impl<'a> Explained<'a> {
    /// Explains every episode (of `service` only, if given). Episodes of series that
    /// the manifest lacks are left out.
    pub fn new(late: &'a RecordedEpisodes, service: Option<Service>) -> Self {
        let symbols = &late.notes.symbols;
        let episodes = late.episodes.iter().filter_map(|episode| {
            let line = *late.manifest.lines.get(usize::from(episode.line.0))?;
            let is_wanted = service.is_none_or(|wanted| wanted == line.service);
            is_wanted.then(|| ExplainedEpisode::new(episode, line, symbols))
        });
        Self {
            late,
            service,
            route: None,
            episodes: episodes.collect(),
        }
    }

    /// Returns the episodes of `service` only, if one is given.
    #[must_use]
    pub fn only(&self, service: Option<Service>) -> Self {
        let is_wanted = |episode: &&ExplainedEpisode<'_>| {
            service.is_none_or(|wanted| wanted == episode.line.service)
        };
        Self {
            late: self.late,
            service: service.or(self.service),
            route: self.route,
            episodes: self.episodes.iter().filter(is_wanted).cloned().collect(),
        }
    }

    /// Keeps only the episodes with this route.
    #[must_use]
    pub fn by(mut self, route: Route) -> Self {
        self.episodes.retain(|episode| episode.line.route == route);
        self.route = Some(route);
        self
    }

    /// Returns whether the series is in the scope.
    pub(super) fn includes(&self, service: Service, route: Route) -> bool {
        self.service.is_none_or(|wanted| wanted == service)
            && self.route.is_none_or(|wanted| wanted == route)
    }

    /// Returns the names of the addresses in the episodes.
    pub fn symbols(&self) -> &'a Symbols {
        &self.late.notes.symbols
    }

    /// Returns the class that took most of each episode.
    pub fn blamed(&self) -> Blamed {
        let blamed = |episode: &ExplainedEpisode<'_>| {
            let line = episode.line;
            let key = (
                line.service,
                line.route,
                line.cpu,
                episode.episode.expiry_ns,
            );
            Some((key, episode.causes().first()?.class))
        };
        self.episodes.iter().filter_map(blamed).collect()
    }

    /// Returns the threads on every CPU over time that the episodes show.
    pub fn timelines(&self) -> Vec<CpuTimeline> {
        timelines(self.episodes.iter().map(|explained| explained.episode))
    }
}

/// Returns each episode with its explanation.
pub(super) fn explanations<'a>(
    explained: &'a [ExplainedEpisode<'_>],
) -> impl Iterator<Item = (&'a Episode, &'a Explanation)> {
    let pair = |explained: &'a ExplainedEpisode<'_>| (explained.episode, &*explained.explanation);
    explained.iter().map(pair)
}
