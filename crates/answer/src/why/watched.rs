//! What is known of late activations that were not kept: since when each line
//! was watched, what was seen before, and what counted as late at all.

use laggard_analyze::causes;
use laggard_model::name::line_name;
use laggard_model::text::{Unit, count};
use laggard_model::{Line, LineWatch, Manifest, Nanos, Route, RowsOf, Service, Untraced};

use super::{LineThreshold, RecordedEpisodes, place};

/// Largest automatic threshold; earlier versions chose up to 10 ms.
const HIGH: Nanos = Nanos::from_ms(1);
/// What counted as late in lines whose threshold was not decided.
const UNDECIDED: Nanos = Nanos::from_us(50);

/// How each line was watched.
pub(super) fn lines(late: &RecordedEpisodes) -> Vec<LineThreshold> {
    let start = late.manifest.clock.start_ns;
    let thresholds = late.manifest.lines.iter().zip(&late.notes.thresholds_ns);
    thresholds
        .enumerate()
        .map(|(index, (&line, &threshold_ns))| {
            let watch = late.notes.lines.get(index);
            LineThreshold {
                line,
                threshold_ns,
                decided_after_ns: watch.and_then(|one| Nanos::between(start, one.from_ns?)),
                surplus: watch.map(|one| one.surplus),
                early: watch.map(|one| one.early),
                early_largest_ns: watch.and_then(|one| one.early_largest_ns),
            }
        })
        .collect()
}

/// What no episode tells of the recording, of `service` only if one is given:
/// whether nothing was late, and where the watch was blind.
pub(super) fn sentences(
    late: &RecordedEpisodes,
    service: Option<Service>,
    episodes: usize,
    largest: Nanos,
) -> Vec<String> {
    let watched: Vec<Watched> = watched(late)
        .into_iter()
        .filter(|one| service.is_none_or(|wanted| wanted == one.line.service))
        .collect();
    let mut all = Vec::new();
    all.extend(missing(late, &watched, episodes, largest));
    all.extend(early(&watched, late.manifest.clock.start_ns));
    all.extend(undecided(&watched, late.manifest.plan.rows));
    all.extend(high(&watched, &late.manifest));
    all
}

/// Late wakeups without trace data, of `service` and `route` only if given.
pub(super) fn untraced(
    late: &RecordedEpisodes,
    service: Option<Service>,
    route: Option<Route>,
) -> Untraced {
    let mut sum = Untraced::default();
    for (line, watch) in late.manifest.lines.iter().zip(&late.notes.lines) {
        let is_wanted = service.is_none_or(|wanted| wanted == line.service)
            && route.is_none_or(|wanted| wanted == line.route);
        if let Some(untraced) = watch.untraced.filter(|_| is_wanted) {
            sum.add(untraced.wakeups, untraced.total_ns);
        }
    }
    sum
}

/// From when to when all that was late was kept, of `service` only if one is
/// given.
pub(super) fn all_kept(late: &RecordedEpisodes, service: Option<Service>) -> causes::Watched {
    let clock = &late.manifest.clock;
    let of_service: Vec<Watched> = watched(late)
        .into_iter()
        .filter(|one| service.is_none_or(|wanted| wanted == one.line.service))
        .collect();
    let decided = |one: &Watched| Some(one.watch?.from_ns?.max(clock.start_ns));
    let from: Option<Vec<Nanos>> = of_service.iter().map(decided).collect();
    let surplus = of_service
        .iter()
        .try_fold(0, |sum, one| Some(sum + one.watch?.surplus));
    let kept = || {
        let mut kept: Vec<Nanos> = late.episodes.iter().map(|one| one.expiry_ns).collect();
        kept.sort_unstable();
        kept
    };
    causes::Watched {
        from: from.and_then(|from| from.into_iter().max()),
        to: clock.end_ns,
        hidden: late.manifest.losses.activations() + late.notes.overwritten,
        kept: (surplus.unwrap_or(late.notes.surplus) > 0).then(kept),
    }
}

