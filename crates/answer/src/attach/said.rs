//! What is to be said of a row, in words.

use laggard_model::Nanos;
use laggard_model::text::{Unit, count};

use super::period::differ;
use super::row::{AttachRow, DeadlineOf};

/// What is to be said of a row.
pub(super) fn sentences(row: &AttachRow) -> impl Iterator<Item = String> {
    let who = format!("{}/{} by {}", row.name, row.tid.0, row.woken_by);
    let all = [
        unfinished(row, &who),
        against_deadline(row, &who),
        taken(row, &who),
        home(row, &who),
        against_period(row, &who),
        changed(row, &who),
        grew(row, &who),
        inferred(row, &who),
        came_back(row, &who),
        otherwise_scheduled(row, &who),
        stops(row, &who),
    ];
    all.into_iter().flatten()
}

/// Where the time of the cycles went that missed.
fn taken(row: &AttachRow, who: &str) -> Option<String> {
    /// The JSON has all.
    const MAX_CAUSES: usize = 4;
    let time = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let deadline = row.deadline.as_ref()?;
    if deadline.explained == 0 {
        return None;
    }
    let causes = deadline.taken.iter().take(MAX_CAUSES).map(|one| {
        let text = format!("{} {}", time(one.taken.time_ns), one.taken.what);
        match one.avoided {
            0 => text,
            avoided => format!("{text} ({} on time without it)", count(avoided)),
        }
    });
    let mut causes: Vec<String> = causes.collect();
    let left = deadline.taken.iter().skip(MAX_CAUSES);
    let left = left.fold(deadline.other_taken_ns, |sum, one| sum + one.taken.time_ns);
    if left > Nanos::ZERO {
        causes.push(format!("{} others", time(left)));
    }
    let of = match (deadline.explained, deadline.misses) {
        (1, 1) => format!("the missed {}", row.unit()),
        (explained, misses) if explained == misses => {
            format!("all {} missed {}s", count(misses), row.unit())
        }
        (explained, misses) => format!(
            "{} of {} missed {}s (the longest of each 100 ms)",
            count(explained),
            count(misses),
            row.unit()
        ),
    };
    Some(format!(
        "{who}: the time of {of}, together: {}.",
        causes.join("; ")
    ))
}

/// Where cycles start and end, and their period.
fn home(row: &AttachRow, who: &str) -> Option<String> {
    let home = row.home.as_ref()?;
    let period = match row.period_ns {
        Some(ns) => format!("; period {}, estimated", Unit::Auto.write_nanos(ns)),
        None => String::new(),
    };
    Some(format!("{who}: cycle: from {home}{period}."))
}

/// A row by timer against the period that was given.
fn against_period(row: &AttachRow, who: &str) -> Option<String> {
    let time = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let asked = row.asked?;
    let given = time(asked.period_ns);
    if let Some(found) = row.period_ns.filter(|&one| differ(one, asked.period_ns)) {
        let mut text = format!(
            "{who}: its cycles have a period of {}, not the {given} of --period",
            time(found)
        );
        if row.sleeps_relative && found > asked.period_ns {
            text += ". It sleeps for a time after its work (relative), so that the execution time and each delay add to the period; to keep the rate, sleep until an absolute time";
        }
        return Some(text + ".");
    }
    let missing = match asked.without_wake {
        0 => return None,
        1 => "1 period".to_owned(),
        more => format!("{} periods", count(more)),
    };
    Some(format!(
        "{who}: {missing} of {given} had no wakeup: the thread ran, waited for something else, or its wakeup was not seen."
    ))
}

