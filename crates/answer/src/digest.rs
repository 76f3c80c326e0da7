//! Digest of a recording for answers over many recordings (`laggard digest`).
//!
//! Reads only histograms, maxima, late wakeups and the manifest, and never samples. A year of 1,000
//! machines stays feasible.

#![allow(clippy::disallowed_macros, reason = "an error has a text")]

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use laggard_analyze::causes::rank;
use laggard_analyze::distribution::{Fold, Group, Lost, Split, Tally};
use laggard_model::name::who;
use laggard_model::{
    Backend, DIGEST_SCHEMA, Digest, DigestCause, DigestContent, DigestHour, DigestLine,
    DigestMinute, DigestRefusal, Keep, LoadLabel, NamedCause, Nanos, RecordingDigest,
    RefusedBecause, Route, Service, State,
};
use laggard_record::{OpenError, Recording, Shortfall};

use crate::began::began;
use crate::compare::settings;
use crate::load::no_rates;
use crate::trust::{Case, Trust, judge};
use crate::why::{CauseShare, EpisodeCauses, ExplainedEpisode};

/// Length of a counted hour, ns.
const HOUR: u64 = 3_600_000_000_000;

type ByLine<T> = BTreeMap<(Service, Route), T>;

/// Returns the digest of the recording in `dir`, or the reason why it is missing.
///
/// `words` states why figures are not trustworthy.
pub fn digest(dir: &Path, words: Words) -> Digest {
    digest_of(dir, words, |_| true)
}

/// Returns the digest of a recording without its samples: the copy is complete without them.
pub fn digest_without_samples(dir: &Path, words: Words) -> Digest {
    digest_of(dir, words, |lacks| !lacks.is_of_samples())
}

/// States why figures are not trustworthy; `None` if they are.
type Words = fn(&Trust) -> Option<String>;

fn digest_of(dir: &Path, words: Words, counts: fn(&Shortfall) -> bool) -> Digest {
    Digest {
        schema: DIGEST_SCHEMA,
        path: dir.display().to_string(),
        content: match read(dir, words, counts) {
            Ok(read) => DigestContent::Read(Box::new(read)),
            Err(refusal) => DigestContent::Refused(refusal),
        },
    }
}

fn read(
    dir: &Path,
    words: Words,
    counts: fn(&Shortfall) -> bool,
) -> Result<RecordingDigest, DigestRefusal> {
    let refused = |because, reason: String| DigestRefusal { because, reason };
    let recording = Recording::open(dir).map_err(|error| {
        let is_newer = matches!(error, OpenError::Newer { .. });
        let because = if is_newer {
            RefusedBecause::Newer
        } else {
            RefusedBecause::Unreadable
        };
        refused(because, in_full(&error))
    })?;
    let manifest = recording.manifest();
    if let Some(error) = no_rates(dir, &manifest.plan) {
        return Err(refused(RefusedBecause::NoHistograms, in_full(&error)));
    }
    if manifest.plan.keep == Keep::All {
        return Err(refused(
            RefusedBecause::NoHistograms,
            "it keeps every sample and no histograms; record with `--keep tail`".into(),
        ));
    }
    let mut shortfalls = recording.shortfalls().to_vec();
    let uncounted = recording
        .shortfalls()
        .iter()
        .filter(|shortfall| !counts(shortfall));
    let uncounted: Vec<String> = uncounted.map(ToString::to_string).collect();
    let (mut lines, last, trust) = lines(&recording, &mut shortfalls);
    for (key, minutes) in minutes(&recording, &mut shortfalls) {
        if let Some(line) = lines.get_mut(&key) {
            line.minutes = minutes;
        }
    }
    let late = EpisodeCauses::read_if_any(&recording, None, &mut shortfalls);
    let late = late.map_err(|error| refused(RefusedBecause::Unreadable, in_full(&error)))?;
    // Shortfalls from before are in both lists.
    shortfalls.extend(
        late.iter()
            .flat_map(|causes| causes.late.shortfalls.iter().cloned()),
    );
    let mut missing: Vec<String> = Vec::new();
    for shortfall in shortfalls {
        let words = shortfall.to_string();
        if !missing.contains(&words) && !uncounted.contains(&words) {
            missing.push(words);
        }
    }
    let start = manifest.clock.start_ns;
    let end = manifest.clock.end_ns.or(last).unwrap_or(start);
    let mut lines: Vec<DigestLine> = lines.into_values().collect();
    lines.sort_by_key(|line| (line.route, line.service.rank()));
    Ok(RecordingDigest {
        build: manifest.host.build.clone(),
        load: LoadLabel::of(manifest.load.as_ref()).to_string(),
        settings: settings(manifest),
        started: manifest.clock.start_wall.clone(),
        start_s: began(manifest).0.map(|start| start.as_second()),
        duration_ns: end.saturating_sub(start),
        has_ended: manifest.state != State::Running,
        is_scripted: manifest.backend == Backend::Fake,
        distrust: words(&trust),
        shortfalls: missing,
        lines,
        episodes: late
            .as_ref()
            .map(|causes| causes.late.episodes.len() as u64),
        surplus: late.as_ref().map_or(0, |causes| causes.late.notes.surplus),
        causes: late.as_ref().map(causes).unwrap_or_default(),
        ..RecordingDigest::of_host(&manifest.host.node, &manifest.host.kernel)
    })
}

fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

/// Services by route as `show` counts them, hour by hour; when the last of the
/// largest was due; and whether they can be trusted.
fn lines(
    recording: &Recording,
    shortfalls: &mut Vec<Shortfall>,
) -> (ByLine<DigestLine>, Option<Nanos>, Trust) {
    let manifest = recording.manifest();
    let new = || Fold::new(manifest.lines.len(), Split::Whole);
    let mut hours: BTreeMap<u32, Fold> = BTreeMap::new();
    let (mut whole, mut last) = (new(), None);
    shortfalls.extend(recording.each_figure(|stored| {
        last = last.max(Some(stored.largest_at));
        let tally = Tally::from_parts(stored.histogram, Some(stored.largest_at));
        whole.add_stored(stored.line, stored.figure, &tally);
        let hour = hours.entry(stored.hour).or_insert_with(new);
        hour.add_stored(stored.line, stored.figure, &tally);
    }));
    whole.set_lost(Lost::new(&manifest.counts, &manifest.losses));
    let trust = judge(&Case::new(manifest, &whole.sums())).trust;
    let line = |group: Group| {
        let key = (group.key.service, group.key.route);
        let line = DigestLine {
            service: key.0,
            route: key.1,
            lost: group.lost,
            hours: Vec::new(),
            minutes: Vec::new(),
        };
        (key, line)
    };
    let mut lines: ByLine<DigestLine> = whole
        .groups(&manifest.lines, false)
        .into_iter()
        .map(line)
        .collect();
    for (hour, fold) in hours {
        for group in fold.groups(&manifest.lines, false) {
            let key = (group.key.service, group.key.route);
            if let (Some(line), Some(figures_of_hour)) =
                (lines.get_mut(&key), hour_of(hour, &group))
            {
                line.hours.push(figures_of_hour);
            }
        }
    }
    (lines, last, trust)
}

/// Returns the counts of an hour; `None` without samples.
fn hour_of(hour: u32, group: &Group) -> Option<DigestHour> {
    let latency = group.latency.histogram();
    Some(DigestHour {
        hour,
        missed: group.missed,
        sum_ns: u64::try_from(latency.sum_ns())
            .unwrap_or(u64::MAX)
            .min(1 << 63),
        min_ns: group.least,
        max_ns: latency.max()?,
        buckets: latency.buckets().collect(),
        waiting: group.censored.histogram().buckets().collect(),
    })
}

/// Returns the maximum of each minute over all CPUs.
fn minutes(recording: &Recording, shortfalls: &mut Vec<Shortfall>) -> ByLine<Vec<DigestMinute>> {
    let lines = &recording.manifest().lines;
    let mut most: ByLine<BTreeMap<u32, Nanos>> = BTreeMap::new();
    shortfalls.extend(recording.each_largest(|largest| {
        let Some(line) = lines.get(usize::from(largest.line.0)) else {
            return;
        };
        let of_line = most.entry((line.service, line.route)).or_default();
        let max = of_line.entry(largest.minute).or_default();
        *max = (*max).max(largest.latency);
    }));
    let minutes = |by_minute: BTreeMap<u32, Nanos>| {
        let minutes = by_minute.into_iter();
        minutes
            .map(|(minute, max_ns)| DigestMinute { minute, max_ns })
            .collect()
    };
    most.into_iter()
        .map(|(key, by_minute)| (key, minutes(by_minute)))
        .collect()
}

/// Returns the causes of late wakeups by service, route and hour.
fn causes(causes: &EpisodeCauses) -> Vec<DigestCause> {
    let explained = causes.explained(None);
    let symbols = explained.symbols();
    let report = explained.report(usize::MAX);
    let rows: HashMap<&NamedCause, &CauseShare> =
        report.causes.iter().map(|row| (&row.cause, row)).collect();
    let start = explained.late.manifest.clock.start_ns;
    let mut places: BTreeMap<(Service, Route, u32), Vec<&ExplainedEpisode<'_>>> = BTreeMap::new();
    for explained_episode in &explained.episodes {
        let since = explained_episode.episode.expiry_ns.saturating_sub(start);
        let hour = u32::try_from(since.ns() / HOUR).unwrap_or(u32::MAX);
        let place = (
            explained_episode.line.service,
            explained_episode.line.route,
            hour,
        );
        places.entry(place).or_default().push(explained_episode);
    }
    let mut causes = Vec::new();
    for ((service, route, hour), episodes) in places {
        let pairs = episodes
            .iter()
            .map(|explained_episode| (explained_episode.episode, &*explained_episode.explanation));
        for cause in rank(pairs, |culprit| who(culprit, symbols)).causes {
            let row = rows.get(&cause.cause);
            let is_ours = row.is_some_and(|row| row.is_ours);
            let rhythm = row.and_then(|row| row.rhythm.as_ref());
            let period_ns = rhythm.map(|rhythm| rhythm.period_ns);
            causes.push(DigestCause {
                service,
                route,
                hour,
                cause: cause.cause,
                is_ours,
                episodes: cause.episodes as u64,
                first_in: cause.first_in as u64,
                total_ns: cause.total,
                largest_ns: cause.largest,
                period_ns,
            });
        }
    }
    causes
}
