//! `laggard bench rtos`: whether a system meets the requirements on a real-time operating system
//! (Timmerman 1998).
//!
//! The answer has values only. `laggard-view` builds the sentences.

mod bounded;
mod deferred;
mod interrupts;
mod inversion;
mod locked;
mod order;
mod preemption;
mod priorities;
mod reason;

use laggard_model::{
    Absence, Caveat, Cpu, Host, InversionRounds, LockedPages, Nanos, QueueWakes, RtosCriterion,
    RtosDeferred, RtosInterrupts, RtosLoadRun, RtosPriorities, RtosWakeups,
};
use schemars::JsonSchema;
use serde::Serialize;

pub use crate::verdict::TestVerdict;
pub use bounded::LoadFigures;
pub use deferred::DeferredFigures;
pub use interrupts::{InterruptFigures, InterruptTimes};
pub use inversion::{InversionFigures, LockWaits};
pub use order::QueueFigures;
pub use preemption::PreemptionFigures;
pub use priorities::PriorityFigures;
pub use reason::RtosReason;

/// Version of the JSON layout of `rtos --json`.
pub const RTOS_SCHEMA: u32 = 2;

/// Measurements of each criterion; `None` if its test was not requested or did not start.
#[derive(Clone, Debug)]
pub struct RtosInput {
    /// The machine.
    pub host: Host,
    /// CPU of all threads.
    pub cpu: Cpu,
    /// Max that is allowed for a latency of `preemption` and `interrupts`.
    pub limit: Nanos,
    /// Requested criteria, in the order of the paper.
    pub requested: Vec<RtosCriterion>,
    /// Wakeups while a thread of lower priority computes.
    pub preemption: Option<Result<RtosWakeups, Absence>>,
    /// Wakeups of each priority while the next lower one computes.
    pub priorities: Option<Result<RtosPriorities, Absence>>,
    /// Wakeups from each queue.
    pub order: Option<Vec<QueueWakes>>,
    /// Waits for a lock of a thread of lower priority.
    pub inversion: Option<Result<InversionRounds, Absence>>,
    /// Wakeups under each load. The others are compared with the first.
    pub bounded: Option<Vec<RtosLoadRun>>,
    /// Locked pages under memory pressure.
    pub locked: Option<Result<LockedPages, Absence>>,
    /// Interrupts of a computing thread.
    pub interrupts: Option<Result<RtosInterrupts, Absence>>,
    /// Wakeups during a softirq.
    pub deferred: Option<Result<RtosDeferred, Absence>>,
    /// Conditions of the machine that cast doubt on the answer.
    pub warnings: Vec<Caveat>,
}

impl RtosInput {
    /// Creates an input without measurements.
    pub const fn new(host: Host, cpu: Cpu, limit: Nanos, requested: Vec<RtosCriterion>) -> Self {
        Self {
            host,
            cpu,
            limit,
            requested,
            preemption: None,
            priorities: None,
            order: None,
            inversion: None,
            bounded: None,
            locked: None,
            interrupts: None,
            deferred: None,
            warnings: Vec::new(),
        }
    }
}

/// Verdict on each criterion, and the figures behind it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RtosReport {
    /// Version of this layout.
    pub schema: u32,
    /// The machine.
    pub host: Host,
    /// CPU of all threads.
    pub cpu: Cpu,
    /// Max that is allowed for a latency of `preemption` and `interrupts`.
    pub limit_ns: Nanos,
    /// Verdicts on the criteria whose tests started, in the order of the paper.
    pub rows: Vec<CriterionRow>,
    /// Latencies of a woken thread while one of lower priority computes.
    pub preemption: Option<PreemptionFigures>,
    /// Preemption between neighbouring priorities.
    pub priorities: Option<PriorityFigures>,
    /// Wakeups from each queue.
    pub order: Option<Vec<QueueFigures>>,
    /// Waits for a lock of a thread of lower priority.
    pub inversion: Option<InversionFigures>,
    /// Latencies of a woken thread under each load.
    pub bounded: Option<Vec<LoadFigures>>,
    /// Locked pages under memory pressure.
    pub locked: Option<LockedPages>,
    /// Latencies of interrupts of a computing thread.
    pub interrupts: Option<InterruptFigures>,
    /// Wakeups of a thread during a softirq.
    pub deferred: Option<DeferredFigures>,
    /// Requested criteria whose tests did not complete, because the user ended the program.
    pub not_run: Vec<RtosCriterion>,
    /// Conditions of the machine that cast doubt on the answer.
    pub warnings: Vec<Caveat>,
}

