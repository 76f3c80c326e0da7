//! The late activations of a recording, each with what explains it: where every
//! view of them begins.

use std::collections::HashMap;
use std::sync::Arc;

use laggard_analyze::causes::{CpuTimeline, Explanation, Part, explain_named, timelines};
use laggard_model::{
    Cause, CauseClass, Caveat, Cpu, Episode, EpisodeNotes, Evidence, Line, Manifest, Nanos, Route,
    RowsOf, Service, Symbols,
};
use laggard_record::{Episodes, OpenError, Recording, Shortfall};

use crate::causes::KnownCauses;

/// All that `why` needs to know of a recording.
#[derive(Debug)]
pub struct RecordedEpisodes {
    /// Where it is.
    pub path: String,
    /// Its manifest.
    pub manifest: Manifest,
    /// Its episodes, by number.
    pub episodes: Vec<Episode>,
    /// How they were chosen.
    pub notes: EpisodeNotes,
    /// The largest latency of each service that the samples say; empty: nobody
    /// looked.
    pub latest: Vec<(Service, Route, Nanos)>,
    /// What is missing.
    pub shortfalls: Vec<Caveat>,
}

/// Why nothing can be told of who made a recording's activations late.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EpisodesError {
    /// Its folder cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It was made without episodes.
    #[error("`{path}` was recorded without episodes; {remedy}")]
    NotRecorded {
        /// The recording.
        path: String,
        /// What would record them.
        remedy: &'static str,
        /// What could not be read of it.
        shortfalls: Vec<Shortfall>,
    },
    /// Its rows are not what `record` measures.
    #[error(
        "`{path}` is of {of}: of each is kept when it was and how long it took, and not what made \
         it late; `laggard record` keeps that"
    )]
    OfRows {
        /// The recording.
        path: String,
        /// What its rows are.
        of: String,
        /// What could not be read of it.
        shortfalls: Vec<Shortfall>,
    },
    /// It was read out of a trace of another system.
    #[error(
        "`{path}` is of {of}: whose handlers ran is the name of a service (`laggard show {path}`), \
         and which routines, `laggard import` of the trace itself tells"
    )]
    OfTrace {
        /// The recording.
        path: String,
        /// What its rows are.
        of: String,
        /// What could not be read of it.
        shortfalls: Vec<Shortfall>,
    },
    /// What says how they were chosen is damaged, and names them too.
    #[error("`{path}` cannot tell who made activations late: {damage}; restore it from a copy")]
    Damaged {
        /// The recording.
        path: String,
        /// What is damaged.
        damage: Shortfall,
        /// That, and what else could not be read of it.
        shortfalls: Vec<Shortfall>,
    },
    /// It is of other services.
    #[error("`{path}` has no service `{service}`; `laggard show {path}` lists those it has")]
    NotMeasured {
        /// The recording.
        path: String,
        /// What was asked for.
        service: Service,
    },
    /// It has episodes, but not the one that was asked for.
    #[error(
        "`{path}` has no episode {number}; `laggard why {path}` lists the largest of its {kept}"
    )]
    NoSuch {
        /// The recording.
        path: String,
        /// What was asked for.
        number: u64,
        /// How many it has.
        kept: usize,
    },
}

const LINUX: &str = "record as root on a kernel with BTF, without `--episodes off`";
const WINDOWS: &str =
    "record as an administrator, whom Windows tells what its kernel does, without `--episodes off`";

/// How a recording such as this one comes to have late activations with their causes.
pub(crate) fn evidence_remedy(manifest: &Manifest) -> &'static str {
    if manifest.host.is_windows() {
        WINDOWS
    } else {
        LINUX
    }
}

impl RecordedEpisodes {
    /// Reads the late wakeups that a recording kept, without early maxima, and
    /// lists what is missing from it.
    ///
    /// # Errors
    /// When none were recorded, or what says how they were chosen cannot be read.
    pub fn read(recording: &Recording) -> Result<Self, EpisodesError> {
        Self::read_with(recording, |_| true)
    }

