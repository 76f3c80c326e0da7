//! From counted activations to the figures of a report.

use std::cmp::Reverse;

use laggard_analyze::distribution::{Group, LineSum};
use laggard_model::name::part_name;
use laggard_model::{Line, Nanos, STAGES, Stage};

use super::sentences::sentences;
use super::{Figures, HistogramView, Measured, RecordingReport, ServiceRow, StageRow, Waiting};
use crate::trust::{Case, judge};

/// The report of one recording, CPU by CPU where `by_cpu`.
pub fn recording(measured: Measured, by_cpu: bool) -> RecordingReport {
    let Measured {
        path,
        manifest,
        shortfalls,
        fold,
        last,
    } = measured;
    let start = manifest.clock.start_ns;
    let end = manifest.clock.end_ns.or(last).unwrap_or(start);
    let groups = fold.groups(&manifest.lines, by_cpu);
    let services: Vec<ServiceRow> = groups
        .iter()
        .map(|group| service_row(group, start))
        .collect();
    let stages = fold
        .groups(&manifest.lines, false)
        .iter()
        .filter(|group| group.key.part.is_none())
        .flat_map(|group| stage_rows(group, start))
        .collect();
    let histograms = groups
        .iter()
        .map(|group| HistogramView {
            service: group.key.service,
            route: group.key.route,
            cpu: group.key.cpu,
            minute: group.key.part,
            buckets: group.latency.histogram().buckets().collect(),
        })
        .collect();
    let sums = fold.sums();
    let judged = judge(&Case::of(&manifest, &sums));
    let waiting = waiting(&manifest.lines, &sums);
    let mut caveats = manifest.caveats;
    caveats.extend(judged.caveats);
    let mut report = RecordingReport {
        path,
        started: manifest.clock.start_wall,
        state: manifest.state,
        duration_ns: end.saturating_sub(start),
        backend: manifest.backend,
        plan: manifest.plan,
        load: manifest.load,
        host: manifest.host,
        trust: judged.trust,
        services,
        waiting,
        stages,
        histograms,
        losses: manifest.losses,
        caveats,
        shortfalls,
        cost: manifest.cost,
        sentences: Vec::new(),
    };
    report.sentences = sentences(&report);
    report
}

fn service_row(group: &Group, start: Nanos) -> ServiceRow {
    ServiceRow {
        service: group.key.service,
        route: group.key.route,
        cpu: group.key.cpu,
        minute: group.key.part,
        missed: group.missed,
        still_waiting: group.censored.histogram().count(),
        lost: group.lost,
        latency: Figures::of_group(group, start),
    }
}

/// The lines that were still waiting when measuring ended, the longest first.
pub fn waiting(lines: &[Line], sums: &[LineSum]) -> Vec<Waiting> {
    let mut all: Vec<Waiting> = lines
        .iter()
        .zip(sums)
        .filter_map(|(line, sum)| {
            Some(Waiting {
                service: line.service,
                route: line.route,
                cpu: line.cpu,
                served: sum.served,
                still_waiting: sum.censored,
                at_least_ns: sum.waited?,
            })
        })
        .collect();
    all.sort_by_key(|one| Reverse(one.at_least_ns));
    all
}

/// From the wakeup of a thread to its first instruction. The field has no name
/// for it: rtla's `thread latency` counts from the expiry, as does the latency
/// of a thread service here, and its wakeup latency ends where the thread is
/// switched in.
pub(super) const WAKEUP_TO_USER: &str = "wakeup to user (waking to user)";

/// The parts of the way to a service, each under its name in the field, and
/// [`WAKEUP_TO_USER`], which spans two of them.
fn stage_rows(group: &Group, start: Nanos) -> Vec<StageRow> {
    let key = group.key;
    let mut rows: Vec<StageRow> = STAGES
        .into_iter()
        .filter(|_| key.service.has_lines())
        .filter(|stage| group.steps[stage.index()].histogram().count() > 0)
        .map(|stage| StageRow {
            service: key.service,
            route: key.route,
            stage,
            name: part_name(stage, stage_before(group, stage)),
            time: Figures::of(&group.steps[stage.index()], start),
        })
        .collect();
    // A single part is the latency itself.
    if rows.len() == 1 {
        rows.clear();
    }
    if group.thread.histogram().count() > 0 {
        rows.push(StageRow {
            service: key.service,
            route: key.route,
            stage: Stage::User,
            name: WAKEUP_TO_USER.into(),
            time: Figures::of(&group.thread, start),
        });
    }
    rows
}

/// The stage before `stage` that most of its activations have; `None`: none,
/// their expiry.
fn stage_before(group: &Group, stage: Stage) -> Option<Stage> {
    let count = |stage: Stage| group.steps[stage.index()].histogram().count();
    // An activation has one of the two interrupts; the more frequent stands for
    // both.
    let interrupts = [Stage::Irq, Stage::IrqElsewhere];
    let either = interrupts.map(count).into_iter().sum();
    let rarer = interrupts[usize::from(count(Stage::IrqElsewhere) <= count(Stage::Irq))];
    STAGES[..stage.index()]
        .iter()
        .copied()
        .filter(|&before| before != rarer)
        .rfind(|&before| {
            let before = match interrupts.contains(&before) {
                true => either,
                false => count(before),
            };
            before * 2 > count(stage)
        })
}