/// Lines that were still waiting when measuring ended: how late they were in
/// the end is not known.
pub(super) fn still_waiting(manifest: &Manifest, service: Option<Service>) -> Vec<String> {
    let lines = manifest.lines.iter().zip(&manifest.counts);
    let mut waiting: Vec<(Line, u64)> = lines
        .filter(|(line, count)| {
            count.censored > 0 && service.is_none_or(|wanted| wanted == line.service)
        })
        .map(|(line, count)| (*line, count.served))
        .collect();
    // Those that were never served first.
    waiting.sort_by_key(|(_, served)| *served > 0);
    let Some(&(line, served)) = waiting.first() else {
        return Vec::new();
    };
    let how = match served {
        0 => "was never served",
        _ => "was still waiting when measuring ended",
    };
    let others = match waiting.len() - 1 {
        0 => String::new(),
        1 => "; another line was still waiting, too".into(),
        more => format!("; {more} other lines were still waiting, too"),
    };
    vec![format!(
        "{} {how}: how late it was in the end is not known{others}.",
        place(line)
    )]
}

struct Watched {
    line: Line,
    threshold: Option<Nanos>,
    /// `None`: recorded by an earlier version, which did not say.
    watch: Option<LineWatch>,
}

impl Watched {
    /// Whether everything that was late was kept.
    fn is_complete(&self) -> bool {
        let all = |watch: LineWatch| watch.surplus == 0 && watch.early == 0;
        self.watch.is_some_and(all)
    }

    /// Whether the threshold was found by the recording itself.
    fn is_automatic(&self, manifest: &Manifest) -> bool {
        match self.watch {
            Some(watch) => watch.from_ns != Some(Nanos::ZERO),
            None => self.threshold != Some(manifest.plan.threshold_ns),
        }
    }
}

fn watched(late: &RecordedEpisodes) -> Vec<Watched> {
    let thresholds = late.manifest.lines.iter().zip(&late.notes.thresholds_ns);
    thresholds
        .enumerate()
        .map(|(index, (&line, &threshold))| Watched {
            line,
            threshold,
            watch: late.notes.lines.get(index).copied(),
        })
        .collect()
}

/// The largest latency of a service, and from which on its lines were late.
struct Latest {
    name: String,
    most: Nanos,
    limit: Nanos,
}

impl Latest {
    /// `None`: no line is of that service.
    fn of(watched: &[Watched], &(service, route, most): &(Service, Route, Nanos)) -> Option<Self> {
        let of = |one: &&Watched| (one.line.service, one.line.route) == (service, route);
        let limits = watched.iter().filter(of);
        let limit = limits.map(|one| one.threshold.unwrap_or(UNDECIDED)).min()?;
        Some(Self {
            name: line_name(service, route),
            most,
            limit,
        })
    }
}

/// Nothing was late; or something was that is in no episode.
fn missing(
    late: &RecordedEpisodes,
    watched: &[Watched],
    episodes: usize,
    largest: Nanos,
) -> Option<String> {
    let write = |ns| Unit::Auto.write_nanos(ns);
    let all = late.latest.iter();
    let all: Vec<Latest> = all.filter_map(|one| Latest::of(watched, one)).collect();
    let is_missing = |one: &&Latest| one.most > one.limit && one.most > largest;
    if let Some(worst) = all.iter().filter(is_missing).max_by_key(|one| one.most) {
        let Latest { name, most, .. } = worst;
        let most = write(*most);
        return Some(match episodes {
            0 => format!("No late activation was kept, but {name} was {most} late."),
            _ => format!("The largest seen, {most} of {name}, is in no episode."),
        });
    }
    if episodes > 0 {
        return None;
    }
    let lost = late.manifest.losses.activations();
    let is_complete = !watched.is_empty() && watched.iter().all(Watched::is_complete);
    let worst = all.iter().max_by_key(|one| one.most);
    Some(match worst {
        _ if lost == 1 => "No late activation was kept; 1 activation was lost, which may have \
                           been late."
            .into(),
        _ if lost > 0 => format!(
            "No late activation was kept; {} activations were lost, which may have been late.",
            count(lost)
        ),
        Some(Latest { name, most, limit }) => format!(
            "Nothing was late: the largest seen is {} ({name}), where late is more than {}.",
            write(*most),
            write(*limit)
        ),
        None if is_complete => "Nothing was late.".into(),
        None => "No late activation was kept; whether there was one is not known.".into(),
    })
}

