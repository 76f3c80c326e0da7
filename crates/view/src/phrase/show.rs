//! Sentences of `laggard show`.

use std::cmp::Ordering;

use laggard_answer::contexts::{
    BumpRow, ContextKind, ContextRow, ContextsReport, MIN_BUMP_SAMPLES, TurnEnd, later,
};
use laggard_answer::show::{RecordingReport, ServiceRow, Share, StageRow, named_losses};
use laggard_model::name::{part_name, series_words};
use laggard_model::text::{Unit, count, percent, rate, span};
use laggard_model::{Backend, CaveatKind, LoadLabel, Nanos, RowsOf, Stage, State};

use super::machine;

/// Cell of a wait that came before it was due.
pub(crate) const EARLY: &str = "early";
/// Shortest measurement with a share of overhead. In shorter ones, start and end dominate.
const MIN_FOR_SHARES: Nanos = Nanos::from_ms(100);

/// Describes the conditions of a recording, one fact per line.
pub(crate) fn conditions(report: &RecordingReport) -> Vec<String> {
    let host = &report.host;
    let state = match &report.state {
        State::Complete => String::new(),
        State::Running => ", no end (still running, or killed)".into(),
        State::Interrupted => ", ended early on request".into(),
        State::Failed { error } => format!(", FAILED: {error}"),
    };
    let mut lines = vec![format!(
        "{} from {}{state}, {}",
        span(report.duration_ns),
        report.started,
        load(report)
    )];
    let awake = if report.plan.held_awake {
        ", without CPU idle states"
    } else {
        ""
    };
    lines.push(format!(
        "Source: {}; {}{awake}",
        measured_with(report),
        report.plan.rhythm()
    ));
    let processor = Some(&host.processor.model).filter(|model| !model.is_empty());
    let machine = [Some(machine(host)), processor.cloned()];
    let machine: Vec<String> = machine.into_iter().flatten().collect();
    let machine = machine.join(", ");
    if !machine.is_empty() {
        lines.push(machine);
    }
    let throughput = report
        .load
        .as_ref()
        .and_then(|load| load.throughput.as_ref());
    if let Some(work) = throughput
        && let Some(per_second) = work.per_second()
    {
        lines.push(format!(
            "Throughput of the load: {}",
            rate(per_second, &work.unit)
        ));
    }
    lines
}

fn load(report: &RecordingReport) -> String {
    let label = LoadLabel::of(report.load.as_ref());
    label
        .load()
        .map_or_else(|| "no load".into(), |load| format!("load {load}"))
}

