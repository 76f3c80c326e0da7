//! Sentences of `laggard forecast`.

mod refusal;

use laggard_answer::Composed;
use laggard_answer::forecast::{
    ASSUMED_HELD_RARE, ASSUMED_HELD_RECORDED, Ahead, Cell as ForecastCell, ForecastLimit, Horizon,
    LatencyChange, LatencyCourse, LoadForecast, Periodic, Refused, ServiceForecast, StaysBelow,
    UsageSource,
};
use laggard_model::name::series_words;
use laggard_model::text::mean_time;
use laggard_model::{NamedCause, Nanos, UsagePattern, printable};

use crate::doc::{Cell, Reason, code};

use refusal::named;
pub(crate) use refusal::{level_reason, objection, objections};

/// Chance that is almost sure: a lower limit above it adds no information.
const ALMOST_SURE: f64 = 0.999;
/// Relative difference below which two periods are the same.
const SAME_PERIOD: f64 = 0.01;
/// Composed latency, in upper limits of the level, above which the two estimates disagree.
const MAX_RATIO: f64 = 3.0;
/// Part of the maximum that a composed latency that explains it has at least, because
/// latencies are rounded to 16 ns.
const EXPLAINED_PART: f64 = 0.999;

/// Explains the bounds with an assumed tail.
pub(crate) const ASSUMED_TAIL: &str = "The assumed tail is neither measured nor fitted. Rank-based bounds reach a ninth of the recording time for 9 of 10 horizons, at most the max. A horizon n times that long is assumed to stay within n^shape times that bound. Back-tests chose the shape and reached 150 times the recording time. Longer horizons are not bounded. docs/validation/forecasts.md shows how often the bounds held.";

/// Explains the columns of the return levels.
pub(crate) const LEVELS: [&str; 4] = [
    "Return level: the latency that is exceeded once per horizon on average, on the worst of the measured CPUs.",
    "r: from the ranks of the peaks, no model. m: from a model of the tail (generalised Pareto), an extrapolation.",
    "c: computed cause by cause. Periodic causes keep their wall-clock period.",
    "In brackets: the 95 % interval. A letter with a question mark is a doubt. The max is a measurement, not a forecast.",
];

/// Writes a time of an answer, ns.
pub(crate) fn time(ns: f64) -> Cell {
    Cell::Time(Nanos::from_f64(ns))
}

/// Writes a time that may be a lower limit.
pub(crate) fn limited(is_at_least: bool, ns: f64) -> Cell {
    if is_at_least {
        Cell::AtLeast(Box::new(time(ns)))
    } else {
        time(ns)
    }
}

pub(crate) fn name(service: &ServiceForecast) -> String {
    series_words(service.service, service.route)
}

/// Names the recordings with their length and load.
pub(crate) fn recording(load: &LoadForecast) -> String {
    let recordings = load.recordings.join(", ");
    format!(
        "{}: {}, load {}",
        printable(&recordings),
        mean_time(load.observed_ns),
        load.load.load().map_or_else(|| "none".to_owned(), code)
    )
}

/// States the usage pattern and its source.
pub(crate) fn usage(load: &LoadForecast) -> String {
    let usage = load.usage;
    let source = match load.usage_from {
        UsageSource::Given => "as given",
        UsageSource::Load => "the pattern of the load; change with `--usage`",
        UsageSource::Assumed => "assumed; change with `--usage`",
    };
    let compression = if usage == UsagePattern::ALWAYS {
        String::new()
    } else {
        format!(", {} h of use per measured hour", usage.compression)
    };
    format!(
        "Use: {} h a day, {} days a week{compression} ({source})",
        usage.hours_per_day, usage.days_per_week
    )
}

/// Writes the hours of a horizon.
pub(crate) fn hours(horizon: Horizon, usage: UsagePattern) -> String {
    let text = format!("{:.1}", horizon.hours(usage));
    format!("{} h", text.strip_suffix(".0").unwrap_or(&text))
}

