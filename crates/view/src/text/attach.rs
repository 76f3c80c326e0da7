//! `laggard attach` for the terminal.

use laggard_answer::attach::{AttachFigures, AttachReport, AttachRow, CountsFrom};
use laggard_model::text::{Unit, brief, count, span};
use laggard_model::{Nanos, printable};

use super::Look;
use super::caveats::caveats;
use super::grid::Grid;

/// Of so many rows, the first, it is told what their largest response was made of, and
/// who wakes them; the JSON has all.
const MOST_TOLD: usize = 4;
/// So many that took its time are told.
const MOST_TAKERS: usize = 4;
/// So many names of those without a row are told.
const MOST_OTHERS: usize = 10;

/// The report as text: the answer, a table, then what the figures rest on.
pub fn attach(report: &AttachReport, look: Look) -> String {
    let mut text = filled(look, &verdict(report));
    if !report.rows.is_empty() {
        text.push('\n');
        let mut grid = Grid::new([
            "thread", "runs as", "woken by", "count", "period", "latency", "largest", "response",
            "p99.9", "largest", "deadline", "margin", "missed",
        ])
        .keys(3)
        .left([0, 1, 2])
        .parted_before(5)
        .parted_before(10);
        for row in &report.rows {
            grid.add_row(cells(row));
        }
        text += &grid.written(look);
        text.push('\n');
    }
    text += &cycles(report, look);
    for sentence in &report.sentences {
        text += &hanging(look, sentence);
    }
    let largest: Vec<String> = report.rows.iter().filter_map(largest).collect();
    let wakers: Vec<String> = report.rows.iter().filter_map(wakers).collect();
    for (lines, what) in [(largest, "largest responses"), (wakers, "wakers")] {
        for line in lines.iter().take(MOST_TOLD) {
            text += &hanging(look, line);
        }
        let left = lines.len().saturating_sub(MOST_TOLD);
        if left > 0 {
            text += &hanging(
                look,
                &format!("Not shown: {what} of {left} more rows (--json)."),
            );
        }
    }
    for told in counted_from(report) {
        text += &hanging(look, told);
    }
    text += &others(report, look);
    text += &lost(report, look);
    text += &caveats("Caveats", &report.caveats, look);
    text
}

fn filled(look: Look, text: &str) -> String {
    look.filled("", &printable(text).to_string())
}

fn hanging(look: Look, text: &str) -> String {
    look.hanging("- ", "  ", &printable(text).to_string())
}

fn plural(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        more => format!("{} {what}s", count(more)),
    }
}

fn verdict(report: &AttachReport) -> String {
    let watched = format!(
        "{} watched for {}",
        plural(report.threads, "thread"),
        span(report.duration_ns)
    );
    let ended = match report.ended {
        0 => String::new(),
        ended => format!("; {} ended", count(ended)),
    };
    let held = report.held;
    let with = held.activations;
    let answer = match (report.rows.is_empty(), with + held.overdue, held.misses) {
        (true, ..) => "none of them was woken and slept again".into(),
        (_, 0, _) => "no deadline is known: none was given, and no wakes have a period".into(),
        (.., 0) => match with {
            0 => "no activation with a deadline ended".into(),
            1 => "the only activation with a deadline kept it".into(),
            more => format!("all {} activations with a deadline kept it", count(more)),
        },
        (.., missed) => format!(
            "{} of {} with a deadline missed it",
            count(missed),
            plural(with, "activation")
        ),
    };
    let of = match &report.application {
        Some(name) => format!(" ({name})"),
        None => String::new(),
    };
    let mut more = String::new();
    for (number, what) in [
        (held.overdue, "past it and not done when watching ended"),
        (held.unheld, "not held against it"),
        (held.unseen, "not seen whole, which may be the late ones"),
    ] {
        more += &match number {
            0 => String::new(),
            1 => format!("; 1 more was {what}"),
            many => format!("; {} more were {what}", count(many)),
        };
    }
    format!("{watched}{ended}: {answer}{more}{of}.")
}

