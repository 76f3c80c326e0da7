//! A result in two or three plain sentences. Each says no more than the figures
//! that it is made of: ties, few samples and what is unknown have words of
//! their own.

use laggard_model::name::line_name;
use laggard_model::text::{Unit, count, span};
use laggard_model::{LoadLabel, Nanos, Route, printable};

use crate::build::WAKEUP_TO_USER;
use crate::figures::{RecordingReport, ServiceRow, Share, StageRow, Waiting};

/// From this part of the largest on, another is about as much.
const ABOUT: f64 = 0.9;

/// What the figures say, in plain words.
pub(crate) fn sentences(report: &RecordingReport) -> Vec<String> {
    let mut sentences: Vec<String> = still_waiting(report).into_iter().collect();
    if let Some(row) = spokesman(report) {
        sentences.push(how_late(report, row));
        sentences.extend(what_dominates(report, row));
    }
    if sentences.is_empty() {
        sentences.push("Nothing was measured.".into());
    }
    sentences
}

/// Who was still waiting when measuring ended: one that was never served
/// before all others, then who had waited longest.
pub(crate) fn still_waiting(report: &RecordingReport) -> Option<String> {
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

/// The service to speak of: the most urgent thread that ran, or else the first
/// row that did.
fn spokesman(report: &RecordingReport) -> Option<&ServiceRow> {
    let ran = |row: &&ServiceRow| row.latency.samples > row.still_waiting;
    let threads = report
        .services
        .iter()
        .filter(ran)
        .filter(|row| row.service.is_thread() && row.route == Route::Direct);
    threads
        .max_by_key(|row| (row.service.urgency(), row.latency.largest_ns))
        .or_else(|| report.services.iter().find(ran))
}

fn how_late(report: &RecordingReport, row: &ServiceRow) -> String {
    let load = match LoadLabel::of(report.load.as_ref()).load() {
        Some(load) => format!(" under the load `{}`", printable(load)),
        None => String::new(),
    };
    let mut text = match row.minute {
        Some(minute) => format!("In minute {minute}{load}, {} ran", row.name()),
        None => format!("In {}{load}, {} ran", span(report.duration_ns), row.name()),
    };
    if let Some(cpu) = row.cpu {
        text += &format!(" on CPU {cpu}");
    }
    match row.latency.share(0.5).filter(|share| share.ns.is_some()) {
        Some(median) => text += &format!(" typically {} late", in_words(median)),
        None => text += &times(row.latency.samples - row.still_waiting),
    }
    if let Some((share, ns)) = row
        .latency
        .share(0.999)
        .and_then(|share| Some((share, share.ns?)))
    {
        // A quantile is the upper edge of its bucket, so fewer may be later.
        text += &match share.is_at_least {
            true => format!(", at least 1 time in 1,000 {} or more", write(ns)),
            false => format!(", at most 1 time in 1,000 more than {}", write(ns)),
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

fn times(ran: u64) -> String {
    match ran {
        1 => " once".into(),
        more => format!(" {} times", count(more)),
    }
}

fn in_words(share: &Share) -> String {
    let text = share.write(Unit::Auto);
    match text.strip_prefix(">= ") {
        Some(time) => format!("at least {time}"),
        None => text,
    }
}

fn write(time: Nanos) -> String {
    Unit::Auto.write_nanos(time)
}

/// Which part of the way takes longest, typically and at its largest.
fn what_dominates(report: &RecordingReport, row: &ServiceRow) -> Option<String> {
    let parts = || {
        report
            .stages
            .iter()
            .filter(|part| part.service == row.service && part.route == row.route)
            .filter(|part| part.name != WAKEUP_TO_USER)
    };
    // The last stage is in all; a part of a few is not typical. What was missed
    // has no parts: where that is the rule, no part is typical.
    let all = parts().map(|part| part.time.samples).max()?;
    let of_service = report
        .services
        .iter()
        .filter(|other| other.service == row.service && other.route == row.route);
    if all * 2 <= of_service.map(|other| other.latency.samples).sum() {
        return None;
    }
    let usual = parts().filter(|part| part.time.samples * 2 > all);
    let mut medians: Vec<(&StageRow, f64)> = usual
        .filter_map(|part| Some((part, ns(part.time.quantile(0.5)?))))
        .collect();
    medians.sort_by(|a, b| b.1.total_cmp(&a.1));
    let sum: f64 = medians.iter().map(|(_, median)| median).sum();
    let (first, most) = *medians.first().filter(|(_, median)| *median > 0.0)?;
    let close: Vec<&(&StageRow, f64)> = medians
        .iter()
        .take_while(|(_, median)| *median >= ABOUT * most)
        .collect();
    let percent = |median: f64| 100.0 * median / sum;
    let time = |median: f64| Unit::Auto.write(median);
    let typical = match close[..] {
        [] | [_] => format!(
            "{} of a typical delay is {}, {} in the median ({:.0} % of the parts' medians)",
            if percent(most) > 50.0 {
                "Most"
            } else {
                "The largest part"
            },
            first.name,
            time(most),
            percent(most)
        ),
        [_, (second, median)] => format!(
            "The largest part of a typical delay is {}, {} in the median ({:.0} % of the parts' medians); {} is about as much, {}",
            first.name,
            time(most),
            percent(most),
            second.name,
            time(*median)
        ),
        _ => format!(
            "No part of a typical delay stands out: {} of them take {} to {} in the median each",
            close.len(),
            time(close.last().map_or(most, |(_, median)| *median)),
            time(most)
        ),
    };
    Some(format!("{typical}{}.", longest(parts())))
}

/// The longest that any part took, and which.
fn longest<'a>(parts: impl Iterator<Item = &'a StageRow> + Clone) -> String {
    let largest = |part: &StageRow| part.time.largest_ns;
    let Some(most) = parts.clone().filter_map(largest).max() else {
        return String::new();
    };
    if most == Nanos::ZERO {
        return String::new();
    }
    let names: Vec<&str> = parts
        .filter(|part| largest(part) == Some(most))
        .map(|part| part.name.as_str())
        .collect();
    format!(
        "; the longest that any part took was {}, {}",
        write(most),
        names.join(" and ")
    )
}

#[allow(clippy::cast_precision_loss)]
const fn ns(time: Nanos) -> f64 {
    time.ns() as f64
}
