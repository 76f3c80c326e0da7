//! Requirements and what recordings say of them, in plain words.

use laggard_model::name::line_name;
use laggard_model::text::{Unit, count, percent, rough_time};
use laggard_model::{CpuList, LoadLabel, Nanos, whole};

use super::handlers::{HandlerSort, Longest};
use super::until;
use super::{
    CheckFigure, CheckReport, CheckVerdict, CheckedRow, Requirement, Undecided, WhenUnclear,
};
use crate::compare::{LEAST_RECORDINGS, LevelComparison};
use crate::qos::Application;

/// Digits of what is known to some per cent at best.
const DIGITS: i32 = 2;

/// What is required.
pub(super) fn title(requirement: &Requirement) -> String {
    let time = |time: Nanos| time.to_string();
    match requirement {
        Requirement::Share {
            at_most_ns, share, ..
        } => {
            format!(
                "later than {} in at most {}",
                time(*at_most_ns),
                part(*share)
            )
        }
        Requirement::Mttf {
            application,
            mttf_ns,
        } => format!(
            "{} runs dry at most every {}",
            application.name,
            every(mttf_ns.as_f64())
        ),
        Requirement::Level { level_ns, per_ns } => format!(
            "later than {} at most every {}",
            time(*level_ns),
            every(per_ns.as_f64())
        ),
        Requirement::NotWorseThan { ratio } => format!("late at most {ratio} times as often"),
        Requirement::LongestSoftirq { at_most_ns, .. } => {
            format!("no softirq longer than {}", time(*at_most_ns))
        }
        Requirement::LongestIrq { at_most_ns, .. } => {
            format!("no interrupt's handler longer than {}", time(*at_most_ns))
        }
    }
}

/// A share for people: `1.0e-5`.
fn part(share: f64) -> String {
    format!("{share:.1e}")
}

fn every(ns: f64) -> String {
    rough_time(ns, DIGITS)
}

/// The service that a row is of, and its load where it has one.
fn subject(row: &CheckedRow) -> String {
    let line = row.service.zip(row.route);
    let line = line.map_or_else(String::new, |(service, route)| line_name(service, route));
    under(&line, &row.load)
}

fn under(what: &str, load: &LoadLabel) -> String {
    match load.load() {
        Some(load) => format!("{what} under {load}"),
        None => what.into(),
    }
}

pub(super) fn share(row: &CheckedRow, limit: Nanos, samples: f64) -> String {
    let Some(figure) = &row.figure else {
        return String::new();
    };
    let high = part(figure.high.unwrap_or(1.0));
    let interval = if figure.low > 0.0 {
        format!("between {} and {high}", part(figure.low))
    } else {
        format!("at most {high}")
    };
    format!(
        "{}: {} of {} activations were later than {}, {interval} of all; {} may be{}",
        subject(row),
        number(figure.seen),
        number(samples),
        Unit::Auto.write_nanos(limit),
        part(figure.limit),
        rest(row)
    ) + &stalls(row)
}

/// Length of a stall, and size of a burst of shorter ones, up to which a share is met.
fn stalls(row: &CheckedRow) -> String {
    if row.verdict != CheckVerdict::Met {
        return String::new();
    }
    let stall = row
        .holds_to_ns
        .map(|longest| format!("; holds for stalls of up to {}", every_down(longest)));
    let burst = row
        .holds_to_burst
        .filter(|burst| *burst >= 2.0)
        .map(|burst| {
            format!(
                ", and bursts of stalls with up to {} late wakeups",
                number(burst.floor())
            )
        });
    stall.map_or_else(String::new, |stall| stall + &burst.unwrap_or_default())
}

/// Number of events in a burst up to which a mean time is met, if no event was seen:
/// then the recording shows no burst.
fn bursts(row: &CheckedRow) -> String {
    let seen = row.figure.as_ref().map_or(0.0, |figure| figure.seen);
    match (row.verdict, row.holds_to_burst) {
        (CheckVerdict::Met, Some(burst)) if seen == 0.0 => {
            format!("; holds for bursts of up to {}", number(burst.floor()))
        }
        _ => String::new(),
    }
}

/// A time rounded down, so that the sentence does not promise more than was shown.
fn every_down(ns: f64) -> String {
    let step = 10_f64.powf(ns.log10().floor() + 1.0 - f64::from(DIGITS));
    every((ns / step * (1.0 + 1e-9)).floor() * step)
}

