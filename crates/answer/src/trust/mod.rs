//! Trustworthiness of a recording's figures.
//!
//! The limits are stated in `docs/method.md`; change them there too.

// A new variant needs a decision here.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod lines;
mod reason;
mod stages;

use laggard_analyze::distribution::LineSum;
use laggard_model::{
    Caveat, CaveatKind, Line, LineCount, LossReason, Losses, Manifest, Nanos, OwnCost, Service,
};
use schemars::JsonSchema;
use serde::Serialize;

pub use reason::{CpuCost, Distrust, LinePart, MeasuringRemedy, UnseenIn, UnseenStage};

/// Minimum number of latencies that describe a machine. A command that fails at once allows only a
/// few.
const FEWEST: u64 = 20;

/// Minimum time for expressing the overhead as a rate. In shorter runs, start and end dominate.
const LEAST_WALL: Nanos = Nanos::from_ms(100);

/// If more than one wakeup in this number is lost, the tail is unreliable, because late wakeups are
/// the most likely to be lost.
pub const LOST_IN: u64 = 1_000;

/// Measuring is reported as a load if it takes this share of the measured CPUs' time or more, 0 to
/// 1.
const COST_NAMED: f64 = 0.05;

/// Whether the figures can be trusted.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict", content = "why")]
pub enum Trust {
    /// All checks passed.
    Good,
    /// They cannot: for these reasons.
    None(Vec<Distrust>),
}

impl Trust {
    /// Returns the reasons why the figures cannot be trusted.
    pub fn reasons(&self) -> &[Distrust] {
        match self {
            Self::Good => &[],
            Self::None(reasons) => reasons,
        }
    }
}

/// Input of the judgement of a recording or a run.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    pub lines: &'a [Line],
    /// Lost and planned wakeups of each line.
    pub counts: &'a [LineCount],
    /// Wakeups that were read, per line.
    pub sums: &'a [LineSum],
    pub losses: &'a Losses,
    /// Overhead.
    pub cost: &'a OwnCost,
    /// Warnings from before and during the measurement.
    pub caveats: &'a [Caveat],
}

impl<'a> Case<'a> {
    /// Creates the input from a recording whose sums were read.
    pub fn new(manifest: &'a Manifest, sums: &'a [LineSum]) -> Self {
        Self {
            lines: &manifest.lines,
            counts: &manifest.counts,
            sums,
            losses: &manifest.losses,
            cost: &manifest.cost,
            caveats: &manifest.caveats,
        }
    }

    fn samples(&self) -> u64 {
        self.sums.iter().map(|sum| sum.served + sum.missed).sum()
    }
}

/// Verdict, and warnings that do not invalidate the figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Whether the figures can be trusted.
    pub trust: Trust,
    /// Problems of the measurement that do not invalidate the figures.
    pub doubts: Vec<Distrust>,
}

/// Judges a recording by its losses, per line and in total, by unobserved stages, by the overhead,
/// and by the scheduling of its threads. Other warnings do not invalidate the figures. They
/// describe the conditions of the measurement.
pub fn judge(case: &Case<'_>) -> Judgement {
    let mut reasons = Vec::new();
    let mut doubts = Vec::new();
    let samples = case.samples();
    if samples == 0 {
        reasons.push(Distrust::Empty);
    } else if samples < FEWEST {
        reasons.push(Distrust::TooFew { samples });
    }
    let losses = case.losses;
    let lost = losses.activations();
    if lost > 0 && lost.saturating_mul(LOST_IN) > samples + lost {
        reasons.push(Distrust::Lost {
            lost,
            of: samples + lost,
            remedy: against(case),
        });
    }
    reasons.extend(lines::reasons(case));
    if losses.clock_back.saturating_mul(LOST_IN) > samples {
        reasons.push(Distrust::ClockBack {
            times: losses.clock_back,
        });
    }
    let unseen = stages::judge(case);
    reasons.extend(unseen.reasons);
    doubts.extend(unseen.doubts);
    let rescheduled = |caveat: &&Caveat| caveat.kind == CaveatKind::Rescheduled;
    let rescheduled = case.caveats.iter().filter(rescheduled).cloned();
    reasons.extend(rescheduled.map(|warning| Distrust::Rescheduled { warning }));
    let incomplete = |caveat: &&Caveat| caveat.kind == CaveatKind::TraceIncomplete;
    let incomplete = case.caveats.iter().filter(incomplete).cloned();
    reasons.extend(incomplete.map(|warning| Distrust::TraceIncomplete { warning }));
    if let Some(cost) = own_cost(case) {
        let remedy = lighter(case);
        let overhead = Distrust::OwnCost { cost, remedy };
        if cost.share() > OwnCost::TOO_MUCH {
            reasons.push(overhead);
        } else if cost.share() > COST_NAMED {
            doubts.push(overhead);
        }
    }
    Judgement {
        trust: if reasons.is_empty() {
            Trust::Good
        } else {
            Trust::None(reasons)
        },
        doubts,
    }
}

/// Returns the remedy for the reason that caused most losses.
fn against(case: &Case<'_>) -> MeasuringRemedy {
    let most = case
        .losses
        .iter()
        .filter(|(reason, _)| reason.is_of_activations())
        .max_by_key(|(_, count)| *count);
    let Some((reason, 1..)) = most else {
        return lighter(case);
    };
    match reason {
        LossReason::NotWritten => MeasuringRemedy::FasterDisk,
        LossReason::Foreign => MeasuringRemedy::StayPut,
        LossReason::Stopped => MeasuringRemedy::Uninterrupted,
        LossReason::Unserved => MeasuringRemedy::LetRun,
        LossReason::NotRaised if case.lines.iter().any(|line| line.service.is_of_driver()) => {
            MeasuringRemedy::InTurn
        }
        LossReason::NotRaised => MeasuringRemedy::RaiseLess,
        LossReason::RingFull
        | LossReason::ClockBack
        | LossReason::OutOfOrder
        | LossReason::ExpireUnseen
        | LossReason::IrqShared
        | LossReason::WakingUnseen
        | LossReason::ArmedLate
        | LossReason::SignalFailed
        | LossReason::Recursion => lighter(case),
    }
}

/// Returns a remedy that reduces the overhead, according to its largest part. Each remedy shows
/// less.
fn lighter(case: &Case<'_>) -> MeasuringRemedy {
    let programs = case.cost.programs.iter();
    let recorder = programs.filter(|program| program.is_of_flight_recorder());
    let recorder = recorder.fold(Nanos::ZERO, |sum, program| sum + program.run_ns);
    if recorder * 2 > case.cost.total() {
        return MeasuringRemedy::NoEpisodes;
    }
    let is_task = |line: &Line| matches!(line.service, Service::Task(_));
    if case.lines.iter().any(is_task) {
        return MeasuringRemedy::FewerThreads;
    }
    let first = case.lines.first().map(|line| (line.service, line.route));
    let mut lines = case.lines.iter();
    MeasuringRemedy::Less {
        several_services: lines.any(|line| Some((line.service, line.route)) != first),
    }
}

/// Returns the overhead; `None` if the run was too short.
fn own_cost(case: &Case<'_>) -> Option<CpuCost> {
    let cost = case.cost;
    let mut cpus: Vec<_> = case.lines.iter().map(|line| line.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    (cost.wall_ns >= LEAST_WALL && !cpus.is_empty()).then(|| CpuCost {
        busy: cost.total().as_f64() / cost.wall_ns.as_f64(),
        cpus: cpus.len(),
    })
}
