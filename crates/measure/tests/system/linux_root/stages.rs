//! Intermediate stages.

use std::collections::BTreeSet;

use laggard_measure::Request;
use laggard_model::{Activation, Route, STAGES, Service, Stage};

use super::{EVERY_SERVICE, measure, measure_request, request};

/// Program that stamps stage `irq`.
const IRQ_PROGRAM: &str = if cfg!(target_arch = "x86_64") {
    "on_local_timer_entry"
} else {
    "on_irq_entry"
};

#[test]
fn recording_has_only_the_requested_stages_and_their_programs() {
    for (requested, programs) in [
        (vec![], vec![]),
        (vec![Stage::Running], vec!["on_sched_switch"]),
        (
            vec![Stage::Irq],
            vec!["on_hrtimer_expire_entry", IRQ_PROGRAM],
        ),
    ] {
        let Some(measured) = measure_request(Request {
            stages: Some(requested.clone()),
            ..request("fifo:90,other")
        }) else {
            return;
        };

        let mut recorded = BTreeSet::new();
        for activation in measured
            .batch
            .iter()
            .filter(|activation| !activation.missed)
        {
            recorded.extend(
                STAGES
                    .into_iter()
                    .filter(|stage| activation.steps[stage.index()].is_some()),
            );
        }
        let expected: BTreeSet<Stage> = requested.iter().copied().chain([Stage::User]).collect();
        assert_eq!(recorded, expected);
        let ran = measured
            .cost
            .programs
            .iter()
            .filter(|program| program.runs > 0);
        let ran: BTreeSet<&str> = ran.map(|program| program.name.as_str()).collect();
        assert_eq!(ran, programs.into_iter().collect(), "for {requested:?}");
    }
}

#[test]
fn most_activations_have_every_stage_of_their_route() {
    let Some(measured) = measure(EVERY_SERVICE) else {
        return;
    };

    let mut checked = 0;
    for (index, line) in measured.lines.iter().enumerate() {
        let wanted: &[Stage] = match (line.service, line.route) {
            (Service::Softirq, _) => &[Stage::Irq, Stage::Raise, Stage::Softirq],
            (Service::Worker, _) => &[Stage::Raise, Stage::Softirq, Stage::Signal, Stage::Worker],
            (_, Route::Direct) => &[
                Stage::Irq,
                Stage::Expire,
                Stage::Waking,
                Stage::Running,
                Stage::User,
            ],
            (_, Route::Deferred) => &[
                Stage::Softirq,
                Stage::Signal,
                Stage::Waking,
                Stage::Running,
                Stage::User,
            ],
        };
        let served: Vec<Activation> = measured
            .of_line(index)
            .filter(|activation| !activation.missed)
            .collect();
        if served.is_empty() {
            println!("skipped: no activation of {line:?} was served in time");
            continue;
        }
        checked += 1;
        let complete = served
            .iter()
            .filter(|activation| {
                wanted
                    .iter()
                    .all(|stage| activation.steps[stage.index()].is_some())
            })
            .count();
        assert!(
            complete * 10 > served.len() * 8,
            "{line:?}: {complete} of {}",
            served.len()
        );
    }
    assert!(2 * checked > measured.lines.len(), "{checked}");
}
