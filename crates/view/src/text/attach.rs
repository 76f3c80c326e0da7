//! `laggard attach` for the terminal.

use std::cmp::Reverse;

use laggard_answer::attach::{
    AttachFigures, AttachReport, AttachRow, AttachTaken, CountsFrom, DeadlineOf,
};
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

/// Rows without a miss that have sentences; more share one line.
const MAX_QUIET_ROWS: usize = 2;

/// The report as text: the answer, a table, then what the figures rest on.
pub fn attach(report: &AttachReport, look: Look) -> String {
    let mut text = filled(look, &verdict(report));
    if !report.is_trusted() {
        let lost = format!(
            "Not trustworthy: {:.0} % of the records were lost ({} of {}). Attach to fewer threads.",
            100.0 * report.lost_share(),
            count(report.missing),
            count(report.missing + report.received)
        );
        text += &filled(look, &lost);
    }
    let (wrappers, rows): (Vec<&AttachRow>, Vec<&AttachRow>) = report
        .rows
        .iter()
        .partition(|row| is_wrapper(&row.name) && row.is_quiet());
    let quiet: Vec<&AttachRow> = rows.iter().copied().filter(|row| row.is_quiet()).collect();
    // A few have sentences of their own.
    let quiet = match quiet.len() {
        0..=MAX_QUIET_ROWS => Vec::new(),
        _ => quiet,
    };
    let is_shown = |row: &&AttachRow| {
        !wrappers
            .iter()
            .chain(&quiet)
            .any(|one| (one.number, &one.woken_by) == (row.number, &row.woken_by))
    };
    if !rows.is_empty() {
        text.push('\n');
        let mut grid = Grid::new([
            "thread", "runs as", "woken by", "count", "period", "latency", "largest", "response",
            "p99.9", "largest", "deadline", "margin", "missed",
        ])
        .keys(3)
        .left([0, 1, 2])
        .parted_before(5)
        .parted_before(10);
        for row in &rows {
            grid.add_row(cells(row));
        }
        text += &grid.written(look);
        text.push('\n');
    }
    text += &cycles(report, look);
    let hidden: Vec<String> = wrappers
        .iter()
        .chain(&quiet)
        .map(|row| format!("{}/{} by {}:", row.name, row.tid.0, row.woken_by))
        .collect();
    for sentence in &report.sentences {
        if !hidden.iter().any(|start| sentence.starts_with(start)) {
            text += &hanging(look, sentence);
        }
    }
    for (rows, what) in [
        (&quiet, "No misses"),
        (&wrappers, "Wrapper processes, not shown"),
    ] {
        if !rows.is_empty() {
            text += &hanging(look, &format!("{what}: {}.", in_one_line(rows)));
        }
    }
    let shown: Vec<&AttachRow> = rows.iter().copied().filter(is_shown).collect();
    let largest: Vec<String> = shown.iter().copied().filter_map(largest).collect();
    let wakers: Vec<String> = shown.iter().copied().filter_map(wakers).collect();
    for (lines, what) in [(largest, "max responses"), (wakers, "wakers")] {
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

/// Names of processes that only start others.
const WRAPPERS: [&str; 16] = [
    "sh", "bash", "dash", "zsh", "fish", "env", "timeout", "taskset", "chrt", "sudo", "nice",
    "make", "xargs", "setsid", "nohup", "numactl",
];

fn is_wrapper(name: &str) -> bool {
    WRAPPERS.contains(&name)
}

/// Rows by name, with what they count.
fn in_one_line(rows: &[&AttachRow]) -> String {
    let named = rows.iter().take(MOST_OTHERS).map(|row| {
        format!(
            "{}/{} by {} ({})",
            row.name,
            row.tid.0,
            row.woken_by,
            plural(row.activations, row.unit())
        )
    });
    let named: Vec<String> = named.collect();
    let left = rows.len().saturating_sub(MOST_OTHERS);
    let left = match left {
        0 => String::new(),
        left => format!(", and {}", plural(left as u64, "more row")),
    };
    format!("{}{left}", named.join(", "))
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

/// Cycles, misses, the worst cycle and its cause.
fn verdict(report: &AttachReport) -> String {
    let held = report.held;
    let (cycles, missed) = (held.activations + held.overdue, held.misses + held.overdue);
    let has_cycles = report
        .rows
        .iter()
        .any(|row| row.home.is_some() && row.deadline.is_some());
    let unit = if has_cycles { "cycle" } else { "wakeup" };
    let implied = report.rows.iter().any(|row| {
        let deadline = row.deadline.as_ref();
        deadline.is_some_and(|one| matches!(one.of, DeadlineOf::Period))
    });
    let deadline = match (implied, &report.application) {
        (true, _) => " (implied deadline: the period of each thread)".to_owned(),
        (false, Some(name)) => format!(" ({name})"),
        (false, None) => String::new(),
    };
    let mut text = match (report.rows.is_empty(), cycles, missed) {
        (true, ..) => "No watched thread was woken and slept again".into(),
        (_, 0, _) => "No deadline: none was given, and no thread has a period of its own".into(),
        (.., 0) => format!("No misses in {}{deadline}", plural(cycles, unit)),
        (..) => format!(
            "{} of {} missed the deadline{deadline}",
            count(missed),
            plural(cycles, unit)
        ),
    };
    text += &match worst(report) {
        Some(worst) => format!(". {worst}."),
        None => ".".into(),
    };
    text += &format!(
        " {} watched for {}",
        plural(report.threads, "thread"),
        span(report.duration_ns)
    );
    if report.ended > 0 {
        text += &format!(", {} ended", count(report.ended));
    }
    for (number, what) in [
        (held.overdue, "had not ended at the end, past the deadline"),
        (
            held.unheld,
            "not compared with the deadline: too many threads",
        ),
        (held.unseen, "lost or not seen, which may include misses"),
    ] {
        if number > 0 {
            text += &format!("; {} {what}", count(number));
        }
    }
    text + "."
}

/// Returns 1 to 99 for real-time priorities, more for `SCHED_DEADLINE`, 0 otherwise.
fn urgency(policy: &str) -> u8 {
    let priority = policy.strip_prefix("fifo:").or(policy.strip_prefix("rr:"));
    match policy {
        "deadline" => u8::MAX,
        _ => priority.and_then(|text| text.parse().ok()).unwrap_or(0),
    }
}

/// The worst cycle: one that did not end, otherwise the longest of the most urgent thread
/// that missed.
fn worst(report: &AttachReport) -> Option<String> {
    let time = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let cause = |taken: &[AttachTaken]| match taken.first() {
        Some(part) => format!(", {} of it {}", time(part.time_ns), part.what),
        None => String::new(),
    };
    let overdue = report.rows.iter().filter_map(|row| {
        let one = row.unfinished.as_ref().filter(|one| one.overdue)?;
        Some((one.so_far_ns, row, one))
    });
    if let Some((so_far, row, one)) = overdue.max_by_key(|(so_far, ..)| *so_far) {
        let name = format!("{}/{}", row.name, row.tid.0);
        let kill = match row.killed {
            Some(killed) if killed.is_rt_limit() => ", then killed at RLIMIT_RTTIME",
            Some(_) => ", then killed",
            None => "",
        };
        return Some(format!(
            "Worst: {name}, {} at least and not done{}{kill}",
            time(so_far),
            cause(&one.taken)
        ));
    }
    let held = report.rows.iter().filter_map(|row| {
        let deadline = row.deadline.as_ref()?;
        Some((deadline, row, row.largest_response.as_ref()?))
    });
    // Of the most urgent thread that missed: others may be late because of it.
    let (deadline, row, one) = held.min_by_key(|(deadline, row, _)| {
        (
            deadline.misses == 0,
            Reverse(urgency(&row.policy)),
            row.home.is_none(),
            deadline.least_margin_ns,
        )
    })?;
    Some(format!(
        "Worst: {}/{}, {} (deadline {}){}",
        row.name,
        row.tid.0,
        time(one.response_ns),
        time(deadline.deadline_ns),
        cause(&one.taken)
    ))
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
            format!("{} to the wakeup", time(one.wakeup_ns)),
            format!("{} to run", time(one.scheduling_ns)),
        ],
        false => vec![format!(
            "{} to run (its wakeup was not seen)",
            time(one.wakeup_ns)
        )],
    };
    parts.push(format!("{} execution time", time(one.execution_ns)));
    for (ns, what) in [
        (one.preempted_ns, "preempted"),
        (one.blocked_ns, "in uninterruptible waits"),
        (one.slept_ns, "asleep within the cycle"),
        (one.stopped_ns, "stopped or frozen"),
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
        "{}/{} by {}: max response {} on CPU {}, {} after the start: {}.{taken}",
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

/// Where rows count from, each once.
fn counted_from(report: &AttachReport) -> Vec<&'static str> {
    let has = |from: CountsFrom| report.rows.iter().any(|row| row.counts_from == from);
    [
        (
            CountsFrom::Expiry,
            "By timer: latency and response count from the programmed expiry.",
        ),
        (
            CountsFrom::Interrupt,
            "By interrupt: they count from the start of its handler.",
        ),
        (
            CountsFrom::Softirq,
            "By softirq or the timer wheel: they count from the start of the softirq.",
        ),
        (
            CountsFrom::Wakeup,
            "By thread: they count from the wakeup; the time before it is not included.",
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
            &format!("{wakes} before the thread slept; the work for it is in the cycle before."),
        );
    }
    text
}
