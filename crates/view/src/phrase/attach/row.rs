//! Sentences about one thread and one kind of its wakeups.

use laggard_answer::attach::{
    AttachBeside, AttachCycles, AttachDeadline, AttachKill, AttachLargest, AttachRow, AttachWaker,
    AttachWakerKind, CountsFrom, DeadlineSource,
};
use laggard_model::Nanos;
use laggard_model::name::series_words;

use super::cause::{late_cause, parts, site};
use super::{policy, signed, time, units};
use crate::doc::Cell;
use crate::phrase::trust;

/// Causes in a sentence; the table and the JSON have all.
const MAX_CAUSES: usize = 4;

/// Names a row: `control/4242 by timer`.
pub(crate) fn name(row: &AttachRow) -> String {
    format!("{}/{} by {}", row.name, row.tid.0, row.woken_by)
}

/// Returns the unit that the figures of a row count.
pub(crate) const fn unit(row: &AttachRow) -> &'static str {
    if row.home.is_some() {
        "cycle"
    } else {
        "wakeup"
    }
}

/// Returns what is to know about a row beyond its figures, most important first.
pub(crate) fn findings(row: &AttachRow) -> Vec<String> {
    let deadline = row.deadline.as_ref();
    let busy = row.is_busy.then(|| {
        "No deadline: the thread computes most of the time, without a period; `--tid` applies it."
            .to_owned()
    });
    let helper = row.is_helper.then(|| {
        "No deadline: it is a normal thread without a period, next to a real-time thread with one; `--tid` applies it."
            .to_owned()
    });
    let go = row.is_go.then(|| {
        "No cycles: the Go runtime runs goroutines on any thread; `--tid` applies the deadline to the wakeups of a thread."
            .to_owned()
    });
    let mut findings: Vec<String> = [
        busy,
        helper,
        go,
        unfinished(row),
        deadline.map(|deadline| misses(row, deadline)),
        deadline.map(|deadline| margins(row, deadline)),
        deadline.and_then(|deadline| missed_time(row, deadline)),
        outlier(row),
        home(row),
    ]
    .into_iter()
    .flatten()
    .collect();
    findings.extend(period(row));
    let others = [
        phases(row),
        timers(row),
        trend(row),
        inferred(row),
        resumed(row),
        policies(row),
        stops(row),
    ];
    findings.extend(others.into_iter().flatten());
    findings
}

