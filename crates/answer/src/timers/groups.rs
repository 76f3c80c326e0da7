//! Timers that do alike, in sentences.

use std::collections::BTreeMap;

use laggard_model::text::{Unit, listed};
use laggard_model::{Nanos, Service, ServiceRank, TimerApi};
use schemars::JsonSchema;
use serde::Serialize;

use super::class::TimerClass;
use super::row::{TimerHeldOff, TimerRow};

/// Timers that do alike.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TimerGroup {
    /// What they do.
    pub class: TimerClass,
    /// What the threads were.
    pub service: Service,
    /// Which.
    pub apis: Vec<TimerApi>,
    /// What they do, in a sentence with its numbers.
    pub sentence: String,
    /// What to use instead, or what to do about it, where there is something.
    pub instead: Option<String>,
}

/// Each timer once, in the order of rows.
fn apis<'a>(rows: impl Iterator<Item = &'a TimerRow>) -> Vec<TimerApi> {
    let mut found = Vec::new();
    for row in rows {
        if !found.contains(&row.api) {
            found.push(row.api);
        }
    }
    found
}

fn names(apis: &[TimerApi]) -> String {
    listed(&apis.iter().map(|api| api.name()).collect::<Vec<_>>())
}

/// The answer in a sentence.
pub(super) fn verdict(rows: &[TimerRow]) -> String {
    let of = |is_as_asked| -> Vec<&TimerRow> {
        let class = |row: &&TimerRow| row.class.is_as_asked() == is_as_asked;
        rows.iter().filter(class).collect()
    };
    let (good, wrong, untold) = (of(Some(true)), of(Some(false)), of(None));
    let wrong = apis(wrong.into_iter());
    let apart = |row: &&TimerRow| !wrong.contains(&row.api);
    let good = apis(good.into_iter().filter(apart));
    // As one policy or for one period they may be told, and not as another.
    let untold = apis(untold.into_iter().filter(apart));
    let (in_part, untold): (Vec<TimerApi>, Vec<TimerApi>) =
        untold.into_iter().partition(|api| good.contains(api));
    let all = good.len() + wrong.len() + untold.len();
    let timers = match (all, good.len()) {
        (1, _) => "timer comes",
        (_, 1) => "timers comes",
        _ => "timers come",
    };
    let mut sentence = match (good.len(), wrong.as_slice()) {
        (0, []) => "Nothing can be told of any timer".to_owned(),
        (some, []) if some == all && all > 1 => {
            format!("All {all} timers come as they are asked for")
        }
        (some, []) => format!("{some} of {all} {timers} as asked for"),
        (some, wrong) => {
            let do_not = if wrong.len() == 1 {
                "does not"
            } else {
                "do not"
            };
            format!(
                "{some} of {all} {timers} as asked for; {} {do_not}",
                names(wrong)
            )
        }
    };
    let is_nothing_told = good.is_empty() && wrong.is_empty();
    if !untold.is_empty() && !is_nothing_told {
        sentence += &format!("; of {} nothing can be told", names(&untold));
    }
    if !in_part.is_empty() {
        sentence += &format!("; of {} not every row can be told", names(&in_part));
    }
    sentence + "."
}

/// The rows in groups, what goes wrong most first.
pub(super) fn groups(rows: &[TimerRow], coarse: Option<Nanos>) -> Vec<TimerGroup> {
    let mut sorted: BTreeMap<(TimerClass, ServiceRank), Vec<&TimerRow>> = BTreeMap::new();
    for row in rows {
        let key = (row.class, row.service.rank());
        sorted.entry(key).or_default().push(row);
    }
    let services: BTreeMap<ServiceRank, Service> = rows
        .iter()
        .map(|row| (row.service.rank(), row.service))
        .collect();
    let is_one = services.len() < 2;
    sorted
        .iter()
        .map(|((class, _), of)| {
            let apis = apis(of.iter().copied());
            let service = of[0].service;
            let who = if is_one {
                names(&apis)
            } else {
                format!("As {service}, {}", names(&apis))
            };
            TimerGroup {
                class: *class,
                service,
                sentence: sentence(*class, &who, of, coarse),
                instead: remedy(of).or_else(|| instead(*class, &apis, rows)),
                apis,
            }
        })
        .collect()
}