fn cells(row: &AttachRow) -> [String; 13] {
    let none = || "-".to_owned();
    let figure = |of: Option<AttachFigures>, it: fn(&AttachFigures) -> Option<Nanos>| {
        of.and_then(|of| it(&of)).map_or_else(none, brief)
    };
    let deadline = row.deadline.as_ref();
    [
        format!("{}/{}", row.name, row.tid.0),
        row.policy.clone(),
        row.woken_by.clone(),
        count(row.activations),
        row.period_ns.map_or_else(none, brief),
        figure(row.latency, |of| Some(of.median_ns)),
        figure(row.latency, |of| Some(of.largest_ns)),
        figure(row.response, |of| Some(of.median_ns)),
        figure(row.response, |of| of.p999_ns),
        figure(row.response, |of| Some(of.largest_ns)),
        deadline.map_or_else(none, |one| brief(one.deadline_ns)),
        deadline.map_or_else(none, |one| short(one.least_margin_ns)),
        deadline.map_or_else(none, |one| count(one.misses)),
    ]
}

/// The cycles that threads marked themselves.
fn cycles(report: &AttachReport, look: Look) -> String {
    if report.cycles.is_empty() {
        return String::new();
    }
    let mut grid = Grid::new([
        "by its own marks",
        "cycles",
        "begins",
        "largest",
        "takes",
        "largest",
        "done",
        "p99.9",
        "largest",
        "deadline",
        "missed",
    ])
    .keys(1)
    .left([0])
    .parted_before(6);
    let none = || "-".to_owned();
    for row in &report.cycles {
        let figure = |of: Option<AttachFigures>, it: fn(&AttachFigures) -> Option<Nanos>| {
            of.and_then(|of| it(&of)).map_or_else(none, brief)
        };
        grid.add_row([
            format!("{}/{}", row.name, row.tid.0),
            count(row.cycles),
            figure(row.begins, |of| Some(of.median_ns)),
            figure(row.begins, |of| Some(of.largest_ns)),
            figure(row.takes, |of| Some(of.median_ns)),
            figure(row.takes, |of| Some(of.largest_ns)),
            figure(row.response, |of| Some(of.median_ns)),
            figure(row.response, |of| of.p999_ns),
            figure(row.response, |of| Some(of.largest_ns)),
            row.deadline_ns.map_or_else(none, brief),
            row.deadline_ns.map_or_else(none, |_| count(row.misses)),
        ]);
    }
    let mut text = grid.written(look);
    text.push('\n');
    for row in &report.cycles {
        let told = [
            (row.without_wake, "began in no activation that was seen"),
            (row.unpaired, "beginnings or ends without the other"),
            (
                row.cut,
                "cut off by the beginning, the end or a loss of marks",
            ),
            (row.skipped, "numbers left out"),
            (row.dropped, "marks without room"),
        ];
        let told = told.into_iter().filter(|(number, _)| *number > 0);
        let told: Vec<String> = told
            .map(|(number, what)| format!("{} {what}", count(number)))
            .collect();
        if !told.is_empty() {
            let told = format!(
                "{}/{} by its marks: {}.",
                row.name,
                row.tid.0,
                told.join(", ")
            );
            text += &hanging(look, &told);
        }
    }
    text
}

fn short(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", brief(Nanos::from_ns(ns.unsigned_abs())))
}

/// What the largest response was made of.
fn largest(row: &AttachRow) -> Option<String> {
    let one = row.largest_response.as_ref()?;
    let time = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let mut parts = match one.wake_seen {
        true => vec![
            format!("{} until it was woken", time(one.wakeup_ns)),
            format!("{} until it ran", time(one.scheduling_ns)),
        ],
        false => vec![format!(
            "{} until it ran (its wake was not seen)",
            time(one.wakeup_ns)
        )],
    };
    parts.push(format!("{} at work", time(one.execution_ns)));
    for (ns, what) in [
        (one.preempted_ns, "preempted"),
        (one.blocked_ns, "held up in the kernel"),
    ] {
        if ns > Nanos::ZERO {
            parts.push(format!("{} {what}", time(ns)));
        }
    }
    let taken = one.taken.iter().take(MOST_TAKERS);
    let mut taken: Vec<String> = taken
        .map(|part| format!("{} {}", time(part.time_ns), part.what))
        .collect();
    let left = one.taken.iter().skip(MOST_TAKERS);
    let left = left.fold(Nanos::ZERO, |sum, part| sum + part.time_ns);
    if left > Nanos::ZERO {
        taken.push(format!("{} others", time(left)));
    }
    let taken = match taken.is_empty() {
        true => String::new(),
        false => format!(" It went to: {}.", taken.join("; ")),
    };
    Some(format!(
        "{}/{} by {}: the largest response, {}, on CPU {}, {} after the beginning: {}.{taken}",
        row.name,
        row.tid.0,
        row.woken_by,
        time(one.response_ns),
        one.cpu,
        time(one.after_ns),
        parts.join(", ")
    ))
}

