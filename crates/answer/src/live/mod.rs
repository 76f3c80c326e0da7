//! Figures of a running measurement per service, CPU and window, and late wakeups with their
//! causes.
//!
//! [`Live`] and [`LateFinder`] receive batches of samples. A terminal, a page or an exporter
//! shows them.

mod late;
mod series;
mod wakeup;

use std::collections::BTreeMap;

use crate::trust::{Case, Judgement, judge};
use laggard_analyze::distribution::{Key, LineSum, Quantile, bounded};
use laggard_model::{
    Batch, Caveat, Cpu, Histogram, Line, LineCount, Losses, Manifest, Nanos, OwnCost, Route,
    STAGES, Service,
};

pub use late::{LateActivation, LateFinder, LateList, LatePart};
pub(crate) use late::{learn, learn_competitors};
pub use series::Window;
use series::{LineSeries, MINUTE};
pub use wakeup::LateWakeupLog;

/// Interval between two readings of the overhead.
const COST_EVERY: Nanos = Nanos::from_secs(2);

pub type ServiceRoute = (Service, Route);

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WindowFigures {
    /// Number of latencies.
    pub count: u64,
    /// Median; at most 1.09 % high. `None` with too few samples, or if too many were lost or
    /// still waiting at the end.
    pub p50: Option<Nanos>,
    /// p99, with the same limits.
    pub p99: Option<Nanos>,
    /// Max: a measurement, not a bound.
    pub max: Option<Nanos>,
}

impl WindowFigures {
    /// Computes the figures of a window from all latencies, the wakeups that were still waiting at
    /// the end, and the number of lost wakeups.
    fn new(samples: &Histogram, waiting: &Histogram, lost: u64) -> Self {
        let quantile_of = |q| match bounded(samples, waiting, lost, q) {
            Quantile::Is(time) => Some(time),
            _ => None,
        };
        Self {
            count: samples.count(),
            p50: quantile_of(0.5),
            p99: quantile_of(0.99),
            max: samples.max(),
        }
    }
}

/// One service on one CPU or all CPUs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Row {
    pub way: ServiceRoute,
    /// Figures in the order of [`Window::ALL`].
    pub windows: [WindowFigures; 3],
    pub missed: u64,
    /// Number of the missed wakeups that were still waiting at the end of the run. The max is
    /// then a lower bound.
    pub still_waiting: u64,
    /// Number of lost wakeups. `None` for interrupts, which share the numbers of their threads.
    pub lost: Option<u64>,
}

/// State of a running measurement.
#[derive(Clone, Debug)]
pub struct Live {
    /// Manifest that a recording of the run would have.
    pub manifest: Manifest,
    /// Length of the window `now`.
    step: Nanos,
    lines: Vec<LineSeries>,
    /// Latencies of the interrupts per CPU.
    irqs: BTreeMap<Cpu, LineSeries>,
    start: Option<Nanos>,
    /// Time of the last update, since the start.
    pub now: Nanos,
    /// Start of the figures, since the start of measuring. Not zero after a reset.
    pub since: Nanos,
    step_ends: Nanos,
    losses: Losses,
    losses_before: Losses,
    /// Overhead. `None` before it was read.
    pub cost: Option<OwnCost>,
    cost_due: Nanos,
    /// Warnings found during the measurement. They are known at its end.
    pub found: Vec<Caveat>,
    /// Late wakeups.
    pub late: LateList,
    /// Grows with every change of the figures.
    pub version: u64,
}

impl Live {
    /// Nothing seen yet of a run that `manifest` describes; `now` is `step`
    /// long.
    pub fn new(manifest: &Manifest, step: Nanos) -> Self {
        let cpus = manifest.lines.iter().map(|line| line.cpu);
        Self {
            manifest: manifest.clone(),
            step: step.max(Nanos::from_ms(1)),
            lines: vec![LineSeries::default(); manifest.lines.len()],
            irqs: cpus.map(|cpu| (cpu, LineSeries::default())).collect(),
            start: None,
            now: Nanos::ZERO,
            since: Nanos::ZERO,
            step_ends: Nanos::ZERO,
            losses: Losses::default(),
            losses_before: Losses::default(),
            cost: None,
            cost_due: Nanos::ZERO,
            found: Vec::new(),
            late: LateList::default(),
            version: 0,
        }
    }