/// Writes the chance of a new maximum, from the smallest to the largest of all services.
pub(crate) fn chance(cells: &[&ForecastCell]) -> String {
    let chances = || cells.iter().map(|cell| cell.ahead.new_largest);
    let (Some(low), Some(high)) = (chances().reduce(f64::min), chances().reduce(f64::max)) else {
        return Cell::Unknown(Reason::NotMeasured).to_string();
    };
    let [low_text, high_text] = [low, high].map(percent);
    let text = if low_text == high_text {
        low_text
    } else {
        format!("{low_text} to {high_text}")
    };
    let any = |is: fn(&Ahead) -> bool| cells.iter().any(|cell| is(&cell.ahead));
    match (
        any(|ahead| ahead.is_at_least),
        any(|ahead| ahead.is_at_most),
    ) {
        // The direction of the error is unknown.
        (true, true) => format!("~ {text}"),
        (true, false) if low <= ALMOST_SURE => format!(">= {text}"),
        (true | false, false) => text,
        (false, true) if high > ALMOST_SURE => "<= 100 %".into(),
        (false, true) => format!("<= {text}"),
    }
}

/// Writes the chance of a new maximum for a sentence, without signs.
pub(crate) fn chance_in_words(cells: &[&ForecastCell]) -> String {
    let text = chance(cells);
    let words = [(">= ", "at least "), ("<= ", "at most "), ("~ ", "about ")];
    let word = words
        .iter()
        .find_map(|(sign, words)| Some([words, text.strip_prefix(sign)?].concat()));
    word.unwrap_or(text)
}

/// Writes a chance, which is never certain.
pub(crate) fn percent(chance: f64) -> String {
    Cell::Share(chance.clamp(1e-9, 1.0 - 1e-9)).to_string()
}

/// States which spans the maximum bounds, T (1 - q) / q, and the assumption.
pub(crate) fn spans(load: &LoadForecast) -> String {
    let services = &load.services;
    // Some recordings may lack a service.
    let observed = services.iter().map(|service| service.observed_ns);
    let observed = observed.fold(f64::INFINITY, f64::min);
    let lengths = || services.iter().map(|service| service.blocks.least_ns);
    let longest = lengths().fold(0.0, f64::max);
    let blocks = [lengths().fold(f64::INFINITY, f64::min), longest].map(mean_time);
    let blocks = match blocks {
        [low, high] if low == high => low,
        [low, high] => format!("{low} to {high}"),
    };
    let assumed = format!("Assumed: blocks of {blocks} are exchangeable");
    let is_too_short = |service: &&ServiceForecast| service.blocks.least_ns > service.observed_ns;
    let too_short = services.iter().filter(is_too_short).count();
    if too_short > 0 {
        return format!(
            "{assumed}; {} is less than a block of {too_short} of {} services: no bound for them.",
            mean_time(observed),
            services.len()
        );
    }
    let changing = services
        .iter()
        .filter(|service| service.blocks.is_dependent);
    let changing = changing.count();
    if changing > 0 {
        return format!(
            "{assumed}; {changing} of {} services contradict.",
            services.len()
        );
    }
    let cells = services.iter().flat_map(|service| &service.cells);
    let mut bounds = cells.flat_map(|cell| &cell.ahead.stays_below);
    if bounds.any(|bound| bound.is_unresolved) {
        return format!("{assumed}. A service with latencies of 0 ns only is not bounded.");
    }
    if services
        .iter()
        .any(|service| service.lost > 0 || service.largest_is_at_least)
    {
        return format!(
            "{assumed}. A bound marked >= is a lower limit: samples were lost, or a wait had not ended."
        );
    }
    // Blocks say nothing about shorter spans.
    let spans: Vec<String> = [("half of all", 1.0), ("9 of 10", 9.0)]
        .iter()
        .filter(|(_, parts)| observed / parts >= longest)
        .map(|(share, parts)| format!("{share} spans of {}", mean_time(observed / parts)))
        .collect();
    let is_steady = |service: &ServiceForecast| matches!(service.course, LatencyCourse::Steady);
    if spans.is_empty() || !services.iter().all(is_steady) {
        return format!("{assumed}.");
    }
    format!(
        "{assumed}. Then {} stay within the max.",
        spans.join(" and ")
    )
}

