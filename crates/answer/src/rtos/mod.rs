//! `laggard rtos`: whether a system has what a real-time operating system needs
//! (Timmerman 1998).

mod interrupts;
mod inversion;
mod largest;
mod locked;
mod order;
mod preemption;
mod priorities;

use laggard_model::{
    Absence, Caveat, Cpu, DuelsSeen, Host, InterruptsSeen, InversionsSeen, LoadedDuels, Nanos,
    PagesSeen, PrioritiesSeen, RtosCriterion, WakesSeen, text::listed,
};
use schemars::JsonSchema;
use serde::Serialize;

pub use interrupts::{InterruptFigures, InterruptTimes};
pub use inversion::{InversionFigures, LockWaits};
pub use largest::LoadedFigures;
pub use locked::{LockedFigures, MappingFigures};
pub use order::QueueOrder;
pub use preemption::TakeOverFigures;
pub use priorities::PriorityFigures;

/// The version of `rtos --json`.
pub const RTOS_SCHEMA: u32 = 1;

/// What was tried, by whoever tried it. `None`: it was not asked for, or not come
/// to.
#[derive(Clone, Debug)]
pub struct RtosMeasured {
    /// The machine.
    pub host: Host,
    /// The CPU on which all threads ran.
    pub cpu: Cpu,
    /// The longest that a take-over may take, and an interrupt's way in or out.
    pub within: Nanos,
    /// What was asked for, in the order of the paper.
    pub asked: Vec<RtosCriterion>,
    /// Wakeups against a computing thread.
    pub preemption: Option<Result<DuelsSeen, Absence>>,
    /// Priorities.
    pub priorities: Option<Result<PrioritiesSeen, Absence>>,
    /// Wakes by each way of waiting.
    pub order: Option<Vec<WakesSeen>>,
    /// Inversions.
    pub inversion: Option<Result<InversionsSeen, Absence>>,
    /// Take-overs under loads; the first is what the others are held against.
    pub largest: Option<Vec<LoadedDuels>>,
    /// Locked pages under pressure.
    pub locked: Option<Result<PagesSeen, Absence>>,
    /// Interrupts of a computing thread.
    pub interrupts: Option<Result<InterruptsSeen, Absence>>,
    /// Reasons to doubt it.
    pub caveats: Vec<Caveat>,
}

impl RtosMeasured {
    /// Of which nothing has been tried yet.
    pub const fn new(host: Host, cpu: Cpu, within: Nanos, asked: Vec<RtosCriterion>) -> Self {
        Self {
            host,
            cpu,
            within,
            asked,
            preemption: None,
            priorities: None,
            order: None,
            inversion: None,
            largest: None,
            locked: None,
            interrupts: None,
            caveats: Vec::new(),
        }
    }
}

/// Whether a system has what a real-time operating system needs.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RtosReport {
    /// The version of this layout.
    pub schema: u32,
    /// The machine.
    pub host: Host,
    /// The CPU on which all threads ran.
    pub cpu: Cpu,
    /// The longest that a take-over may take, and an interrupt's way in or out.
    pub within_ns: Nanos,
    /// The answer in a sentence or two.
    pub summary: String,
    /// Each criterion that was tried, in the order of the paper.
    pub rows: Vec<RtosRow>,
    /// What was seen of take-overs.
    pub preemption: Option<TakeOverFigures>,
    /// What was seen of priorities.
    pub priorities: Option<PriorityFigures>,
    /// What was seen of each way of waiting.
    pub order: Option<Vec<QueueOrder>>,
    /// What was seen of inversions.
    pub inversion: Option<InversionFigures>,
    /// What was seen of wakeups under each load.
    pub largest: Option<Vec<LoadedFigures>>,
    /// What was seen of locked pages under memory pressure.
    pub locked: Option<LockedFigures>,
    /// What was seen of interrupts of a computing thread.
    pub interrupts: Option<InterruptFigures>,
    /// Criteria that were asked for and not come to, because it was ended early.
    pub untried: Vec<RtosCriterion>,
    /// Reasons to doubt it.
    pub caveats: Vec<Caveat>,
}