/// Verdict on one criterion.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct CriterionRow {
    pub criterion: RtosCriterion,
    pub verdict: TestVerdict,
    pub reason: RtosReason,
    /// Reasons why the test, or a part of it, did not run.
    pub absences: Vec<Absence>,
}

impl CriterionRow {
    fn new(criterion: RtosCriterion, reason: RtosReason, absences: Vec<Absence>) -> Self {
        Self {
            criterion,
            verdict: reason.verdict(),
            reason,
            absences,
        }
    }
}

/// Evaluates the measurements.
pub fn rtos(input: &RtosInput) -> RtosReport {
    let mut rows = Rows(Vec::new());
    let preemption = rows.add(
        RtosCriterion::Preemption,
        input.preemption.as_ref(),
        |wakeups| preemption::figures(wakeups, input.limit),
        preemption::reason,
    );
    let priorities = rows.add(
        RtosCriterion::Priorities,
        input.priorities.as_ref(),
        priorities::figures,
        priorities::reason,
    );
    let order = input.order.as_ref().map(|queues| {
        let queues: Vec<QueueFigures> = queues.iter().map(order::figures).collect();
        let absences = queues.iter().filter_map(|queue| queue.absence.as_ref());
        rows.push(RtosCriterion::Order, order::reason(&queues), absences);
        queues
    });
    let inversion = rows.add(
        RtosCriterion::Inversion,
        input.inversion.as_ref(),
        inversion::figures,
        inversion::reason,
    );
    let bounded = input.bounded.as_ref().map(|runs| {
        let loads = bounded::figures(runs);
        let absences = loads.iter().filter_map(|load| load.absence.as_ref());
        rows.push(RtosCriterion::Bounded, bounded::reason(&loads), absences);
        loads
    });
    let locked = rows.add(
        RtosCriterion::Locked,
        input.locked.as_ref(),
        LockedPages::clone,
        locked::reason,
    );
    let interrupts = rows.add(
        RtosCriterion::Interrupts,
        input.interrupts.as_ref(),
        |interrupts| interrupts::figures(interrupts, input.limit),
        interrupts::reason,
    );
    let deferred = rows.add(
        RtosCriterion::Deferred,
        input.deferred.as_ref(),
        deferred::figures,
        deferred::reason,
    );
    let Rows(rows) = rows;
    let has_row = |criterion| rows.iter().any(|row| row.criterion == criterion);
    let requested = input.requested.iter().copied();
    RtosReport {
        schema: RTOS_SCHEMA,
        host: input.host.clone(),
        cpu: input.cpu,
        limit_ns: input.limit,
        not_run: requested.filter(|criterion| !has_row(*criterion)).collect(),
        rows,
        preemption,
        priorities,
        order,
        inversion,
        bounded,
        locked,
        interrupts,
        deferred,
        warnings: input.warnings.clone(),
    }
}

struct Rows(Vec<CriterionRow>);

impl Rows {
    /// Adds the row of a criterion and returns its figures, if its test ran.
    fn add<M, F>(
        &mut self,
        criterion: RtosCriterion,
        measurement: Option<&Result<M, Absence>>,
        figures: impl FnOnce(&M) -> F,
        reason: impl FnOnce(&F) -> RtosReason,
    ) -> Option<F> {
        match measurement? {
            Ok(measurement) => {
                let figures = figures(measurement);
                self.push(criterion, reason(&figures), []);
                Some(figures)
            }
            Err(absence) => {
                self.push(criterion, RtosReason::NotRun, [absence]);
                None
            }
        }
    }

    /// Adds the row of a criterion. Equal absences are listed once.
    fn push<'a>(
        &mut self,
        criterion: RtosCriterion,
        reason: RtosReason,
        absences: impl IntoIterator<Item = &'a Absence>,
    ) {
        let mut distinct: Vec<Absence> = Vec::new();
        for absence in absences {
            if !distinct.contains(absence) {
                distinct.push(absence.clone());
            }
        }
        self.0.push(CriterionRow::new(criterion, reason, distinct));
    }
}

