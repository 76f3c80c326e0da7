//! Cost of the programs and callbacks of a run.

use laggard_bpf::object::LoadedObject;
use laggard_model::{Nanos, ProgramCost};

use super::super::statistics::{cost_of, scaled, skipped};
use super::Programs;
use super::callback::{deferral, work};

impl Programs {
    /// Makes the kernel time the programs until [`Programs::end_timing`].
    pub(crate) fn begin_timing(&mut self, now: Nanos) {
        let costs = self.timed_costs();
        self.statistics.begin(now, costs);
    }

    /// Ends the timing of the programs, and returns when that is done.
    pub(crate) fn end_timing(&mut self, now: Nanos) {
        let costs = self.timed_costs();
        self.statistics.end(now, costs);
    }

    /// Returns the cost of all programs and callbacks since they were loaded, for the time that
    /// the kernel timed them.
    pub(crate) fn cost_of_timing(&self, cpus: &[u32]) -> Nanos {
        let programs = self.statistics.timed_cost();
        let callbacks = self.deferred.iter().flat_map(|deferred| {
            cpus.iter()
                .filter_map(|&cpu| deferral(deferred, cpu).map(|counts| counts.run_ns))
        });
        let works = self.worker.iter().flat_map(|worker| {
            cpus.iter()
                .filter_map(|&cpu| work(worker, cpu).map(|counts| counts.run_ns))
        });
        programs + Nanos::from_ns(callbacks.chain(works).sum())
    }

    /// Returns the cost of each program while the kernel timed it.
    fn timed_costs(&self) -> Vec<ProgramCost> {
        self.attached().flat_map(cost_of).collect()
    }

    /// Returns the number of skipped program calls since all programs were loaded.
    pub(crate) fn skipped(&self) -> u64 {
        self.attached().map(skipped).sum()
    }

    /// Marks the cost of a program that only records the activity of a CPU.
    fn with_owner(&self, cost: ProgramCost) -> ProgramCost {
        let stages = std::iter::once(&self.chain).chain(&self.irq);
        let mut programs = stages.flat_map(|object| object.object.progs());
        if self.joined.is_none() || programs.any(|program| *program.name() == *cost.name) {
            cost
        } else {
            cost.of_flight_recorder()
        }
    }

    fn attached(&self) -> impl Iterator<Item = &LoadedObject> {
        let (stages, irq) = match &self.joined {
            Some(joined) => (joined, None),
            None => (&self.chain, self.irq.as_ref()),
        };
        let objects = [
            Some(stages),
            irq,
            self.raise.as_ref(),
            self.arming.as_ref(),
            self.worker.as_ref(),
            self.external.as_ref(),
        ];
        objects.into_iter().flatten()
    }

    /// Returns the cost of each program and callback in `wall`, the recorded time. For programs
    /// it is estimated from the cost per run while the kernel timed them just before. For
    /// callbacks it is scaled from their cost in `ran`, the time since they started.
    pub(crate) fn cost(&self, cpus: &[u32], wall: Nanos, ran: Nanos) -> Vec<ProgramCost> {
        let cost = self.statistics.costs_since(wall).into_iter();
        let mut cost: Vec<ProgramCost> = cost.map(|cost| self.with_owner(cost)).collect();
        let mut callback = |name: &str, values: Vec<(u64, u64)>| {
            let runs = values.iter().map(|(runs, _)| runs).sum();
            if runs > 0 {
                let run_ns = Nanos::from_ns(values.iter().map(|(_, ns)| ns).sum());
                let total = ProgramCost {
                    name: name.into(),
                    runs,
                    run_ns,
                };
                cost.push(scaled(&total, wall.ns(), ran.ns()));
            }
        };
        if let Some(deferred) = &self.deferred {
            let each = cpus.iter().filter_map(|&cpu| deferral(deferred, cpu));
            callback(
                "on_deferred",
                each.map(|counts| (counts.runs, counts.run_ns)).collect(),
            );
        }
        if let Some(worker) = &self.worker {
            let each = cpus.iter().filter_map(|&cpu| work(worker, cpu));
            callback(
                "on_work",
                each.map(|counts| (counts.runs, counts.run_ns)).collect(),
            );
        }
        cost
    }
}
