//! Sentences of `laggard bench rtos`.

use laggard_answer::rtos::{
    CriterionRow, DeferredFigures, InterruptFigures, InversionFigures, LoadFigures,
    PreemptionFigures, PriorityFigures, QueueFigures, RtosReason, RtosReport, TestVerdict,
};
use laggard_model::text::{bytes, count, listed, percent};
use laggard_model::{InterruptSource, LockedPages, Nanos, RtosCriterion, RtosWakeups};

use super::{competitors, number, time};
use crate::doc::{Cell, code};

/// States how many of the criteria are met, and names the others.
pub(crate) fn summary(report: &RtosReport) -> String {
    let total = report.rows.len();
    let passed = report.count(TestVerdict::Pass);
    let part = |verdict, name: &str| {
        let criteria = report.criteria(verdict);
        (!criteria.is_empty()).then(|| format!("{} {name} ({})", criteria.len(), listed(&criteria)))
    };
    let others = [
        part(TestVerdict::Fail, "failed"),
        part(TestVerdict::Unknown, "unknown"),
    ];
    let others: Vec<String> = others.into_iter().flatten().collect();
    match (total, passed) {
        (0, _) => "no test ran".into(),
        (1, 1) if report.not_run.is_empty() => "the criterion is met".into(),
        _ if others.is_empty() && report.not_run.is_empty() => {
            format!("all {total} criteria are met")
        }
        _ => {
            let not_run = report.not_run.len();
            let rest = (not_run > 0).then(|| format!("{not_run} not tested"));
            let parts: Vec<String> = others.into_iter().chain(rest).collect();
            let total = total + not_run;
            format!("{passed} of {total} criteria are met, {}", parts.join(", "))
        }
    }
}

/// States the result of one criterion: the figures that decide the verdict.
pub(crate) fn result(report: &RtosReport, row: &CriterionRow) -> String {
    if row.reason == RtosReason::NotRun {
        let reasons = row.absences.iter().map(|absence| absence.reason.as_str());
        return reasons.collect::<Vec<_>>().join("; ");
    }
    let reason = &row.reason;
    let limit = report.limit_ns;
    let is_windows = report.host.is_windows();
    let result = match row.criterion {
        RtosCriterion::Preemption => report
            .preemption
            .as_ref()
            .map(|figures| preemption(figures, reason, limit, is_windows)),
        RtosCriterion::Priorities => report
            .priorities
            .as_ref()
            .map(|figures| priorities(figures, reason, is_windows)),
        RtosCriterion::Order => report
            .order
            .as_ref()
            .map(|queues| order(queues, is_windows)),
        RtosCriterion::Inversion => report
            .inversion
            .as_ref()
            .map(|figures| inversion(figures, reason, is_windows)),
        RtosCriterion::Bounded => report.bounded.as_ref().map(|loads| bounded(loads, reason)),
        RtosCriterion::Locked => report
            .locked
            .as_ref()
            .map(|figures| locked(figures, reason)),
        RtosCriterion::Interrupts => report
            .interrupts
            .as_ref()
            .map(|figures| interrupts(figures, reason, limit)),
        RtosCriterion::Deferred => report.deferred.as_ref().map(deferred),
    };
    result.unwrap_or_default()
}

/// States the next step for the user: a remedy for a test that did not run, or how to
/// learn more about the first criterion that is not met.
pub(crate) fn next_steps(report: &RtosReport) -> Vec<String> {
    let remedies = report.remedies();
    if !remedies.is_empty() {
        return remedies
            .into_iter()
            .map(|(remedy, criteria)| format!("To test {}: {remedy}", listed(&criteria)))
            .collect();
    }
    let open = report
        .rows
        .iter()
        .find(|row| row.verdict != TestVerdict::Pass);
    let step = open.and_then(|row| next_step(row.criterion, &row.reason));
    step.into_iter()
        .map(|step| format!("Next: {step}"))
        .collect()
}

