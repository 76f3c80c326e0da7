//! The late activations of a recording, each with what explains it: where every
//! view of them begins.

use std::collections::HashMap;

use laggard_analyze::causes::{CpuTimeline, Explanation, Part, explain_named, timelines};
use laggard_model::{
    Cause, CauseClass, Caveat, Cpu, Episode, EpisodeNotes, Line, Manifest, Nanos, Route, Service,
    Symbols,
};

/// All that `why` needs to know of a recording.
#[derive(Debug)]
pub struct RecordedEpisodes<'a> {
    /// Where it is.
    pub path: String,
    /// Its manifest.
    pub manifest: &'a Manifest,
    /// Its episodes.
    pub episodes: &'a [Episode],
    /// How they were chosen.
    pub notes: &'a EpisodeNotes,
    /// The largest latency of each service that the samples say; empty: nobody
    /// looked.
    pub latest: Vec<(Service, Route, Nanos)>,
    /// What is missing.
    pub shortfalls: Vec<Caveat>,
}

impl RecordedEpisodes<'_> {
    /// How long was recorded; of a recording without an end, nothing is known.
    pub fn duration(&self) -> Nanos {
        let clock = &self.manifest.clock;
        clock
            .end_ns
            .map_or(Nanos::ZERO, |end| end.saturating_sub(clock.start_ns))
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
    pub explanation: Explanation,
}

/// Episodes and what explains each.
#[derive(Clone, Debug)]
pub struct Explained<'a> {
    /// The recording.
    pub late: &'a RecordedEpisodes<'a>,
    /// Only this service's.
    pub service: Option<Service>,
    /// The episodes, by number.
    pub episodes: Vec<ExplainedEpisode<'a>>,
}

impl<'a> ExplainedEpisode<'a> {
    /// Explains an episode of `line`.
    pub fn new(episode: &'a Episode, line: Line, symbols: &Symbols) -> Self {
        Self {
            episode,
            line,
            explanation: explain_named(episode, line.service, line.route, symbols),
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
    pub fn new(late: &'a RecordedEpisodes<'a>, service: Option<Service>) -> Self {
        let symbols = &late.notes.symbols;
        let episodes = late.episodes.iter().filter_map(|episode| {
            let line = *late.manifest.lines.get(usize::from(episode.line.0))?;
            let is_wanted = service.is_none_or(|wanted| wanted == line.service);
            is_wanted.then(|| ExplainedEpisode::new(episode, line, symbols))
        });
        Self {
            late,
            service,
            episodes: episodes.collect(),
        }
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
    explained.iter().map(|one| (one.episode, &one.explanation))
}