/// Periods of a thread that has several.
fn changed(row: &AttachRow, who: &str) -> Option<String> {
    /// Shorter phases are not worth a sentence.
    const MIN_CYCLES: u64 = 8;
    let time = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let phases = row.phases.iter().filter(|phase| phase.cycles >= MIN_CYCLES);
    let phases: Vec<String> = phases
        .map(|phase| {
            format!(
                "{} for {} cycles",
                time(phase.period_ns),
                count(phase.cycles)
            )
        })
        .collect();
    if phases.len() < 2 {
        return None;
    }
    let deadline = row.deadline.as_ref();
    let is_implied = deadline.is_some_and(|one| matches!(one.of, DeadlineOf::Period));
    let evaluated = match is_implied {
        true => {
            " Each cycle is compared with the period of its time; set --deadline to change that."
        }
        false => "",
    };
    Some(format!(
        "{who}: its period was {}.{evaluated}",
        phases.join(", then ")
    ))
}

/// That its responses grew, or shrank, where that is more than chance and bears on its
/// deadline.
fn grew(row: &AttachRow, who: &str) -> Option<String> {
    /// As a part of the deadline.
    const NOTABLE: f64 = 0.01;
    let time = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let course = row.course.as_ref().filter(|one| one.is_sure())?;
    let deadline = row.deadline.as_ref()?.deadline_ns;
    if (course.change_ns as f64).abs() < NOTABLE * deadline.as_f64() {
        return None;
    }
    let [first, .., last] = course.parts.as_slice() else {
        return None;
    };
    let margin = match course.change_ns > 0 {
        true => "its margin shrinks",
        false => "its margin grows",
    };
    Some(format!(
        "{who}: {margin}: its mean response was {} in the first eighth of the time and {} in the last (largest {} and {}).",
        time(first.mean_ns),
        time(last.mean_ns),
        time(first.largest_ns),
        time(last.largest_ns),
    ))
}

/// Cycles whose wake, or whose start on a CPU, was not seen.
fn inferred(row: &AttachRow, who: &str) -> Option<String> {
    let mut sentences = Vec::new();
    if row.inferred > 0 {
        sentences.push(format!(
            "{} from the expiry of the thread's own sleep, because the wakeup was not seen",
            match row.inferred {
                1 => format!("1 {} counts", row.unit()),
                more => format!("{} {}s count", count(more), row.unit()),
            }
        ));
    }
    if row.run_unseen > 0 {
        sentences.push(format!(
            "the latency of {} is an upper bound, because it was not seen when they ran",
            count(row.run_unseen)
        ));
    }
    (!sentences.is_empty()).then(|| format!("{who}: {}.", sentences.join("; ")))
}

/// Cycles of which it was not seen when they went on.
fn came_back(row: &AttachRow, who: &str) -> Option<String> {
    (row.back_unseen > 0).then(|| {
        format!(
            "{who}: in {} of its {}s it was not seen when the thread got its CPU back: some of the time of others may be its own.",
            count(row.back_unseen),
            row.unit()
        )
    })
}

/// In how many of its cycles a thread was not scheduled as its row says.
fn otherwise_scheduled(row: &AttachRow, who: &str) -> Option<String> {
    let others = row.other_policies.iter();
    let others = others.map(|one| format!("{} as {}", count(one.count), one.policy));
    let others: Vec<_> = others.collect();
    (!others.is_empty()).then(|| {
        format!(
            "{who}: {} of its {} {}s; the others as {}.",
            others.join(", "),
            count(row.activations),
            row.unit(),
            row.policy
        )
    })
}