/// One criterion.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct RtosRow {
    /// What is asked.
    pub criterion: RtosCriterion,
    /// The answer.
    pub verdict: RtosVerdict,
    /// The figure that carries it, in a sentence; without a full stop.
    pub because: String,
    /// Why it could not be tried, or not all of it.
    pub absence: Option<Absence>,
}

/// Whether a criterion is met.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RtosVerdict {
    /// It is, in all that was tried.
    Pass,
    /// It is not: that was seen.
    Fail,
    /// What was seen decides neither.
    CannotBeTold,
}

impl RtosVerdict {
    /// What people read.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::CannotBeTold => "cannot be told",
        }
    }
}

/// What was tried, as an answer.
pub fn rtos(measured: &RtosMeasured) -> RtosReport {
    let within = measured.within;
    let mut rows = Vec::new();
    let preemption = seen(&measured.preemption, RtosCriterion::Preemption, &mut rows);
    let preemption = preemption.map(|seen| {
        let figures = preemption::figures(seen, within);
        rows.push(preemption::row(&figures, within));
        figures
    });
    let priorities = seen(&measured.priorities, RtosCriterion::Priorities, &mut rows);
    let priorities = priorities.map(|seen| {
        let figures = priorities::figures(seen);
        rows.push(priorities::row(&figures));
        figures
    });
    let order = measured.order.as_ref().map(|seen| {
        let queues: Vec<QueueOrder> = seen.iter().map(order::queue).collect();
        rows.push(order::row(&queues));
        queues
    });
    let inversion = seen(&measured.inversion, RtosCriterion::Inversion, &mut rows);
    let inversion = inversion.map(|seen| {
        let figures = inversion::figures(seen);
        rows.push(inversion::row(&figures));
        figures
    });
    let largest = measured.largest.as_ref().map(|seen| {
        let loads = largest::loads(seen);
        rows.push(largest::row(&loads));
        loads
    });
    let locked = seen(&measured.locked, RtosCriterion::Locked, &mut rows);
    let locked = locked.map(|seen| {
        let figures = locked::figures(seen);
        rows.push(locked::row(&figures));
        figures
    });
    let interrupts = seen(&measured.interrupts, RtosCriterion::Interrupts, &mut rows);
    let interrupts = interrupts.map(|seen| {
        let figures = interrupts::figures(seen, within);
        rows.push(interrupts::row(&figures, within));
        figures
    });
    let is_untried = |one: &RtosCriterion| rows.iter().all(|row| row.criterion != *one);
    let untried = measured.asked.iter().copied().filter(is_untried).collect();
    RtosReport {
        schema: RTOS_SCHEMA,
        caveats: measured.caveats.clone(),
        host: measured.host.clone(),
        cpu: measured.cpu,
        within_ns: within,
        summary: summary(&rows),
        rows,
        preemption,
        priorities,
        order,
        inversion,
        largest,
        locked,
        interrupts,
        untried,
    }
}

/// What was seen; where it could not be tried, a row says why.
fn seen<'a, T>(
    tried: &'a Option<Result<T, Absence>>,
    criterion: RtosCriterion,
    rows: &mut Vec<RtosRow>,
) -> Option<&'a T> {
    match tried.as_ref()? {
        Ok(seen) => Some(seen),
        Err(absence) => {
            rows.push(RtosRow {
                criterion,
                verdict: RtosVerdict::CannotBeTold,
                because: absence.reason.clone(),
                absence: Some(absence.clone()),
            });
            None
        }
    }
}

/// How many of the criteria are met, in the paper's words for what that means.
fn summary(rows: &[RtosRow]) -> String {
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let [passed, failed, untold] = [
        RtosVerdict::Pass,
        RtosVerdict::Fail,
        RtosVerdict::CannotBeTold,
    ]
    .map(count);
    let all = rows.len();
    let told = match (passed, failed, untold) {
        (0, 0, 0) => return "Nothing was tried.".into(),
        (1, 0, 0) => "The one that was tried is met".into(),
        (_, 0, 0) => format!("All {all} that were tried are met"),
        (_, _, 0) => format!("{passed} of {all} that were tried are met, {failed} not"),
        (_, 0, _) => format!("{passed} of {all} that were tried are met, {untold} cannot be told"),
        (..) => format!(
            "{passed} of {all} that were tried are met, {failed} not, {untold} cannot be told"
        ),
    };
    format!(
        "{told}. These requirements are necessary but not sufficient (Timmerman 1998): a system that fails one is no good real-time system, and one that meets all need not be one."
    )
}