/// States the drift or the changes of each service, and the state that its bounds are for.
pub(crate) fn courses(load: &LoadForecast) -> Vec<String> {
    let course = |service: &ServiceForecast| {
        let (change, state) = match &service.course {
            LatencyCourse::Steady => return None,
            LatencyCourse::Drift { times } if *times < 1.0 => (
                format!("fell to 1/{:.1} during the recording", times.recip()),
                "its end",
            ),
            LatencyCourse::Drift { times } => (
                format!("grew {times:.1}-fold during the recording"),
                "the end of the horizon",
            ),
            LatencyCourse::Changes { changes } => {
                let listed = changes.iter().map(|change| {
                    let time = mean_time(change.at_ns);
                    format!(
                        "{time} after the start (by a factor of {:.1})",
                        change.times
                    )
                });
                let is_up = |change: &LatencyChange| change.times > 1.0;
                let alternates = changes.iter().any(is_up) && !changes.iter().all(is_up);
                (
                    format!("changed {}", listed.collect::<Vec<_>>().join(", ")),
                    if alternates {
                        "the time with the largest latencies"
                    } else {
                        "the time after that"
                    },
                )
            }
        };
        let mut bounds = service
            .cells
            .iter()
            .flat_map(|cell| &cell.ahead.stays_below);
        let state = if bounds.any(|bound| bound.bound_ns.or(bound.assumed_ns).is_some()) {
            format!("; bounds are for {state}")
        } else {
            String::new()
        };
        Some(format!("{}: latencies {change}{state}.", name(service)))
    };
    load.services.iter().filter_map(course).collect()
}

/// Explains the assumed tail with this shape, and states how often such bounds held.
pub(crate) fn assumption(bound: &StaysBelow) -> String {
    let shape = bound.assumed_shape;
    let percent = |share: f64| format!("{:.0}", 100.0 * share);
    let (recorded, rare) = (ASSUMED_HELD_RECORDED, ASSUMED_HELD_RARE);
    format!(
        "assumed, not measured: in 10 times the time, the max grows at most {:.1}-fold (t^{shape}). Such bounds held in {} to {} % of forecasts from recordings, and in {} to {} % of simulations with stalls too rare for the recording",
        10_f64.powf(shape),
        percent(recorded.0),
        percent(recorded.1),
        percent(rare.0),
        percent(rare.1),
    )
}

/// States a limit of the forecast and its remedy.
pub(crate) fn limit(limit: &ForecastLimit) -> String {
    match limit {
        ForecastLimit::Trust => "record again: the recording is not trustworthy".into(),
        ForecastLimit::Waiting { at_least_ns } => format!(
            "record until every wait has ended: one had lasted {} when measuring ended",
            time(*at_least_ns)
        ),
        ForecastLimit::Losses { lost } => format!(
            "record without losses: {} lost and may have been late",
            match lost {
                1 => "1 sample was".into(),
                lost => format!("{} samples were", Cell::Count(*lost)),
            }
        ),
        ForecastLimit::Changing { block_ns, services } => format!(
            "record for longer than the load takes to change: in {}, even spans of {} depend on the span before",
            super::plural(*services as u64, "service"),
            mean_time(*block_ns)
        ),
        ForecastLimit::Length {
            horizon,
            more_ns,
            halves,
        } => {
            let (more, name) = (mean_time(*more_ns), horizon.name());
            halves.map_or_else(
                || format!("record {more} more: bounds 9 of 10 {name}s"),
                |chance| {
                    format!(
                        "record {more} more: halves the {} chance of a new max in the next {name}",
                        percent(chance)
                    )
                },
            )
        }
    }
}

/// Counts the return levels, with the most common reason against one.
pub(crate) fn level_count(load: &LoadForecast) -> String {
    let cells = || load.services.iter().flat_map(|service| &service.cells);
    let count = cells().count();
    let known_count = cells().filter(|cell| cell.outcome.is_known()).count();
    let refused = cells().filter_map(|cell| cell.outcome.refused());
    let reason = most_common(refused).map_or_else(String::new, |(reason, refused)| {
        if refused == count {
            format!(": {reason}")
        } else {
            format!("; {refused} refused because {reason}")
        }
    });
    match known_count {
        0 => format!("Return levels: none of {count}{reason}"),
        _ if known_count == count => format!("Return levels: all {count} known"),
        _ => format!("Return levels: {known_count} of {count} known{reason}"),
    }
}

/// Returns the reason that refuses most levels, without its figures, and their number.
fn most_common<'a>(refused: impl Iterator<Item = &'a Refused>) -> Option<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    let reasons = refused.flat_map(|refused| &refused.reasons);
    for objection in reasons.filter(|objection| objection.by_cause.is_none()) {
        let reason = level_reason(&objection.reason).in_short;
        match counts.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => counts.push((reason, 1)),
        }
    }
    // The first of equals.
    counts.into_iter().rev().max_by_key(|(_, count)| *count)
}