/// What was late while it was not known yet what is late.
fn early(watched: &[Watched], start: Nanos) -> Option<String> {
    let of = |one: &Watched| Some((one.line, one.watch?)).filter(|(_, watch)| watch.early > 0);
    let early: Vec<(Line, LineWatch)> = watched.iter().filter_map(of).collect();
    let (worst, _) = early
        .iter()
        .max_by_key(|(_, watch)| watch.early_largest_ns)?;
    let largest = early
        .iter()
        .filter_map(|(_, watch)| watch.early_largest_ns)
        .max()?;
    let sum: u64 = early.iter().map(|(_, watch)| watch.early).sum();
    let until = early.iter().map(|(_, watch)| watch.from_ns).max().flatten();
    let when = until.map_or("Before it was known what is late".into(), |until| {
        let after = Unit::Auto.write_nanos(until.saturating_sub(start));
        format!("In the first {after}, before it was known what is late")
    });
    Some(format!(
        "{when}, {} late activation{} not kept, up to {} ({}): only each new largest was.",
        count(sum),
        if sum == 1 { " was" } else { "s were" },
        Unit::Auto.write_nanos(largest),
        place(*worst)
    ))
}

/// Lines whose threshold was not decided before the end.
fn undecided(watched: &[Watched], rows: RowsOf) -> Option<String> {
    let undecided = watched.iter().filter(|one| one.threshold.is_none()).count();
    if undecided == 0 {
        return None;
    }
    let of = if undecided == watched.len() {
        "any line".to_owned()
    } else {
        format!("{undecided} of {} lines", watched.len())
    };
    if rows == RowsOf::Activations {
        return Some(format!(
            "What is late is not known of {of}: no deadline was given, and the wakes have no \
             period; each new largest was kept. Give `--deadline` to `laggard attach`."
        ));
    }
    let is_watched = watched
        .iter()
        .filter(|one| one.threshold.is_none())
        .all(|one| one.watch.is_some());
    Some(if is_watched {
        format!(
            "The recording ended before it was known what is late in {of}: of these, each new \
         largest from {} on was kept; give `--threshold`, or record for longer than 3 s.",
            Unit::Auto.write_nanos(UNDECIDED)
        )
    } else {
        format!(
            "The recording ended before it was known what is late in {of}: of these, nothing was \
         kept; give `--threshold`, or record for longer than 3 s."
        )
    })
}

/// Thresholds that were found and are so high that they hide much.
fn high(watched: &[Watched], manifest: &Manifest) -> Option<String> {
    let high: Vec<(Line, Nanos)> = watched
        .iter()
        .filter(|one| one.is_automatic(manifest))
        .filter_map(|one| Some((one.line, one.threshold?)))
        .filter(|(_, threshold)| *threshold > HIGH)
        .collect();
    let (line, most) = high.iter().max_by_key(|(_, threshold)| *threshold)?;
    let others = match high.len() - 1 {
        0 => String::new(),
        1 => ", and of one other line what is later than 1 ms or more".into(),
        more => format!(", and of {more} other lines what is later than 1 ms or more"),
    };
    Some(format!(
        "Only what is later than {} counts as late of {}{others}, because the first 3 s were about \
         that late; `--threshold` sets another limit.",
        Unit::Auto.write_nanos(*most),
        place(*line),
    ))
}

#[cfg(test)]
mod tests {
    use laggard_model::{EpisodeNotes, Losses};

    use super::super::{WhyReport, why};
    use super::*;
    use laggard_made::late::{episode, manifest, notes};

    const START: Nanos = Nanos::from_secs(100);

    /// What is said of a recording without an episode, of one line.
    fn said(watch: Option<LineWatch>, threshold: Option<Nanos>, latest: Option<Nanos>) -> String {
        report(watch, threshold, latest, 0).sentences.join(" ")
    }

    fn report(
        watch: Option<LineWatch>,
        threshold: Option<Nanos>,
        latest: Option<Nanos>,
        lost: u64,
    ) -> WhyReport {
        let notes = EpisodeNotes {
            thresholds_ns: vec![threshold],
            lines: watch.into_iter().collect(),
            surplus: 0,
            ..notes()
        };
        let manifest = Manifest {
            losses: Losses {
                ring_full: lost,
                ..Losses::default()
            },
            ..manifest()
        };
        let latest = latest.map(|most| (Service::Fifo(90), Route::Direct, most));
        let late = RecordedEpisodes {
            path: "r.laggard".into(),
            manifest,
            episodes: Vec::new(),
            notes,
            latest: latest.into_iter().collect(),
            shortfalls: Vec::new(),
        };
        why(&late, None, 3)
    }