fn next_step(criterion: RtosCriterion, reason: &RtosReason) -> Option<String> {
    match (criterion, reason) {
        (_, RtosReason::AboveLimit { .. }) => Some(
            "`sudo laggard record`, then `laggard why` for the causes of the late wakeups".into(),
        ),
        (_, RtosReason::MaxGrows { load } | RtosReason::SingleMaxGrows { load }) => Some(format!(
            "{}, then `laggard why` for the causes",
            code(&format!("sudo laggard record --load {load}"))
        )),
        (_, RtosReason::TooFewSamples | RtosReason::GrowthUncertain | RtosReason::PairsMissing) => {
            Some(format!(
                "repeat with more time: `laggard bench rtos --only {criterion} --duration 1min`"
            ))
        }
        (
            _,
            RtosReason::PossiblySteal
            | RtosReason::PossiblyCompetitors
            | RtosReason::WaitAsLongAsInversion,
        ) => Some(format!(
            "repeat on a quiet machine: `laggard bench rtos --only {criterion}`"
        )),
        (_, RtosReason::SoftirqNotPreempted) => {
            Some("use a PREEMPT_RT kernel (its softirqs run in threads)".into())
        }
        (_, RtosReason::WokenOutOfOrder) => {
            Some("do not rely on a queue that wakes out of order".into())
        }
        _ => None,
    }
}

/// States why a criterion failed or is unknown, without the figures.
pub(crate) fn reason(criterion: &str, reason: &RtosReason) -> Option<String> {
    let words = match reason {
        _ if reason.verdict() == TestVerdict::Pass => return None,
        RtosReason::NotRun => "the test did not run",
        RtosReason::TooFewSamples => "too few samples",
        RtosReason::AboveLimit { count } => {
            let words = if *count == 1 {
                "latency is"
            } else {
                "latencies are"
            };
            return Some(format!("{} {words} above the limit", number(*count)));
        }
        RtosReason::PossiblyCompetitors => {
            "threads of other programs with real-time priority may have caused the max latency"
        }
        RtosReason::PossiblySteal => "hypervisor steal may have caused the max latency",
        RtosReason::SystemHasTooFewPriorities { .. } => "the system has too few priorities",
        RtosReason::UserHasTooFewPriorities { .. } => "this user may use too few priorities",
        RtosReason::LowerNotPreempted => "a priority does not preempt the next lower one",
        RtosReason::EqualPreempted => "a priority preempts an equal one",
        RtosReason::PairsMissing => "not all pairs of priorities were tested",
        RtosReason::WokenOutOfOrder => "a thread was woken while one of higher priority waited",
        RtosReason::QueuesMissing => "not all mechanisms were tested",
        RtosReason::InheritingLockInverted | RtosReason::MiddleThreadRan => {
            "a thread of middle priority ran during a wait for a lock with priority inheritance"
        }
        RtosReason::PlainLockNotInverted => "the lock without inheritance had no inversion",
        RtosReason::WaitAsLongAsInversion => {
            "a wait was as long as an inversion, although the middle thread did not run"
        }
        RtosReason::MaxGrows { load } | RtosReason::SingleMaxGrows { load } => {
            return Some(format!("the max grows under the load {}", code(load)));
        }
        RtosReason::NoSecondLoad => "a comparison needs a second load",
        RtosReason::GrowthUncertain => "too few wakeups, or a load did not run",
        RtosReason::LockedPagesEvicted { .. } => "locked pages were evicted",
        RtosReason::LockIncomplete => "not all pages were in memory after `mlock`",
        RtosReason::NothingEvicted => "the memory pressure evicted no page",
        RtosReason::SoftirqNotPreempted => "a thread of high priority waits for a softirq to end",
        RtosReason::SoftirqSometimesPreempted => {
            "a thread of high priority preempts a softirq at times"
        }
        _ => return None,
    };
    let command = code(&format!("laggard bench rtos --only {criterion}"));
    Some(match reason.verdict() {
        TestVerdict::Unknown => format!("{words} ({command} prints more)"),
        _ => words.into(),
    })
}

