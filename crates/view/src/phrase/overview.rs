//! Sentences of the first screen, which `laggard record` and `laggard show` print.

use laggard_answer::overview::{
    Conditions, Enough, First, Fit, Late, Measurement, MissingFits, Overview, Unfailing,
};
use laggard_answer::qos::Fitness;
use laggard_answer::show::Waiting;
use laggard_answer::why::{CauseShare, RhythmRow};
use laggard_model::name::series_words;
use laggard_model::text::{listed, rough_time, span};
use laggard_model::{Backend, Host, Nanos, State};

use super::plural;
use super::{cause, qos};
use crate::doc::{Cell, code, quoted};
use crate::text::Tone;

/// Number of applications that are named. More are counted.
const MAX_NAMED: usize = 4;
/// Digits of an estimated time.
const DIGITS: i32 = 2;

/// Describes the conditions of a measurement in the order of their importance.
pub(crate) fn conditions(conditions: &Conditions) -> String {
    let mut parts = vec![span(conditions.duration_ns)];
    match &conditions.state {
        State::Complete | State::Failed { .. } => {}
        State::Running => parts.push("no end (still running, or killed)".into()),
        State::Interrupted => parts.push("ended early on request".into()),
    }
    parts.push(match conditions.load.load() {
        Some(load) => format!("load {load}"),
        None => "no load".into(),
    });
    match conditions.cpus {
        0 => {}
        1 => parts.push("1 CPU".into()),
        cpus => parts.push(format!("{cpus} CPUs")),
    }
    let kernel = conditions.kernel.as_str();
    match &conditions.preemption {
        _ if kernel.is_empty() => {}
        None => parts.push(Host::system_of(kernel)),
        Some(model) => parts.push(format!("{} (preempt={model})", Host::system_of(kernel))),
    }
    match conditions.hypervisor.as_deref() {
        None => {}
        Some("kvm") => parts.push("KVM guest".into()),
        Some(name) => parts.push(format!("{name} guest")),
    }
    match conditions.backend {
        Backend::User if conditions.is_windows() => {}
        Backend::Perf => parts.push("perf tracepoints".into()),
        Backend::User => parts.push("without eBPF".into()),
        Backend::Tracer => parts.push("timerlat tracer".into()),
        Backend::Driver => parts.push("driver wdmlat.sys".into()),
        Backend::Imported => parts.push("imported".into()),
        Backend::Bpf | Backend::Etw | Backend::Fake => {}
    }
    parts.join(", ")
}

/// States which series was still waiting when measuring ended: one that was never served
/// before all others, then the one that had waited longest.
pub(crate) fn waiting(waiting: &[Waiting]) -> Option<String> {
    let leads = |series: &&Waiting| (series.served == 0, series.at_least_ns);
    let worst = waiting.iter().max_by_key(leads)?;
    let how = if worst.served == 0 {
        "was never served"
    } else {
        "was still waiting when measuring ended"
    };
    let others = match waiting.len() - 1 {
        0 => String::new(),
        1 => "; so was 1 other series".into(),
        others => format!("; so were {others} other series"),
    };
    Some(format!(
        "{} on CPU {} {how}: latency at least {}{others}",
        series_words(worst.service, worst.route),
        worst.cpu,
        Cell::Time(worst.at_least_ns)
    ))
}

/// States which wakeups the causes are about: their series, count, threshold and total.
pub(crate) fn late(late: &Late, threshold: Option<(Nanos, Nanos)>) -> String {
    let series = late.service.zip(late.route);
    let series = series.map_or_else(
        || "all services were".into(),
        |(service, route)| format!("{} was", series_words(service, route)),
    );
    let wakeups = match late.wakeups {
        1 => "1 wakeup".to_owned(),
        wakeups => format!("{} wakeups", Cell::Count(wakeups)),
    };
    let bound = if late.is_incomplete { ">= " } else { "" };
    format!(
        "Why {series} late ({bound}{wakeups}{}, total {bound}{})",
        threshold.map_or_else(String::new, above),
        Cell::Time(late.total_ns)
    )
}

/// Writes the latency threshold, or the range of the thresholds of the CPUs.
pub(crate) fn above((min, max): (Nanos, Nanos)) -> String {
    if min == max {
        format!(" above {}", Cell::Time(min))
    } else {
        format!(" above {} to {}", Cell::Time(min), Cell::Time(max))
    }
}

