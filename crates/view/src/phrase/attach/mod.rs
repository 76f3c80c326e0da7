//! Sentences of `laggard attach`.

mod cause;
mod row;

use laggard_answer::attach::{AttachCause, AttachReport, AttachRow, AttachWorst, DeadlineSource};
use laggard_model::Nanos;

pub(crate) use cause::{cause, culprit, late_cause, next_step, parts, site};
pub(crate) use row::{beside, details, findings, marks, name, unit};

use crate::doc::{Cell, Detail};

/// Writes a time.
fn time(time: Nanos) -> String {
    Cell::Time(time).to_string()
}

/// Writes a difference of times.
pub(crate) fn signed(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", time(Nanos::from_ns(ns.unsigned_abs())))
}

/// Writes a number with its unit: `1 cycle`, `12 cycles`.
pub(crate) fn units(number: u64, unit: &str) -> String {
    match number {
        1 => format!("1 {unit}"),
        more => format!("{} {unit}s", Cell::Count(more)),
    }
}

/// Names a scheduling policy: `SCHED_FIFO 80`.
pub(crate) fn policy(policy: &str) -> String {
    let (name, number) = policy.split_once(':').unwrap_or((policy, ""));
    match (name, number) {
        ("fifo", priority) => format!("SCHED_FIFO {priority}"),
        ("rr", priority) => format!("SCHED_RR {priority}"),
        ("other", _) => "SCHED_OTHER".into(),
        ("nice", nice) => format!("SCHED_OTHER nice {nice}"),
        ("batch", _) => "SCHED_BATCH".into(),
        ("batch, nice", nice) => format!("SCHED_BATCH nice {nice}"),
        ("idle", _) => "SCHED_IDLE".into(),
        ("deadline", _) => "SCHED_DEADLINE".into(),
        _ => policy.into(),
    }
}

/// States cycles, misses, the worst cycle and its cause.
pub(crate) fn verdict(report: &AttachReport) -> String {
    let held = report.held;
    let (cycles, missed) = (held.activations + held.overdue, held.misses + held.overdue);
    let has_cycles = |row: &AttachRow| row.home.is_some() && row.deadline.is_some();
    let unit = if report.rows.iter().any(has_cycles) {
        "cycle"
    } else {
        "wakeup"
    };
    let mut text = if has_no_cycle(report) {
        "No watched thread ended a cycle".to_owned()
    } else if cycles == 0 && is_go(report) {
        "No cycles: goroutines of a Go program move between its threads".into()
    } else if cycles == 0 {
        "No deadline: none was given, and no thread has a period".into()
    } else if missed == 0 {
        let text = format!("No misses in {}{}", units(cycles, unit), deadline(report));
        text + &other_period(report)
    } else {
        format!(
            "{} of {} missed the deadline{}",
            Cell::Count(missed),
            units(cycles, unit),
            deadline(report)
        )
    };
    text += &lacking(report);
    if let Some(worst) = &report.worst {
        text += &format!(". {}", self::worst(worst));
    }
    text + "."
}

/// States how many of the given periods passed without a wakeup and are not counted as misses, if
/// they are more than a tenth. Other threads do not matter if a thread has the given period.
fn lacking(report: &AttachReport) -> String {
    let is_any = !report.rows.iter().any(has_given_period);
    let rows = report
        .rows
        .iter()
        .filter(|row| is_any || has_given_period(row));
    let given = rows.filter_map(|row| {
        let given = row.asked?;
        let passed = row.deadline.as_ref().map_or(0, |deadline| deadline.passed);
        let lacking = given.without_wake.saturating_sub(passed);
        (10 * lacking > row.activations).then_some((lacking, given.period_ns))
    });
    match given.max_by_key(|(lacking, _)| *lacking) {
        Some((lacking, period)) => format!(
            "; {} of {} lack a wakeup",
            units(lacking, "period"),
            time(period)
        ),
        None => String::new(),
    }
}

/// States the period of the cycles if no thread has the given one.
fn other_period(report: &AttachReport) -> String {
    let mut others = report.rows.iter().filter_map(AttachRow::differing_period);
    others
        .next()
        .filter(|_| !report.rows.iter().any(has_given_period))
        .map_or_else(String::new, |period| {
            format!(", but they have a period of {}", time(period))
        })
}

