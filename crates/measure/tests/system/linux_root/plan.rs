//! Times of the expiries.

use std::collections::BTreeSet;

use laggard_measure::{Request, Timeline};
use laggard_model::{Cpu, Every, Nanos, Route, Service};

use super::{EVERY_SERVICE, Measured, PERIOD, measure, measure_request, request};

#[test]
fn number_of_expiries_follows_from_the_period() {
    let Some(measured) = measure("softirq,fifo:90,other") else {
        return;
    };

    for (index, line) in measured.lines.iter().enumerate() {
        let expiries: Vec<Nanos> = measured
            .of_line(index)
            .map(|activation| activation.expiry)
            .collect();
        let span = Nanos::between(expiries[0], *expiries.last().unwrap()).unwrap();
        let turns = if line.route == Route::Deferred { 2 } else { 1 };
        let periods = span.ns() / PERIOD.ns() / turns;
        let actual = expiries.len() as u64;
        assert!(
            actual.abs_diff(periods) * 10 <= periods + 50,
            "{line:?}: {actual} in {periods}"
        );
    }
}

/// Returns the plan of `Timeline` for a line, from an arbitrary start.
fn planned(cpu: Cpu, place: u32, places: u32) -> Vec<u64> {
    let seed = request("other").seed ^ u64::from(cpu.0);
    let mut timeline = Timeline::new(seed, PERIOD, true, place, places, Nanos::ZERO);
    let expiries = (0..5_000).map(|_| {
        let expiry = timeline.expiry().ns();
        timeline.advance();
        expiry
    });
    expiries.collect()
}

/// Returns whether activations, each with its number and expiry, follow a plan from one of its
/// expiries.
fn follows(activations: &[(u64, u64)], plan: &[u64]) -> bool {
    let (first, expiry) = activations[0];
    let number = |seq: u64| usize::try_from(seq - first).unwrap();
    (0..plan.len() - number(activations[activations.len() - 1].0)).any(|from| {
        activations.iter().all(|&(seq, expiry_of_row)| {
            expiry_of_row - expiry == plan[from + number(seq)] - plan[from]
        })
    })
}

#[test]
fn softirq_timer_of_the_kernel_follows_the_plan_of_user_space() {
    let Some(measured) = measure("softirq,fifo:90,other") else {
        return;
    };
    if is_armed_for_a_delay() {
        return;
    }

    follow_the_plan(&measured, |_| (0, 1));
}

/// Returns whether this kernel cannot arm the softirq's timer for an absolute time.
fn is_armed_for_a_delay() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut parts = release
        .split(['.', '-'])
        .map_while(|part| part.parse().ok());
    let version: (u32, u32) = (parts.next().unwrap(), parts.next().unwrap());
    if version < (6, 4) {
        println!(
            "skipped: before Linux 6.4 the softirq's timer is armed with a delay, not for an absolute time"
        );
    }
    version < (6, 4)
}

#[test]
fn service_with_a_stride_has_its_part_of_the_same_plan() {
    let measured = measure_request(Request {
        every: Every::about(Service::Fifo(90)),
        ..request("softirq,fifo:90,other")
    });
    let Some(measured) = measured else {
        return;
    };
    if is_armed_for_a_delay() {
        return;
    }

    // The second and third timeline, with every second expiry.
    follow_the_plan(&measured, |service| match service {
        Service::Other => (1, 2),
        Service::Softirq => (0, 2),
        _ => (0, 1),
    });
}

/// Checks the activations of the direct lines against the plan. `part` returns the first expiry
/// and the stride of each line.
fn follow_the_plan(measured: &Measured, part: impl Fn(Service) -> (usize, usize)) {
    // Two direct threads come before the softirq.
    for (index, line) in measured.lines.iter().enumerate() {
        let place = match (line.service, line.route) {
            (Service::Fifo(90), Route::Direct) => 0,
            (Service::Other, Route::Direct) => 1,
            (Service::Softirq, _) => 2,
            _ => continue,
        };
        let of_line = measured.of_line(index);
        let activations: Vec<(u64, u64)> = of_line
            .map(|activation| (activation.seq, activation.expiry.ns()))
            .collect();
        assert!(activations.len() > 100, "{line:?}");
        let (first, stride) = part(line.service);
        let plan: Vec<u64> = planned(line.cpu, place, 3)
            .into_iter()
            .skip(first)
            .step_by(stride)
            .collect();
        assert!(follows(&activations, &plan), "{line:?}");
    }
}

#[test]
fn every_follower_has_the_expiries_of_its_turn() {
    let Some(measured) = measure(EVERY_SERVICE) else {
        return;
    };

    let lines = || measured.lines.iter().enumerate();
    for (softirq, softirq_line) in lines().filter(|(_, line)| line.service == Service::Softirq) {
        let followers: Vec<usize> = lines()
            .filter(|(_, line)| line.cpu == softirq_line.cpu && line.route == Route::Deferred)
            .map(|(index, _)| index)
            .collect();
        let requested: Vec<Nanos> = measured
            .of_line(softirq)
            .map(|activation| activation.expiry)
            .collect();
        for &follower in &followers {
            let turns: BTreeSet<usize> = measured
                .of_line(follower)
                .filter_map(|activation| requested.binary_search(&activation.expiry).ok())
                .map(|number| number % followers.len())
                .collect();
            assert!(
                turns.len() <= 1,
                "{:?}: {turns:?}",
                measured.lines[follower]
            );
        }
    }
}
