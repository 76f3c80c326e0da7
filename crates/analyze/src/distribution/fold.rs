//! Folding of activations into tallies, per line.

use std::collections::BTreeMap;
use std::ops::Range;

use laggard_model::{Batch, Figure, Gather, Line, LineId, Nanos, STAGES, Service, Stage};

use super::line::LineTally;
use super::tally::Tally;
use super::{Group, Key, Lost};

/// Division of the counts, in addition to lines.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Split {
    /// No division.
    #[default]
    Whole,
    /// One part per minute since a time.
    Minutes {
        /// Start, `CLOCK_MONOTONIC`.
        since: Nanos,
    },
}

/// Activations, counted per line and part of the time.
#[derive(Clone, Debug)]
pub struct Fold {
    split: Split,
    parts: BTreeMap<u64, Vec<LineTally>>,
    lines: usize,
    lost: Lost,
}

/// Totals of one line.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LineSum {
    /// Number of served activations.
    pub served: u64,
    /// Number of missed activations, including censored ones.
    pub missed: u64,
    /// Number of activations that were still waiting at the end.
    pub censored: u64,
    /// Longest waiting time of these.
    pub waited: Option<Nanos>,
    /// Number of served activations that have each stage, by [`Stage::index`].
    pub stages: [u64; STAGES.len()],
}

const MINUTE_NS: u64 = 60_000_000_000;

impl Fold {
    /// Creates an empty fold for a recording with `lines` lines.
    pub fn new(lines: usize, split: Split) -> Self {
        Self {
            split,
            parts: BTreeMap::new(),
            lines,
            lost: Lost::default(),
        }
    }

    /// Sets the lost activations, which bound the quantiles. The times of losses are unknown, so
    /// each part of the time may have had them.
    pub fn set_lost(&mut self, lost: Lost) {
        self.lost = lost;
    }

    /// Counts every activation of a batch. Skips lines that the recording does not
    /// have; the reader reports them.
    pub fn add(&mut self, batch: &Batch) {
        let mut from = 0;
        while from < batch.len() {
            let part = self.part_of(batch.expiry_ns[from]);
            let until = match self.split {
                Split::Whole => None,
                Split::Minutes { .. } => {
                    (from + 1..batch.len()).find(|&row| self.part_of(batch.expiry_ns[row]) != part)
                }
            };
            let until = until.unwrap_or(batch.len());
            let lines = self.lines;
            let tallies = self
                .parts
                .entry(part)
                .or_insert_with(|| vec![LineTally::default(); lines]);
            add_rows(tallies, batch, from..until);
            from = until;
        }
    }

    fn part_of(&self, expiry_ns: u64) -> u64 {
        match self.split {
            Split::Whole => 0,
            Split::Minutes { since } => expiry_ns.saturating_sub(since.ns()) / MINUTE_NS,
        }
    }

    /// Adds the counts of a line that were stored in the recording.
    pub fn add_stored(&mut self, line: LineId, figure: Figure, tally: &Tally) {
        let lines = self.lines;
        let part = self
            .parts
            .entry(0)
            .or_insert_with(|| vec![LineTally::default(); lines]);
        let Some(own) = part.get_mut(usize::from(line.0)) else {
            return;
        };
        match figure {
            Figure::Latency => {
                own.latency.merge(tally);
                own.least = [own.least, tally.histogram().min()]
                    .into_iter()
                    .flatten()
                    .min();
            }
            Figure::Missed => {
                own.latency.merge(tally);
                own.missed += tally.histogram().count();
            }
            Figure::Censored => {
                own.latency.merge(tally);
                own.missed += tally.histogram().count();
                own.censored.merge(tally);
            }
            Figure::Thread => own.thread.merge(tally),
            Figure::Step(stage) => own.steps[stage.index()].merge(tally),
        }
    }

