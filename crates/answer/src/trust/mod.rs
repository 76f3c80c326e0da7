//! Whether a recording's figures can be trusted.
//!
//! The limits are stated in `docs/method.md`; change them there too.

mod lines;
mod reason;
mod stages;

use laggard_analyze::distribution::LineSum;
use laggard_model::{
    Caveat, CaveatKind, Line, LineCount, LossReason, Losses, Manifest, Nanos, OwnCost,
};
use schemars::JsonSchema;
use serde::Serialize;

pub use reason::{CpuCost, Distrust, LinePart, MeasuringRemedy, UnseenIn, UnseenStage};

/// Fewer latencies than this say nothing of a machine: a command that fails at
/// once still lets a few be measured.
const FEWEST: u64 = 20;

/// Own cost of less time than this is no rate: beginning and ending weigh more.
const LEAST_WALL: Nanos = Nanos::from_ms(100);

/// More lost activations than one in so many spoil the tail: what is lost is
/// likely to be what was late.
const LOST_IN: u64 = 1_000;

/// From this share of the measured CPUs' time on, 0 to 1, measuring itself is
/// named as a load.
const COST_NAMED: f64 = 0.05;

/// Whether the figures can be trusted.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict", content = "why")]
pub enum Trust {
    /// Nothing found that speaks against it.
    Good,
    /// They cannot: for these reasons.
    None(#[schemars(with = "Vec<String>")] Vec<Distrust>),
}

impl Trust {
    /// Every reason why the figures cannot be trusted, in words.
    pub fn reasons(&self) -> Option<String> {
        match self {
            Self::Good => None,
            Self::None(reasons) => Some(joined(reasons)),
        }
    }
}

/// Several reasons in one line.
pub(crate) fn joined(reasons: &[Distrust]) -> String {
    let words: Vec<String> = reasons.iter().map(Distrust::to_string).collect();
    words.join("; ")
}

/// What a recording, or a run, is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// Its lines.
    pub lines: &'a [Line],
    /// What was lost and planned of each.
    pub counts: &'a [LineCount],
    /// What was read of each.
    pub sums: &'a [LineSum],
    /// What was lost, by reason.
    pub losses: &'a Losses,
    /// What measuring cost.
    pub cost: &'a OwnCost,
    /// What was found out before and while it was measured.
    pub caveats: &'a [Caveat],
}

impl<'a> Case<'a> {
    /// Of a recording of which `sums` was read.
    pub fn of(manifest: &'a Manifest, sums: &'a [LineSum]) -> Self {
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

/// The verdict, and what is worth a word though it does not spoil the figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Whether the figures can be trusted.
    pub trust: Trust,
    /// Reasons to doubt that are of measuring itself.
    pub caveats: Vec<Caveat>,
}

/// Judges a recording by what it lost, line by line and in all, by the stages
/// that were not seen, by what measuring cost, and by whether its threads kept the
/// scheduling that makes them their service. Other caveats leave the figures true;
/// they say what they are true of.
pub fn judge(case: &Case<'_>) -> Judgement {
    let mut reasons = Vec::new();
    let mut caveats = Vec::new();
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
    caveats.extend(unseen.caveats);
    let rescheduled = |caveat: &&Caveat| caveat.kind == CaveatKind::Rescheduled;
    let rescheduled = case.caveats.iter().filter(rescheduled).cloned();
    reasons.extend(rescheduled.map(Distrust::Rescheduled));
    let incomplete = |caveat: &&Caveat| caveat.kind == CaveatKind::TraceIncomplete;
    let incomplete = case.caveats.iter().filter(incomplete).cloned();
    reasons.extend(incomplete.map(Distrust::TraceIncomplete));
    if let Some(cost) = own_cost(case) {
        let remedy = lighter(case);
        if cost.share() > OwnCost::TOO_MUCH {
            reasons.push(Distrust::OwnCost { cost, remedy });
        } else if cost.share() > COST_NAMED {
            caveats.push(Caveat::new(
                CaveatKind::OwnCost,
                cost.to_string(),
                remedy.to_string(),
            ));
        }
    }
    Judgement {
        trust: if reasons.is_empty() {
            Trust::Good
        } else {
            Trust::None(reasons)
        },
        caveats,
    }
}

/// What helps against the reason that most activations were lost for.
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

/// How to measure with less, by what took most; each shows less.
fn lighter(case: &Case<'_>) -> MeasuringRemedy {
    let programs = case.cost.programs.iter();
    let recorder = programs.filter(|one| one.is_of_flight_recorder());
    let recorder = recorder.fold(Nanos::ZERO, |sum, one| sum + one.run_ns);
    if recorder * 2 > case.cost.total() {
        return MeasuringRemedy::NoEpisodes;
    }
    let first = case.lines.first().map(|line| (line.service, line.route));
    let mut lines = case.lines.iter();
    MeasuringRemedy::Less {
        several_services: lines.any(|line| Some((line.service, line.route)) != first),
    }
}

/// What measuring took; of next to no time nothing is known.
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