/// Describes a recording in one line.
pub(crate) fn recording(report: &RecordingReport) -> String {
    let rows = report.plan.rows.words(report.plan.period_ns);
    let early = match report.plan.rows.early() {
        0 => None,
        early => Some(format!("{} of them early", count(early))),
    };
    let parts = [
        Some(span(report.duration_ns)),
        Some(load(report)),
        rows,
        early,
        Some(report.host.system()),
    ];
    let parts = parts.into_iter().flatten();
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

/// Names the source of the samples and the stages that it sees.
pub(crate) fn measured_with(report: &RecordingReport) -> String {
    match report.plan.rows {
        RowsOf::Expiries => {}
        RowsOf::HandOvers { .. } => return "`laggard bench switch`".into(),
        RowsOf::Waits { .. } => return "`laggard bench timers`".into(),
        RowsOf::Activations => return "`laggard attach`".into(),
        RowsOf::Traced => return "`laggard import`".into(),
    }
    let of_driver = report.services.iter().any(|row| row.service.is_of_driver());
    match report.backend {
        Backend::User if of_driver => "threads; driver wdmlat.sys for DPC and kernel thread".into(),
        Backend::Etw => "threads; kernel events (ETW) for waking and running".into(),
        Backend::User if report.host.is_windows() => "threads (expiry and user stage only)".into(),
        Backend::Bpf => match report.plan.stages.as_deref() {
            None => "eBPF, all stages".into(),
            Some([]) => "eBPF, no stages on the way".into(),
            Some(stages) => {
                let names: Vec<&str> = stages.iter().map(|stage: &Stage| stage.name()).collect();
                format!("eBPF, stages {}", names.join(", "))
            }
        },
        Backend::Perf => "perf tracepoints, stages of threads".into(),
        Backend::User => {
            "threads without eBPF (expiry, user and, if allowed, running stage)".into()
        }
        Backend::Tracer => "timerlat tracer (expire and kthread stage)".into(),
        Backend::Driver => "driver wdmlat.sys (DPC and kernel thread)".into(),
        Backend::Fake => "a script, NOT a measurement".into(),
        Backend::Imported => "another program".into(),
    }
}

/// Names a part of the way to a service. The time from the wakeup of a thread to its first
/// instruction has no established name: rtla's `thread latency` counts from the expiry, as does
/// the latency of a thread service here, and its wakeup latency ends where the thread is switched
/// in.
pub(crate) fn part(row: &StageRow) -> String {
    match row.since {
        // The thread latency of OSDI'99.
        Some(Stage::Softirq) if row.is_span => "softirq to user (all parts)".into(),
        _ if row.is_span => "wakeup to user (waking to user)".into(),
        _ => part_name(row.stage, row.since),
    }
}

/// Returns the start of a latency.
pub(crate) fn start(report: &RecordingReport) -> &'static str {
    let is_external = || {
        let mut caveats = report.caveats.iter();
        caveats.any(|caveat| caveat.kind == CaveatKind::ExternalSource)
    };
    match report.plan.rows {
        RowsOf::Traced => "the start of a handler or a wait",
        RowsOf::Activations => "the event that woke a thread (a timer: its expiry)",
        RowsOf::Expiries | RowsOf::HandOvers { .. } | RowsOf::Waits { .. } => {
            if is_external() {
                "the raising of the interrupt"
            } else {
                "the programmed expiry"
            }
        }
    }
}

/// Returns the end of a latency.
pub(crate) const fn end(report: &RecordingReport) -> &'static str {
    match report.plan.rows {
        RowsOf::Activations => "its next sleep, including its execution time",
        RowsOf::Traced => "its end",
        RowsOf::Expiries | RowsOf::HandOvers { .. } | RowsOf::Waits { .. } => {
            "the first instruction of the service"
        }
    }
}

/// Defines the latency of a recording.
pub(crate) fn latency(report: &RecordingReport) -> String {
    report.plan.rows.latency().map_or_else(
        || format!("Latency from {} to {}", start(report), end(report)),
        |latency| format!("Latency {latency}"),
    )
}

/// Explains the columns of quantiles.
const QUANTILES: &str = "Quantiles are at most 1.09 % too high (upper edge of their bucket).";
/// Explains the column of missed expiries.
const MISSED: &str = "Missed: the expiry passed while the service was still busy. All figures except min count these with the time until the service next ran.";

/// Returns whether a note explains a column and has no fact about the recording.
pub(crate) fn is_legend(note: &str) -> bool {
    [QUANTILES, MISSED].contains(&note)
}

/// Explains the figures: their precision, and why some are bounds or missing.
pub(crate) fn figures(report: &RecordingReport) -> Vec<String> {
    let rows = &report.services;
    let shares = || rows.iter().flat_map(|row| &row.latency.quantiles);
    let mut notes: Vec<String> = Vec::new();
    if shares().any(|share| share.ns.is_some()) {
        notes.push(QUANTILES.into());
    }
    if rows.iter().any(|row| row.missed > 0) {
        notes.push(MISSED.into());
    }
    if !report.waiting.is_empty() {
        let waiting: u64 = report
            .waiting
            .iter()
            .map(|series| series.still_waiting)
            .sum();
        notes.push(format!(
            ">=: lower bound. {} still waiting when measuring ended, and count{} with the time that {} had waited.",
            match waiting {
                1 => "1 wakeup was".to_owned(),
                waiting => format!("{} wakeups were", count(waiting)),
            },
            if waiting == 1 { "s" } else { "" },
            if waiting == 1 { "it" } else { "they" }
        ));
    }
    let early = report.plan.rows.early();
    if early > 0 {
        let samples = rows.iter().map(|row| row.latency.samples).sum();
        notes.push(format!(
            "{EARLY}: before the wait was due, as {} of {} waits. By how much is not recorded, so mean and standard deviation are unknown.",
            count(early),
            count(samples)
        ));
    }
    notes.extend(lossy(rows));
    notes.extend(unsupported(report));
    notes
}

