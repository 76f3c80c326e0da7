//! Failures replayed over the blackouts that a probe shows bound the true count.

use laggard_analyze::exceedance::{Blackout, Exceedance, Stream};
use laggard_analyze::qos::{Buffering, late_jobs};
use laggard_model::{Cpu, Nanos, Route, Service};
use proptest::prelude::{prop, prop_assert, proptest};

/// Returns the latencies that an open-loop probe at these times measures of `truth`.
fn probed(truth: &[(u64, u64)], times: &[u64]) -> Stream {
    let mut served = 0;
    let exceedances = times
        .iter()
        .map(|&expiry| {
            let hit = truth
                .iter()
                .find(|(start, end)| *start <= expiry && expiry < *end);
            let end = hit.map_or(expiry + 1, |(_, end)| *end);
            let late = Exceedance {
                expiry: Nanos::from_ns(expiry),
                latency: Nanos::from_ns(end - expiry),
                free_until: Nanos::from_ns(served.min(expiry)),
            };
            served = end;
            late
        })
        .collect();
    Stream {
        cpu: Cpu(0),
        service: Service::Other,
        route: Route::Direct,
        samples: times.len() as u64,
        floor: Nanos::ZERO,
        exceedances,
    }
}

proptest! {
    #[test]
    fn true_number_of_misses_is_between_the_bounds(
        gaps in prop::collection::vec((1_000..60_000_u64, 1_100..25_000_u64), 1..20),
        steps in prop::collection::vec(1..1_000_u64, 2_000..2_001),
    ) {
        let mut now = 1_000;
        let truth: Vec<(u64, u64)> = gaps
            .iter()
            .map(|(gap, length)| {
                let start = now + gap;
                now = start + length;
                (start, now)
            })
            .collect();
        let mut time = 0;
        let times: Vec<u64> = steps.iter().map(|step| { time += step; time }).collect();
        let end = times[times.len() - 1];
        let stalls: Vec<(u64, u64)> = truth.into_iter().filter(|(_, e)| e + 60_000 < end).collect();
        let lists = probed(&stalls, &times).blackouts(Nanos::ZERO, Nanos::ZERO, Nanos::from_ns(1));
        let exact: Vec<Blackout> = stalls
            .iter()
            .map(|&(start, end)| Blackout::new(start as f64, end as f64))
            .collect();
        let buffering = Buffering::new(3, 6_000.0, 1_500.0).unwrap();
        let misses = |blackouts: &[Blackout]| {
            late_jobs(blackouts, end as f64, buffering, 300.0, 0.0).unwrap().misses.len()
        };
        let count = misses(&exact);
        prop_assert!(misses(&lists.inner) <= count);
        prop_assert!(count <= misses(&lists.outer));
    }
}
