//! Sentences of `laggard bench timers`.

use laggard_answer::timers::{TimerClass, TimerGroup, TimerOverrun, TimerRow, TimersReport};
use laggard_model::name::service_words;
use laggard_model::text::listed;
use laggard_model::{ClockSeen, Nanos, TimerApi};

use super::plural;
use crate::doc::Cell;

/// Returns the word for a class.
pub(crate) const fn class(class: TimerClass) -> &'static str {
    match class {
        TimerClass::FiresTwice => "fires twice",
        TimerClass::CatchesUp => "catches up",
        TimerClass::TwoTicks => "two ticks",
        TimerClass::Tick => "tick",
        TimerClass::Cut => "cut",
        TimerClass::RoundedUp => "rounded up",
        TimerClass::Early => "early",
        TimerClass::Bursts => "bursts",
        TimerClass::Drifts => "drifts",
        TimerClass::Later => "later",
        TimerClass::Slack => "slack",
        TimerClass::Exact => "exact",
        TimerClass::Unknown => "unknown",
        TimerClass::Unavailable => "unavailable",
    }
}

/// States how many timers expire as requested, and names the others.
pub(crate) fn summary(report: &TimersReport) -> String {
    let summary = &report.summary;
    let good = summary.as_requested.len();
    let bad = &summary.not_as_requested;
    let total = good + bad.len() + summary.unknown.len();
    if good == 0 && bad.is_empty() {
        return "The test gives no result for any timer.".into();
    }
    let mut text = match (good, total) {
        (1, 1) => "The timer expires as requested".to_owned(),
        (good, total) if good == total => format!("All {total} timers expire as requested"),
        (1, total) => format!("1 of {total} timers expires as requested"),
        (good, 1) => format!("{good} of 1 timer expires as requested"),
        (good, total) => format!("{good} of {total} timers expire as requested"),
    };
    match bad.len() {
        0 => {}
        1 => text += &format!("; {} does not", names(bad)),
        _ => text += &format!("; {} do not", names(bad)),
    }
    if !summary.unknown.is_empty() {
        text += &format!("; unknown: {}", names(&summary.unknown));
    }
    if !summary.partly_unknown.is_empty() {
        text += &format!("; partly unknown: {}", names(&summary.partly_unknown));
    }
    text + "."
}

/// Describes the timers of a group, with a remedy if there is one.
pub(crate) fn group(report: &TimersReport, group: &TimerGroup) -> String {
    let is_in_group = |row: &&TimerRow| row.class == group.class && row.service == group.service;
    let rows: Vec<&TimerRow> = report.rows.iter().filter(is_in_group).collect();
    let services = report.groups.iter().map(|group| group.service);
    let has_services = services.into_iter().any(|service| service != group.service);
    let timers = if has_services {
        format!(
            "{} with {}",
            names(&group.apis),
            service_words(group.service)
        )
    } else {
        names(&group.apis)
    };
    let behaviour = behaviour(group.class, &rows, report.coarse_ns);
    let remedy = remedy(group, &rows).map_or_else(String::new, |remedy| format!(" {remedy}"));
    format!("{timers}: {behaviour}.{remedy}")
}

fn names(apis: &[TimerApi]) -> String {
    listed(&apis.iter().map(|api| api.name()).collect::<Vec<_>>())
}

/// Writes a time that may be negative.
pub(crate) fn signed(ns: i64) -> Cell {
    let time = Cell::Time(Nanos::from_ns(ns.unsigned_abs()));
    if ns < 0 {
        Cell::Text(format!("-{time}"))
    } else {
        time
    }
}

/// Writes times as `50.0 us`, or as `50.0 us to 62.0 us` if they differ.
fn range(rows: &[&TimerRow], value: impl Fn(&TimerRow) -> Option<i64>) -> String {
    let values = || rows.iter().filter_map(|row| value(row));
    let (Some(min), Some(max)) = (values().min(), values().max()) else {
        return "-".into();
    };
    let (min, max) = (signed(min).to_string(), signed(max).to_string());
    if min == max {
        min
    } else {
        format!("{min} to {max}")
    }
}

/// Rounds a time to whole ns.
#[expect(
    clippy::cast_possible_truncation,
    reason = "times of a few seconds at most"
)]
fn whole(ns: f64) -> i64 {
    ns.round() as i64
}

/// Writes the largest of the shares.
fn max_share(rows: &[&TimerRow], share: impl Fn(&TimerRow) -> Option<f64>) -> Cell {
    let shares = rows.iter().filter_map(|row| share(row));
    Cell::Share(shares.fold(0.0, f64::max))
}