/// Names a cause, with its period if it has one.
pub(crate) fn cause(row: &CauseShare) -> String {
    let name = cause::name(&row.cause, &row.contenders);
    let rhythm = row.rhythm.as_ref().map_or_else(String::new, |rhythm| {
        format!(", every {}{}", Cell::Time(rhythm.period_ns), spell(rhythm))
    });
    name + &rhythm
}

/// States from when to when a rhythm was there, unless it was there all the time.
fn spell(rhythm: &RhythmRow) -> String {
    let tenths = |time: Nanos| time.as_secs_f64() * 10.0;
    let from = rhythm
        .none_before_ns
        .map(|time_ns| tenths(time_ns).floor() / 10.0);
    let to = rhythm
        .none_after_ns
        .map(|time_ns| tenths(time_ns).ceil() / 10.0);
    match (from, to) {
        (None, None) => String::new(),
        (Some(from), None) => format!(" from {from:.1} s"),
        (None, Some(to)) => format!(" until {to:.1} s"),
        (Some(from), Some(to)) => format!(" from {from:.1} s to {to:.1} s"),
    }
}

/// States the fix to try first and its effect on the max and on xruns. `is_first_listed`:
/// whether its cause is the first one in the table.
pub(crate) fn first(first: &First, late: &Late, is_first_listed: bool) -> String {
    let action = cause::action(&first.fix);
    let against = if is_first_listed {
        String::new()
    } else {
        format!(" against {}", cause(&first.cause))
    };
    format!(
        "Try first{against}: {}. {}",
        lowercase(&action),
        effect(first, late)
    )
}

/// States the effect of removing a cause.
fn effect(first: &First, late: &Late) -> String {
    // The largest latency need not be among those with trace data.
    let scope = if late.untraced.is_some() {
        let untraced = late.untraced.as_ref().map_or(0, |row| row.wakeups);
        let traced = plural(late.wakeups.saturating_sub(untraced), "wakeup");
        format!("max of the {traced} with trace data")
    } else {
        "max".into()
    };
    let time = |is_at_least: bool, time| {
        let time = Cell::Time(time);
        if is_at_least {
            Cell::AtLeast(Box::new(time))
        } else {
            time
        }
    };
    let now = time(late.max_is_at_least, first.max_ns);
    let without = time(first.max_without_is_at_least, first.max_without_ns);
    let max = if first.max_without_ns == first.max_ns {
        format!("Without this cause the {scope} would still be {now}")
    } else {
        format!("Without this cause the {scope} would be {without}, not {now}")
    };
    let stalls = first.stalls.filter(|stalls| stalls.count > 0);
    let stalls = stalls.map_or_else(String::new, |stalls| {
        format!(
            ", and {} of {} would exceed the slack of {}",
            stalls.without,
            plural(stalls.count as u64, "stall"),
            Cell::Time(stalls.slack_ns)
        )
    });
    format!("{max}{stalls}.")
}

fn lowercase(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_lowercase);
    first.chain(letters).collect()
}

/// Describes the verdict on the application of the user.
pub(crate) fn fit(fit: &Fit) -> String {
    format!(
        "{} ({}, slack {}): {}",
        fit.application.name,
        series_words(fit.service, fit.route),
        Cell::Time(fit.application.slack_ns),
        xruns(fit)
    )
}