/// Names the series whose quantiles are bounds because samples were lost, those with the most
/// lost samples first.
fn lossy(rows: &[ServiceRow]) -> Option<String> {
    let is_bound = |share: &Share| share.low_ns.is_some() || share.is_at_least;
    let is_lossy = |row: &&ServiceRow| row.lost > 0 && row.latency.quantiles.iter().any(is_bound);
    let mut lost: Vec<(String, u64)> = Vec::new();
    for row in rows.iter().filter(is_lossy) {
        let name = series_words(row.service, row.route);
        // Each CPU or minute can have a row of its own.
        match lost.iter_mut().find(|(known, _)| *known == name) {
            Some((_, most)) => *most = row.lost.max(*most),
            None => lost.push((name, row.lost)),
        }
    }
    if lost.is_empty() {
        return None;
    }
    lost.sort_by_key(|(_, most)| std::cmp::Reverse(*most));
    let series = lost
        .iter()
        .map(|(name, most)| format!("{name} up to {}", count(*most)));
    let series: Vec<String> = series.collect();
    Some(format!(
        "Bounds (>=, to): lost samples can have any latency: {}.",
        series.join(", ")
    ))
}

/// States the number of samples that each missing quantile needs.
fn unsupported(report: &RecordingReport) -> Option<String> {
    let mut needs: Vec<&Share> = report
        .services
        .iter()
        .flat_map(|row| &row.latency.quantiles)
        .filter(|share| share.needs_samples.is_some())
        .collect();
    needs.sort_by(|a, b| a.q.total_cmp(&b.q));
    needs.dedup_by(|a, b| a.q.total_cmp(&b.q).is_eq());
    let needs = needs.iter().filter_map(|share| {
        let samples = count(share.needs_samples?);
        Some(format!("p{} needs {samples} samples", percent(share.q)))
    });
    let needs: Vec<String> = needs.collect();
    (!needs.is_empty()).then(|| format!("-: too few samples; {}.", needs.join(", ")))
}

/// States the lost samples and the reasons.
pub(crate) fn losses(report: &RecordingReport) -> String {
    if report.plan.rows == RowsOf::Traced {
        return format!(
            "Lost: the warnings list the losses of the trace; not written {}",
            count(report.losses.not_written)
        );
    }
    if report.state == State::Running && report.losses.activations() == 0 {
        return "Lost: unknown (the recording was not ended)".into();
    }
    let reasons: Vec<String> = named_losses(&report.losses)
        .map(|(name, number)| format!("{name} {}", count(number)))
        .collect();
    format!(
        "Lost: {} samples; {}",
        count(report.losses.activations()),
        reasons.join(", ")
    )
}