/// Writes numbers as `5`, or as `5 to 7` if they differ.
fn count_range(rows: &[&TimerRow], value: impl Fn(&TimerOverrun) -> f64) -> String {
    let values = rows.iter().filter_map(|row| row.overrun.as_ref());
    let (min, max) = values
        .map(value)
        .fold((f64::INFINITY, 0.0), |range, value| {
            (f64::min(range.0, value), f64::max(range.1, value))
        });
    if min < max {
        format!("{min:.0} to {max:.0}")
    } else {
        format!("{max:.0}")
    }
}

/// Describes a second delay of the timers, and which of them have it unless all do.
fn second_delay(
    rows: &[&TimerRow],
    cause: &str,
    value: impl Fn(&TimerRow) -> Option<i64> + Copy,
) -> String {
    let with: Vec<&TimerRow> = rows
        .iter()
        .copied()
        .filter(|row| value(row).is_some())
        .collect();
    if with.is_empty() {
        return String::new();
    }
    let delay = range(&with, value);
    if with.len() == rows.len() {
        return format!(", and {delay} later {cause}");
    }
    let mut apis: Vec<TimerApi> = with.iter().map(|row| row.api).collect();
    apis.dedup();
    format!(", and {} {delay} later {cause}", names(&apis))
}

/// Returns the mean interval of a timer whose other intervals have almost no length.
fn interval_of_others(row: &TimerRow) -> Option<i64> {
    let (intervals, share) = row.intervals.zip(row.caught_up)?;
    (share < 1.0).then(|| whole(intervals.mean_ns / (1.0 - share)))
}

/// Describes how the timers differ from the requested times.
fn behaviour(class: TimerClass, rows: &[&TimerRow], coarse: Option<Nanos>) -> String {
    let slack = |row: &TimerRow| row.slack_ns;
    let delay = |row: &TimerRow| row.delay_ns;
    let tick = || {
        let tick = range(rows, |row| row.tick_ns.map(whole));
        match coarse {
            Some(stated) => format!("{tick} (coarse clock: {})", Cell::Time(stated)),
            None => tick,
        }
    };
    let max = || range(rows, |row| row.max_ns);
    let unit = || range(rows, |row| row.rounding.map(|to| whole(to.unit_ns)));
    match class {
        TimerClass::FiresTwice => format!(
            "waits one tick of {} too long, then fires twice",
            range(rows, |row| row.tick_ns.map(whole))
        ),
        TimerClass::CatchesUp => format!(
            "each callback is later than the one before, until one comes immediately ({} of the callbacks); the others are {} apart",
            max_share(rows, |row| row.caught_up),
            range(rows, interval_of_others)
        ),
        TimerClass::TwoTicks => format!(
            "expires on a tick of {}; {} of single waits end more than one tick late; max {}",
            tick(),
            max_share(rows, |row| row.beyond_tick),
            max()
        ),
        TimerClass::Tick => format!("rounded up to a tick of {}; max {}", tick(), max()),
        TimerClass::Cut => format!(
            "rounded down to whole units of {}; waits for {} take {} in the mean",
            unit(),
            range(rows, |row| Some(whole(row.requested_ns.as_f64()))),
            range(rows, |row| row
                .intervals
                .map(|intervals| whole(intervals.mean_ns)))
        ),
        TimerClass::RoundedUp => format!("rounded up to whole units of {}", unit()),
        TimerClass::Early => "expires before the requested time".into(),
        TimerClass::Bursts => {
            let is_stall = |row: &&TimerRow| row.overrun.is_some_and(|overrun| overrun.is_stall);
            let during = if rows.iter().all(is_stall) {
                "during a stall"
            } else {
                "while no thread waited"
            };
            format!(
                "expires once for each period that passed {during}: {} times at once after {} periods",
                count_range(rows, |overrun| overrun.at_once),
                count_range(rows, |overrun| overrun.passed)
            )
        }
        TimerClass::Drifts => format!(
            "drifts by {} of the time{}{}",
            max_share(rows, |row| row.drift.map(f64::abs)),
            second_delay(rows, "due to timer slack", slack),
            second_delay(rows, "without timer slack", delay)
        ),
        TimerClass::Later => format!(
            "{} later than the most accurate sleep, without timer slack{} (lower quartiles)",
            range(rows, delay),
            second_delay(rows, "due to timer slack", slack)
        ),
        TimerClass::Slack => format!(
            "{} later due to timer slack of {}{} (lower quartiles)",
            range(rows, slack),
            range(rows, |row| Some(whole(row.allowed_slack_ns.as_f64()))),
            second_delay(rows, "without timer slack", delay)
        ),
        TimerClass::Exact => "as accurate as a wakeup on this CPU".into(),
        TimerClass::Unknown => unknown(rows),
        TimerClass::Unavailable => {
            let reasons = rows.iter().filter_map(|row| row.absence.as_ref());
            let mut reasons: Vec<&str> = reasons.map(|absence| &*absence.reason).collect();
            reasons.dedup();
            reasons.join("; ")
        }
    }
}