/// Returns whether the cycles of a thread have the period that was given.
fn has_given_period(row: &AttachRow) -> bool {
    row.asked.is_some() && row.period_ns.is_some() && row.differing_period().is_none()
}

/// Returns whether no cycle ended, or counts as missed without an end.
fn has_no_cycle(report: &AttachReport) -> bool {
    report.held.overdue == 0 && report.rows.iter().all(|row| row.response.is_none())
}

/// Returns the next step for a program with a thread that never sleeps.
fn spin(report: &AttachReport) -> Option<String> {
    let unfinished = report.rows.iter().filter_map(|row| {
        let unfinished = row.unfinished.as_ref()?;
        (unfinished.ran && unfinished.never_slept).then_some((row, unfinished))
    });
    let (row, longest) = unfinished.max_by_key(|(_, unfinished)| unfinished.so_far_ns)?;
    Some(format!(
        "{}/{} has not slept for {}; if it has a period, state it with `--period`",
        row.name,
        row.tid.0,
        laggard_model::text::span(longest.so_far_ns)
    ))
}

/// Returns whether the threads have no deadline because they run goroutines.
fn is_go(report: &AttachReport) -> bool {
    report.rows.iter().any(|row| row.is_go)
}

/// Describes the deadline that the report uses.
fn deadline(report: &AttachReport) -> String {
    let mut deadlines = report.rows.iter().filter_map(|row| row.deadline.as_ref());
    let first = deadlines.next();
    if first.is_some_and(|first| first.source == DeadlineSource::Period) {
        return " (implied: the period of each thread)".into();
    }
    match (&report.application, first) {
        (Some(name), Some(first)) => format!(" of {} ({name})", time(first.deadline_ns)),
        (Some(name), None) => format!(" ({name})"),
        (None, Some(first)) => format!(" of {}", time(first.deadline_ns)),
        (None, None) => String::new(),
    }
}

/// Describes the worst cycle and its largest cause.
fn worst(worst: &AttachWorst) -> String {
    let cause = worst.taken.first().map_or_else(String::new, |part| {
        format!(", {} of it {}", time(part.time_ns), cause(&part.cause))
    });
    let response = time(worst.response_ns);
    let name = format!("{}/{}", worst.name, worst.tid.0);
    if worst.has_ended {
        return format!("Worst: {name}, {response}{cause}");
    }
    let kill = match worst.killed {
        Some(killed) if killed.is_rt_limit() => ", then killed at RLIMIT_RTTIME",
        Some(_) => ", then killed",
        None => "",
    };
    format!("Worst: {name}, {response} at least and not ended{cause}{kill}")
}

/// States that too many records were lost.
pub(crate) fn distrust(report: &AttachReport) -> String {
    format!(
        "Not trustworthy: {} of the records were lost ({} of {}).",
        Cell::Share(report.lost_share()),
        Cell::Count(report.missing),
        Cell::Count(report.missing + report.received)
    )
}

/// Describes the measurement: threads, time, and cycles without a verdict.
pub(crate) fn scope(report: &AttachReport) -> String {
    let mut text = format!(
        "{} for {}",
        units(report.threads, "thread"),
        laggard_model::text::span(report.duration_ns)
    );
    if report.ended > 0 {
        text += &format!(", {} ended", Cell::Count(report.ended));
    }
    let machine = crate::phrase::machine(&report.host);
    if !machine.is_empty() {
        text += &format!("; {machine}");
    }
    text
}