    /// Reads as [`Self::read`], and keeps the evidence of those episodes only that are
    /// `wanted`.
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
        Self::new(recording, Episodes { episodes, ..read })
    }

    /// Reads the episode of this number alone.
    ///
    /// # Errors
    /// When there is none, or as [`Self::read`].
    pub fn read_one(recording: &Recording, number: u64) -> Result<Self, EpisodesError> {
        let mut episodes = Vec::new();
        let mut kept = 0;
        let read = recording.each_episode(|episode, _| {
            kept += 1;
            if episode.number == number {
                episodes.push(episode);
            }
        })?;
        let late = Self::new(recording, Episodes { episodes, ..read })?;
        if late.episodes.is_empty() {
            return Err(EpisodesError::NoSuch {
                path: late.path,
                number,
                kept,
            });
        }
        Ok(late)
    }

    fn new(recording: &Recording, read: Episodes) -> Result<Self, EpisodesError> {
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
                    Some(of) if plan.rows == RowsOf::Traced => EpisodesError::OfTrace {
                        path,
                        of,
                        shortfalls,
                    },
                    Some(of) => EpisodesError::OfRows {
                        path,
                        of,
                        shortfalls,
                    },
                });
            }
        };
        let shortfalls = recording.shortfalls().iter().chain(&shortfalls);
        Ok(Self {
            path,
            manifest: recording.manifest().clone(),
            episodes: read.episodes,
            notes,
            latest: Vec::new(),
            shortfalls: shortfalls.map(Caveat::from).collect(),
        })
    }

    /// As [`Self::read`], for whoever has other answers too: `None` where none
    /// were recorded, or what says how they were chosen cannot be read. What is
    /// missing joins `shortfalls` then, because nothing else would say it.
    ///
    /// # Errors
    /// When the recording's folder cannot be read.
    pub fn read_if_any(
        recording: &Recording,
        shortfalls: &mut Vec<Caveat>,
    ) -> Result<Option<Self>, EpisodesError> {
        if_any(Self::read(recording), shortfalls)
    }

    /// That there is something to say of `service`, late or not.
    ///
    /// # Errors
    /// When it was not measured.
    pub fn has(&self, service: Option<Service>) -> Result<(), EpisodesError> {
        let mut lines = self.manifest.lines.iter();
        match service.filter(|&wanted| lines.all(|line| line.service != wanted)) {
            Some(service) => Err(EpisodesError::NotMeasured {
                path: self.path.clone(),
                service,
            }),
            None => Ok(()),
        }
    }

    /// How long was recorded; of a recording without an end, which runs or was
    /// killed, until the last of these late activations was served.
    pub fn duration(&self) -> Nanos {
        let clock = &self.manifest.clock;
        let served = self.episodes.iter();
        let last = served.map(|one| one.expiry_ns + one.readings().own).max();
        let end = clock.end_ns.or(last);
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

/// Leaves of an episode's evidence only its window.
fn drop_evidence(episode: &mut Episode) {
    episode.evidence = Evidence {
        from_ns: episode.evidence.from_ns,
        to_ns: episode.evidence.to_ns,
        ..Evidence::default()
    };
}

/// `None` if no episodes were recorded; their shortfalls join `shortfalls` then.
fn if_any<T>(
    read: Result<T, EpisodesError>,
    shortfalls: &mut Vec<Caveat>,
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
            shortfalls.extend(missing.iter().map(Caveat::from));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Episodes that were explained one by one while they were read. Their evidence and
/// the parts of their explanations are dropped, so that memory does not grow with the
/// number of events.
#[derive(Debug)]
pub struct EpisodeCauses {
    /// The episodes, without evidence.
    pub late: RecordedEpisodes,
    /// By episode. `None`: its line is not in the manifest.
    explanations: Vec<Option<Arc<Explanation>>>,
}

impl EpisodeCauses {
    /// Reads and explains the episodes of a recording.
    ///
    /// # Errors
    /// As [`RecordedEpisodes::read`].
    pub fn read(recording: &Recording) -> Result<Self, EpisodesError> {
        Self::read_each(recording, |_, _, _, _| ())
    }

    /// Reads as [`Self::read`], and gives the causes in the form that forecasts take.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_known(recording: &Recording) -> Result<(Self, KnownCauses), EpisodesError> {
        let mut known = KnownCauses::default();
        known.start_recording(recording.manifest());
        let read = Self::read_each(recording, |episode, line, symbols, explanation| {
            known.add_explained(episode, line, symbols, explanation);
        })?;
        known.end_recording(&read.late.notes);
        Ok((read, known))
    }

    /// Reads as [`Self::read`]. `None` if no episodes were recorded; see
    /// [`RecordedEpisodes::read_if_any`].
    ///
    /// # Errors
    /// When the recording's directory cannot be read.
    pub fn read_if_any(
        recording: &Recording,
        shortfalls: &mut Vec<Caveat>,
    ) -> Result<Option<Self>, EpisodesError> {
        if_any(Self::read(recording), shortfalls)
    }

    fn read_each(
        recording: &Recording,
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
        let late = RecordedEpisodes::new(recording, Episodes { episodes, ..read })?;
        Ok(Self { late, explanations })
    }

    /// Explanations of the episodes, of `service` only if one is given. They have
    /// causes and no parts.
    pub fn explained(&self, service: Option<Service>) -> Explained<'_> {
        let lines = &self.late.manifest.lines;
        let known = self.late.episodes.iter().zip(&self.explanations);
        let episodes = known.filter_map(|(episode, explanation)| {
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

/// The class that took most of a late activation, by service, route, CPU and
/// programmed time.
pub type Blamed = HashMap<(Service, Route, Cpu, Nanos), CauseClass>;

/// An episode and what explains it.
#[derive(Clone, Debug)]
pub struct ExplainedEpisode<'a> {
    /// What was recorded.
    pub episode: &'a Episode,
    /// Its line.
    pub line: Line,
    /// Its parts, which add up to the latency, and their sums by cause.
    pub explanation: Arc<Explanation>,
}

/// Episodes and what explains each.
#[derive(Clone, Debug)]
pub struct Explained<'a> {
    /// The recording.
    pub late: &'a RecordedEpisodes,
    /// Only this service's.
    pub service: Option<Service>,
    /// Only of this route.
    pub route: Option<Route>,
    /// The episodes, by number.
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

    /// Causes, that with most time first.
    pub fn causes(&self) -> &[Cause] {
        &self.explanation.causes
    }

    /// Its parts in the order of time, neighbours with the same cause and
    /// thread as one: a tick in between is still seen, as it has another.
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
    /// Explains every episode, of `service` only if one is given. One of a
    /// line that the manifest lacks is left out.
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

    /// Those of `service` only, if one is given.
    #[must_use]
    pub fn only(&self, service: Option<Service>) -> Self {
        let is_wanted =
            |one: &&ExplainedEpisode<'_>| service.is_none_or(|wanted| wanted == one.line.service);
        Self {
            late: self.late,
            service: service.or(self.service),
            route: self.route,
            episodes: self.episodes.iter().filter(is_wanted).cloned().collect(),
        }
    }

    /// Those of services reached by `route` only.
    #[must_use]
    pub fn by(mut self, route: Route) -> Self {
        self.episodes.retain(|one| one.line.route == route);
        self.route = Some(route);
        self
    }

    /// Names for the addresses in them.
    pub fn symbols(&self) -> &'a Symbols {
        &self.late.notes.symbols
    }

    /// The class that took most of each.
    pub fn blamed(&self) -> Blamed {
        let blamed = |one: &ExplainedEpisode<'_>| {
            let line = one.line;
            let key = (line.service, line.route, line.cpu, one.episode.expiry_ns);
            Some((key, one.causes().first()?.class))
        };
        self.episodes.iter().filter_map(blamed).collect()
    }

    /// Who ran when on every CPU, as far as the episodes tell.
    pub fn timelines(&self) -> Vec<CpuTimeline> {
        timelines(self.episodes.iter().map(|one| one.episode))
    }
}

/// Each episode with its explanation.
pub(super) fn explanations<'a>(
    explained: &'a [ExplainedEpisode<'_>],
) -> impl Iterator<Item = (&'a Episode, &'a Explanation)> {
    explained.iter().map(|one| (one.episode, &*one.explanation))
}
