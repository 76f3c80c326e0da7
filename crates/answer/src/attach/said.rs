//! What is to be said of a row, in words.

use laggard_model::Nanos;
use laggard_model::text::{Unit, count};

use super::line::differ;
use super::row::{AttachRow, DeadlineOf};

/// What is to be said of a row.
pub(super) fn sentences(row: &AttachRow) -> impl Iterator<Item = String> {
    let who = format!("{}/{} by {}", row.name, row.tid.0, row.woken_by);
    let all = [
        against_deadline(row, &who),
        taken(row, &who),
        against_period(row, &who),
        changed(row, &who),
        grew(row, &who),
        inferred(row, &who),
        came_back(row, &who),
        otherwise_scheduled(row, &who),
        unfinished(row, &who),
    ];
    all.into_iter().flatten()
}

/// To whom the time of those went that missed.
fn taken(row: &AttachRow, who: &str) -> Option<String> {
    /// So many are told; the JSON has all.
    const MOST: usize = 4;
    let time = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let deadline = row.deadline.as_ref()?;
    if deadline.explained == 0 {
        return None;
    }
    let told = deadline.taken.iter().take(MOST).map(|one| {
        let mut text = format!("{} {}", time(one.taken.time_ns), one.taken.what);
        if one.mainly > 0 && deadline.explained > 1 {
            text += &format!(" (the most in {})", count(one.mainly));
        }
        text
    });
    let mut told: Vec<String> = told.collect();
    let left = deadline.taken.iter().skip(MOST);
    let left = left.fold(deadline.other_taken_ns, |sum, one| sum + one.taken.time_ns);
    if left > Nanos::ZERO {
        told.push(format!("{} others", time(left)));
    }
    let of = match (deadline.explained, deadline.misses) {
        (1, 1) => "the one that ended later".into(),
        (explained, misses) if explained == misses => {
            format!("all {} that ended later", count(misses))
        }
        (explained, misses) => {
            format!(
                "{} of the {} that ended later (of each tenth of a second, those that took the longest)",
                count(explained),
                count(misses)
            )
        }
    };
    Some(format!(
        "{who}: the time of {of}, together: {}.",
        told.join("; ")
    ))
}

/// A row by timer against the period that was given.
fn against_period(row: &AttachRow, who: &str) -> Option<String> {
    let time = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let asked = row.asked?;
    let given = time(asked.period_ns);
    if let Some(found) = row.period_ns.filter(|&one| differ(one, asked.period_ns)) {
        return Some(format!(
            "{who}: its wakes have a period of {}, not the {given} that was given.",
            time(found)
        ));
    }
    let missing = match asked.without_wake {
        0 => return None,
        1 => "1 period".to_owned(),
        more => format!("{} periods", count(more)),
    };
    Some(format!(
        "{who}: {missing} of {given} had no wake that was seen: it was at work, waited for something else, or was not seen."
    ))
}

/// That its period is not what it was.
fn changed(row: &AttachRow, who: &str) -> Option<String> {
    let time = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let last = time(row.later_period_ns?);
    let is_held = row
        .deadline
        .as_ref()
        .is_some_and(|one| matches!(one.of, DeadlineOf::Period));
    Some(match row.period_ns {
        Some(first) if is_held => format!(
            "{who}: its period was {} at first and {last} at the end; all are held against the first, so give a deadline.",
            time(first)
        ),
        Some(first) => format!(
            "{who}: its period was {} at first and {last} at the end.",
            time(first)
        ),
        None => format!("{who}: its wakes had no period at first, and one of {last} at the end."),
    })
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

/// Of how many activations no wake was seen.
fn inferred(row: &AttachRow, who: &str) -> Option<String> {
    let of = match row.inferred {
        0 => return None,
        1 => "the wake of 1 was not seen; it counts".to_owned(),
        more => format!("the wakes of {} were not seen; they count", count(more)),
    };
    Some(format!(
        "{who}: {of} from the expiry of the sleep that the thread had begun, and ran by the time at which more was seen of it."
    ))
}

/// Of how many it was not seen that they went on.
fn came_back(row: &AttachRow, who: &str) -> Option<String> {
    let of = match row.back_unseen {
        0 => return None,
        more => count(more),
    };
    Some(format!(
        "{who}: of {of} it was not seen when they went on, after others had the CPU or after a wait: some of that time may be their own work."
    ))
}

/// In how many of its activations a thread was not scheduled as its row says.
fn otherwise_scheduled(row: &AttachRow, who: &str) -> Option<String> {
    let others = row.other_policies.iter();
    let others = others.map(|one| format!("{} as {}", count(one.count), one.policy));
    let others: Vec<_> = others.collect();
    (!others.is_empty()).then(|| {
        format!(
            "{who}: of its {} activations, it ended {}, the rest as {}.",
            count(row.activations),
            others.join(", "),
            row.policy
        )
    })
}

/// What a thread was in at the end, where that is longer than all that ended, or too
/// long: it is in no figure.
fn unfinished(row: &AttachRow, who: &str) -> Option<String> {
    let one = row.unfinished?;
    let most = row.response.map_or(Nanos::ZERO, |of| of.largest_ns);
    let is_late = row
        .deadline
        .as_ref()
        .is_some_and(|it| one.so_far_ns > it.deadline_ns);
    let when = match row.ended_ns {
        Some(_) => "the thread ended",
        None => "watching ended",
    };
    let at_work = match one.ran {
        true => "was not done",
        false => "had not run",
    };
    (is_late || one.so_far_ns > most).then(|| {
        format!(
            "{who}: when {when}, one was due for {} and {at_work}; it is in no figure.",
            Unit::Auto.write_nanos(one.so_far_ns)
        )
    })
}

/// A row against its deadline, in words.
fn against_deadline(row: &AttachRow, who: &str) -> Option<String> {
    let time = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let deadline = row.deadline.as_ref()?;
    let of = match deadline.of {
        DeadlineOf::Period => ", the period that was found",
        DeadlineOf::GivenPeriod => ", the period that was given",
        DeadlineOf::Given | DeadlineOf::Application => "",
    };
    let mut text = format!(
        "{who}: {} of {} ended later than {}{of}",
        count(deadline.misses),
        count(row.activations),
        time(deadline.deadline_ns),
    );
    match deadline.expected {
        // None tells nothing of how they come together.
        Some((_, high)) if deadline.misses == 0 => {
            text += &format!(
                "; as long a time has {high:.1} at most (95 %), or as many bursts where they come together"
            );
        }
        Some((low, high)) => {
            text += &format!("; as long a time has {low:.1} to {high:.1} of them (95 %)");
        }
        None => {}
    }
    let not_told = row.unseen();
    if not_told > 0 {
        text += &format!(
            "; {} more of the thread were not told apart or not seen",
            count(not_told)
        );
    }
    text += &format!(
        ". The smallest margin was {}",
        margin(deadline.least_margin_ns)
    );
    if let Some(ns) = deadline.p999_margin_ns {
        text += &format!("; at most 1 in 1,000 has less than {}", margin(ns));
    }
    text += ".";
    let grown = deadline.grown.iter();
    let grown =
        grown.map(|one| format!("{} with {} % more work", count(one.misses), one.by_percent));
    text += &format!(
        " With its own delays it would miss {}; {} with half the deadline.",
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