fn unknown(rows: &[&TimerRow]) -> String {
    let waits = rows.iter().map(|row| row.single as u64).min().unwrap_or(0);
    let waits = plural(waits, "single wait");
    if rows.iter().all(|row| row.resolution_ns.is_some()) {
        return format!(
            "the machine itself had a median latency of {}, so only delays above {} are visible ({waits})",
            range(rows, |row| row.reference_ns),
            range(rows, |row| row.resolution_ns),
        );
    }
    let left_out: u64 = rows.iter().map(|row| row.left_out).sum();
    if left_out > 0 {
        let left_out = plural(left_out, "interrupted wait");
        return format!("too few waits ({waits}; {left_out} left out); measure longer");
    }
    format!("too few waits ({waits}); measure longer")
}

fn remedy(group: &TimerGroup, rows: &[&TimerRow]) -> Option<String> {
    if group.class == TimerClass::Slack {
        return Some("Remedy: prctl(PR_SET_TIMERSLACK, 1) or a real-time policy.".into());
    }
    let absences = rows.iter().filter_map(|row| row.absence.as_ref());
    let mut remedies: Vec<&str> = absences.map(|absence| &*absence.remedy).collect();
    remedies.dedup();
    if !remedies.is_empty() {
        return Some(format!("Remedy: {}.", remedies.join("; ")));
    }
    if group.alternatives.is_empty() {
        return None;
    }
    let mut text = format!("Use {}", names(&group.alternatives));
    if group.apis.contains(&TimerApi::SoRcvtimeo) {
        text += " before receiving";
    }
    text += ".";
    let of_cpu_time = group.apis.iter().copied();
    let of_cpu_time: Vec<TimerApi> = of_cpu_time.filter(|api| api.counts_cpu_time()).collect();
    if !of_cpu_time.is_empty() && of_cpu_time.len() < group.apis.len() {
        text += &format!(
            " None of these counts CPU time, as {} would.",
            names(&of_cpu_time)
        );
    }
    Some(text)
}

/// Describes the timers that expire once for all periods in which no thread waited.
pub(crate) fn overruns(rows: &[TimerRow]) -> Vec<String> {
    let sentence = |is_counted: bool| {
        let expires_once = |overrun: &TimerOverrun| {
            overrun.at_once == 1.0 && !overrun.is_stall && overrun.is_counted == is_counted
        };
        let rows = rows.iter();
        let rows: Vec<&TimerRow> = rows
            .filter(|row| row.overrun.as_ref().is_some_and(expires_once))
            .collect();
        let mut apis: Vec<TimerApi> = Vec::new();
        for row in &rows {
            if !apis.contains(&row.api) {
                apis.push(row.api);
            }
        }
        let passed = count_range(&rows, |overrun| overrun.passed);
        let (expire, report) = match (apis.len(), is_counted) {
            (0, _) => return None,
            (1, true) => ("expires", "reports how many passed"),
            (1, false) => ("expires", "does not report the others"),
            (_, true) => ("expire", "report how many passed"),
            (_, false) => ("expire", "do not report the others"),
        };
        Some(format!(
            "After {passed} periods without a waiting thread, {} {expire} once and {report}.",
            names(&apis)
        ))
    };
    [true, false].into_iter().filter_map(sentence).collect()
}

/// Names the clocks on which no thread can sleep, with their steps.
pub(crate) fn clocks(clocks: &[ClockSeen]) -> Option<String> {
    let describe = |clock: &ClockSeen| {
        let stated = Cell::Time(clock.stated_ns.filter(|_| !clock.sleeps)?);
        let measured = clock.step_ns.map_or_else(
            || "did not advance in 40 ms".into(),
            |step| format!("measured {}", Cell::Time(step)),
        );
        Some(format!("{} (step {stated}, {measured})", clock.name))
    };
    let clocks: Vec<String> = clocks.iter().filter_map(describe).collect();
    (!clocks.is_empty()).then(|| format!("Clocks without sleep: {}.", clocks.join(", ")))
}