/// Describes latencies above the limit and their possible cause; empty if there are none.
fn above_limit(
    reason: &RtosReason,
    late: usize,
    limit: Nanos,
    competing: impl FnOnce() -> String,
) -> String {
    let limit = Cell::Time(limit);
    match reason {
        RtosReason::AboveLimit { count } => format!("; {} above {limit}", number(*count)),
        RtosReason::PossiblyCompetitors => {
            let late = number(late);
            format!(
                "; {late} above {limit}, possibly because of {}",
                competing()
            )
        }
        RtosReason::PossiblySteal => {
            let late = number(late);
            format!("; {late} above {limit}, possibly because of hypervisor steal")
        }
        _ => String::new(),
    }
}

/// Returns the name of real-time priorities on the measured system.
const fn class(is_windows: bool) -> &'static str {
    if is_windows { "realtime" } else { "SCHED_FIFO" }
}

fn preemption(
    figures: &PreemptionFigures,
    reason: &RtosReason,
    limit: Nanos,
    is_windows: bool,
) -> String {
    let [running, woken] = RtosWakeups::priorities(is_windows);
    let class = class(is_windows);
    let wakeups = number(figures.wakeups);
    if *reason == RtosReason::TooFewSamples {
        return format!("only {wakeups} wakeups came while the other thread computed");
    }
    let without_steal = if *reason == RtosReason::WithinLimitWithoutSteal {
        format!(
            " ({} without steal time)",
            time(figures.max_without_steal_ns)
        )
    } else {
        String::new()
    };
    let late = above_limit(reason, figures.above_limit, limit, || {
        competitors(&figures.competitors)
    });
    format!(
        "{class} {woken} preempts {class} {running}: median {}, max {}{without_steal}, {wakeups} wakeups{late}",
        time(figures.median_ns),
        time(figures.max_ns),
    )
}

fn deferred(figures: &DeferredFigures) -> String {
    let [wakeups, preempted, waited] = [
        figures.wakeups,
        figures.preempted,
        figures.wakeups.saturating_sub(figures.preempted),
    ]
    .map(Cell::Count);
    let wait = Cell::Time(figures.longest_wait_ns);
    let wait = if figures.preempted < figures.wakeups {
        format!(", and waits for its end in {waited} (max {wait})")
    } else {
        String::new()
    };
    format!(
        "SCHED_FIFO 90 preempts a softirq that receives packets in {preempted} of {wakeups} wakeups{wait}"
    )
}

fn priorities(figures: &PriorityFigures, reason: &RtosReason, is_windows: bool) -> String {
    let (lowest, highest) = figures.stated;
    let PriorityFigures {
        usable,
        pairs,
        preempting,
        equals,
        waiting,
        ..
    } = figures;
    let range = format!("{usable} priorities ({lowest} to {highest})");
    match reason {
        RtosReason::SystemHasTooFewPriorities { required } => {
            format!("{range}; POSIX requires {required}")
        }
        RtosReason::UserHasTooFewPriorities { required } => format!(
            "this user may use {usable} of the priorities {lowest} to {highest}; the test needs {required}"
        ),
        RtosReason::LowerNotPreempted => {
            let (low, high) = figures.not_preempting.unwrap_or_default();
            let class = class(is_windows);
            format!(
                "{range}; {class} {high} does not preempt {class} {low} ({preempting} of {pairs} neighbours preempt)"
            )
        }
        RtosReason::EqualPreempted => format!(
            "{range}; a woken thread preempts one of the same priority ({waiting} of {equals} tested priorities wait)"
        ),
        RtosReason::PairsMissing => format!("{range}; only {pairs} neighbours were tested"),
        _ => format!(
            "{range}; each preempts the next lower one ({pairs} pairs tested); threads of equal priority wait ({waiting} of {equals})"
        ),
    }
}

fn order(queues: &[QueueFigures], is_windows: bool) -> String {
    let is_right = |queue: &&QueueFigures| queue.is_complete() && queue.out_of_order == 0;
    let right = queues.iter().filter(is_right);
    let right: Vec<&str> = right.map(|queue| queue.queue.name()).collect();
    let others = queues.iter().filter(|queue| !is_right(queue));
    let mut parts: Vec<String> = others.map(|queue| unordered(queue, is_windows)).collect();
    if !right.is_empty() {
        parts.push(format!("woken by priority: {}", right.join(", ")));
    }
    parts.join("; ")
}

