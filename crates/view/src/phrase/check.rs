//! Sentences of `laggard check`.

use laggard_answer::check::{
    CheckFigure, CheckReport, CheckedRow, EndedBy, FigureOf, Requirement, TestVerdict, Undecided,
    UntilDecided,
};
use laggard_answer::compare::LEAST_RECORDINGS;
use laggard_model::name::series_words;
use laggard_model::text::{Unit, percent, rough_time};
use laggard_model::{LoadLabel, Nanos, Service, whole};

use super::{code, plural, sample_unit};
use crate::doc::Cell;
use crate::text::Tone;

/// Digits of an estimate.
const DIGITS: i32 = 2;

/// Returns the word for a verdict.
pub(crate) const fn verdict(verdict: TestVerdict) -> &'static str {
    match verdict {
        TestVerdict::Pass => "PASS",
        TestVerdict::Unknown => "UNKNOWN",
        TestVerdict::Fail => "FAIL",
    }
}

/// Returns whether a verdict is good news.
pub(crate) const fn tone(verdict: TestVerdict) -> Tone {
    match verdict {
        TestVerdict::Pass => Tone::Good,
        TestVerdict::Unknown => Tone::Open,
        TestVerdict::Fail => Tone::Bad,
    }
}

/// Counts the verdicts: `3 checks: 1 FAIL, 1 UNKNOWN, 1 PASS`.
pub(crate) fn counts(report: &CheckReport) -> String {
    let verdicts = [TestVerdict::Fail, TestVerdict::Unknown, TestVerdict::Pass];
    let counts = verdicts.map(|verdict| {
        let rows = report.rows.iter();
        (verdict, rows.filter(|row| row.verdict == verdict).count())
    });
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(kind, count)| format!("{count} {}", verdict(*kind)))
        .collect();
    let checks = plural(report.rows.len() as u64, "check");
    format!("{checks}: {}", counts.join(", "))
}

/// States the confidence and the data of all verdicts.
pub(crate) fn data(report: &CheckReport) -> String {
    let load = common_load(report);
    format!(
        "Each verdict holds with {} % confidence. Recorded: {}{}.",
        percent(report.confidence),
        estimate(report.duration_ns.as_f64()),
        load.map_or_else(String::new, under)
    )
}

/// Returns the load if all rows have the same one.
pub(crate) fn common_load(report: &CheckReport) -> Option<&LoadLabel> {
    let first = &report.rows.first()?.load;
    report
        .rows
        .iter()
        .all(|row| row.load == *first)
        .then_some(first)
}

fn under(load: &LoadLabel) -> String {
    super::qos::under(load)
}

/// States a requirement.
pub(crate) fn requirement(requirement: &Requirement, service: Option<Service>) -> String {
    let unit = sample_unit(service);
    match requirement {
        Requirement::Share {
            at_most_ns, share, ..
        } if *share < 0.01 => format!("at most {share:e} of {unit}s later than {at_most_ns}"),
        Requirement::Share {
            at_most_ns, share, ..
        } => format!("at most {share} of {unit}s later than {at_most_ns}"),
        Requirement::Mttf {
            application,
            mttf_ns,
        } => format!(
            "at most 1 xrun of {} per {}",
            code(&application.name),
            estimate(mttf_ns.as_f64())
        ),
        Requirement::Level { level_ns, per_ns } => format!(
            "later than {level_ns} at most once per {}",
            estimate(per_ns.as_f64())
        ),
        Requirement::NotWorseThan { ratio } => {
            format!("at most {ratio} x the late {unit}s of the baseline")
        }
        Requirement::LongestSoftirq { at_most_ns, .. } => {
            format!("no softirq longer than {at_most_ns}")
        }
        Requirement::LongestIrq { at_most_ns, .. } => {
            format!("no IRQ handler longer than {at_most_ns}")
        }
    }
}

/// Names a requirement: the name in the file, or the requirement itself.
pub(crate) fn name(row: &CheckedRow) -> String {
    let name = row.name.clone();
    name.unwrap_or_else(|| requirement(&row.requirement, row.service))
}

/// Names the service; `None` for handlers.
pub(crate) fn service(row: &CheckedRow) -> Option<String> {
    let series = row.service.zip(row.route);
    series.map(|(service, route)| series_words(service, route))
}

/// Names the service, and the load if `with_load`.
pub(crate) fn subject(row: &CheckedRow, with_load: bool) -> String {
    let load = if with_load {
        under(&row.load)
    } else {
        String::new()
    };
    let service = service(row).unwrap_or_default();
    format!("{service}{load}").trim_start().to_owned()
}

/// Names and states the requirement of a row.
pub(crate) fn requirement_of_row(row: &CheckedRow, with_load: bool) -> String {
    let subject = subject(row, with_load);
    let title = requirement(&row.requirement, row.service);
    match (&row.name, subject.is_empty()) {
        (Some(name), true) => format!("{name}: {title}"),
        (Some(name), false) => format!("{name}: {subject}, {title}"),
        (None, true) => title,
        (None, false) => format!("{subject}: {title}"),
    }
}