    /// Adds samples. Returns whether a step has ended.
    pub fn observe(
        &mut self,
        batch: &Batch,
        late: Vec<LateActivation>,
        losses: Losses,
        (start, now): (Nanos, Nanos),
    ) -> bool {
        if self.start.is_none() {
            self.start = Some(start);
            self.step_ends = self.step;
        }
        self.now = now.saturating_sub(start);
        self.losses = losses;
        for row in 0..batch.len() {
            self.count(batch, row);
        }
        late.into_iter().for_each(|wakeup| self.late.push(wakeup));
        if self.now < self.step_ends {
            return false;
        }
        while self.step_ends <= self.now {
            self.step_ends += self.step;
        }
        self.close();
        true
    }

    fn count(&mut self, batch: &Batch, row: usize) {
        let index = usize::from(batch.line[row].0);
        let (Some(series), Some(line)) =
            (self.lines.get_mut(index), self.manifest.lines.get(index))
        else {
            return;
        };
        let read = batch.readings(row);
        series.number(batch.seq[row]);
        series.add(read.own);
        if batch.missed[row] {
            series.missed += 1;
            if batch.censored[row] {
                series.waiting.add(read.own);
            }
            return;
        }
        for stage in STAGES {
            series.stages[stage.index()] += u64::from(batch.step(row, stage).is_some());
        }
        if let Some(irq) = read.irq
            && let Some(series) = self.irqs.get_mut(&line.cpu)
        {
            series.add(irq);
        }
    }

    /// Ends the current step.
    pub fn close(&mut self) {
        let now = self.now;
        self.lines
            .iter_mut()
            .chain(self.irqs.values_mut())
            .for_each(|series| series.close(now));
        self.version += 1;
    }

    /// Adds the values that are known only at the end: all warnings, losses and the
    /// overhead.
    pub fn end(&mut self, caveats: &[Caveat], losses: Losses, cost: OwnCost) {
        let before = std::mem::replace(&mut self.manifest.caveats, caveats.to_vec());
        let is_new = |caveat: &&Caveat| !before.contains(caveat);
        self.found = caveats.iter().filter(is_new).cloned().collect();
        self.losses = losses;
        self.cost = Some(cost);
        self.close();
    }

    /// Returns whether the overhead should be read.
    pub fn wants_cost(&mut self) -> bool {
        let is_due = self.now >= self.cost_due;
        if is_due {
            self.cost_due = self.now + COST_EVERY;
        }
        is_due
    }

    /// Resets the figures. The run continues.
    pub fn reset(&mut self) {
        self.lines
            .iter_mut()
            .chain(self.irqs.values_mut())
            .for_each(LineSeries::reset);
        self.late = LateList::default();
        self.losses_before = self.losses;
        self.since = self.now;
        self.version += 1;
    }

    /// Returns the length of a last minute that has not passed yet; `None` after a minute.
    pub fn part_of_minute(&self) -> Option<Nanos> {
        let elapsed = self.now.saturating_sub(self.since);
        (elapsed < MINUTE).then_some(elapsed)
    }

    /// Returns the losses since the start or the reset.
    pub fn losses(&self) -> Losses {
        self.losses.since(&self.losses_before)
    }