/// States what measuring took from the machine.
pub(crate) fn overhead(report: &RecordingReport) -> Vec<String> {
    let cost = &report.cost;
    if !report.plan.rows.are_expiries() {
        return vec!["Overhead: not counted".into()];
    }
    if cost.wall_ns == Nanos::ZERO {
        return vec!["Overhead: unknown (the recording was not ended)".into()];
    }
    if cost.wall_ns < MIN_FOR_SHARES {
        return vec![format!(
            "Overhead: {} of CPU time in {}, too short for a share",
            cost.total(),
            cost.wall_ns
        )];
    }
    let share = |time: Nanos| 100.0 * time.ns() as f64 / cost.wall_ns.ns() as f64;
    let bpf = cost
        .programs
        .iter()
        .fold(Nanos::ZERO, |sum, program| sum + program.run_ns);
    let faults = if report.host.is_windows() {
        // Windows does not count page faults per thread.
        "page faults not counted".into()
    } else {
        format!(
            "{} page faults while measuring",
            count(cost.measuring_faults)
        )
    };
    let outside = match cost.outside_cpu_ns {
        Nanos::ZERO => String::new(),
        time => format!(
            "; {:.2} s of CPU time to start and finish",
            time.as_secs_f64()
        ),
    };
    let mut lines = vec![format!(
        "Overhead: {:.2} % of one CPU (measuring threads {:.2} %, BPF {:.2} %, collecting and writing {:.2} %), {:.1} MB written, {:.1} MB resident, {faults}{outside}",
        share(cost.total()),
        share(cost.measuring_cpu_ns),
        share(bpf),
        share(cost.other_cpu_ns),
        cost.written_bytes as f64 / 1e6,
        cost.resident_bytes as f64 / 1e6,
    )];
    let programs: Vec<String> = cost
        .programs
        .iter()
        .filter(|program| program.runs > 0)
        .map(|program| format!("{} {} ns", program.name, program.run_ns.ns() / program.runs))
        .collect();
    if !programs.is_empty() {
        lines.push(format!(
            "Time per run of a BPF program: {}",
            programs.join(", ")
        ));
    }
    lines
}

/// Returns the name of a context of deferred work.
pub(crate) const fn context(context: ContextKind) -> &'static str {
    match context {
        ContextKind::Any => "any context",
        ContextKind::Worker => "kworker",
        ContextKind::Boosted => "boosted thread",
        ContextKind::Lent => "boosted by PI futex",
        ContextKind::Niced => "boosted by nice",
        ContextKind::Sliced => "boosted by slice",
        ContextKind::Woken => "plain thread, asleep",
        ContextKind::Plain => "plain thread, busy",
    }
}

/// Returns the title of the table of contexts.
pub(crate) fn contexts_title(report: &ContextsReport) -> String {
    format!(
        "Deferred work next to {} on CPU {}",
        busy(report),
        report.beside.cpu
    )
}

fn busy(report: &ContextsReport) -> String {
    match report.beside.busy.number() {
        0 => "the load".into(),
        1 => "1 busy process".into(),
        processes => format!("{processes} busy processes"),
    }
}

/// States the order of the contexts, the effect of nice, and the bumps of each context.
pub(crate) fn contexts(report: &ContextsReport) -> Vec<String> {
    let nice = report.has_autogroups.then(|| nice(report)).flatten();
    let bumps = report.rows.iter().filter_map(|row| bumps(row, report));
    order(report).into_iter().chain(nice).chain(bumps).collect()
}

fn row(report: &ContextsReport, context: ContextKind) -> Option<&ContextRow> {
    report.rows.iter().find(|row| row.context == context)
}

/// Compares the mean latencies with the order in Heubaum's tables.
fn order(report: &ContextsReport) -> Option<String> {
    let contexts = [ContextKind::Any, ContextKind::Boosted, ContextKind::Plain];
    let [any, boosted, plain] = contexts.map(|context| row(report, context));
    let (any, boosted, plain) = (any?, boosted?, plain?);
    let steps = [later(any, boosted), later(boosted, plain)];
    let order = if steps.contains(&Some(Ordering::Less)) {
        "not in the order of Heubaum's Tables 3 to 5"
    } else if steps.contains(&None) {
        "too few samples to compare the order with Heubaum's Tables 3 to 5"
    } else {
        "each later than the one before, as in Heubaum's Tables 3 to 5"
    };
    let mean = |row: &ContextRow| {
        let mean = Unit::Auto.write(row.mean_ns?);
        let sign = if row.is_at_least { ">= " } else { "" };
        Some(format!("{sign}{mean}"))
    };
    Some(format!(
        "Mean latency of work next to {} on CPU {}: any context {}, boosted thread {}, plain busy thread {}: {order}.",
        busy(report),
        report.beside.cpu,
        mean(any)?,
        mean(boosted)?,
        mean(plain)?,
    ))
}

/// States that nice has no effect across sessions, if the niced thread is later than the
/// real-time one.
fn nice(report: &ContextsReport) -> Option<String> {
    let boosted = row(report, ContextKind::Boosted)?;
    let niced = row(report, ContextKind::Niced)?;
    (later(boosted, niced) == Some(Ordering::Greater)).then(|| {
        format!(
            "nice counts only within a session here (autogroup). While other sessions use that CPU, {} waits with all threads of laggard.",
            niced.service
        )
    })
}