fn told(ns: f64) -> String {
    match ns {
        ..0.0 => format!("-{}", Unit::Auto.write(-ns)),
        _ => Unit::Auto.write(ns),
    }
}

/// `50.0 us`, or `50.0 to 62.0 us` where they differ.
fn span(values: impl Iterator<Item = f64>) -> String {
    let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), one| {
        (least.min(one), most.max(one))
    });
    let (least, most) = (told(least), told(most));
    if least == most {
        least
    } else {
        format!("{least} to {most}")
    }
}

fn slack(row: &TimerRow) -> Option<f64> {
    row.slack_ns.map(|ns| ns as f64)
}

fn own(row: &TimerRow) -> Option<f64> {
    row.own_ns.map(|ns| ns as f64)
}

/// How much later they come for another reason than that which names them, and which
/// of them where not all do.
fn besides(rows: &[&TimerRow], why: &str, value: fn(&TimerRow) -> Option<f64>) -> String {
    let with: Vec<&TimerRow> = rows
        .iter()
        .copied()
        .filter(|row| value(row).is_some())
        .collect();
    let later = span(with.iter().filter_map(|row| value(row)));
    let apis = apis(with.iter().copied());
    match with.len() {
        0 => String::new(),
        all if all == rows.len() => format!(", and {later} later {why}"),
        _ => format!(", and {} {later} later {why}", names(&apis)),
    }
}

/// About how long the intervals are, in the mean, of a timer that makes up for them with
/// others next to nothing, ns.
fn between_others(row: &TimerRow) -> Option<f64> {
    let (intervals, share) = row.intervals.zip(row.caught_up)?;
    (share < 1.0).then(|| intervals.mean_ns / (1.0 - share))
}

