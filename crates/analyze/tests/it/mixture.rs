//! The product formula of a forecast by cause against simulated causes: those
//! that are independent, and those that are not.

use laggard_analyze::forecast::{
    Bootstrap, ByCause, Component, LevelSettings, Mixture, Observation, Pareto, Peaks, Tail,
    level_by_cause,
};
use laggard_model::Nanos;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The unit of time is the ns, that of latency the ms.
const S: f64 = 1e9;
const HOUR: f64 = 3_600.0 * S;
const THRESHOLD: f64 = 1.0;

/// A cause that comes at random, 300 times an hour, and one half as large
/// that comes more often.
const RARE: (f64, Pareto) = (
    300.0,
    Pareto {
        scale: 2.0,
        shape: 0.1,
    },
);
const OFTEN: (f64, Pareto) = (
    900.0,
    Pareto {
        scale: 1.0,
        shape: 0.1,
    },
);
/// A cause that comes every 5 s with 3 to 9 ms, evenly spread.
const PERIOD: f64 = 5.0 * S;
const PERIODIC: (f64, f64) = (3.0, 9.0);

/// One visit of a cause: when, how large, which.
type Visit = (f64, f64, usize);

fn exponential(mean: f64, random: &mut Pcg64Mcg) -> f64 {
    -mean * (1.0 - random.random::<f64>()).ln()
}

/// Above the threshold by an excess.
fn size(excess: Pareto, random: &mut Pcg64Mcg) -> f64 {
    let rarity = 1.0 / (1.0 - random.random::<f64>());
    THRESHOLD + excess.exceeded_once_in(rarity).max(1e-12)
}

/// Visits of a random cause within `length`.
fn visits(cause: (f64, Pareto), number: usize, length: f64, random: &mut Pcg64Mcg) -> Vec<Visit> {
    let mut all = Vec::new();
    let between = HOUR / cause.0;
    let mut at = exponential(between, random);
    while at < length {
        all.push((at, size(cause.1, random), number));
        at += exponential(between, random);
    }
    all
}

fn periodic(number: usize, length: f64, random: &mut Pcg64Mcg) -> Vec<Visit> {
    let mut all = Vec::new();
    let mut at = PERIOD * random.random::<f64>();
    while at < length {
        let (least, most) = PERIODIC;
        let size = least + (most - least) * random.random::<f64>();
        all.push((at + 1e6 * random.random::<f64>(), size, number));
        at += PERIOD;
    }
    all
}

fn random_component(cause: (f64, Pareto)) -> Component {
    Component::Random {
        tail: Tail {
            threshold: THRESHOLD,
            rate: cause.0 / HOUR,
            excess: cause.1,
        },
        exposure: HOUR,
    }
}

/// The truth about each cause.
fn components() -> Vec<Component> {
    let (least, most) = PERIODIC;
    let sizes = (0..600).map(|k| least + (most - least) * (f64::from(k) + 0.5) / 600.0);
    let periodic = Component::Periodic {
        period: PERIOD,
        sizes: sizes.collect(),
    };
    vec![random_component(RARE), random_component(OFTEN), periodic]
}

/// The formula, told the truth.
fn truth() -> Mixture {
    Mixture::new(components(), 1.0).unwrap()
}

/// The chance that nothing exceeds `level` in `horizon`, of independent causes:
/// the product of each one's.
fn never_above(components: &[Component], level: f64, horizon: f64) -> f64 {
    let log = |component: &Component| match component {
        Component::Periodic { period, sizes } => {
            let above = sizes.iter().filter(|&&size| size > level).count();
            horizon / period * (-(above as f64 / sizes.len() as f64)).ln_1p()
        }
        Component::Random { tail, .. } => -tail.expected_above(level, horizon),
    };
    components.iter().map(log).sum::<f64>().exp()
}

/// The median of the largest latency in `horizon`, by bisection.
fn median_of_largest(components: &[Component], horizon: f64) -> f64 {
    let (mut low, mut high) = (THRESHOLD, 1e6);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if never_above(components, middle, horizon) < 0.5 {
            low = middle
        } else {
            high = middle
        }
    }
    low
}

