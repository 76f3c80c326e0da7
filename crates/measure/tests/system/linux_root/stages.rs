//! The stages on the way.

use std::collections::BTreeSet;

use laggard_measure::Request;
use laggard_model::{Activation, Route, STAGES, Service, Stage};

use super::{EVERY_SERVICE, measure, measure_request, request};

#[test]
fn a_recording_has_the_stages_on_the_way_that_were_asked_for_and_no_program_of_another() {
    for (asked, programs) in [
        (vec![], vec![]),
        (vec![Stage::Running], vec!["on_sched_switch"]),
        (
            vec![Stage::Irq],
            vec!["on_hrtimer_expire_entry", "on_local_timer_entry"],
        ),
    ] {
        let Some(measured) = measure_request(Request {
            stages: Some(asked.clone()),
            ..request("fifo:90,other")
        }) else {
            return;
        };

        let mut seen = BTreeSet::new();
        for one in measured.batch.iter().filter(|one| !one.missed) {
            seen.extend(
                STAGES
                    .into_iter()
                    .filter(|stage| one.steps[stage.index()].is_some()),
            );
        }
        let expected: BTreeSet<Stage> = asked.iter().copied().chain([Stage::User]).collect();
        assert_eq!(seen, expected);
        let ran = measured.cost.programs.iter().filter(|one| one.runs > 0);
        let ran: BTreeSet<&str> = ran.map(|one| one.name.as_str()).collect();
        assert_eq!(ran, programs.into_iter().collect(), "for {asked:?}");
    }
}

#[test]
fn most_activations_have_every_stage_of_their_route() {
    let Some(measured) = measure(EVERY_SERVICE) else {
        return;
    };

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
        let served: Vec<Activation> = measured.of_line(index).filter(|one| !one.missed).collect();
        let complete = served
            .iter()
            .filter(|one| {
                wanted
                    .iter()
                    .all(|stage| one.steps[stage.index()].is_some())
            })
            .count();
        assert!(
            complete * 10 > served.len() * 8,
            "{line:?}: {complete} of {}",
            served.len()
        );
    }
}