/// Describes a queue that is out of order or was not tested completely.
fn unordered(queue: &QueueFigures, is_windows: bool) -> String {
    let name = queue.queue.name();
    if let Some((woken, highest)) = queue.example {
        let class = class(is_windows);
        return format!(
            "{name}: {} of {} wakeups out of order (such as {class} {woken} before {highest})",
            number(queue.out_of_order),
            number(queue.wakes)
        );
    }
    match &queue.absence {
        Some(absence) => format!("{name} not tested: {}", absence.reason),
        None => format!("{name}: only {} rounds", count(queue.rounds)),
    }
}

fn inversion(figures: &InversionFigures, reason: &RtosReason, is_windows: bool) -> String {
    let (inherit, plain) = (&figures.inherit, &figures.plain);
    let lock = if is_windows {
        "a mutex object"
    } else {
        "PTHREAD_PRIO_INHERIT"
    };
    let despite = format!("despite {lock}, the middle thread");
    match reason {
        RtosReason::InheritingLockInverted => format!(
            "{despite} finished before the waiting one had the lock, in {} of {} rounds (max wait {})",
            inherit.inverted,
            inherit.rounds,
            time(inherit.max_ns)
        ),
        RtosReason::MiddleThreadRan => format!(
            "{despite} ran for up to {} during a wait",
            time(inherit.middle_max_ns)
        ),
        RtosReason::TooFewSamples => format!(
            "only {} rounds with each kind of lock",
            inherit.rounds.min(plain.rounds)
        ),
        RtosReason::PlainLockNotInverted => format!(
            "no inversion in {} rounds with a plain lock (max wait {}), so the test cannot show an effect of {lock}",
            plain.rounds,
            time(plain.max_ns)
        ),
        RtosReason::WaitAsLongAsInversion => format!(
            "max wait {} with {lock}, {} without; the first is as long as an inversion ({}), but the middle thread did not run",
            time(inherit.max_ns),
            time(plain.max_ns),
            Cell::Time(figures.hold_ns + figures.middle_ns)
        ),
        _ => format!(
            "max wait for a lock that is held for {}: {} with {lock}, {} without",
            Cell::Time(figures.hold_ns),
            time(inherit.max_ns),
            time(plain.max_ns)
        ),
    }
}

fn bounded(loads: &[LoadFigures], reason: &RtosReason) -> String {
    let first = loads.first();
    let first_name = first.map_or_else(String::new, |load| load.load.clone());
    let named = |name: &str| loads.iter().find(|load| load.load == name);
    let why = match reason {
        RtosReason::MaxGrows { load } => {
            let growth = named(load).and_then(|load| load.growth);
            let ratio = growth.map(|growth| {
                let [ratio, low, high] =
                    [growth.ratio, growth.ratio_low, growth.ratio_high].map(Cell::Ratio);
                Cell::estimate(ratio, low, high).to_string()
            });
            format!(
                "; under {load} the max of a stretch is {} the max under {first_name}",
                ratio.unwrap_or_default()
            )
        }
        RtosReason::SingleMaxGrows { load } => {
            let max = |load: Option<&LoadFigures>| time(load.and_then(LoadFigures::system_max));
            format!(
                "; under {load} the mean max of a stretch is less than twice the one under {first_name}, but the max of all is not: {}, {}",
                max(named(load)),
                max(first)
            )
        }
        RtosReason::PossiblyCompetitors => {
            let load = loads.iter().find(|load| !load.competitors.is_empty());
            let threads = load.map_or(&[][..], |load| &load.competitors);
            format!("; the growth may be due to {}", competitors(threads))
        }
        RtosReason::PossiblySteal => "; the growth may be due to hypervisor steal".into(),
        RtosReason::NoSecondLoad => "; a comparison needs a second load (--loads)".into(),
        RtosReason::GrowthUncertain if loads.iter().any(|load| load.absence.is_some()) => {
            "; growth unknown, because a load did not run".into()
        }
        RtosReason::GrowthUncertain => "; too few wakeups to exclude that the max doubles".into(),
        _ => format!("; no load doubles the max under {first_name}"),
    };
    let maxima: Vec<String> = loads.iter().map(max_under_load).collect();
    format!("max latency under {}{why}", maxima.join(", "))
}