/// States what would change or decide the verdict on the application of the user.
pub(crate) fn fit_next(fit: &Fit) -> Option<String> {
    let narrower = fit
        .narrowed_by_ns
        .map(|ns| format!("record {} for a narrower interval", rough_time(ns, 1)));
    let next = match fit.verdict {
        Fitness::Fit => None,
        Fitness::NotFit => Some(enough(fit)),
        Fitness::Unknown => match fit.decided_by_ns {
            Some(ns) => Some(format!(
                "record {}; without an xrun in it, the verdict is FIT",
                rough_time(ns, DIGITS)
            )),
            None => resolution(fit),
        },
    };
    let parts: Vec<String> = next.into_iter().chain(narrower).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// States the number of buffers that at most one xrun per hour needs.
fn enough(fit: &Fit) -> String {
    let length = Cell::Time(fit.application.buffer_ns);
    match (fit.enough, fit.unfailing) {
        (
            Some(Enough {
                buffers,
                is_sure: true,
            }),
            _,
        ) => {
            format!("{buffers} buffers of {length} are enough for one xrun per hour")
        }
        (Some(Enough { buffers, .. }), _) => format!(
            "about {buffers} buffers of {length} are enough for one xrun per hour (estimate, not proved)"
        ),
        (None, _) if fit.waited_ns.is_some() => format!(
            "sufficient number of buffers of {length}: unknown, because a wakeup was still waiting when measuring ended"
        ),
        (None, Some(Unfailing { buffers, record_ns })) => format!(
            "{buffers} buffers of {length} had no xrun in the recording; record {} to decide",
            rough_time(record_ns, DIGITS)
        ),
        (None, None) => format!(
            "sufficient number of buffers of {length}: unknown; {}",
            resolution(fit).unwrap_or_else(|| "see `laggard qos --curve`".into())
        ),
    }
}

/// Describes the wait for a verdict on applications, or the reason why there is none.
pub(crate) fn missing_fits(missing: &MissingFits) -> String {
    match missing {
        MissingFits::NothingMeasured => "application fit: nothing was measured".into(),
        MissingFits::NoThread => {
            "application fit: the recording lacks a thread that could run an application".into()
        }
        MissingFits::WatchedThreads => {
            "application fit: the recording is of the threads of a program; `laggard attach --deadline` counts their deadline misses".into()
        }
        MissingFits::TooShort { applications, buffer_ns, min_ns } => format!(
            "{}: buffers of {} are too short to be replayed here; the shortest are about {}",
            listed(applications),
            Cell::Time(*buffer_ns),
            Cell::Time(*min_ns)
        ),
        MissingFits::OutOfRange { applications } => {
            format!("{}: the figures are out of range", listed(applications))
        }
    }
}

/// States how often an application has an xrun.
pub(crate) fn xruns(fit: &Fit) -> String {
    let is_waiting = fit.waited_ns.is_some();
    match &fit.apart {
        Some(apart) => qos::parted(apart, |figures| qos::rate(figures, is_waiting)),
        None => qos::rate(&fit.figures, is_waiting),
    }
}

/// Profiles of the catalogue with the same verdict.
#[derive(Debug)]
pub(crate) struct FitGroup<'a> {
    /// Word for the verdict.
    pub(crate) word: &'static str,
    /// Whether the verdict is good news.
    pub(crate) tone: Tone,
    /// Members, those with the least slack first.
    fits: Vec<&'a Fit>,
    kind: FitKind,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum FitKind {
    NotFit,
    /// No xrun in a recording that is too short to decide.
    NoneSeen,
    /// Any other reason for an unknown verdict.
    Uncertain,
    Fit,
}

impl FitKind {
    const ALL: [Self; 4] = [Self::NotFit, Self::Uncertain, Self::NoneSeen, Self::Fit];

    fn new(fit: &Fit) -> Self {
        match fit.verdict {
            Fitness::NotFit => Self::NotFit,
            Fitness::Fit => Self::Fit,
            Fitness::Unknown if fit.waited_ns.is_none() && fit.decided_by_ns.is_some() => {
                Self::NoneSeen
            }
            Fitness::Unknown => Self::Uncertain,
        }
    }
}

impl<'a> FitGroup<'a> {
    /// Groups profiles by verdict.
    pub(crate) fn divide(fits: &'a [Fit]) -> Vec<Self> {
        let groups = FitKind::ALL.into_iter().filter_map(|kind| {
            let members: Vec<&Fit> = fits
                .iter()
                .filter(|fit| FitKind::new(fit) == kind)
                .collect();
            let verdict = members.first()?.verdict;
            Some(Self {
                word: qos::verdict(verdict),
                tone: qos::tone(verdict),
                fits: members,
                kind,
            })
        });
        groups.collect()
    }

    /// Describes the group. Of several profiles that are not fit, only the best one has its
    /// rate.
    pub(crate) fn text(&self) -> String {
        let names: Vec<&str> = self
            .fits
            .iter()
            .map(|fit| fit.application.name.as_str())
            .collect();
        match (self.kind, self.fits.as_slice()) {
            (FitKind::Fit, _) => some_of(&names),
            (FitKind::NoneSeen, fits) => {
                let longest = fits
                    .iter()
                    .filter_map(|fit| fit.decided_by_ns)
                    .fold(0.0, f64::max);
                format!(
                    "{}: no xrun; record {} to decide",
                    some_of(&names),
                    rough_time(longest, DIGITS)
                )
            }
            (FitKind::NotFit | FitKind::Uncertain, [only]) => {
                format!("{}: {}", only.application.name, xruns(only))
            }
            (FitKind::NotFit, fits) => {
                let Some(best) = best(fits) else {
                    return some_of(&names);
                };
                format!(
                    "{} profiles; best: {}, {}",
                    fits.len(),
                    best.application.name,
                    xruns(best)
                )
            }
            (FitKind::Uncertain, _) => {
                format!(
                    "{}: rate of xruns uncertain, see `laggard qos`",
                    some_of(&names)
                )
            }
        }
    }
}

/// Returns the profile with the longest time between xruns.
fn best<'a>(fits: &[&'a Fit]) -> Option<&'a Fit> {
    let key = |fit: &Fit| fit.judged().mttf_high_ns.unwrap_or(f64::INFINITY);
    fits.iter()
        .copied()
        .max_by(|a, b| key(a).total_cmp(&key(b)))
}

