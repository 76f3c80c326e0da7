//! A result in two or three plain sentences. Each says no more than the figures
//! that it is made of: ties, few samples and what is unknown have words of
//! their own.

use laggard_model::name::line_name;
use laggard_model::text::{Unit, count, span};
use laggard_model::{Cpu, LoadLabel, Nanos, Route, Service, printable};

use super::dominant::what_dominates;
use super::{RecordingReport, ServiceRow, Share};
use crate::waiting::Waiting;

/// CPUs that are named; others are counted.
const NAMED: usize = 4;
/// Shorter than this, how long it was recorded says nothing of how often anything
/// comes.
const LEAST: Nanos = Nanos::from_ms(100);
/// What is late seldom, and one time in how many: the first that is known. In a
/// short recording the largest alone would look like one accident.
const RARE: [(f64, &str); 2] = [(0.999, "1,000"), (0.99, "100")];

/// What the figures say, in plain words.
pub(super) fn sentences(report: &RecordingReport) -> Vec<String> {
    let mut sentences: Vec<String> = still_waiting(report).into_iter().collect();
    if let Some(row) = representative_row(report) {
        // Hand-overs are not late: their figures say all.
        if let Some(what) = report.plan.rows.words(report.plan.period_ns) {
            let early = match report.plan.rows.early() {
                0 => String::new(),
                early => format!(
                    "; {} came before they were due, and count as 0 late",
                    count(early)
                ),
            };
            sentences.push(format!("These are {what}{early}."));
        } else {
            sentences.push(how_late(report, row));
            sentences.extend(what_dominates(report, row));
        }
    }
    if sentences.is_empty() {
        sentences.push("Nothing was measured.".into());
    }
    sentences
}

/// Who was still waiting when measuring ended: one that was never served
/// before all others, then who had waited longest.
pub fn still_waiting(report: &RecordingReport) -> Option<String> {
    let leads = |one: &&Waiting| (one.served == 0, one.at_least_ns);
    let worst = report.waiting.iter().max_by_key(leads)?;
    let how = match worst.served {
        0 => "was never served",
        _ => "was still waiting when measuring ended",
    };
    let others = match report.waiting.len() - 1 {
        0 => String::new(),
        1 => "; another line was still waiting when measuring ended".into(),
        more => format!("; {more} other lines were still waiting when measuring ended"),
    };
    Some(format!(
        "{} on CPU {} {how}: at least {} late{others}.",
        line_name(worst.service, worst.route),
        worst.cpu,
        write(worst.at_least_ns)
    ))
}

/// The service to speak of: the most urgent thread that ran, or else that of which the
/// most was watched, or else the first row that did.
pub(crate) fn representative_row(report: &RecordingReport) -> Option<&ServiceRow> {
    let ran = |row: &&ServiceRow| row.latency.samples > row.still_waiting;
    let threads = report
        .services
        .iter()
        .filter(ran)
        .filter(|row| row.service.is_thread() && row.route == Route::Direct);
    threads
        .max_by_key(|row| (row.service.urgency(), row.latency.largest_ns))
        .or_else(|| {
            let all = report.services.iter().filter(ran);
            all.filter(|row| matches!(row.service, Service::Task(_)))
                .max_by_key(|row| row.latency.samples)
        })
        .or_else(|| report.services.iter().find(ran))
}

fn how_late(report: &RecordingReport, row: &ServiceRow) -> String {
    let time = match row.minute {
        Some(minute) => Some(format!("minute {minute}")),
        None => Some(report.duration_ns)
            .filter(|&time| time >= LEAST)
            .map(span),
    };
    let load = LoadLabel::of(report.load.as_ref());
    let load = load.load().map(|load| format!("`{}`", printable(load)));
    let when = match (time, load) {
        (Some(time), Some(load)) => format!("In {time} under the load {load}, "),
        (Some(time), None) => format!("In {time}, "),
        (None, Some(load)) => format!("Under the load {load}, "),
        (None, None) => String::new(),
    };
    let mut text = format!("{when}{} ran", row.name());
    if let Some(cpu) = row.cpu {
        text += &format!(" on CPU {cpu}");
    }
    let never = never_served(report, row);
    match row.latency.share(0.5).filter(|share| share.ns.is_some()) {
        Some(median) if never.is_empty() => {
            text += &format!(" typically {} late", in_words(median));
        }
        // What is typical of some lines is not of one that never ran.
        _ => text += &times(row.latency.samples - row.missed),
    }
    if !never.is_empty() {
        text += &format!(" and never on CPU {}", listed(&never));
    }
    let known = |(of, times)| {
        let share = row.latency.share(of)?;
        Some((share, share.ns?, times))
    };
    if let Some((share, ns, times)) = RARE.into_iter().find_map(known) {
        // A quantile is the upper edge of its bucket, so fewer may be later.
        text += &match (share.is_at_least, never.is_empty()) {
            (true, true) => format!(", at least 1 time in {times} {} or more", write(ns)),
            (false, true) => format!(", at most 1 time in {times} more than {}", write(ns)),
            (true, false) => format!(
                "; at least 1 activation in {times} was {} late or more",
                write(ns)
            ),
            (false, false) => format!(
                "; at most 1 activation in {times} was more than {} late",
                write(ns)
            ),
        };
    }
    if let (Some(largest), Some(at)) = (row.latency.largest_ns, row.latency.largest_at_ns) {
        let least = if row.latency.largest_is_at_least {
            "at least "
        } else {
            ""
        };
        text += &format!(
            "; the largest seen was {least}{} ({:.3} s after the start), not a bound",
            write(largest),
            at.as_secs_f64()
        );
    }
    text + "."
}

/// CPUs of the lines of this row that were never served.
fn never_served(report: &RecordingReport, row: &ServiceRow) -> Vec<Cpu> {
    let mut cpus: Vec<Cpu> = report
        .waiting
        .iter()
        .filter(|one| one.served == 0)
        .filter(|one| (one.service, one.route) == (row.service, row.route))
        .filter(|one| row.cpu.is_none_or(|cpu| cpu == one.cpu))
        .map(|one| one.cpu)
        .collect();
    cpus.sort_unstable();
    cpus
}

/// The first of these CPUs, and how many more there are.
fn listed(cpus: &[Cpu]) -> String {
    let named: Vec<String> = cpus.iter().take(NAMED).map(Cpu::to_string).collect();
    match cpus.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// How often it was served; what came while it was late is served with that.
fn times(served: u64) -> String {
    match served {
        0 => " late each time".into(),
        1 => " once".into(),
        more => format!(" {} times", count(more)),
    }
}

fn in_words(share: &Share) -> String {
    match share
        .ns
        .filter(|_| share.is_at_least && share.low_ns.is_none())
    {
        Some(time) => format!("at least {}", write(time)),
        None => share.write(Unit::Auto),
    }
}

fn write(time: Nanos) -> String {
    Unit::Auto.write_nanos(time)
}