/// Describes the max under a load, such as `fp 1.20 ms (59.0 us without steal, 2 missed)`.
fn max_under_load(load: &LoadFigures) -> String {
    let name = &load.load;
    if let Some(absence) = &load.absence {
        return format!("{name} not tested ({})", absence.reason);
    }
    let max = time(load.max_ns);
    let without_steal = load
        .max_without_steal_ns
        .map(|max| Cell::Time(max).to_string());
    let without_steal = without_steal
        .filter(|without_steal| *without_steal != max)
        .map(|time| format!("{time} without steal"));
    let missed = (load.missed > 0).then(|| format!("{} missed", count(load.missed)));
    let notes: Vec<String> = without_steal.into_iter().chain(missed).collect();
    if notes.is_empty() {
        format!("{name} {max}")
    } else {
        format!("{name} {max} ({})", notes.join(", "))
    }
}

fn locked(figures: &LockedPages, reason: &RtosReason) -> String {
    let (locked, plain) = (&figures.locked, &figures.plain);
    let pages = count(locked.pages);
    match reason {
        RtosReason::LockedPagesEvicted { pages: evicted } => {
            let evicted = count(*evicted);
            format!("{evicted} of {pages} locked pages evicted or read again")
        }
        RtosReason::LockIncomplete => format!(
            "only {} of {pages} pages were in memory after mlock",
            count(locked.resident_before)
        ),
        RtosReason::NothingEvicted => {
            "the pressure evicted no pages, not even unlocked ones".into()
        }
        _ => format!(
            "{pages} of {pages} locked pages stayed in memory, {} of {} unlocked ones were evicted",
            count(plain.evicted()),
            count(plain.pages)
        ),
    }
}

/// States the memory limit of the test of locked pages.
pub(crate) fn pressure(figures: &LockedPages) -> String {
    format!(
        "Memory pressure of `locked`: {} {}, {} read.",
        figures.limit,
        bytes(figures.limit_bytes),
        bytes(figures.read_bytes)
    )
}

fn interrupts(figures: &InterruptFigures, reason: &RtosReason, limit: Nanos) -> String {
    let interrupts = number(figures.interrupts);
    if *reason == RtosReason::TooFewSamples {
        return format!("only {interrupts} interrupts were measured");
    }
    let (latency, dispatch) = (&figures.latency, &figures.dispatch);
    let without_steal = |max: Option<Nanos>| {
        if *reason == RtosReason::WithinLimitWithoutSteal {
            format!(" ({} without steal time)", time(max))
        } else {
            String::new()
        }
    };
    let rate = figures.max_rate_hz.map(|rate| {
        format!(
            "; a device may interrupt at up to {} Hz (from p99.9)",
            rounded_down(rate)
        )
    });
    let excluded = match figures.excluded {
        0 => String::new(),
        excluded => format!(", {} excluded", count(excluded)),
    };
    format!(
        "ISR latency median {}, max {}{}; dispatch latency median {}, max {}{}; {interrupts} interrupts by {}{excluded}{}{}",
        time(latency.median_ns),
        time(latency.max_ns),
        without_steal(latency.max_without_steal_ns),
        time(dispatch.median_ns),
        time(dispatch.max_ns),
        without_steal(dispatch.max_without_steal_ns),
        source(figures.source),
        rate.unwrap_or_default(),
        above_limit(reason, figures.above_limit, limit, String::new)
    )
}

/// Describes the source of the interrupts, and whether it has a separate clock.
pub(crate) const fn source(source: InterruptSource) -> &'static str {
    match source {
        InterruptSource::Cpu => "another CPU (no external clock)",
        InterruptSource::Hpet => "the HPET (an external clock)",
    }
}

/// Returns the name of a quantile, such as `p99.9`.
pub(crate) fn quantile(quantile: f64) -> String {
    format!("p{}", percent(quantile))
}

/// Writes a rate with two digits, rounded down, because it is an upper limit.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, and at most 1e9"
)]
fn rounded_down(rate: f64) -> String {
    let unit = 10_f64.powf(rate.log10().floor() - 1.0).max(1.0);
    count(((rate / unit).floor() * unit) as u64)
}

#[cfg(test)]
mod tests;