/// States the observed figure with its interval.
pub(crate) fn observed(row: &CheckedRow) -> String {
    let Some(figure) = &row.figure else {
        return match row.why {
            Some(Undecided::NotWatched) => {
                format!("no trace data of late {}s", sample_unit(row.service))
            }
            _ => "not compared with the baseline".into(),
        };
    };
    match figure.of {
        FigureOf::Share => share(figure, sample_unit(row.service)),
        FigureOf::MeanTime => mean_time(row, figure),
        FigureOf::Ratio => ratio(row, figure),
        FigureOf::Longest => longest(row, figure),
    }
}

fn share(figure: &CheckFigure, unit: &str) -> String {
    let part = |share: f64| format!("{share:.1e}");
    let high = part(figure.high.unwrap_or(1.0));
    let interval = if figure.low > 0.0 {
        format!("{} to {high}", part(figure.low))
    } else {
        format!("at most {high}")
    };
    let samples = number(figure.samples.unwrap_or_default());
    match figure.value.filter(|_| figure.seen > 0.0) {
        Some(value) => format!(
            "{} of {samples} {unit}s, {} ({interval})",
            number(figure.seen),
            part(value)
        ),
        None => format!("0 of {samples} {unit}s, {interval}"),
    }
}

/// States a mean time between events. If events are not counted, an absence of events is not
/// stated.
fn mean_time(row: &CheckedRow, figure: &CheckFigure) -> String {
    let low = estimate(figure.low);
    let event = if matches!(row.requirement, Requirement::Mttf { .. }) {
        "xrun"
    } else {
        "run"
    };
    let cpus = row.worst_cpus.as_ref();
    let cpus = cpus.map_or_else(String::new, |cpus| {
        format!(" {}, the worst", super::qos::on_cpus(cpus))
    });
    let rate = match (figure.value, figure.high) {
        (Some(value), Some(high)) => format!(
            "1 {event} per {} ({low} to {})",
            estimate(value),
            estimate(high)
        ),
        (Some(value), None) => {
            format!("1 {event} per {} (at most 1 per {low})", estimate(value))
        }
        (None, Some(high)) => format!("1 {event} per {low} to {}", estimate(high)),
        (None, None) if figure.seen > 0.0 || !figure.is_counted => {
            format!("at most 1 {event} per {low}")
        }
        (None, None) => format!("no {event}; at most 1 per {low}"),
    };
    rate + &cpus
}

fn ratio(row: &CheckedRow, figure: &CheckFigure) -> String {
    let low = Cell::Ratio(figure.low);
    let level = row.level_ns.map(Cell::Time);
    let level = level.map_or_else(String::new, |level| format!(", later than {level}"));
    match (figure.value, figure.high) {
        (Some(value), Some(high)) => {
            let ratio = Cell::estimate(Cell::Ratio(value), low, Cell::Ratio(high));
            format!("{ratio} the baseline{level}")
        }
        _ => format!("more than {low} the baseline{level}"),
    }
}

fn longest(row: &CheckedRow, figure: &CheckFigure) -> String {
    let Some(handler) = &row.handler else {
        return "none in late wakeups".into();
    };
    let longer = if figure.seen > 0.0 {
        format!("; {} above the limit", number(figure.seen))
    } else {
        String::new()
    };
    format!(
        "longest {} ({}, CPU {}){longer}",
        Cell::Time(handler.time_ns),
        code(&handler.name),
        handler.cpu
    )
}

/// States the reason for an unknown verdict with the remedy, or the limits of a verdict that
/// passes.
pub(crate) fn remark(row: &CheckedRow) -> Option<String> {
    match &row.why {
        Some(why) => Some(reason(row, why)),
        None if row.verdict == TestVerdict::Pass => limits(row),
        None => None,
    }
}

/// States the stalls, the bursts and the handlers up to which a requirement passes.
fn limits(row: &CheckedRow) -> Option<String> {
    let burst = row.holds_to_burst.map(f64::floor);
    let figure = row.figure.as_ref()?;
    match figure.of {
        FigureOf::Share => {
            let stall = estimate_down(row.holds_to_ns?);
            let burst = burst.filter(|burst| *burst >= 2.0);
            let burst = burst.map_or_else(String::new, |burst| {
                format!(
                    " and bursts of stalls with up to {} late wakeups",
                    number(burst)
                )
            });
            Some(format!("holds for stalls of up to {stall}{burst}"))
        }
        FigureOf::MeanTime => bursts(figure, burst),
        FigureOf::Ratio => None,
        FigureOf::Longest => {
            let (Requirement::LongestSoftirq { per_ns, .. }
            | Requirement::LongestIrq { per_ns, .. }) = &row.requirement
            else {
                return None;
            };
            let bursts = bursts(figure, burst).map(|bursts| format!("; {bursts}"));
            Some(format!(
                "handlers of {} come less than once per {}{}",
                Unit::Auto.write(2.0 * figure.limit),
                estimate(per_ns.as_f64()),
                bursts.unwrap_or_default()
            ))
        }
    }
}