/// States for each horizon without a level how long to record.
pub(crate) fn recording_times(load: &LoadForecast) -> Vec<String> {
    let mut times: Vec<(Horizon, f64, Option<f64>)> = Vec::new();
    for cell in load.services.iter().flat_map(|service| &service.cells) {
        let Some(refused) = cell.outcome.refused() else {
            continue;
        };
        let model = refused.record_for_model_ns;
        match times.iter_mut().find(|time| time.0 == cell.horizon) {
            Some(time) => time.2 = time.2.into_iter().chain(model).reduce(f64::min),
            None => times.push((cell.horizon, refused.record_without_model_ns, model)),
        }
    }
    let sentence = |(horizon, without, model): (Horizon, f64, Option<f64>)| {
        let model = model.map_or_else(
            || "a longer recording alone may not allow a model".into(),
            |model| format!("for a model {} or more", mean_time(model)),
        );
        format!(
            "Level of the {}: record {} in all without a model; {model}.",
            horizon.name(),
            mean_time(without)
        )
    };
    times.into_iter().map(sentence).collect()
}

/// States each wall-clock period once, with the services that have it.
pub(crate) fn periods(load: &LoadForecast) -> Vec<String> {
    let mut periods: Vec<(Vec<String>, &Periodic)> = Vec::new();
    for service in &load.services {
        let name = name(service);
        for source in &service.periodic {
            let is_same =
                |other: &Periodic| (other.period_ns / source.period_ns - 1.0).abs() <= SAME_PERIOD;
            match periods.iter_mut().find(|(_, other)| is_same(other)) {
                Some((names, clearest)) => {
                    if !names.contains(&name) {
                        names.push(name.clone());
                    }
                    if source.hits > clearest.hits {
                        *clearest = source;
                    }
                }
                None => periods.push((vec![name.clone()], source)),
            }
        }
    }
    periods
        .into_iter()
        .map(|(services, source)| {
            format!(
                "{}: a source with a period of {} ({} events; p at most {:.3} for any service)",
                services.join(", "),
                mean_time(source.period_ns),
                source.hits,
                source.p.max(0.001)
            )
        })
        .collect()
}

/// States the second estimate of a service, and whether the level agrees.
pub(crate) fn composed(service: &ServiceForecast, composed: &Composed) -> String {
    let name = name(service);
    let Some(latency) = composed.latency_ns else {
        return format!("{name}: no bound; higher-priority work leaves it no time");
    };
    let most = |cause: Option<&NamedCause>| {
        cause.map_or_else(String::new, |cause| format!(" (most: {})", named(cause)))
    };
    // The sum of no times is -0.
    let above = composed
        .above
        .iter()
        .fold(0.0, |sum, above| sum + above.time_ns);
    let unexplained = match composed.unexplained_ns {
        Nanos::ZERO => String::new(),
        time => format!(", without up to {} unexplained", Cell::Time(time)),
    };
    let disagreement = disagreement(service, latency);
    format!(
        "{name}: {} = {} preemption disabled{} + {} of higher priority{} + {} wakeup path{unexplained}{}",
        time(latency),
        Cell::Time(composed.blocking_ns),
        most(composed.blocked_by.as_ref()),
        time(above),
        most(composed.above.first().map(|above| &above.cause)),
        Cell::Time(composed.own_ns),
        disagreement.map_or_else(String::new, |text| format!("; {text}"))
    )
}

/// States the contradiction between the two estimates.
fn disagreement(service: &ServiceForecast, composed: f64) -> Option<String> {
    #[expect(clippy::cast_precision_loss, reason = "shorter than months")]
    let largest = service.largest_ns.map(|ns| ns as f64)?;
    if composed < EXPLAINED_PART * largest {
        return Some("less than the max, which it does not explain".into());
    }
    let (horizon, level) = service.cells.iter().rev().find_map(|cell| {
        let level = cell.outcome.level()?;
        Some((cell.horizon.name(), level))
    })?;
    if composed < level.low_ns {
        return Some(format!(
            "DISAGREES with the level of the {horizon}, which needs longer parts than any measured"
        ));
    }
    (composed > MAX_RATIO * level.high_ns).then(|| {
        format!(
            "DISAGREES with the level of the {horizon}: the measured parts could add up to far more"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_samples_are_counted_in_words() {
        let text = |lost| limit(&ForecastLimit::Losses { lost });

        assert!(text(1).contains("1 sample was lost and may"));
        assert!(text(2_000).contains("2,000 samples were lost and may"));
    }

    #[test]
    fn chance_is_neither_certain_nor_impossible() {
        for (chance, text) in [
            (0.0, "< 0.1 %"),
            (0.5, "50 %"),
            (0.9912, "99.1 %"),
            (1.0, "> 99.9 %"),
        ] {
            assert_eq!(percent(chance), text, "{chance}");
        }
    }
}