    /// Returns the counts per service and route, and per CPU if `by_cpu`: the most
    /// direct service first, parts of the time in order.
    ///
    /// `lines` are the recording's.
    pub fn groups(&self, lines: &[Line], by_cpu: bool) -> Vec<Group> {
        let mut groups: BTreeMap<Key, Group> = BTreeMap::new();
        for (&part, tallies) in &self.parts {
            for (number, (line, tally)) in (0..).zip(lines.iter().zip(tallies)) {
                let key = |line: Line| Key {
                    part: match self.split {
                        Split::Whole => None,
                        Split::Minutes { .. } => Some(part),
                    },
                    cpu: by_cpu.then_some(line.cpu),
                    service: line.service,
                    route: line.route,
                };
                let lost = self.lost.of_line(LineId(number));
                let new = |key| Group::new(key, self.lost.somewhere());
                let irq = &tally.steps[Service::Irq.last_stage().index()];
                if irq.histogram().count() > 0 {
                    let key = key(line.interrupts());
                    let group = groups.entry(key).or_insert_with(|| new(key));
                    group.add_interrupts(irq, lost);
                }
                let key = key(*line);
                let group = groups.entry(key).or_insert_with(|| new(key));
                group.add(tally, lost);
            }
        }
        groups.into_values().collect()
    }

    /// Returns the totals of each line, by its ID, over all parts of the time.
    pub fn sums(&self) -> Vec<LineSum> {
        let mut sums = vec![LineSum::default(); self.lines];
        for tallies in self.parts.values() {
            for (sum, tally) in sums.iter_mut().zip(tallies) {
                let count = tally.latency.histogram().count();
                sum.served += count.saturating_sub(tally.missed);
                sum.missed += tally.missed;
                sum.censored += tally.censored.histogram().count();
                sum.waited = sum.waited.max(tally.censored.histogram().max());
                for (count, step) in sum.stages.iter_mut().zip(&tally.steps) {
                    *count += step.histogram().count();
                }
            }
        }
        sums
    }
}

impl Gather for Fold {
    fn batch(&mut self, rows: &Batch) {
        self.add(rows);
    }

    fn join(&mut self, later: Self) {
        for (part, theirs) in later.parts {
            let lines = self.lines;
            let ours = self
                .parts
                .entry(part)
                .or_insert_with(|| vec![LineTally::default(); lines]);
            for (mine, their) in ours.iter_mut().zip(theirs) {
                mine.merge(&their);
            }
        }
    }
}

/// If a line has at least this number of rows, their columns are counted one after the other.
const MIN_RUN: usize = 16;

fn add_rows(tallies: &mut [LineTally], batch: &Batch, rows: Range<usize>) {
    let mut from = rows.start;
    for line in batch.line[rows].chunk_by(|a, b| a == b) {
        let rows = from..from + line.len();
        from = rows.end;
        let Some(tally) = tallies.get_mut(usize::from(line[0].0)) else {
            continue;
        };
        let mut start = rows.start;
        while start < rows.end {
            let flags = batch.missed[start..rows.end].iter();
            let mut flags = flags.zip(&batch.censored[start..rows.end]);
            let other = flags.position(|(missed, censored)| *missed || *censored);
            let end = other.map_or(rows.end, |other| start + other);
            if end - start >= MIN_RUN {
                add_run(tally, batch, start..end);
            } else {
                (start..end).for_each(|row| add_row(tally, batch, row));
            }
            (end..rows.end)
                .take(1)
                .for_each(|row| add_row(tally, batch, row));
            start = end + 1;
        }
    }
}

/// Steps of some rows to one stage.
enum Steps {
    /// Every row has one.
    All,
    /// Some rows have one.
    Some,
    /// No row has one.
    None,
}

impl Steps {
    fn of(steps: &[u64]) -> Self {
        let absent = steps.iter().map(|&step| u64::from(step == Batch::ABSENT));
        match absent.sum::<u64>() {
            0 => Self::All,
            absent if absent == steps.len() as u64 => Self::None,
            _ => Self::Some,
        }
    }
}

