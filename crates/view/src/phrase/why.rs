//! Sentences of `laggard why`.

use laggard_answer::forecast::{Horizon, Level, Outcome};
use laggard_answer::why::{CauseShare, Gain, LateWakeups, Remark, RhythmRow, WhyReport};
use laggard_model::name::series_words;
use laggard_model::text::{Unit, listed, mean_time};
use laggard_model::{Line, Nanos, Route};

use super::{cause, forecast, plural, sample_unit};
use crate::doc::Cell;

/// Name of late wakeups without trace data.
pub(crate) const UNTRACED: &str = "unknown: no trace data was kept";

fn time(time: Nanos) -> Cell {
    Cell::Time(time)
}

/// Writes a time that may be a lower bound.
pub(crate) fn at_least(is_at_least: bool, bound: Nanos) -> String {
    if is_at_least {
        format!("at least {}", time(bound))
    } else {
        time(bound).to_string()
    }
}

fn scope(late: &LateWakeups) -> String {
    late.service.map_or_else(
        || "All series".into(),
        |service| series_words(service, late.route.unwrap_or(Route::Direct)),
    )
}

/// Names the series of a line, with its CPU.
pub(crate) fn place(line: Line) -> String {
    format!(
        "{} on CPU {}",
        series_words(line.service, line.route),
        line.cpu
    )
}

/// States a threshold, or the range of several, such as `212-217 us`.
fn threshold((min, max): (Nanos, Nanos)) -> String {
    let [min, max] = [min, max].map(|limit| time(limit).to_string());
    match (min.split_once(' '), max.split_once(' ')) {
        _ if min == max => min,
        (Some((number, unit)), Some((_, last))) if unit == last => format!("{number}-{max}"),
        _ => format!("{min}-{max}"),
    }
}

/// States number, threshold, total and maximum of the late wakeups of a series.
pub(crate) fn late(late: &LateWakeups) -> String {
    let above = late.threshold().map(threshold);
    let above = above.map_or_else(String::new, |above| format!(" (> {above})"));
    let bound = if late.is_incomplete { ">= " } else { "" };
    let max = late.measured_max_ns.unwrap_or(late.largest_ns);
    format!(
        "{}: {bound}{}{above}, {bound}{} in total, max {}",
        scope(late),
        plural(late.wakeups, &format!("late {}", sample_unit(late.service))),
        time(late.total_ns),
        at_least(late.largest_is_at_least, max.max(late.largest_ns))
    )
}

/// States that no wakeup of a series was late, or that this is not known.
pub(crate) fn on_time(late: &LateWakeups) -> String {
    let doubt = late.remarks.iter().find_map(|remark| match remark {
        Remark::LostSamples { samples } => Some(format!(
            "unknown whether a wakeup was late: {} lost",
            if *samples == 1 {
                "1 sample was".to_owned()
            } else {
                format!("{} samples were", Cell::Count(*samples))
            }
        )),
        Remark::NotCounted => Some(
            "unknown whether a wakeup was late: the recording kept none and did not count them"
                .into(),
        ),
        _ => None,
    });
    let result = doubt.unwrap_or_else(|| "no late wakeup".into());
    let max = late
        .measured_max_ns
        .map(|max| format!("; max {}", time(max)));
    let above = late.threshold().map(threshold);
    let above = above.map(|above| format!("; threshold {above}"));
    format!(
        "{}: {result}{}{}",
        scope(late),
        max.unwrap_or_default(),
        above.unwrap_or_default()
    )
}

/// States the number of causes that are not listed, and what they took.
pub(crate) fn more_causes(late: &LateWakeups) -> Option<String> {
    let more = late.more_causes;
    let listed = late.causes.iter().map(|row| row.share).sum::<f64>();
    let untraced = late.untraced.as_ref().map_or(0.0, |row| row.share);
    let rest = (1.0 - listed - untraced).max(0.0);
    (more > 0).then(|| {
        format!(
            "{}: {} together (`--top {}`)",
            plural(more as u64, "more cause"),
            Cell::Share(rest),
            late.causes.len() + more
        )
    })
}