/// Who wakes it, where that is told.
fn wakers(row: &AttachRow) -> Option<String> {
    const MOST: usize = 4;
    let told = row.wakers.iter().take(MOST).map(|one| {
        let who = one.who.as_deref().unwrap_or("others");
        format!("{who} ({})", count(one.count))
    });
    let told: Vec<String> = told.collect();
    let left: u64 = row.wakers.iter().skip(MOST).map(|one| one.count).sum();
    let left = match left {
        0 => String::new(),
        left => format!(", others ({})", count(left)),
    };
    (!told.is_empty()).then(|| {
        format!(
            "{}/{} by {}: {}{left}.",
            row.name,
            row.tid.0,
            row.woken_by,
            told.join(", ")
        )
    })
}

/// From where rows count, each once.
fn counted_from(report: &AttachReport) -> Vec<&'static str> {
    let has = |from: CountsFrom| report.rows.iter().any(|row| row.counts_from == from);
    [
        (
            CountsFrom::Expiry,
            "By timer: from the expiry that was programmed.",
        ),
        (
            CountsFrom::Interrupt,
            "By interrupt: from its handler's beginning.",
        ),
        (
            CountsFrom::Softirq,
            "By softirq or the timer wheel: from the softirq's beginning.",
        ),
        (
            CountsFrom::Wakeup,
            "By thread: from the wakeup, so that what came before it is not told.",
        ),
    ]
    .into_iter()
    .filter(|(from, _)| has(*from))
    .map(|(_, words)| words)
    .collect()
}

fn others(report: &AttachReport, look: Look) -> String {
    if report.others.is_empty() {
        return String::new();
    }
    let named = report.others.iter().take(MOST_OTHERS).map(|one| {
        let threads = match one.threads {
            0 => String::new(),
            threads => format!("{}, ", plural(threads, "thread")),
        };
        format!(
            "{} ({threads}{})",
            one.name,
            plural(one.activations, "activation")
        )
    });
    let named: Vec<String> = named.collect();
    let left = report.others.len().saturating_sub(MOST_OTHERS);
    let left = match left {
        0 => String::new(),
        left => format!(", and {}", plural(left as u64, "more name")),
    };
    hanging(look, &format!("Without a row: {}{left}.", named.join(", ")))
}

fn lost(report: &AttachReport, look: Look) -> String {
    let lost = report.lost;
    let mut told = vec![format!("{} overwritten", count(lost.overwritten))];
    for (number, what) in [
        (report.untold, "threads of which nothing was read"),
        (lost.disordered, "with clocks that disagree"),
        (lost.unwatched, "threads without memory for them"),
        (lost.skipped, "calls of programs skipped"),
        (report.missing, "missing in the threads' sequences"),
        (lost.marks, "marks"),
        (lost.unmarked, "processes with marks that cannot be read"),
    ] {
        if number > 0 {
            told.push(format!("{} {what}", count(number)));
        }
    }
    if report.unseen > 0 {
        told.push(plural(report.unseen, "run") + " without a wake that was seen");
    }
    let mut text = hanging(look, &format!("Lost: {}.", told.join(", ")));
    if report.stopped > 0 {
        text += &hanging(
            look,
            &format!(
                "In no figure: {}, because of a stop meanwhile (a signal, a debugger, a frozen cgroup).",
                plural(report.stopped, "activation")
            ),
        );
    }
    if report.foreign_marks > 0 {
        text += &hanging(
            look,
            &format!(
                "In no figure: {} of threads that are not watched.",
                plural(report.foreign_marks, "mark")
            ),
        );
    }
    if report.merged > 0 {
        let wakes = match report.merged {
            1 => "1 wake came".to_owned(),
            more => format!("{} wakes came", count(more)),
        };
        text += &hanging(
            look,
            &format!(
                "{wakes} before the thread slept: what it did then is in the activation before."
            ),
        );
    }
    text
}