/// A cycle that did not end, if it is late or longer than all that ended.
fn unfinished(row: &AttachRow, who: &str) -> Option<String> {
    const MAX_TAKEN: usize = 4;
    let one = row.unfinished.as_ref()?;
    let most = row.response.map_or(Nanos::ZERO, |of| of.largest_ns);
    if !one.overdue && (one.so_far_ns <= most || row.ended_ns.is_some()) {
        return None;
    }
    let time = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let so_far = time(one.so_far_ns);
    let mut text = match (one.never_slept, one.ran) {
        (true, _) => format!("{who}: has not slept for {so_far}: its cycle never ended"),
        (false, true) => format!("{who}: the last cycle took at least {so_far} and did not end"),
        (false, false) => {
            format!("{who}: the last cycle was due for at least {so_far} and had not run")
        }
    };
    if one.never_slept
        && let Some(asked) = row.asked
    {
        let periods = one.so_far_ns.ns() / asked.period_ns.ns().max(1);
        text += &format!(
            "; {} periods of {} passed in that time",
            count(periods),
            time(asked.period_ns)
        );
    }
    if let Some(killed) = row.killed {
        text += &format!("; signal {} killed it", signal_name(killed.signal));
        if let Some(limit) = killed.rt_limit_ns.filter(|&limit| killed.ran_ns >= limit) {
            text += &format!(
                ": it had run for {} without sleeping, and RLIMIT_RTTIME is {}",
                time(killed.ran_ns),
                time(limit)
            );
        }
    }
    let taken = one.taken.iter().take(MAX_TAKEN);
    let taken: Vec<String> = taken
        .map(|part| format!("{} {}", time(part.time_ns), part.what))
        .collect();
    if !taken.is_empty() {
        text += &format!(". It went to: {}", taken.join("; "));
    }
    Some(text + ".")
}

fn signal_name(signal: u32) -> String {
    match signal {
        6 => "SIGABRT".into(),
        9 => "SIGKILL".into(),
        11 => "SIGSEGV".into(),
        15 => "SIGTERM".into(),
        24 => "SIGXCPU".into(),
        other => other.to_string(),
    }
}

/// How often and how long the thread was stopped or frozen.
fn stops(row: &AttachRow, who: &str) -> Option<String> {
    let time = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let times = |number: u64| match number {
        1 => "once".to_owned(),
        more => format!("{} times", count(more)),
    };
    let stops = row.stops;
    let mut parts = Vec::new();
    if stops.frozen > 0 {
        parts.push(format!(
            "its control group was frozen {}, {} in all",
            times(stops.frozen),
            time(stops.frozen_ns)
        ));
    }
    if stops.stopped > 0 {
        parts.push(format!(
            "a signal or a debugger stopped it {}, {} in all",
            times(stops.stopped),
            time(stops.stopped_ns)
        ));
    }
    (!parts.is_empty()).then(|| format!("{who}: {}.", parts.join("; ")))
}

/// A row against its deadline, in words.
fn against_deadline(row: &AttachRow, who: &str) -> Option<String> {
    let time = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let deadline = row.deadline.as_ref()?;
    let of = match deadline.of {
        DeadlineOf::Period => " (implied: its period)",
        DeadlineOf::GivenPeriod => " (--period)",
        DeadlineOf::Given | DeadlineOf::Application => "",
    };
    let mut text = format!(
        "{who}: {} of {} {}s missed the deadline of {}{of}",
        count(deadline.misses),
        count(row.activations),
        row.unit(),
        time(deadline.deadline_ns),
    );
    if deadline.passed > 0 {
        text += &format!(
            " ({} of them due while an earlier one went on)",
            count(deadline.passed)
        );
    }
    match deadline.expected {
        // No miss: nothing shows whether they cluster.
        Some((_, high)) if deadline.misses == 0 => {
            text += &format!("; at most {high:.1} in the same time (95 %), or as many bursts");
        }
        Some((low, high)) => {
            text += &format!("; {low:.1} to {high:.1} in the same time (95 % CI)");
        }
        None => {}
    }
    let unseen = row.unseen();
    if unseen > 0 {
        text += &format!("; {} more were lost or not seen", count(unseen));
    }
    text += &format!(". Smallest margin: {}", margin(deadline.least_margin_ns));
    if let Some(ns) = deadline.p999_margin_ns {
        text += &format!("; p99.9: {}", margin(ns));
    }
    let grown = deadline.grown.iter();
    let grown =
        grown.map(|one| format!("{} with {} % more work", count(one.misses), one.by_percent));
    text += &format!(
        ". Misses with the same delays: {}; {} with half the deadline.",
        grown.collect::<Vec<_>>().join(", "),
        count(deadline.misses_of_half),
    );
    Some(text)
}

fn margin(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!(
        "{sign}{}",
        Unit::Auto.write_nanos(Nanos::from_ns(ns.unsigned_abs()))
    )
}