/// States the fix to try first and its effect, or that no fix has one.
pub(crate) fn first_fix(late: &LateWakeups) -> Option<String> {
    if late.causes.is_empty() {
        return None;
    }
    let max = at_least(late.largest_is_at_least, late.largest_ns);
    let traced = traced(late);
    let Some(first) = &late.first_fix else {
        return Some(format!(
            "No known fix of a single cause lowers the max{traced} of {max} by 5 % or more."
        ));
    };
    let effect = if first.largest_without_ns == late.largest_ns {
        let share = Cell::Share(first.share);
        format!("{share} of the latency, but the max{traced} stays {max}")
    } else {
        let without = at_least(late.largest_is_at_least, first.largest_without_ns);
        format!("the max{traced} falls from {max} to {without}")
    };
    Some(format!(
        "Fix first: {} ({effect}). {}",
        cause::name(&first.cause, &first.contenders),
        cause::fix(&first.fix)
    ))
}

/// Returns the scope of a maximum: the wakeups with trace data, if others have none.
fn traced(late: &LateWakeups) -> String {
    let is_partial = late
        .measured_max_ns
        .is_some_and(|max| max > late.largest_ns);
    let untraced = late.untraced.as_ref().map_or(0, |row| row.wakeups);
    if untraced == 0 && !is_partial {
        return String::new();
    }
    let traced = late.wakeups.saturating_sub(untraced);
    let unit = sample_unit(late.service);
    format!(" of the {} with trace data", plural(traced, unit))
}

/// Describes the period of a cause, if it has one.
pub(crate) fn rhythm(rhythm: &RhythmRow) -> String {
    format!(
        "every {}{} ({} of {} seen)",
        time(rhythm.period_ns),
        spell(rhythm),
        rhythm.hits,
        rhythm.due
    )
}

/// States the part of the recording in which a period was seen.
fn spell(rhythm: &RhythmRow) -> String {
    let tenths = |time: Nanos| time.as_secs_f64() * 10.0;
    let before = rhythm
        .none_before_ns
        .map(|time_ns| tenths(time_ns).floor() / 10.0);
    let after = rhythm
        .none_after_ns
        .map(|time_ns| tenths(time_ns).ceil() / 10.0);
    match (before, after) {
        (None, None) => String::new(),
        (Some(before), None) => format!(" from {before:.1} s"),
        (None, Some(after)) => format!(" until {after:.1} s"),
        (Some(before), Some(after)) => format!(" from {before:.1} s to {after:.1} s"),
    }
}

/// States a limit of a ranking.
pub(crate) fn remark(remark: &Remark) -> String {
    match remark {
        Remark::StillWaiting {
            line,
            served,
            others,
        } => {
            let how = match served {
                0 => "never ran",
                _ => "was still waiting when the measurement ended",
            };
            let others = match others {
                0 => String::new(),
                1 => "; 1 other series also waited".into(),
                others => format!("; {others} other series also waited"),
            };
            format!("{} {how}: its last latency is unknown{others}.", place(*line))
        }
        Remark::OwnThreads { time_ns, share } => format!(
            "Threads of laggard took {} ({}) of this time.",
            time(*time_ns),
            Cell::Share(*share)
        ),
        Remark::MaxNotKept { largest_ns } => format!(
            "Trace data of the max of {} is missing, so its cause is unknown.",
            time(*largest_ns)
        ),
        Remark::LostSamples { samples } => format!(
            "{} lost, and may have been late.",
            if *samples == 1 {
                "1 sample was".to_owned()
            } else {
                format!("{} samples were", Cell::Count(*samples))
            }
        ),
        Remark::NotCounted => {
            "An earlier version recorded this, and did not count late wakeups without trace data."
                .into()
        }
        Remark::EarlyNotKept {
            wakeups,
            largest_ns,
            until_ns,
        } => {
            let until = until_ns.map_or_else(
                || "before the threshold was chosen".to_owned(),
                |until| format!("in the first {}, before the threshold was chosen", time(until)),
            );
            format!(
                "No trace data of {} {until} (max {}); set `--threshold`.",
                plural(*wakeups, "late wakeup"),
                time(*largest_ns)
            )
        }
        Remark::NoThreshold {
            is_attached: true, ..
        } => "No threshold: the threads lack a period and a deadline, so only each new maximum was kept. Give `--deadline` to `laggard attach`.".into(),
        Remark::NoThreshold {
            lines,
            of,
            kept_above_ns,
            ..
        } => {
            let kept = kept_above_ns.map_or_else(
                || "nothing was kept".to_owned(),
                |above| format!("only each new maximum above {} was kept", time(above)),
            );
            format!(
                "No threshold on {lines} of {}: the recording ended too early, and {kept}. Set `--threshold`, or record for longer than 3 s.",
                plural(*of as u64, "CPU")
            )
        }
        Remark::HighThreshold {
            threshold_ns,
            lines,
        } => format!(
            "The threshold is {} on {}, because the first 3 s had such latencies; set `--threshold`.",
            time(*threshold_ns),
            plural(*lines as u64, "CPU")
        ),
    }
}