fn some_of(names: &[&str]) -> String {
    match names.len() {
        count if count <= MAX_NAMED => names.join(", "),
        count => format!(
            "{} and {} others",
            names[..MAX_NAMED - 1].join(", "),
            count - (MAX_NAMED - 1)
        ),
    }
}

/// States the remedy if the recording is too coarse for an application.
fn resolution(fit: &Fit) -> Option<String> {
    qos::remedy(&fit.resolution)
}

/// States the amount and quality of the data.
pub(crate) fn data(overview: &Overview) -> String {
    let Measurement {
        samples,
        lost,
        overhead,
        warnings: _,
    } = overview.measurement;
    let samples = match (samples + lost, lost) {
        (0, _) => "No sample was recorded".to_owned(),
        // The end of a recording counts them.
        (total, 0) if overview.conditions.state == State::Running => {
            format!("{}, lost samples unknown", plural(total, "sample"))
        }
        (total, 0) => format!("{}, 0 lost", plural(total, "sample")),
        (total, lost) => format!("{} of {} lost", Cell::Count(lost), plural(total, "sample")),
    };
    let overhead = overhead.map_or_else(String::new, |overhead| {
        format!(
            "; overhead {} of {}",
            Cell::Share(overhead),
            qos::cpus(overview.conditions.cpus)
        )
    });
    format!("{samples}{overhead}")
}

/// Counts what the screen leaves out.
pub(crate) fn omitted(overview: &Overview) -> String {
    let count = |count: usize, name: &str, plural: &str| match count {
        0 => None,
        1 => Some(format!("1 {name}")),
        count => Some(format!("{count} {plural}")),
    };
    let more = [
        count(overview.measurement.warnings, "warning", "warnings"),
        count(overview.more_services, "series", "series"),
    ];
    let more: Vec<String> = more.into_iter().flatten().collect();
    if more.is_empty() {
        String::new()
    } else {
        format!("; --all: {}", more.join(", "))
    }
}

/// Counts the profiles of each verdict, and names the command that lists them.
pub(crate) fn brief_fits(overview: &Overview) -> String {
    let groups = FitGroup::divide(&overview.fits);
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for group in groups {
        match counts.iter_mut().find(|(word, _)| *word == group.word) {
            Some((_, count)) => *count += group.fits.len(),
            None => counts.push((group.word, group.fits.len())),
        }
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    let command = code(&format!("laggard qos {}", quoted(&overview.path)));
    format!("Application fit: {} ({command})", counts.join(", "))
}

/// States the next step. `is_brief`: without the command for other threads.
pub(crate) fn next(overview: &Overview, is_brief: bool) -> String {
    let command = |name: &str| code(&format!("laggard {name} {}", quoted(&overview.path)));
    let conditions = &overview.conditions;
    let watch = if is_brief || conditions.is_windows() || conditions.kernel.is_empty() {
        ""
    } else {
        "    (your own threads: `laggard attach PID`)"
    };
    if overview.late.is_some() {
        format!("Next: {}{watch}", command("why"))
    } else if overview.is_explained || overview.conditions.kernel.is_empty() {
        format!("Next: {}", command("report"))
    } else {
        "Next: `laggard doctor`".into()
    }
}