    fn decided(early: u64, surplus: u64) -> LineWatch {
        LineWatch {
            from_ns: Some(START + Nanos::from_secs(3)),
            early,
            early_largest_ns: (early > 0).then(|| Nanos::from_us(2_900)),
            surplus,
            kept: 0,
            untraced: None,
        }
    }

    /// Between those that were kept, nothing else was late: a rhythm may be told by
    /// what is not there. Where some were dropped, it may not.
    #[test]
    fn which_were_kept_matters_only_where_some_were_not() {
        let all = |surplus| {
            let late = RecordedEpisodes {
                path: "r.laggard".into(),
                manifest: manifest(),
                episodes: vec![episode(2), episode(1)],
                notes: EpisodeNotes {
                    lines: vec![decided(0, surplus)],
                    ..notes()
                },
                latest: Vec::new(),
                shortfalls: Vec::new(),
            };
            all_kept(&late, None).kept
        };

        assert_eq!(all(0), None);
        let expiries = [1, 2].map(|number| episode(number).expiry_ns);
        assert_eq!(all(1).as_deref(), Some(&expiries[..]));
    }

    #[test]
    fn nothing_was_late_only_where_that_is_known() {
        let threshold = Some(Nanos::from_us(100));
        let (below, above) = (Some(Nanos::from_us(90)), Some(Nanos::from_us(2_900)));

        let quiet = said(Some(decided(0, 0)), threshold, below);
        assert_eq!(
            quiet,
            "Nothing was late: the largest seen is 90.0 us (fifo:90), where late is more than 100 us."
        );
        assert_eq!(
            said(Some(decided(0, 0)), threshold, None),
            "Nothing was late."
        );
        for watch in [None, Some(decided(0, 7)), Some(decided(1, 0))] {
            let unknown = said(watch, threshold, None);
            assert!(unknown.contains("is not known"), "{watch:?}: {unknown}");
            let late = said(watch, threshold, above);
            assert!(late.contains("but fifo:90 was 2.90 ms late"), "{late}");
        }
        let lost = report(Some(decided(0, 0)), threshold, below, 12).sentences;
        assert!(lost[0].contains("12 activations were lost"), "{lost:?}");
    }

    #[test]
    fn a_recording_of_three_seconds_says_what_it_did_not_see() {
        let undecided = LineWatch {
            from_ns: None,
            ..decided(1, 0)
        };

        let text = said(Some(undecided), None, Some(Nanos::from_us(2_900)));

        assert!(!text.contains("Nothing was late"), "{text}");
        for part in [
            "Before it was known what is late, 1 late activation was not kept, up to 2.90 ms (fifo:90 on CPU 1)",
            "in any line: of these, each new largest from 50.0 us on was kept",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        // An earlier version kept nothing at all then.
        assert!(said(None, None, None).contains("nothing was kept"));
    }

    #[test]
    fn the_stretch_before_the_threshold_was_known_is_told() {
        let text = said(Some(decided(3, 0)), Some(Nanos::from_us(100)), None);

        let part = "In the first 3.00 s, before it was known what is late, \
                    3 late activations were not kept, up to 2.90 ms (fifo:90 on CPU 1)";
        assert!(text.contains(part), "{text}");
    }

    #[test]
    fn a_threshold_that_hides_much_is_told_unless_it_was_asked_for() {
        let high = Some(Nanos::from_secs(1));
        let asked = LineWatch {
            from_ns: Some(Nanos::ZERO),
            ..LineWatch::default()
        };

        for (watch, is_told) in [
            (Some(decided(0, 0)), true),
            (None, true),
            (Some(asked), false),
        ] {
            let text = said(watch, high, Some(Nanos::from_us(90)));
            let told = text.contains(
                "Only what is later than 1.00 s counts as late of fifo:90 on CPU 1, because",
            );
            assert_eq!(told, is_told, "{watch:?}: {text}");
        }
    }

    #[test]
    fn the_largest_is_missed_where_it_is_in_no_episode() {
        let late = RecordedEpisodes {
            path: "r.laggard".into(),
            manifest: manifest(),
            episodes: vec![episode(1)],
            notes: notes(),
            latest: vec![(Service::Fifo(90), Route::Direct, Nanos::from_ms(25))],
            shortfalls: Vec::new(),
        };

        let sentences = why(&late, None, 3).sentences;

        let told = "The largest seen, 25.0 ms of fifo:90, is in no episode.";
        assert!(sentences.iter().any(|one| one == told), "{sentences:?}");
    }
}