fn sentence(class: TimerClass, who: &str, rows: &[&TimerRow], coarse: Option<Nanos>) -> String {
    let one = apis(rows.iter().copied()).len() == 1;
    let (are, come, take) = if one {
        ("is", "comes", "takes")
    } else {
        ("are", "come", "take")
    };
    let of = |value: fn(&TimerRow) -> Option<f64>| span(rows.iter().filter_map(|row| value(row)));
    let ticks = || of(|row| row.tick_ns);
    let stated = || match coarse {
        Some(tick) => format!(" (the coarse clock states {})", told(tick.as_f64())),
        None => String::new(),
    };
    let largest = || of(|row| row.late_largest_ns.map(|ns| ns as f64));
    match class {
        TimerClass::FiresTwice => format!(
            "{who}: waits too long by one tick of {}, and then fires twice.",
            ticks()
        ),
        TimerClass::CatchesUp => format!(
            "{who} {are} late by more with each callback, until one comes at once, as {} of them do; the others come about {} after the one before.",
            share(rows.iter().filter_map(|row| row.caught_up)),
            of(between_others)
        ),
        TimerClass::TwoTicks => format!(
            "{who} {are} served on a tick of {}{}, and not by the next one in {} of single waits; {} late at most.",
            ticks(),
            stated(),
            share(rows.iter().filter_map(|row| row.beyond_tick)),
            largest()
        ),
        TimerClass::Tick => format!(
            "{who} {are} rounded up to a tick of {}{}; {} late at most.",
            ticks(),
            stated(),
            largest()
        ),
        TimerClass::Cut => format!(
            "{who} {take} whole units of {}: what a program has beyond them is cut, and {} came after {} in the mean.",
            of(|row| row.rounding.map(|to| to.unit_ns)),
            of(|row| Some(row.requested_ns.as_f64())),
            of(|row| row.intervals.map(|it| it.mean_ns))
        ),
        TimerClass::RoundedUp => format!(
            "{who} {are} rounded up to whole units of {}.",
            of(|row| row.rounding.map(|to| to.unit_ns))
        ),
        TimerClass::Early => format!("{who} {come} before it is time."),
        TimerClass::Bursts => format!(
            "{who} {come} once for each expiry that passed {}: {} at once, where {} had passed.",
            if rows
                .iter()
                .all(|row| row.held_off.is_some_and(|it| it.is_stalled))
            {
                "in a stall"
            } else {
                "while nobody waited"
            },
            of_count(rows, |it| it.at_once),
            of_count(rows, |it| it.passed)
        ),
        TimerClass::Drifts => format!(
            "{who}: goes wrong by more and more, {} of its time{}{}.",
            share(rows.iter().filter_map(|row| row.drift.map(f64::abs))),
            besides(rows, "for the timer slack", slack),
            besides(rows, "with no slack allowed", own)
        ),
        TimerClass::Later => format!(
            "{who} {come} {} later than this CPU's finest sleep with no slack allowed{}, by lower quartiles.",
            of(own),
            besides(rows, "for the timer slack", slack)
        ),
        TimerClass::Slack => format!(
            "{who} {come} {} later for the timer slack, of which {} is allowed{}, by lower quartiles.",
            of(slack),
            of(|row| Some(row.allowed_slack_ns.as_f64())),
            besides(rows, "with no slack allowed", own)
        ),
        TimerClass::Exact => {
            format!("{who} {come} as exactly as this CPU wakes a thread.")
        }
        TimerClass::Undecided => {
            let waits = rows.iter().map(|row| row.single).min().unwrap_or(0);
            let is_few = rows.iter().any(|row| row.told_from_ns.is_none());
            let left_out: u64 = rows.iter().map(|row| row.left_out).sum();
            match is_few {
                true if left_out > 0 => format!(
                    "{who} cannot be told: {waits} single waits are too few, and {left_out} waits were left out, which something else ended or interrupted; measure for longer, or when less goes on."
                ),
                true => format!(
                    "{who} cannot be told: {waits} single waits are too few; measure for longer."
                ),
                false => format!(
                    "{who} cannot be told: the machine itself was {} late in the median, and differences show from {} on ({waits} single waits).",
                    of(|row| row.machine_ns.map(|ns| ns as f64)),
                    of(|row| row.told_from_ns.map(|ns| ns as f64)),
                ),
            }
        }
        TimerClass::Unavailable => {
            let why = rows.iter().filter_map(|row| row.absence.as_ref());
            let mut why: Vec<&str> = why.map(|one| &*one.reason).collect();
            why.dedup();
            format!("{who} cannot be had: {}.", why.join("; "))
        }
    }
}

fn share(values: impl Iterator<Item = f64>) -> String {
    let most = values.fold(0.0, f64::max) * 100.0;
    match most {
        ..10.0 => format!("{most:.1} %"),
        _ => format!("{most:.0} %"),
    }
}

/// `5`, or `5 to 7` where rows differ.
fn of_count(rows: &[&TimerRow], of: fn(&TimerHeldOff) -> f64) -> String {
    let values: Vec<f64> = rows
        .iter()
        .filter_map(|row| row.held_off.as_ref().map(of))
        .collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    if least < most {
        format!("{least:.0} to {most:.0}")
    } else {
        format!("{most:.0}")
    }
}

/// What those do that come once for all that passed.
pub(super) fn held_off(rows: &[TimerRow]) -> Vec<String> {
    let of = |is_told: bool| -> Vec<&TimerRow> {
        let is_one =
            |it: &TimerHeldOff| it.at_once == 1.0 && !it.is_stalled && it.is_told == is_told;
        let is_one = |row: &&TimerRow| row.held_off.as_ref().is_some_and(is_one);
        rows.iter().filter(is_one).collect()
    };
    let sentence = |is_told: bool, ways: [&str; 2]| {
        let of = of(is_told);
        let apis = apis(of.iter().copied());
        let (come, told) = match apis.len() {
            0 => return None,
            1 => ("comes", ways[0]),
            _ => ("come", ways[1]),
        };
        let passed = of_count(&of, |it| it.passed);
        Some(format!(
            "After {passed} periods in which nobody waited, {} {come} once, and {told}.",
            names(&apis)
        ))
    };
    let told = sentence(true, ["says how many passed", "say how many passed"]);
    let untold = sentence(
        false,
        [
            "does not say that some passed",
            "do not say that some passed",
        ],
    );
    told.into_iter().chain(untold).collect()
}

