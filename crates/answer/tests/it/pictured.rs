//! Which services a picture shows unless asked for others.

use laggard_answer::show::leading;
use laggard_made::{Made, line};
use laggard_model::{Line, Route, Service, Stage};

/// Without the interrupt, and with it, which is then a service of its own.
const STEPS: [(Stage, u64); 2] = [(Stage::User, 16_000), (Stage::Irq, 9_000)];
const URGENT: Service = Service::Fifo(90);
const LESS_URGENT: Service = Service::Fifo(50);

/// Of a recording in which those of these lines ran, in so many steps, that are said
/// to have.
fn shown(lines: &[(Line, bool)], steps: usize) -> Vec<(Service, Route)> {
    let all: Vec<Line> = lines.iter().map(|one| one.0).collect();
    let ran = (0..).zip(lines).filter(|(_, (_, has_run))| *has_run);
    let made = ran.fold(Made::new(&all), |made, (number, _)| {
        made.served(number, 100, &STEPS[..steps])
    });
    leading(&made.report())
}

#[test]
fn what_never_ran_has_no_curve_and_leaves_its_place_to_another() {
    let lines = [
        (line(URGENT, 0), false),
        (line(LESS_URGENT, 0), true),
        (line(Service::Other, 0), true),
    ];

    let shown = shown(&lines, 2);

    let services: Vec<Service> = shown.into_iter().map(|one| one.0).collect();
    assert_eq!(services, [Service::Irq, LESS_URGENT, Service::Other]);
}

#[test]
fn of_two_routes_the_direct_one_is_shown_and_three_curves_at_most() {
    let deferred = |service| Line {
        route: Route::Deferred,
        ..line(service, 0)
    };
    let lines = [
        (line(Service::Softirq, 0), true),
        (line(URGENT, 0), true),
        (line(Service::Other, 0), true),
        (deferred(URGENT), true),
        (deferred(Service::Other), true),
    ];

    // No interrupt: the most direct of the others has its place.
    let expected = [Service::Softirq, URGENT, Service::Other].map(|one| (one, Route::Direct));
    assert_eq!(shown(&lines, 1), expected);
    // Where the direct route was not measured, the other is shown.
    let of_deferred = shown(&lines[2..4], 1);
    let expected = [(Service::Other, Route::Direct), (URGENT, Route::Deferred)];
    assert_eq!(of_deferred, expected);
}
