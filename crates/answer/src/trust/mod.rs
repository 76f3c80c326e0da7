//! Whether a recording's figures can be trusted.
//!
//! The limits are stated in `docs/method.md`; change them there too.

mod lines;
mod stages;

use laggard_analyze::distribution::LineSum;
use laggard_model::name::line_name;
use laggard_model::{
    Caveat, CaveatKind, Line, LineCount, LossReason, Losses, Manifest, Nanos, OwnCost, ProgramCost,
};
use schemars::JsonSchema;
use serde::Serialize;

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

/// Lines that a reason names; the others are counted.
const NAMED: usize = 3;

/// Whether the figures can be trusted.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict", content = "why")]
pub enum Trust {
    /// Nothing found that speaks against it.
    Good,
    /// They cannot: for these reasons.
    None(Vec<String>),
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
#[derive(Clone, Debug, Eq, PartialEq)]
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
        reasons.push("nothing was measured".into());
    } else if samples < FEWEST {
        reasons.push(format!(
            "only {samples} activations were measured; record for longer"
        ));
    }
    let losses = case.losses;
    let lost = losses.activations();
    if lost > 0 && lost.saturating_mul(LOST_IN) > samples + lost {
        reasons.push(format!(
            "{lost} activations were lost, more than one in {LOST_IN} of {}; {}",
            samples + lost,
            against(case)
        ));
    }
    reasons.extend(lines::reasons(case));
    if losses.clock_back.saturating_mul(LOST_IN) > samples {
        reasons.push(format!(
            "the clock ran backwards {} times; check the clocksource",
            losses.clock_back
        ));
    }
    let unseen = stages::judge(case);
    reasons.extend(unseen.reasons);
    caveats.extend(unseen.caveats);
    let rescheduled = |caveat: &&Caveat| caveat.kind == CaveatKind::Rescheduled;
    let rescheduled = case.caveats.iter().filter(rescheduled);
    reasons.extend(rescheduled.map(|caveat| format!("{}; {}", caveat.what, caveat.advice)));
    if let Some((share, words)) = own_cost(case) {
        let advice = lighter(case);
        if share > OwnCost::TOO_MUCH {
            reasons.push(format!("{words}; {advice}"));
        } else if share > COST_NAMED {
            caveats.push(Caveat::new(CaveatKind::OwnCost, words, advice));
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
pub(super) fn against(case: &Case<'_>) -> String {
    let most = case
        .losses
        .iter()
        .filter(|(reason, _)| reason.is_of_activations())
        .max_by_key(|(_, count)| *count);
    let known = match most
        .filter(|(_, count)| *count > 0)
        .map(|(reason, _)| reason)
    {
        Some(LossReason::NotWritten) => {
            "record to a faster or emptier disk (`-o`), or keep less with `--keep tail`"
        }
        Some(LossReason::Foreign) => {
            "leave the measuring threads on their CPUs, and record while no CPU goes offline"
        }
        Some(LossReason::Stopped) => {
            "record again without stopping laggard (a signal, a debugger, suspend)"
        }
        Some(LossReason::Unserved) => {
            "find out what kept the service from running (`laggard why`, where late activations were kept), or record until it runs"
        }
        Some(LossReason::NotRaised) => {
            "record with a longer --period, or find out what kept the thread that raises the interrupt"
        }
        _ => return lighter(case),
    };
    known.into()
}

/// How to measure with less, by what took most; each shows less.
fn lighter(case: &Case<'_>) -> String {
    let of_recorder = |one: &&ProgramCost| one.name.starts_with("flight ");
    let recorder = case.cost.programs.iter().filter(of_recorder);
    let recorder = recorder.fold(Nanos::ZERO, |sum, one| sum + one.run_ns);
    if recorder * 2 > case.cost.total() {
        return "record with `--episodes off`, which leaves open who made anything late".into();
    }
    let first = case.lines.first().map(|line| (line.service, line.route));
    let mut lines = case.lines.iter();
    match lines.any(|line| Some((line.service, line.route)) != first) {
        true => "record with a longer --period, which sees less of short stalls, or fewer services"
            .into(),
        false => "record with a longer --period, which sees less of short stalls".into(),
    }
}

/// The share of the measured CPUs' time that measuring took, in words too.
fn own_cost(case: &Case<'_>) -> Option<(f64, String)> {
    let cost = case.cost;
    let mut cpus: Vec<_> = case.lines.iter().map(|line| line.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    // Of next to no time there is no share.
    if cost.wall_ns < LEAST_WALL || cpus.is_empty() {
        return None;
    }
    let of_one = cost.total().as_f64() / cost.wall_ns.as_f64();
    let share = of_one / cpus.len() as f64;
    let words = match cpus.len() {
        1 => format!("measuring took {:.0} % of the measured CPU", 100.0 * of_one),
        several => format!(
            "measuring took {:.0} % of a CPU, {:.0} % of the time of the {several} CPUs measured",
            100.0 * of_one,
            100.0 * share
        ),
    };
    Some((share, words))
}

/// A line with its place.
fn place(line: &Line) -> String {
    format!(
        "{} on CPU {}",
        line_name(line.service, line.route),
        line.cpu
    )
}

/// The first of `all` with their words, and how many more there are.
fn named(all: &[String]) -> String {
    let mut words = all[..all.len().min(NAMED)].join(", ");
    if all.len() > NAMED {
        words += &format!(" and {} more lines", all.len() - NAMED);
    }
    words
}