/// What does the same and better, as far as is known of it.
fn better(api: TimerApi) -> &'static [TimerApi] {
    match api {
        TimerApi::Poll => &[TimerApi::Ppoll],
        TimerApi::EpollWait => &[TimerApi::EpollPwait2],
        TimerApi::SoRcvtimeo => &[TimerApi::Ppoll],
        TimerApi::Select => &[TimerApi::Pselect],
        TimerApi::Setitimer => &[TimerApi::TimerCreate, TimerApi::Timerfd],
        TimerApi::IoUringMultishot => &[TimerApi::Timerfd],
        // Nothing else that is tried here counts it.
        TimerApi::SetitimerVirtual | TimerApi::SetitimerProf => &[],
        TimerApi::Sleep
        | TimerApi::WaitForSingleObject
        | TimerApi::SleepConditionVariable
        | TimerApi::WinsockSelect
        | TimerApi::WaitableTimerAbs
        | TimerApi::WaitableTimer
        | TimerApi::WaitableTimerPeriodic
        | TimerApi::HighResTimer
        | TimerApi::HighResTimerPeriodic
        | TimerApi::TimeSetEvent
        | TimerApi::TimerQueue
        | TimerApi::ThreadpoolTimer => &[TimerApi::HighResTimer],
        TimerApi::ClockNanosleepAbs
        | TimerApi::ClockNanosleepRealtime
        | TimerApi::ClockNanosleepBoottime
        | TimerApi::ClockNanosleepTai
        | TimerApi::ClockNanosleep
        | TimerApi::Usleep
        | TimerApi::TimerfdAbs
        | TimerApi::Timerfd
        | TimerApi::TimerCreate
        | TimerApi::TimerCreateThread
        | TimerApi::Ppoll
        | TimerApi::Pselect
        | TimerApi::EpollPwait2
        | TimerApi::Futex
        | TimerApi::SemTimedwait
        | TimerApi::CondTimedwait
        | TimerApi::MutexTimedlock
        | TimerApi::Sigtimedwait
        | TimerApi::MqTimedreceive
        | TimerApi::Semtimedop
        | TimerApi::IoUring => &[TimerApi::ClockNanosleepAbs, TimerApi::Timerfd],
    }
}

/// What to do about timers that could not be had.
fn remedy(of: &[&TimerRow]) -> Option<String> {
    let absences = of.iter().filter_map(|row| row.absence.as_ref());
    let mut remedies: Vec<&str> = absences.map(|one| &*one.remedy).collect();
    remedies.dedup();
    (!remedies.is_empty()).then(|| format!("Remedy: {}.", remedies.join("; ")))
}

/// What to use instead: of what does the same, none that was seen here not to
/// come as it is asked for.
fn instead(class: TimerClass, of: &[TimerApi], rows: &[TimerRow]) -> Option<String> {
    if class == TimerClass::Slack {
        return Some(
            "Set the slack to 1 ns with prctl(PR_SET_TIMERSLACK), or use a real-time policy, or a timer that has none."
                .into(),
        );
    }
    if class.is_as_asked() != Some(false) {
        return None;
    }
    let is_bad = |api: TimerApi| {
        let mut of = rows.iter().filter(|row| row.api == api);
        of.any(|row| row.class.is_as_asked() == Some(false))
    };
    let mut found = Vec::new();
    for api in of.iter().flat_map(|api| better(*api)) {
        if !found.contains(api) && !is_bad(*api) && !of.contains(api) {
            found.push(*api);
        }
    }
    let mut use_them = format!("Use {} instead", names(&found));
    if of.contains(&TimerApi::SoRcvtimeo) {
        use_them += ", and receive when it says that there is something";
    }
    let computing: Vec<TimerApi> = of
        .iter()
        .copied()
        .filter(|api| api.counts_cpu_time())
        .collect();
    let alone = (!computing.is_empty() && computing.len() < of.len()).then(|| {
        format!(
            " None of these counts CPU time, as {} would.",
            names(&computing)
        )
    });
    (!found.is_empty()).then(|| use_them + "." + &alone.unwrap_or_default())
}