impl RtosReport {
    /// What would have all of it told, in a sentence each. Where that is not the same
    /// for all, of which criteria.
    pub fn remedies(&self) -> Vec<String> {
        let mut told: Vec<(&str, Vec<RtosCriterion>)> = Vec::new();
        for row in &self.rows {
            let Some(absence) = &row.absence else {
                continue;
            };
            match told
                .iter_mut()
                .find(|(remedy, _)| *remedy == absence.remedy)
            {
                Some((_, criteria)) => criteria.push(row.criterion),
                None => told.push((&absence.remedy, vec![row.criterion])),
            }
        }
        match &told[..] {
            [(remedy, _)] => vec![format!("To have all of it told: {remedy}.")],
            several => {
                let one = |(remedy, criteria): &(&str, Vec<RtosCriterion>)| {
                    format!("To have {} told: {remedy}.", listed(criteria))
                };
                several.iter().map(one).collect()
            }
        }
    }

    /// Whether all that was asked for is met.
    pub fn is_met(&self) -> bool {
        let is_met = |row: &RtosRow| row.verdict == RtosVerdict::Pass;
        self.untried.is_empty() && !self.rows.is_empty() && self.rows.iter().all(is_met)
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::Lacks;

    use super::*;

    #[test]
    fn what_could_not_be_tried_is_no_failure_and_not_met() {
        let absence = Absence {
            reason: "this user may not have threads of its policy".into(),
            remedy: "run as root".into(),
            lacks: Lacks::Rights,
        };
        let asked = vec![RtosCriterion::Preemption, RtosCriterion::Inversion];
        let mut measured = RtosMeasured::new(Host::default(), Cpu(0), Nanos::from_ms(1), asked);
        measured.preemption = Some(Err(absence.clone()));

        let report = rtos(&measured);

        assert_eq!(report.rows.len(), 1);
        assert_eq!(report.rows[0].verdict, RtosVerdict::CannotBeTold);
        assert_eq!(report.rows[0].absence, Some(absence));
        assert_eq!(report.untried, [RtosCriterion::Inversion]);
        assert!(!report.is_met());
        let mut met = report.rows.clone();
        met[0].verdict = RtosVerdict::Pass;
        let all = |untried: &[RtosCriterion], rows: &[RtosRow]| RtosReport {
            untried: untried.to_vec(),
            rows: rows.to_vec(),
            ..report.clone()
        };
        assert!(all(&[], &met).is_met());
        assert!(!all(&[RtosCriterion::Inversion], &met).is_met());
        assert!(!all(&[], &report.rows).is_met());
        assert!(!all(&[], &[]).is_met());
        assert!(summary(&met).starts_with("The one that was tried is met. "));
        assert!(
            report
                .summary
                .starts_with("0 of 1 that were tried are met, 1 cannot be told. These"),
            "{}",
            report.summary
        );
    }

    #[test]
    fn what_would_tell_more_is_told_of_which_criteria_where_it_differs() {
        let row = |criterion, remedy: &str| RtosRow {
            criterion,
            verdict: RtosVerdict::CannotBeTold,
            because: "refused".into(),
            absence: Some(Absence {
                reason: "refused".into(),
                remedy: remedy.into(),
                lacks: Lacks::Rights,
            }),
        };
        let asked = vec![RtosCriterion::Preemption];
        let measured = RtosMeasured::new(Host::default(), Cpu(0), Nanos::from_ms(1), asked);
        let with = |rows: &[RtosRow]| RtosReport {
            rows: rows.to_vec(),
            ..rtos(&measured)
        };
        let two = [
            row(RtosCriterion::Preemption, "raise the limit"),
            row(RtosCriterion::Order, "raise the limit"),
        ];
        let three = [&two[..], &[row(RtosCriterion::Locked, "run as root")]].concat();

        assert_eq!(with(&[]).remedies(), Vec::<String>::new());
        assert_eq!(
            with(&two).remedies(),
            ["To have all of it told: raise the limit."]
        );
        assert_eq!(
            with(&three).remedies(),
            [
                "To have preemption and order told: raise the limit.",
                "To have locked told: run as root."
            ]
        );
    }
}