/// States cycles that are not in the verdict as they were.
pub(crate) fn uncertain(report: &AttachReport) -> Vec<String> {
    let held = report.held;
    let parts = [
        (held.overdue, " past the deadline had not ended at the end"),
        (
            held.unheld,
            " without a comparison with the deadline: too many threads",
        ),
        (held.unseen, " lost or not seen: misses may be among them"),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    parts
        .map(|(number, what)| format!("{}{what}", units(number, "cycle")))
        .collect()
}

/// States the records and the losses of each kind.
pub(crate) fn data(report: &AttachReport, detail: Detail) -> String {
    let lost = report.lost;
    let mut parts = vec![
        format!("{} missing", Cell::Count(report.missing)),
        format!("{} overwritten", Cell::Count(lost.overwritten)),
    ];
    for (number, what) in [
        (report.untold, "threads without records"),
        (lost.disordered, "with clocks that disagree"),
        (lost.unwatched, "threads without kernel memory"),
        (lost.skipped, "skipped program calls"),
        (lost.marks, "marks"),
        (lost.unmarked, "processes with unreadable marks"),
    ] {
        if number > 0 {
            parts.push(format!("{} {what}", Cell::Count(number)));
        }
    }
    // The full report lists them.
    let warnings = match report.caveats.len() as u64 {
        number if number > 0 && detail == Detail::Short => {
            format!("; {} (--all)", units(number, "warning"))
        }
        _ => String::new(),
    };
    format!(
        "Data: {}; lost: {}{warnings}",
        units(report.received, "record"),
        parts.join(", ")
    )
}

/// Returns further facts on the data for the full report.
pub(crate) fn data_details(report: &AttachReport) -> Vec<String> {
    let mut lines = Vec::new();
    if report.unseen > 0 {
        lines.push(format!(
            "{} without a wakeup that was seen.",
            units(report.unseen, "run")
        ));
    }
    if report.foreign_marks > 0 {
        lines.push(format!(
            "{} of threads that are not watched are in no figure.",
            units(report.foreign_marks, "mark")
        ));
    }
    if report.merged > 0 {
        lines.push(format!(
            "{} came before the thread slept; the work for it is in the cycle before.",
            units(report.merged, "wakeup")
        ));
    }
    if report.stopped > 0 {
        lines.push(format!(
            "{} with a stop (signal, debugger, frozen control group).",
            units(report.stopped, "cycle")
        ));
    }
    lines
}

/// States the next step for the user.
pub(crate) fn next(report: &AttachReport) -> String {
    let held = report.held;
    let step = if !report.is_trusted() {
        "attach to fewer threads (`--tid`, `--comm`)".to_owned()
    } else if let Some(step) = spin(report).filter(|_| has_no_cycle(report)) {
        step
    } else if has_no_cycle(report) {
        "attach for longer (`-d`), check that the program is active, or give another `--cycle`"
            .into()
    } else if held.activations + held.overdue == 0 && is_go(report) {
        "measure the cycles in the program, or the wakeups of single threads (`--tid`)".into()
    } else if held.activations + held.overdue == 0 {
        "give the deadline with `--deadline`, `--period` or `--app`".into()
    } else {
        let has_missed = held.misses + held.overdue > 0;
        let step = causes_to_remove(report)
            .into_iter()
            .find_map(|cause| next_step(cause, report.stack_rate > 0));
        let step = step.filter(|_| has_missed);
        step.unwrap_or_else(|| {
            if has_missed {
                "`--all` shows the time of the longest cycle of each thread".into()
            } else {
                "`--all` for all figures; attach for longer to find rare misses (`-d 10min`)".into()
            }
        })
    };
    format!("Next: {step}")
}

/// Returns the causes of misses, the one to remove first at the front: a cycle that never ended,
/// then the thread of the worst cycle. It is the most urgent one; others may be late because of
/// it. Its causes are ranked by the misses that their removal avoids.
fn causes_to_remove(report: &AttachReport) -> Vec<&AttachCause> {
    let worst = report.worst.iter();
    let unfinished = worst.clone().filter(|worst| !worst.has_ended);
    let thread = worst.flat_map(|worst| {
        let rows = report.rows.iter();
        let deadlines = rows
            .filter(|row| row.number == worst.number)
            .filter_map(|row| row.deadline.as_ref());
        deadlines.max_by_key(|deadline| deadline.misses)
    });
    let first = unfinished.filter_map(|worst| worst.taken.first());
    let first = first.map(|part| &part.cause);
    let thread = thread.flat_map(|deadline| deadline.taken.iter());
    let thread = thread.map(|late| &late.taken.cause);
    let ranked_causes = report.causes.iter().map(|ranked| &ranked.late.taken.cause);
    first.chain(thread).chain(ranked_causes).collect()
}

/// Returns the findings about all rows, each with the name of its row.
pub(crate) fn sentences(report: &AttachReport) -> Vec<String> {
    let rows = report.rows.iter().flat_map(|row| {
        let name = name(row);
        let lines = findings(row).into_iter();
        lines.map(move |line| format!("{name}: {}", lower(&line)))
    });
    rows.chain(report.beside.iter().map(beside)).collect()
}

/// Writes the first letter of a sentence that follows a colon in lower case.
fn lower(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(letters).collect()
    })
}