/// States what the whole recording lacks.
pub(crate) fn gaps(report: &WhyReport) -> Vec<String> {
    let switches = report.unseen_switches.map_or_else(
        || "not counted".to_owned(),
        |switches| Cell::Count(switches).to_string(),
    );
    vec![format!(
        "Whole recording: {} with overwritten trace data; unseen context switches: {switches}",
        plural(report.overwritten, "episode")
    )]
}

/// States the gain from removing the leading causes of a series. Causes whose gain is unknown
/// for the same reason share a line.
pub(crate) fn gains(late: &LateWakeups) -> Vec<String> {
    let rows = late.causes.iter().filter(|row| !row.gains.is_empty());
    let mut lines = Vec::new();
    let mut unknown: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let name = cause::name(&row.cause, &row.contenders);
        if let Some(line) = gain(row, &name) {
            lines.push(line);
            continue;
        }
        let reason = unknown_gain(row);
        match unknown.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => unknown.push((reason, vec![name])),
        }
    }
    lines.extend(unknown.into_iter().map(|(reason, names)| {
        format!(
            "Long-term gain without {}{}: unknown{reason}.",
            if names.len() > 1 { "any one of " } else { "" },
            listed(&names)
        )
    }));
    lines
}

/// States the gain of a cause for the longest horizon with a known return level; `None` without
/// one.
fn gain(row: &CauseShare, name: &str) -> Option<String> {
    let (gain, with) = row.gains.iter().rev().find_map(|gain| {
        let level = gain.with.level()?;
        Some((gain, level))
    })?;
    let horizon = adjective(gain.horizon);
    let with_it = level(with);
    Some(match level_without(gain) {
        Some((most, without)) if most < with.low_ns => format!(
            "Without {name}, the {horizon} return level would fall from {with_it} to {without}."
        ),
        Some((_, without)) => format!(
            "Without {name}, the {horizon} return level may not fall: {with_it} with it, {without} without."
        ),
        None => format!(
            "Without {name}, the {horizon} return level of {with_it} would change to an unknown one{}.",
            reasons(&gain.without)
        ),
    })
}

/// Returns an upper limit of the level without the cause, and its text.
fn level_without(gain: &Gain) -> Option<(f64, String)> {
    if let Some(without) = gain.without.level() {
        return Some((without.high_ns, level(without)));
    }
    let most = gain.without.refused()?.at_most_ns?;
    Some((most, format!("at most {}", Unit::Auto.write(most))))
}

fn reasons(outcome: &Outcome) -> String {
    outcome.refused().map_or_else(String::new, |refused| {
        format!(" ({})", forecast::objections(refused))
    })
}

/// States why the gain of a cause is unknown, and the length of a recording that shows it.
fn unknown_gain(row: &CauseShare) -> String {
    let mut gains = row.gains.iter();
    let refused = gains.find_map(|gain| Some((gain, gain.with.refused()?)));
    refused.map_or_else(String::new, |(gain, refused)| {
        format!(
            ", no {} return level ({}). Record {} in all",
            adjective(gain.horizon),
            forecast::objections(refused),
            mean_time(refused.record_without_model_ns)
        )
    })
}

const fn adjective(horizon: Horizon) -> &'static str {
    match horizon {
        Horizon::Hour => "hourly",
        Horizon::Day => "daily",
        Horizon::Week => "weekly",
    }
}

/// Writes a return level with its confidence interval.
fn level(level: &Level) -> String {
    let time = |ns| Unit::Auto.write(ns);
    format!(
        "{} (95 % CI {} to {})",
        time(level.level_ns),
        time(level.low_ns),
        time(level.high_ns)
    )
}
