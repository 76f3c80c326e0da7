//! Services that a figure shows by default.

use laggard_answer::show::leading;
use laggard_made::{Made, line};
use laggard_model::{Line, Route, Service, Stage};

/// Stages without the interrupt, and with it. The interrupt is then a separate service.
const STEPS: [(Stage, u64); 2] = [(Stage::User, 16_000), (Stage::Irq, 9_000)];
const URGENT: Service = Service::Fifo(90);
const LESS_URGENT: Service = Service::Fifo(50);

/// Returns the services shown for a recording with these lines. The flagged ones ran, with this
/// number of stages.
fn shown(lines: &[(Line, bool)], steps: usize) -> Vec<(Service, Route)> {
    let recorded_lines: Vec<Line> = lines.iter().map(|line| line.0).collect();
    let ran = (0..).zip(lines).filter(|(_, (_, has_run))| *has_run);
    let made = ran.fold(Made::new(&recorded_lines), |made, (number, _)| {
        made.served(number, 100, &STEPS[..steps])
    });
    leading(&made.report())
}

#[test]
fn service_that_never_ran_has_no_curve() {
    let lines = [
        (line(URGENT, 0), false),
        (line(LESS_URGENT, 0), true),
        (line(Service::Other, 0), true),
    ];

    let shown = shown(&lines, 2);

    let services: Vec<Service> = shown.into_iter().map(|entry| entry.0).collect();
    assert_eq!(services, [Service::Irq, LESS_URGENT, Service::Other]);
}

#[test]
fn direct_route_is_shown_and_at_most_three_curves() {
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

    // Without an interrupt, the most direct of the other services takes its place.
    let expected =
        [Service::Softirq, URGENT, Service::Other].map(|service| (service, Route::Direct));
    assert_eq!(shown(&lines, 1), expected);
    // If the direct route was not measured, the other one is shown.
    let of_deferred = shown(&lines[2..4], 1);
    let expected = [(Service::Other, Route::Direct), (URGENT, Route::Deferred)];
    assert_eq!(of_deferred, expected);
}
