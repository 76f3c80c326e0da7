//! From counted activations to the figures of a report.

use laggard_analyze::distribution::{Fold, Group};
use laggard_model::{Caveat, Manifest, Nanos, STAGES, Service, Stage};

use crate::figures::{Figures, HistogramView, RecordingReport, ServiceRow, StageRow};
use crate::sentences::sentences;
use crate::trust::trust;

/// A recording with its activations counted.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The recording's folder, as the user gave it.
    pub path: String,
    /// Its manifest.
    pub manifest: Manifest,
    /// What is missing from it or damaged.
    pub shortfalls: Vec<Caveat>,
    /// Its activations.
    pub fold: Fold,
    /// The latest expiry that was read; stands in for the end where the
    /// recording has none.
    pub last: Option<Nanos>,
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
    let mut report = RecordingReport {
        path,
        started: manifest.clock.start_wall,
        state: manifest.state,
        duration_ns: end.saturating_sub(start),
        backend: manifest.backend,
        plan: manifest.plan,
        load: manifest.load,
        host: manifest.host,
        trust: trust(
            &manifest.losses,
            services.iter().map(|row| row.latency.samples).sum(),
        ),
        services,
        stages,
        histograms,
        losses: manifest.losses,
        caveats: manifest.caveats,
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
        latency: Figures::of(&group.latency, start),
    }
}

/// The parts of the way to a service, each under its name in the field, and
/// the thread latency, which spans two of them.
fn stage_rows(group: &Group, start: Nanos) -> Vec<StageRow> {
    let key = group.key;
    // The timerlat tracer does not tell it.
    let has_irq = group.steps[Stage::Irq.index()].histogram().count() > 0;
    let mut rows: Vec<StageRow> = STAGES
        .into_iter()
        .filter(|_| key.service != Service::Irq)
        .filter(|stage| group.steps[stage.index()].histogram().count() > 0)
        .map(|stage| StageRow {
            service: key.service,
            route: key.route,
            stage,
            name: match stage {
                Stage::Expire if !has_irq => "timer handling (expiry to expire)".into(),
                _ => part_name(stage, before_waking(group)).into(),
            },
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
            name: "thread latency (waking to user)".into(),
            time: Figures::of(&group.thread, start),
        });
    }
    rows
}

/// The stage that most wakeups came from.
fn before_waking(group: &Group) -> Stage {
    let count = |stage: Stage| group.steps[stage.index()].histogram().count();
    [
        Stage::Signal,
        Stage::Softirq,
        Stage::Expire,
        Stage::IrqThread,
    ]
    .into_iter()
    .find(|&stage| count(stage) * 2 > count(Stage::Waking))
    .unwrap_or(Stage::Irq)
}

/// The name in the field of the part that ends at `stage`.
pub(crate) const fn part_name(stage: Stage, before_waking: Stage) -> &'static str {
    match (stage, before_waking) {
        (Stage::Irq, _) => "interrupt latency (expiry to irq)",
        (Stage::IrqThread, _) => "interrupt thread (irq to irq_thread)",
        (Stage::Expire, _) => "timer handling (irq to expire)",
        (Stage::Raise, _) => "softirq raise (irq to raise)",
        (Stage::Softirq, _) => "softirq latency (raise to softirq)",
        (Stage::Signal, _) => "softirq to signal",
        (Stage::Waking, Stage::Signal) => "irq_work hop (signal to waking)",
        (Stage::Waking, Stage::Softirq) => "wakeup (softirq to waking)",
        (Stage::Waking, Stage::IrqThread) => "wakeup (irq_thread to waking)",
        (Stage::Waking, Stage::Expire) => "wakeup (expire to waking)",
        (Stage::Waking, _) => "wakeup (irq to waking)",
        (Stage::Running, _) => "scheduling (waking to running)",
        (Stage::User, _) => "context switch (running to user)",
        (Stage::Worker, _) => "work queue (signal to worker)",
        (Stage::Kthread, _) => "kernel thread (expire to kthread)",
    }
}