/// States the largest burst for which a mean time passes. If events were seen, the interval
/// covers their bursts.
fn bursts(figure: &CheckFigure, burst: Option<f64>) -> Option<String> {
    let burst = burst.filter(|_| figure.seen == 0.0)?;
    Some(format!("holds for bursts of up to {}", number(burst)))
}

fn reason(row: &CheckedRow, why: &Undecided) -> String {
    match why {
        Undecided::TooShort if row.needed_ns.is_none() => {
            "too close to the limit for any recording".into()
        }
        Undecided::TooShort => "too short".into(),
        Undecided::LongStalls => long_stalls(row),
        Undecided::NotTrustworthy => "the recordings are not trustworthy".into(),
        Undecided::StillWaiting => "it was still waiting when measuring ended".into(),
        Undecided::FewRecordings => {
            format!("too few recordings; record {LEAST_RECORDINGS} of each side, in turn")
        }
        Undecided::Varies => "recordings of one side differ from each other as much as the sides do".into(),
        Undecided::FixedOrder => {
            "the order of the recordings repeats, so a periodic job could be the difference; record in the order A B A B B A B A".into()
        }
        Undecided::NotKept => "lost or discarded samples could change the verdict".into(),
        Undecided::TooCoarse => {
            let figure = row.figure.as_ref();
            let is_within = figure.is_some_and(|figure| figure.low >= figure.limit);
            let interval = if is_within {
                "the interval excludes short stalls, because "
            } else {
                ""
            };
            format!(
                "{interval}wakeups are too far apart to see short stalls that meet in one buffer; record with `--app`, on Windows with a shorter `--period`"
            )
        }
        Undecided::NotWatched => not_watched(row),
        Undecided::LoadEnded => {
            "the load ended before the recording did, or was stopped".into()
        }
        Undecided::TooOften => {
            "late most of the time, so that the rate of late runs and the share of late wakeups disagree".into()
        }
    }
}

fn long_stalls(row: &CheckedRow) -> String {
    let stall = |ns: Option<f64>| ns.map_or_else(String::new, estimate_down);
    let is_default = matches!(
        row.requirement,
        Requirement::Share {
            longest_ns: None,
            ..
        }
    );
    let source = if is_default {
        "default; set `longest` in the requirement"
    } else {
        "`longest`"
    };
    format!(
        "holds only for stalls of up to {}, and must hold for stalls of up to {} ({source})",
        stall(row.holds_to_ns),
        stall(row.longest_stall_ns.map(Nanos::as_f64))
    )
}

fn not_watched(row: &CheckedRow) -> String {
    match &row.figure {
        None => "no trace data; on Linux record as root without `--episodes off`, for Windows import a trace".into(),
        Some(figure) => format!(
            "trace data of some late wakeups are missing; record with `--threshold {}`",
            Nanos::from_f64(figure.limit)
        ),
    }
}

/// States a row in one sentence, for build servers and `--all`.
pub(crate) fn sentence(row: &CheckedRow) -> String {
    let requirement = requirement_of_row(row, true);
    let parts = [
        Some(requirement),
        Some(format!("observed {}", observed(row))),
        remark(row),
        row.needed_ns
            .map(|needed| format!("{} of recording would decide", estimate(needed))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// States how long `record --until-decided` recorded, and why it ended.
pub(crate) fn until_decided(report: &CheckReport, until: &UntilDecided) -> Vec<String> {
    let time = |ns: Nanos| estimate(ns.as_f64());
    let recorded = format!(
        "Recorded {} of at most {}",
        time(report.duration_ns),
        time(until.at_most_ns)
    );
    let reason = match until.ended {
        None => "not decided yet, recording continues",
        Some(EndedBy::Pass) => "all requirements pass",
        Some(EndedBy::Fail) => "a requirement fails",
        Some(EndedBy::NoTimeWould) => "a longer recording would decide nothing more",
        Some(EndedBy::AtMost) => "the maximum is reached (`--at-most`)",
        Some(EndedBy::User) => "interrupted",
    };
    let percent = |confidence: f64| percent((confidence * 1e4 + 1e-9).floor() / 1e4);
    let (pass, fail) = (
        percent(until.pass_confidence_of_each),
        percent(until.confidence_of_each),
    );
    let each = if pass == fail {
        format!("{fail} % confidence")
    } else {
        format!("{pass} % (PASS) and {fail} % confidence (FAIL)")
    };
    let evaluations = format!(
        "Evaluation {} of at most {}, each with {each}, so that all together hold.",
        until.look, until.looks,
    );
    vec![format!("{recorded}: {reason}."), evaluations]
}

fn estimate(ns: f64) -> String {
    rough_time(ns, DIGITS)
}

/// Writes a time rounded down, so that the text does not promise more than was shown.
fn estimate_down(ns: f64) -> String {
    let step = 10_f64.powf(ns.log10().floor() + 1.0 - f64::from(DIGITS));
    estimate((ns / step * (1.0 + 1e-9)).floor() * step)
}

/// Writes a number of events.
fn number(events: f64) -> String {
    Cell::Count(whole(events.round())).to_string()
}