/// Counts rows of one line that were served, as [`add_row`] does.
fn add_run(tally: &mut LineTally, batch: &Batch, rows: Range<usize>) {
    let expiries = &batch.expiry_ns[rows.clone()];
    let mut latencies = vec![0_u64; rows.len()];
    // `None` until a row has the first stage.
    let (mut threads, mut after_softirq): (Option<Vec<u64>>, Option<Vec<u64>>) = (None, None);
    for stage in STAGES {
        let Some(steps) = batch.step_ns[stage.index()].get(rows.clone()) else {
            continue;
        };
        let present = Steps::of(steps);
        match present {
            Steps::All => tally.steps[stage.index()].add_all(steps, expiries),
            Steps::Some => tally.steps[stage.index()].add_present(steps, expiries),
            Steps::None => continue,
        }
        let add = |sums: &mut [u64]| match present {
            Steps::All => add_each(sums, steps, |step| step),
            _ => add_each(
                sums,
                steps,
                |step| {
                    if step == Batch::ABSENT { 0 } else { step }
                },
            ),
        };
        add(&mut latencies);
        let started = || {
            let absent = |&step: &u64| if step == Batch::ABSENT { step } else { 0 };
            Some(steps.iter().map(absent).collect())
        };
        if stage == Stage::Softirq {
            after_softirq = started();
        } else if let Some(after_softirq) = &mut after_softirq {
            add(after_softirq);
        }
        if stage == Stage::Waking {
            threads = started();
        } else if let (Stage::Running | Stage::User, Some(threads)) = (stage, &mut threads) {
            add(threads);
        }
    }
    tally.latency.add_all(&latencies, expiries);
    let least = latencies.iter().min().map(|&ns| Nanos::from_ns(ns));
    tally.least = [tally.least, least].into_iter().flatten().min();
    for (tally, times) in [
        (&mut tally.thread, threads),
        (&mut tally.after_softirq, after_softirq),
    ] {
        match times.map(|times| (Steps::of(&times), times)) {
            Some((Steps::All, times)) => tally.add_all(&times, expiries),
            Some((Steps::Some, times)) => tally.add_present(&times, expiries),
            Some((Steps::None, _)) | None => {}
        }
    }
}

/// Adds a step to each of `sums`. [`Batch::ABSENT`] remains.
fn add_each(sums: &mut [u64], steps: &[u64], step: impl Fn(u64) -> u64) {
    for (sum, &next) in sums.iter_mut().zip(steps) {
        *sum = sum.saturating_add(step(next));
    }
}

/// Adds a step to the time since a stage, which is absent until that stage was seen.
const fn since(time: u64, is_stage: bool, step: u64) -> u64 {
    if step == Batch::ABSENT {
        time
    } else if is_stage {
        0
    } else if time == Batch::ABSENT {
        time
    } else {
        time.saturating_add(step)
    }
}

fn add_row(tally: &mut LineTally, batch: &Batch, row: usize) {
    let expiry = Nanos::from_ns(batch.expiry_ns[row]);
    let missed = batch.missed[row];
    let mut latency = 0;
    let mut since_waking = None;
    let mut after_softirq = Batch::ABSENT;
    for stage in STAGES {
        let step = match batch.step_ns[stage.index()].get(row) {
            None | Some(&Batch::ABSENT) => continue,
            Some(&step) => step,
        };
        latency = step.saturating_add(latency);
        if missed {
            continue;
        }
        tally.steps[stage.index()].add(Nanos::from_ns(step), expiry);
        after_softirq = since(after_softirq, stage == Stage::Softirq, step);
        if stage == Stage::Waking {
            since_waking = Some(0);
        } else if matches!(stage, Stage::Running | Stage::User) {
            since_waking = since_waking.map(|before: u64| before.saturating_add(step));
        }
    }
    tally.latency.add(Nanos::from_ns(latency), expiry);
    tally.missed += u64::from(missed);
    if !missed {
        let latency = Nanos::from_ns(latency);
        tally.least = Some(tally.least.map_or(latency, |least| least.min(latency)));
    }
    if batch.censored[row] {
        tally.censored.add(Nanos::from_ns(latency), expiry);
    }
    if after_softirq != Batch::ABSENT {
        tally
            .after_softirq
            .add(Nanos::from_ns(after_softirq), expiry);
    }
    if let Some(thread) = since_waking {
        tally.thread.add(Nanos::from_ns(thread), expiry);
    }
}

#[cfg(test)]
mod tests;