pub(super) fn level(row: &CheckedRow, level: Nanos) -> String {
    let Some(figure) = &row.figure else {
        return String::new();
    };
    format!(
        "{}: later than {} {} on a CPU; every {} is allowed{}",
        subject(row),
        Unit::Auto.write_nanos(level),
        mean_time(figure, true),
        every(figure.limit),
        rest(row)
    ) + &bursts(row)
}

/// Where failures are not counted, none seen is not said to be none.
pub(super) fn mttf(
    row: &CheckedRow,
    application: &Application,
    (is_counted, where_worst): (bool, Option<&CpuList>),
) -> String {
    let Some(figure) = &row.figure else {
        return String::new();
    };
    let place = where_worst.map(|cpus| format!(" on CPU {cpus}, where it does most often,"));
    let place = place.unwrap_or_default();
    let runs = format!("{} as {}", application.name, subject(row));
    if row.why == Some(Undecided::TooCoarse) && figure.low >= figure.limit {
        // Its limits would decide it, and are of what such a recording can see.
        return format!(
            "{runs}: by what was seen, runs dry{place} {}; every {} is allowed; not decided: activations are too far \
             apart to see short stalls that meet in one buffer; record with `--app`, on Windows with a shorter `--period`",
            mean_time(figure, is_counted),
            every(figure.limit)
        );
    }
    format!(
        "{runs}: runs dry{place} {}; every {} is allowed{}",
        mean_time(figure, is_counted),
        every(figure.limit),
        rest(row)
    ) + &bursts(row)
}

pub(super) fn ratio(row: &CheckedRow, level: &LevelComparison) -> String {
    let low = figure(level.ratio_low);
    let times = match (level.ratio, level.ratio_high) {
        (Some(ratio), Some(high)) => {
            format!(
                "{} times as often as in the baseline, {low} to {}",
                figure(ratio),
                figure(high)
            )
        }
        _ => format!("more than {low} times as often as in the baseline"),
    };
    let limit = row.figure.as_ref().map_or(1.0, |figure| figure.limit);
    format!(
        "{}: later than {} {times}; {limit} times is allowed{}",
        subject(row),
        Unit::Auto.write_nanos(level.level_ns),
        rest(row)
    )
}

/// Of what cannot be compared with the baseline.
pub(super) fn not_compared(row: &CheckedRow) -> String {
    format!(
        "{}: not compared with the baseline{}",
        subject(row),
        rest(row)
    )
}

pub(super) fn longest(
    row: &CheckedRow,
    sort: HandlerSort,
    longest: Option<&Longest>,
    per: Nanos,
) -> String {
    let what = match sort {
        HandlerSort::Softirq => "softirqs",
        HandlerSort::Irq => "interrupt handlers",
    };
    let what = under(what, &row.load);
    let Some(figure) = &row.figure else {
        return format!(
            "{what}: no flight recorder's evidence{}; on Linux record as root without `--episodes off`, of Windows import a trace",
            rest(row)
        );
    };
    let limit = Unit::Auto.write(figure.limit);
    let seen = match longest {
        Some(one) => format!(
            "the longest in late activations took {} ({}, CPU {})",
            Unit::Auto.write_nanos(one.time),
            one.name,
            one.cpu
        ),
        None => "none is in late activations".into(),
    };
    let ending = match row.verdict {
        CheckVerdict::Broken => format!("; {} took longer than {limit}", number(figure.seen)),
        CheckVerdict::Met => format!(
            "; none longer than {limit}, and such of {} come less than once in {}{}",
            Unit::Auto.write(2.0 * figure.limit),
            every(per.as_f64()),
            bursts(row)
        ),
        CheckVerdict::NotDecided => match row.why {
            Some(Undecided::NotWatched) => format!(
                "; {limit} is allowed; not decided: not all that was later is kept; record with `--threshold {}`",
                Nanos::from_f64(figure.limit)
            ),
            _ => format!("; {limit} is allowed{}", rest(row)),
        },
    };
    format!("{what}: {seen}{ending}")
}

/// How often something came, on average.
fn mean_time(figure: &CheckFigure, is_counted: bool) -> String {
    let low = every(figure.low);
    match (figure.value, figure.high) {
        (Some(value), Some(high)) => {
            format!("every {}, between {low} and {}", every(value), every(high))
        }
        (Some(value), None) => format!("every {}, at most every {low}", every(value)),
        (None, Some(high)) => format!("every {low} to {}", every(high)),
        (None, None) if figure.seen > 0.0 || !is_counted => format!("at most every {low}"),
        (None, None) => format!("never, so at most every {low}"),
    }
}