/// Returns the details of a row that only the full report has.
pub(crate) fn details(row: &AttachRow) -> Vec<String> {
    let is_outlier = row.outlier().is_some();
    let largest = row.largest_response.as_ref();
    let largest = largest.map(|cycle| self::largest(cycle, !is_outlier));
    let starts = match row.counts_from {
        CountsFrom::Expiry => "Counts from the programmed expiry.",
        CountsFrom::Interrupt => {
            "Counts from the start of the interrupt handler; the interrupt may have come earlier."
        }
        CountsFrom::Softirq => {
            "Counts from the start of the softirq; when it was due is not known."
        }
        CountsFrom::Wakeup => "Counts from the wakeup; the time before it is not included.",
    };
    [
        largest,
        interruptions(row),
        wakers(&row.wakers),
        Some(starts.into()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// States how many cycles missed the deadline, and how many are to be expected.
fn misses(row: &AttachRow, deadline: &AttachDeadline) -> String {
    let source = match (deadline.source, deadline.different_ns) {
        (DeadlineSource::Period, Some(_)) => " (implied: the interval of each cycle)",
        (DeadlineSource::Period, None) => " (implied: its period)",
        (DeadlineSource::GivenPeriod, _) => " (--period)",
        (DeadlineSource::Given | DeadlineSource::Application, _) => "",
    };
    let limit = match deadline.different_ns {
        Some((shortest, longest)) => format!("{} to {}", time(shortest), time(longest)),
        None => time(deadline.deadline_ns),
    };
    let mut text = format!(
        "{} of {} {}s missed the deadline of {limit}{source}",
        Cell::Count(deadline.misses),
        Cell::Count(row.activations),
        unit(row),
    );
    if deadline.passed > 0 {
        text += &format!(
            " ({} of them due while an earlier one went on)",
            Cell::Count(deadline.passed)
        );
    }
    match deadline.expected {
        // No miss: nothing shows whether misses cluster.
        Some((_, high)) if deadline.misses == 0 => {
            text += &format!("; in the same time at most {high:.1} misses or bursts (95 %)");
        }
        Some((low, high)) => {
            text += &format!("; {low:.1} to {high:.1} in the same time (95 % CI)");
        }
        None => {}
    }
    let unseen = row.unseen();
    if unseen > 0 {
        text += &format!("; {} more were lost or not seen", Cell::Count(unseen));
    }
    text + "."
}

/// States the margins, and the misses with more work or half the deadline.
fn margins(row: &AttachRow, deadline: &AttachDeadline) -> String {
    let mut text = format!("Smallest margin: {}", signed(deadline.least_margin_ns));
    if let Some(margin) = deadline.p999_margin_ns {
        text += &format!("; p99.9: {}", signed(margin));
    }
    let growth = deadline.grown.iter();
    let growth: Vec<String> = growth
        .map(|growth| {
            format!(
                "{} with {} % more work",
                Cell::Count(growth.misses),
                growth.by_percent
            )
        })
        .collect();
    text + &format!(
        ". Missed {}s with the same delays: {}; {} with half the deadline.",
        unit(row),
        growth.join(", "),
        Cell::Count(deadline.misses_of_half),
    )
}

/// States where the time of the missed cycles went.
fn missed_time(row: &AttachRow, deadline: &AttachDeadline) -> Option<String> {
    if deadline.explained == 0 {
        return None;
    }
    let causes = deadline.taken.iter().take(MAX_CAUSES).map(|late| {
        let text = format!("{} {}", time(late.taken.time_ns), late_cause(late));
        match (late.avoided, late.jointly) {
            (0, 0) => text,
            (0, jointly) => format!(
                "{text} ({} on time without it and others)",
                Cell::Count(jointly)
            ),
            (avoided, _) => format!("{text} ({} on time without it)", Cell::Count(avoided)),
        }
    });
    let mut causes: Vec<String> = causes.collect();
    let rest = deadline.taken.iter().skip(MAX_CAUSES);
    let rest = rest.fold(deadline.other_taken_ns, |sum, late| {
        sum + late.taken.time_ns
    });
    if rest > Nanos::ZERO {
        causes.push(format!("{} others", time(rest)));
    }
    let cycles = match (deadline.explained, deadline.misses) {
        (1, 1) => format!("the missed {}", unit(row)),
        (explained, misses) if explained == misses => {
            format!("all {} missed {}s", Cell::Count(misses), unit(row))
        }
        (explained, misses) => format!(
            "{} of {} missed {}s (the longest)",
            Cell::Count(explained),
            Cell::Count(misses),
            unit(row)
        ),
    };
    Some(format!(
        "The time of {cycles}, together: {}.",
        causes.join("; ")
    ))
}

/// States where the time of the longest response of a thread without a deadline went.
fn outlier(row: &AttachRow) -> Option<String> {
    let longest = row.outlier()?;
    Some(format!(
        "The longest {} took {}: {}.",
        unit(row),
        time(longest.response_ns),
        parts(&longest.taken, MAX_CAUSES)
    ))
}

/// States where cycles start and end.
fn home(row: &AttachRow) -> Option<String> {
    let home = row.home.as_ref()?;
    let period = row.period_ns.map_or_else(String::new, |period| {
        format!("; period {}, estimated", time(period))
    });
    Some(format!("Cycle: from {}{period}.", site(home)))
}

/// Compares the cycles with the period that was given.
fn period(row: &AttachRow) -> Option<String> {
    let given = row.asked?;
    if let Some(period) = row.differing_period() {
        let mut text = format!(
            "Its cycles have a period of {}, not the {} of --period",
            time(period),
            time(given.period_ns)
        );
        if row.sleeps_relative && period > given.period_ns {
            text += ". It sleeps for a time after its work (relative), so that the execution time and each delay add to the period; to keep the rate, sleep until an absolute time";
        }
        return Some(text + ".");
    }
    (given.without_wake > 0).then(|| {
        format!(
            "{} of {} lack a wakeup: the thread ran, waited for something else, or its wakeup was not seen.",
            units(given.without_wake, "period"),
            time(given.period_ns)
        )
    })
}

/// Lists the periods of a thread that has several.
fn phases(row: &AttachRow) -> Option<String> {
    /// Shorter phases are not worth a sentence.
    const MIN_CYCLES: u64 = 8;
    let phases = row.phases.iter().filter(|phase| phase.cycles >= MIN_CYCLES);
    let phases: Vec<String> = phases
        .map(|phase| {
            format!(
                "{} for {} cycles",
                time(phase.period_ns),
                Cell::Count(phase.cycles)
            )
        })
        .collect();
    if phases.len() < 2 {
        return None;
    }
    let deadline = row.deadline.as_ref();
    let is_implied = deadline.is_some_and(|deadline| deadline.source == DeadlineSource::Period);
    let evaluation = if is_implied {
        " Each cycle is compared with the period of its time; set --deadline to change that."
    } else {
        ""
    };
    Some(format!(
        "Its period was {}.{evaluation}",
        phases.join(", then ")
    ))
}

/// Lists the timers of a thread that has several.
fn timers(row: &AttachRow) -> Option<String> {
    let has_deadline = row.deadline.is_some();
    let timers = row.timers.iter().map(|timer| {
        let period = timer.period_ns.map_or_else(
            || "no period".to_owned(),
            |period| format!("period {}", time(period)),
        );
        let missed = if has_deadline {
            format!("{} of ", Cell::Count(timer.misses))
        } else {
            String::new()
        };
        let verb = if has_deadline { " missed" } else { "" };
        format!(
            "{period}: {missed}{}{verb}, max {}",
            units(timer.cycles, "cycle"),
            time(timer.largest_ns)
        )
    });
    let timers: Vec<String> = timers.collect();
    (!timers.is_empty()).then(|| format!("Its timers: {}.", timers.join("; ")))
}

/// States how the responses changed.
fn trend(row: &AttachRow) -> Option<String> {
    let course = row.trend()?;
    let [first, .., last] = course.parts.as_slice() else {
        return None;
    };
    let change = if course.change_ns > 0 {
        "shrinks"
    } else {
        "grows"
    };
    Some(format!(
        "Its margin {change}: its mean response was {} in the first eighth of the time and {} in the last (max {} and {}).",
        time(first.mean_ns),
        time(last.mean_ns),
        time(first.largest_ns),
        time(last.largest_ns),
    ))
}

/// States which cycles were seen in part only.
fn inferred(row: &AttachRow) -> Option<String> {
    let mut sentences = Vec::new();
    if row.inferred > 0 {
        let verb = if row.inferred == 1 { "counts" } else { "count" };
        sentences.push(format!(
            "{} {verb} from the expiry of the thread's own sleep, because the wakeup was not seen",
            units(row.inferred, unit(row))
        ));
    }
    if row.run_unseen > 0 {
        sentences.push(format!(
            "the latency of {} is an upper bound, because it was not seen when they ran",
            Cell::Count(row.run_unseen)
        ));
    }
    (!sentences.is_empty()).then(|| format!("{}.", sentences.join("; ")))
}

/// States in how many cycles the end of a preemption was not seen.
fn resumed(row: &AttachRow) -> Option<String> {
    (row.back_unseen > 0).then(|| {
        format!(
            "In {} it was not seen when the thread ran again: some of the time of others may be its execution time.",
            units(row.back_unseen, unit(row))
        )
    })
}

/// Lists further scheduling policies of the thread.
fn policies(row: &AttachRow) -> Option<String> {
    let others = row.other_policies.iter();
    let others: Vec<String> = others
        .map(|other| format!("{} as {}", Cell::Count(other.count), policy(&other.policy)))
        .collect();
    (!others.is_empty()).then(|| {
        format!(
            "{} of its {}; the others as {}.",
            others.join(", "),
            units(row.activations, unit(row)),
            policy(&row.policy)
        )
    })
}

/// Describes a cycle that did not end, if it is late or longer than all that ended.
fn unfinished(row: &AttachRow) -> Option<String> {
    let cycle = row.unfinished.as_ref()?;
    let max = row
        .response
        .map_or(Nanos::ZERO, |figures| figures.largest_ns);
    if !cycle.overdue && (cycle.so_far_ns <= max || row.ended_ns.is_some()) {
        return None;
    }
    let so_far = time(cycle.so_far_ns);
    let mut text = if cycle.never_slept {
        format!("Has not slept for {so_far}: its cycle never ended")
    } else if cycle.ran {
        format!("The last cycle took at least {so_far} and did not end")
    } else {
        format!("The last cycle was due for at least {so_far} and had not run")
    };
    if let Some(given) = row.asked.filter(|_| cycle.never_slept) {
        let periods = cycle.so_far_ns.ns() / given.period_ns.ns().max(1);
        text += &format!(
            "; {} of {} passed in that time",
            units(periods, "period"),
            time(given.period_ns)
        );
    }
    text += &row.killed.map_or_else(String::new, |killed| kill(&killed));
    if !cycle.taken.is_empty() {
        text += &format!(". It went to: {}", parts(&cycle.taken, MAX_CAUSES));
    }
    Some(text + ".")
}

fn kill(killed: &AttachKill) -> String {
    let text = format!("; signal {} killed it", signal(killed.signal));
    match killed.rt_limit_ns {
        Some(limit) if killed.is_rt_limit() => format!(
            "{text}: it had run for {} without sleeping, and RLIMIT_RTTIME is {}",
            time(killed.ran_ns),
            time(limit)
        ),
        Some(_) | None => text,
    }
}

fn signal(number: u32) -> String {
    match number {
        6 => "SIGABRT".into(),
        9 => "SIGKILL".into(),
        11 => "SIGSEGV".into(),
        15 => "SIGTERM".into(),
        24 => "SIGXCPU".into(),
        other => other.to_string(),
    }
}

/// States how often and how long the thread was stopped or frozen.
fn stops(row: &AttachRow) -> Option<String> {
    let times = |number: u64| match number {
        1 => "once".to_owned(),
        more => format!("{} times", Cell::Count(more)),
    };
    let stops = row.stops;
    let mut parts = Vec::new();
    if stops.frozen > 0 {
        parts.push(format!(
            "its control group was frozen {}, {} in total",
            times(stops.frozen),
            time(stops.frozen_ns)
        ));
    }
    if stops.stopped > 0 {
        parts.push(format!(
            "a signal or a debugger stopped it {}, {} in total",
            times(stops.stopped),
            time(stops.stopped_ns)
        ));
    }
    (!parts.is_empty()).then(|| format!("{}.", parts.join("; ")))
}

/// Describes the composition of the largest response.
fn largest(cycle: &AttachLargest, has_causes: bool) -> String {
    let mut parts = if cycle.wake_seen {
        vec![
            format!("{} to the wakeup", time(cycle.wakeup_ns)),
            format!("{} to run", time(cycle.scheduling_ns)),
        ]
    } else {
        vec![format!(
            "{} to run (its wakeup was not seen)",
            time(cycle.wakeup_ns)
        )]
    };
    parts.push(format!("{} execution time", time(cycle.execution_ns)));
    for (length, what) in [
        (cycle.preempted_ns, "preempted"),
        (cycle.blocked_ns, "in uninterruptible waits"),
        (cycle.slept_ns, "asleep within the cycle"),
        (cycle.stopped_ns, "stopped or frozen"),
    ] {
        if length > Nanos::ZERO {
            parts.push(format!("{} {what}", time(length)));
        }
    }
    let mut text = format!(
        "Max response: {} on CPU {}, {} after the start: {}.",
        time(cycle.response_ns),
        cycle.cpu,
        time(cycle.after_ns),
        parts.join(", ")
    );
    if has_causes && !cycle.taken.is_empty() {
        text += &format!(
            " It went to: {}.",
            super::cause::parts(&cycle.taken, MAX_CAUSES)
        );
    }
    text
}

/// Counts what interrupted the cycles.
fn interruptions(row: &AttachRow) -> Option<String> {
    let timed = |number: u64, what: &str, length: Nanos| {
        (number > 0).then(|| format!("{} ({} in total)", units(number, what), time(length)))
    };
    let parts = [
        timed(row.preemptions, "preemption", row.preempted_ns),
        (row.migrations > 0).then(|| units(row.migrations, "migration")),
        timed(row.blocks, "uninterruptible wait", row.blocked_ns),
        timed(row.sleeps, "sleep", row.slept_ns),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("Within its {}s: {}.", unit(row), parts.join(", ")))
}

/// Lists the wakers of a thread.
fn wakers(wakers: &[AttachWaker]) -> Option<String> {
    const MAX_WAKERS: usize = 4;
    let mut named: Vec<String> = wakers
        .iter()
        .take(MAX_WAKERS)
        .map(|waker| format!("{} ({})", self::waker(waker), Cell::Count(waker.count)))
        .collect();
    let rest: u64 = wakers
        .iter()
        .skip(MAX_WAKERS)
        .map(|waker| waker.count)
        .sum();
    if rest > 0 {
        named.push(format!("others ({})", Cell::Count(rest)));
    }
    (!named.is_empty()).then(|| format!("Woken by: {}.", named.join(", ")))
}

fn waker(waker: &AttachWaker) -> &str {
    match waker.kind {
        AttachWakerKind::Sleep => "its own sleep or timeout",
        AttachWakerKind::Timeout => "its own timeout",
        AttachWakerKind::TimerDescriptor => "a timer descriptor",
        AttachWakerKind::PosixTimer => "a POSIX timer",
        AttachWakerKind::IntervalTimer => "an interval timer",
        AttachWakerKind::NextPeriod => "its next SCHED_DEADLINE period",
        AttachWakerKind::Function | AttachWakerKind::Thread => {
            waker.who.as_deref().unwrap_or("unknown")
        }
        AttachWakerKind::Others => "others",
    }
}

/// Describes irregular marks of a thread; `None`: there are none.
pub(crate) fn marks(cycles: &AttachCycles) -> Option<String> {
    let parts = [
        (
            cycles.without_wake,
            "started without a wakeup that was seen",
        ),
        (cycles.unpaired, "starts or ends without the other"),
        (
            cycles.cut,
            "cut off by the start, the end or a loss of marks",
        ),
        (cycles.skipped, "skipped numbers"),
        (cycles.dropped, "marks without room"),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts
        .map(|(number, what)| format!("{} {what}", Cell::Count(number)))
        .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "{}/{} by its marks: {}.",
            cycles.name,
            cycles.tid.0,
            parts.join(", ")
        )
    })
}

/// Describes a service of laggard that was measured at the same time.
pub(crate) fn beside(service: &AttachBeside) -> String {
    let mut text = format!(
        "For comparison, laggard's own {}, every {} on each CPU, to its first instruction",
        series_words(service.service, service.route),
        time(service.period_ns)
    );
    match service.latency {
        None => text += ": no sample",
        Some(figures) => {
            text += &format!(": median {}", time(figures.median_ns));
            if let Some(p999) = figures.p999_ns {
                text += &format!(", p99.9 {}", time(p999));
            }
            text += &format!(
                ", max {} of {}",
                time(figures.largest_ns),
                Cell::Count(service.activations)
            );
        }
    }
    if service.missed > 0 {
        text += &format!("; {} missed", Cell::Count(service.missed));
    }
    if !service.doubts.is_empty() {
        text += &format!("; not trustworthy: {}", trust::joined(&service.doubts));
    }
    text + "."
}