    /// Returns whether the figures are trustworthy.
    pub fn judge(&self) -> Judgement {
        let (sums, counts): (Vec<LineSum>, Vec<LineCount>) = self
            .lines
            .iter()
            .map(|series| {
                let sum = LineSum {
                    served: series.count().saturating_sub(series.missed),
                    missed: series.missed,
                    censored: series.waiting.count(),
                    waited: series.waiting.max(),
                    stages: series.stages,
                };
                let count = LineCount {
                    served: sum.served,
                    missed: sum.missed,
                    censored: sum.censored,
                    lost: series.lost,
                    planned: None,
                    run_delay: None,
                };
                (sum, count)
            })
            .unzip();
        judge(&Case {
            lines: &self.manifest.lines,
            counts: &counts,
            sums: &sums,
            losses: &self.losses(),
            cost: self.cost.as_ref().unwrap_or(&OwnCost::default()),
            caveats: &self.manifest.caveats,
        })
    }

    /// Returns the measured CPUs in ascending order.
    pub fn cpus(&self) -> Vec<Cpu> {
        self.irqs.keys().copied().collect()
    }

    /// Returns the services on `cpu` or all CPUs, the most direct first.
    pub fn rows(&self, cpu: Option<Cpu>) -> Vec<Row> {
        self.ways()
            .into_iter()
            .map(|service_route| {
                let of_way = || self.of(service_route, cpu);
                let mut waiting = Histogram::default();
                of_way().for_each(|series| waiting.merge(&series.waiting));
                let lost: u64 = of_way().map(|series| series.lost).sum();
                let histogram_of = |window| {
                    // The time of a loss is not known.
                    let lost = if window == Window::Start { lost } else { 0 };
                    WindowFigures::new(&self.histogram(service_route, cpu, window), &waiting, lost)
                };
                Row {
                    way: service_route,
                    windows: Window::ALL.map(histogram_of),
                    missed: of_way().map(|series| series.missed).sum(),
                    still_waiting: waiting.count(),
                    lost: service_route.0.has_lines().then_some(lost),
                }
            })
            .collect()
    }

    /// Returns the histogram of a service in a window.
    pub fn histogram(
        &self,
        service_route: ServiceRoute,
        cpu: Option<Cpu>,
        window: Window,
    ) -> Histogram {
        let mut merged = Histogram::default();
        self.of(service_route, cpu)
            .for_each(|series| series.add_to(&mut merged, window));
        merged
    }

    /// Returns the max of each step on a CPU, the newest first.
    pub fn largest(&self, service_route: ServiceRoute, cpu: Cpu) -> Vec<Option<Nanos>> {
        let mut columns: Vec<Option<Nanos>> = Vec::new();
        for series in self.of(service_route, Some(cpu)) {
            for (index, largest) in series.largest().enumerate() {
                match columns.get_mut(index) {
                    Some(column) => *column = (*column).max(largest),
                    None => columns.push(largest),
                }
            }
        }
        columns
    }

    /// Returns the services in display order.
    fn ways(&self) -> Vec<ServiceRoute> {
        let key = |line: Line| Key {
            part: None,
            cpu: None,
            service: line.service,
            route: line.route,
        };
        let lines = &self.manifest.lines;
        let mut keys: Vec<Key> = lines.iter().map(|&line| key(line)).collect();
        if self.irqs.values().any(|series| series.is_known) {
            keys.extend(lines.iter().map(|line| key(line.interrupts())));
        }
        keys.sort();
        keys.dedup();
        keys.iter().map(|key| (key.service, key.route)).collect()
    }

    fn of(
        &self,
        service_route: ServiceRoute,
        cpu: Option<Cpu>,
    ) -> impl Iterator<Item = &LineSeries> {
        let is_wanted = move |other: Cpu| cpu.is_none_or(|cpu| cpu == other);
        let irqs = self
            .irqs
            .iter()
            .filter(move |(cpu, _)| !service_route.0.has_lines() && is_wanted(**cpu))
            .map(|(_, series)| series);
        self.manifest
            .lines
            .iter()
            .zip(&self.lines)
            .filter(move |(line, _)| {
                (line.service, line.route) == service_route && is_wanted(line.cpu)
            })
            .map(|(_, series)| series)
            .chain(irqs)
    }
}