/// What keeps a row from being decided, and what it would take.
fn rest(row: &CheckedRow) -> String {
    let Some(why) = &row.why else {
        return String::new();
    };
    let needed = match row.needed_ns {
        Some(needed) => format!("; {} would decide", every(needed)),
        None => String::new(),
    };
    match why {
        Undecided::TooShort if row.needed_ns.is_none() => {
            "; not decided: too near the limit for any recording".into()
        }
        Undecided::TooShort => format!("; not decided: too short{needed}"),
        Undecided::LongStalls => {
            let stall = |ns: Option<f64>| ns.map_or_else(String::new, every_down);
            let is_default = matches!(
                row.requirement,
                Requirement::Share {
                    longest_ns: None,
                    ..
                }
            );
            let source = if is_default {
                "by default; set `longest` in the requirement"
            } else {
                "by `longest`"
            };
            format!(
                "; not decided: holds only for stalls of up to {}, and must for stalls of up to {} ({source}){needed}",
                stall(row.holds_to_ns),
                stall(row.longest_stall_ns.map(Nanos::as_f64))
            )
        }
        Undecided::NotTrustworthy => "; not decided: the recordings are not trustworthy".into(),
        Undecided::StillWaiting => {
            "; not decided: it was still waiting when measuring ended".into()
        }
        Undecided::FewRecordings => {
            format!("; not decided: record {LEAST_RECORDINGS} of each, in turn")
        }
        Undecided::Varies => {
            format!("; not decided: recordings differ as much by themselves{needed}")
        }
        Undecided::FixedOrder => {
            "; not decided: the order of the recordings repeats itself, so that a regular job could be the difference; \
             record in the order A B A B B A B A"
                .into()
        }
        Undecided::NotKept => {
            "; not decided: what was lost, or not kept, could have broken it".into()
        }
        Undecided::TooCoarse => {
            "; not decided: activations are too far apart to tell; record with `--app`, on Windows with a shorter `--period`".into()
        }
        Undecided::NotWatched => "; not decided".into(),
        Undecided::LoadEnded => {
            "; not decided: the load ended before the recording did, or was stopped".into()
        }
        Undecided::TooOften => {
            "; not decided: late so much of the time that how often does not tell".into()
        }
    }
}

/// A ratio with two digits.
fn figure(ratio: f64) -> String {
    match ratio {
        10.0.. => format!("{ratio:.0}"),
        1.0..10.0 => format!("{ratio:.1}"),
        _ => format!("{ratio:.2}"),
    }
}

/// A whole number that is not negative.
fn number(of: f64) -> String {
    count(whole(of.round()))
}

/// All of it in a sentence. `on_windows`: whether that is where the recordings were made.
pub(super) fn of_all(report: &CheckReport, on_windows: bool) -> Vec<String> {
    let count = |verdict| {
        report
            .rows
            .iter()
            .filter(|row| row.verdict == verdict)
            .count()
    };
    let parts = [
        (CheckVerdict::Broken, "broken"),
        (CheckVerdict::NotDecided, "not decided"),
        (CheckVerdict::Met, "met"),
    ];
    let parts = parts.map(|(verdict, word)| (count(verdict), word));
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let mut all = vec![format!(
        "Of {} check{}: {}, at {} % each, in {}.",
        report.rows.len(),
        if report.rows.len() == 1 { "" } else { "s" },
        parts.join(", "),
        percent(report.confidence),
        every(report.duration_ns.as_f64())
    )];
    if let Some(until) = &report.until_decided {
        all.extend(until::sentences(report, until));
    }
    let needed = report.rows.iter().filter_map(|row| row.needed_ns);
    if let Some(needed) = needed.reduce(f64::max) {
        all.push(format!(
            "What is not decided yet would be after {}, if it goes on as it was.",
            every(needed)
        ));
    }
    let of_length = |row: &CheckedRow| row.why.as_ref().is_some_and(Undecided::is_of_length);
    // What there is of `record` on Windows does not look in between.
    if !on_windows
        && report.when_unclear == WhenUnclear::Extend
        && report.until_decided.is_none()
        && report.verdict == CheckVerdict::NotDecided
        && report.rows.iter().any(of_length)
    {
        all.push(format!(
            "To record for as long as it takes: laggard record --require {} --until-decided",
            report.file
        ));
    }
    if report.passes && report.verdict == CheckVerdict::NotDecided {
        all.push("It passes because the file says when_unclear = \"warn\".".into());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_has_two_digits_or_its_whole_ones() {
        let told = [0.456, 0.999, 1.0, 3.26, 9.94, 10.0, 123.4].map(figure);

        assert_eq!(told, ["0.46", "1.00", "1.0", "3.3", "9.9", "10", "123"]);
    }
}