/// States the position in the run queue of a thread that is woken once per period.
fn bumps(row: &ContextRow, report: &ContextsReport) -> Option<String> {
    let who = format!("{} ({})", context(row.context), row.service);
    let Some(bumps) = &row.bumps else {
        if row.context != ContextKind::Plain {
            return None;
        }
        return Some(if row.samples < MIN_BUMP_SAMPLES {
            format!(
                "Bumps in the latency of the {who}: unknown from {} samples; {} samples take {}.",
                count(row.samples),
                count(MIN_BUMP_SAMPLES),
                span(report.period_ns * MIN_BUMP_SAMPLES)
            )
        } else {
            format!("The latency of the {who} does not have three evenly spaced bumps.")
        });
    };
    let mut places = vec![format!("{} % waited for none", percentage(bumps.at_once))];
    for (place, share) in bumps.positions.iter().enumerate() {
        let turns = if place == 0 {
            "for 1 turn to end".to_owned()
        } else {
            format!("for {}", place + 1)
        };
        places.push(format!("{} % {turns}", percentage(*share)));
    }
    if bumps.beyond > 0.0 {
        places.push(format!("{} % longer", percentage(bumps.beyond)));
    }
    Some(format!(
        "The latency of the {who} has bumps every {}, {}: {}.",
        Unit::Auto.write(bumps.every_ns),
        spacing(bumps, report.turn),
        places.join(", ")
    ))
}

/// Compares the spacing of bumps with the length of a turn.
fn spacing(bumps: &BumpRow, turn: TurnEnd) -> String {
    /// Relative difference up to which a spacing is a whole number of turns.
    const MAX_DIFFERENCE: f64 = 0.02;
    let turns = bumps.every_ns / turn.every_ns.as_f64();
    let number = turns.round();
    let is_whole = number >= 1.0 && (turns - number).abs() < MAX_DIFFERENCE * number;
    let length = Unit::Auto.write_nanos(turn.every_ns);
    match (is_whole, turn.is_tick) {
        (true, true) if number < 1.5 => format!("the scheduler's turn: one tick of {length}"),
        (true, true) => format!("the scheduler's turn: {number:.0} ticks of {length}"),
        (true, false) if number < 1.5 => "one turn of the busy processes".into(),
        (true, false) => format!("{number:.0} turns of the busy processes"),
        (false, true) => format!("not a whole number of ticks of {length}"),
        (false, false) => format!("and not the {length} of their turns"),
    }
}

fn percentage(share: f64) -> String {
    match share {
        share if share > 0.0 && share < 0.005 => "under 1".into(),
        share => percent((share * 100.0).round() / 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spacing_is_compared_with_the_turn() {
        let tick = TurnEnd {
            every_ns: Nanos::from_ms(4),
            is_tick: true,
        };
        let own = TurnEnd {
            every_ns: Nanos::from_ms(10),
            is_tick: false,
        };
        for (every_ns, turn, expected) in [
            (4.02e6, tick, "the scheduler's turn: one tick of 4.00 ms"),
            (8.0e6, tick, "the scheduler's turn: 2 ticks of 4.00 ms"),
            (5.0e6, tick, "not a whole number of ticks of 4.00 ms"),
            (10.0e6, own, "one turn of the busy processes"),
            (4.0e6, own, "and not the 10.0 ms of their turns"),
        ] {
            let bumps = BumpRow {
                every_ns,
                error_ns: 0.0,
                first_ns: 0.0,
                at_once: 0.5,
                positions: Vec::new(),
                beyond: 0.0,
            };

            assert_eq!(spacing(&bumps, turn), expected);
        }
    }

    #[test]
    fn small_share_is_not_none() {
        assert_eq!(percentage(0.004), "under 1");
        assert_eq!(percentage(0.0), "0");
        assert_eq!(percentage(0.126), "13");
    }
}
