//! Converts counted wakeups to the figures of a report.

use std::num::NonZeroUsize;

use laggard_analyze::distribution::Group;
use laggard_model::{Manifest, Nanos, Route, STAGES, Service, Stage};
use laggard_record::Recording;

use super::measured::{By, Measured, measured};
use super::{Figures, HistogramView, RecordingReport, RunDelayRow, ServiceRow, StageRow};
use crate::contexts::contexts;
use crate::load::LoadError;
use crate::trust::{Case, judge};
use crate::waiting::waiting;

/// Reads a recording, on `threads` threads at most, and says what is in it.
///
/// # Errors
/// If minutes are requested and the recording does not distinguish them.
pub fn report(
    from: &Recording,
    by: By,
    threads: NonZeroUsize,
) -> Result<RecordingReport, LoadError> {
    Ok(recording(measured(from, by, threads)?, by == By::Cpu))
}

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
    let together = fold.groups(&manifest.lines, false);
    let by_session = manifest.host.settings.autogroup == Some(true);
    let contexts = contexts(&manifest.plan, &together, by_session);
    let stages = together
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
    let judged = judge(&Case::new(&manifest, &sums));
    let waiting = waiting(&manifest.lines, &sums);
    let run_delays = run_delays(&manifest);
    RecordingReport {
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
        contexts,
        stages,
        run_delays,
        histograms,
        losses: manifest.losses,
        caveats: manifest.caveats,
        doubts: judged.doubts,
        shortfalls,
        cost: manifest.cost,
    }
}

/// Returns the mean waiting time of each service over all CPUs.
fn run_delays(manifest: &Manifest) -> Vec<RunDelayRow> {
    let mut totals: Vec<((Service, Route), u64, u64)> = Vec::new();
    for (line, count) in manifest.lines.iter().zip(&manifest.counts) {
        let Some(delay) = count.run_delay else {
            continue;
        };
        let series = (line.service, line.route);
        let total = totals.iter_mut().find(|(key, ..)| *key == series);
        match total {
            Some((_, total_ns, switch_ins)) => {
                *total_ns = total_ns.saturating_add(delay.total_ns.ns());
                *switch_ins = switch_ins.saturating_add(delay.switch_ins);
            }
            None => totals.push((series, delay.total_ns.ns(), delay.switch_ins)),
        }
    }
    totals
        .into_iter()
        .filter(|&(.., switch_ins)| switch_ins > 0)
        .map(|((service, route), total_ns, switch_ins)| RunDelayRow {
            service,
            route,
            mean_ns: total_ns as f64 / switch_ins as f64,
            switch_ins,
        })
        .collect()
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

/// Returns the parts of the way to a service, and spans of several parts up to its first
/// instruction: from the wakeup of a thread, and from the softirq.
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
            since: stage_before(group, stage),
            is_span: false,
            share: None,
            time: Figures::of(&group.steps[stage.index()], start),
        })
        .collect();
    // A single part is the latency itself.
    if rows.len() == 1 {
        rows.clear();
    }
    set_shares(&mut rows);
    // For a watched thread, this span is the stage `running`, which already has a row.
    let is_watched = matches!(key.service, Service::Task(_) | Service::Traced(_));
    // The softirq itself ends there. Recordings of the tail have the span of kept wakeups alone.
    let softirqs = group.steps[Stage::Softirq.index()].histogram().count();
    let has_more =
        key.service != Service::Softirq && group.after_softirq.histogram().count() == softirqs;
    for (since, span, is_shown) in [
        (Stage::Waking, &group.thread, !is_watched),
        (Stage::Softirq, &group.after_softirq, has_more),
    ] {
        if is_shown && span.histogram().count() > 0 {
            rows.push(StageRow {
                service: key.service,
                route: key.route,
                stage: Stage::User,
                since: Some(since),
                is_span: true,
                share: None,
                time: Figures::of(span, start),
            });
        }
    }
    rows
}

/// Sets the shares of the parts of one series in the sum of their times.
fn set_shares(rows: &mut [StageRow]) {
    let sum = |row: &StageRow| row.time.mean_ns.unwrap_or(0.0) * row.time.samples as f64;
    let total: f64 = rows.iter().map(sum).sum();
    for row in rows.iter_mut().filter(|_| total > 0.0) {
        row.share = Some(sum(row) / total);
    }
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
            let before = if interrupts.contains(&before) {
                either
            } else {
                count(before)
            };
            before * 2 > count(stage)
        })
}