/// The sizes of `all` visits' peaks, when visits of less than 10 ms distance
/// are one peak: of the larger, or of their sum.
fn joined(mut all: Vec<Visit>, join: fn(f64, f64) -> f64) -> Vec<f64> {
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut peaks: Vec<(f64, f64)> = Vec::new();
    for (at, size, _) in all {
        match peaks.last_mut() {
            Some(last) if at - last.0 < 10e6 => *last = (at, join(last.1, size)),
            _ => peaks.push((at, size)),
        }
    }
    peaks.into_iter().map(|(_, size)| size).collect()
}

fn larger(a: f64, b: f64) -> f64 {
    a.max(b)
}

fn sum(a: f64, b: f64) -> f64 {
    a + b
}

/// How often `peaks` of `horizons` exceed `level`, per horizon.
fn exceedances(peaks: &[f64], level: f64, horizons: f64) -> f64 {
    peaks.iter().filter(|&&size| size > level).count() as f64 / horizons
}

#[test]
fn the_formula_is_exact_for_independent_causes() {
    let mut random = Pcg64Mcg::seed_from_u64(27);
    let mixture = truth();
    for horizon in [10.0 * 60.0 * S, HOUR, 10.0 * HOUR] {
        let level = mixture.return_level(horizon).unwrap();
        let median = median_of_largest(&components(), horizon);
        let runs = if horizon < HOUR { 6_000 } else { 1_000 };
        let (mut above, mut within) = (0.0, 0);
        for _ in 0..runs {
            let mut all = visits(RARE, 0, horizon, &mut random);
            all.extend(visits(OFTEN, 1, horizon, &mut random));
            all.extend(periodic(2, horizon, &mut random));
            let peaks = joined(all, larger);
            above += exceedances(&peaks, level, f64::from(runs));
            within += i32::from(exceedances(&peaks, median, 1.0) == 0.0);
        }
        let within = f64::from(within) / f64::from(runs);
        println!(
            "independent, {:.2} h: the level of {level:.2} ms was exceeded {above:.3} times, the median of the largest held {within:.3}",
            horizon / HOUR
        );
        // Four standard errors, and what clusters of two causes lose.
        assert!((above - 1.0).abs() < 4.0 / f64::from(runs).sqrt() + 0.01);
        assert!((within - 0.5).abs() < 2.0 / f64::from(runs).sqrt() + 0.01);
    }
}

/// How often the level of an hour, by the formula for independent causes, is
/// exceeded in an hour, and what the level should have been.
fn dependent(
    what: &str,
    join: fn(f64, f64) -> f64,
    mut come: impl FnMut(&mut Pcg64Mcg) -> Vec<Visit>,
) -> (f64, f64) {
    let mut random = Pcg64Mcg::seed_from_u64(57);
    let mixture = Mixture::new(vec![random_component(RARE), random_component(OFTEN)], 1.0).unwrap();
    let level = mixture.return_level(HOUR).unwrap();
    let hours = 2_000_usize;
    let mut all: Vec<f64> = (0..hours)
        .flat_map(|_| joined(come(&mut random), join))
        .collect();
    let above = exceedances(&all, level, hours as f64);
    all.sort_by(|a, b| b.total_cmp(a));
    let should = all[hours - 1];
    println!("{what}: exceeded {above:.2} times an hour; {level:.1} ms instead of {should:.1} ms");
    (above, level / should)
}