impl RtosReport {
    /// Returns the remedies for tests that did not run, each with its criteria.
    pub fn remedies(&self) -> Vec<(&str, Vec<RtosCriterion>)> {
        let mut remedies: Vec<(&str, Vec<RtosCriterion>)> = Vec::new();
        for row in &self.rows {
            for absence in &row.absences {
                let listed = remedies
                    .iter_mut()
                    .find(|(remedy, _)| *remedy == absence.remedy);
                match listed {
                    Some((_, criteria)) if criteria.contains(&row.criterion) => {}
                    Some((_, criteria)) => criteria.push(row.criterion),
                    None => remedies.push((&absence.remedy, vec![row.criterion])),
                }
            }
        }
        remedies
    }

    /// Counts the criteria with this verdict.
    pub fn count(&self, verdict: TestVerdict) -> usize {
        self.criteria(verdict).len()
    }

    pub fn criteria(&self, verdict: TestVerdict) -> Vec<RtosCriterion> {
        let rows = self.rows.iter().filter(|row| row.verdict == verdict);
        rows.map(|row| row.criterion).collect()
    }

    /// Returns whether all requested criteria are met.
    pub fn is_met(&self) -> bool {
        self.not_run.is_empty()
            && !self.rows.is_empty()
            && self.count(TestVerdict::Pass) == self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::Lacks;

    use super::*;

    fn input(requested: &[RtosCriterion]) -> RtosInput {
        let limit = Nanos::from_ms(1);
        RtosInput::new(Host::default(), Cpu(0), limit, requested.to_vec())
    }

    fn absence(remedy: &str) -> Absence {
        Absence::new("refused", remedy, Lacks::Rights)
    }

    #[test]
    fn a_test_that_did_not_run_is_unknown_and_not_met() {
        let mut input = input(&[RtosCriterion::Preemption, RtosCriterion::Inversion]);
        input.preemption = Some(Err(absence("run as root")));

        let report = rtos(&input);

        let row = &report.rows[0];
        assert_eq!(report.rows.len(), 1);
        assert_eq!(row.verdict, TestVerdict::Unknown);
        assert_eq!(row.reason, RtosReason::NotRun);
        assert_eq!(row.absences, [absence("run as root")]);
        assert_eq!(report.not_run, [RtosCriterion::Inversion]);
        assert!(!report.is_met());
    }

    #[test]
    fn all_criteria_must_pass() {
        let row = |reason| CriterionRow::new(RtosCriterion::Order, reason, Vec::new());
        let (pass, fail) = (
            row(RtosReason::WokenByPriority),
            row(RtosReason::WokenOutOfOrder),
        );
        let is_met = |not_run: &[RtosCriterion], rows: &[&CriterionRow]| {
            RtosReport {
                not_run: not_run.to_vec(),
                rows: rows.iter().map(|row| (*row).clone()).collect(),
                ..rtos(&input(&[]))
            }
            .is_met()
        };

        assert!(is_met(&[], &[&pass, &pass]));
        assert!(!is_met(&[RtosCriterion::Locked], &[&pass]));
        assert!(!is_met(&[], &[&pass, &fail]));
        assert!(!is_met(&[], &[]));
    }

    #[test]
    fn each_remedy_is_listed_once_with_its_criteria() {
        let row = |criterion, remedies: &[&str]| {
            let absences = remedies.iter().map(|remedy| absence(remedy)).collect();
            CriterionRow::new(criterion, RtosReason::NotRun, absences)
        };
        let report = RtosReport {
            rows: vec![
                row(RtosCriterion::Preemption, &["raise the limit"]),
                row(RtosCriterion::Order, &["raise the limit"]),
                row(RtosCriterion::Bounded, &["install a", "install b"]),
            ],
            ..rtos(&input(&[]))
        };

        let (preemption, order) = (RtosCriterion::Preemption, RtosCriterion::Order);
        assert_eq!(
            report.remedies(),
            [
                ("raise the limit", vec![preemption, order]),
                ("install a", vec![RtosCriterion::Bounded]),
                ("install b", vec![RtosCriterion::Bounded]),
            ]
        );
    }

    #[test]
    fn equal_absences_are_listed_once() {
        let mut input = input(&[RtosCriterion::Order]);
        let wakes = |queue| QueueWakes {
            queue,
            absence: Some(absence("run as root")),
            rounds: 0,
            wakes: Vec::new(),
        };
        input.order = Some(laggard_model::WaitQueue::ALL.map(wakes).to_vec());

        let report = rtos(&input);

        assert_eq!(report.rows[0].absences, [absence("run as root")]);
    }
}