#[test]
fn causes_that_come_together_are_forecast_too_high_or_too_low() {
    // A visit of the rare cause brings one of the other, `share` of the time.
    let together = |share: f64| {
        move |random: &mut Pcg64Mcg| {
            let rare = visits(RARE, 0, HOUR, random);
            let mut all = visits((OFTEN.0 - share * RARE.0, OFTEN.1), 1, HOUR, random);
            for &(at, _, _) in &rare {
                if random.random::<f64>() < share {
                    all.push((at + 1e6, size(OFTEN.1, random), 1));
                }
            }
            all.extend(rare);
            all
        }
    };

    // At once, on two CPUs: one late activation each, the peak is the larger.
    let (above, _) = dependent("always together, the larger counts", larger, together(1.0));
    assert!((0.9..=1.05).contains(&above));
    // In one activation: the latencies add up.
    let (above, factor) = dependent("one in ten together, they add up", sum, together(0.1));
    assert!((1.0..1.25).contains(&above) && factor > 0.95);
    let (above, factor) = dependent("always together, they add up", sum, together(1.0));
    assert!((1.4..2.5).contains(&above) && (0.75..0.95).contains(&factor));
}

#[test]
fn a_load_that_comes_and_goes_keeps_the_level_but_not_the_odds() {
    let median = median_of_largest(&[random_component(RARE), random_component(OFTEN)], HOUR);
    let mut random = Pcg64Mcg::seed_from_u64(3);
    let hours = 2_000;
    let mut within = 0;
    let (above, _) = dependent(
        "both five times as often in every fifth hour",
        larger,
        |random| {
            if random.random::<f64>() < 0.8 {
                return Vec::new();
            }
            let mut all = visits((5.0 * RARE.0, RARE.1), 0, HOUR, random);
            all.extend(visits((5.0 * OFTEN.0, OFTEN.1), 1, HOUR, random));
            all
        },
    );
    for _ in 0..hours {
        let busy = random.random::<f64>() < 0.2;
        let all = if busy {
            visits((5.0 * RARE.0, RARE.1), 0, HOUR, &mut random)
        } else {
            Vec::new()
        };
        within += i32::from(joined(all, larger).iter().all(|&size| size <= median));
    }
    let within = f64::from(within) / f64::from(hours);
    println!("the median of the largest held in {within:.2} of the hours");

    assert!((0.9..1.1).contains(&above));
    assert!((0.75..0.9).contains(&within));
}

/// An hour as `level_by_cause` sees it, and what it says about ten.
fn forecast(random: &mut Pcg64Mcg, seed: u64) -> Option<laggard_analyze::Interval> {
    let mut all = visits(RARE, 0, HOUR, random);
    all.extend(visits(OFTEN, 1, HOUR, random));
    all.extend(periodic(2, HOUR, random));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let causes: Vec<Option<usize>> = all.iter().map(|one| Some(one.2)).collect();
    let times = all.iter().map(|one| one.0).collect();
    let sizes = all.iter().map(|one| one.1).collect();
    let peaks = Peaks::new(THRESHOLD, HOUR, times, sizes).unwrap();
    let observations = [Observation {
        start: Nanos::ZERO,
        duration: Nanos::from_secs(3_600),
        streams: Vec::new(),
    }];
    let known = ByCause {
        peaks: &peaks,
        observations: &observations,
        causes: &causes,
        classes: &[0, 1, 2],
        compression: 1.0,
    };
    let settings = LevelSettings {
        bootstrap: Bootstrap { rounds: 99, seed },
        ..LevelSettings::default()
    };
    let found = level_by_cause(known, 10.0 * HOUR, &settings).ok()?;
    Some(found.0.interval)
}

#[test]
fn a_forecast_by_cause_is_accepted_and_covers() {
    let truth = truth().return_level(10.0 * HOUR).unwrap();
    let runs = 60;
    let intervals: Vec<_> = (0..runs)
        .filter_map(|run| forecast(&mut Pcg64Mcg::seed_from_u64(run), run))
        .collect();
    let covered = intervals.iter().filter(|one| one.contains(truth)).count();

    let accepted = intervals.len() as f64 / runs as f64;
    let covered = covered as f64 / intervals.len() as f64;
    println!("by cause: {accepted:.3} accepted, {covered:.3} of them covered {truth:.2} ms");
    // Each random cause is refused in 8 % of all cases (docs/method.md 8.6).
    assert!(accepted > 0.7, "{accepted}");
    // Three standard errors from 0.95, and 99 rounds are few.
    assert!((0.86..=1.0).contains(&covered), "{covered}");
}
