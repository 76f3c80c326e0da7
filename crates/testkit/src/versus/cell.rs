//! One service under one load on two kernels.

use laggard_analyze::compare::{
    BlockBootstrap, Comparison, ComparisonVerdict, QuantileRatio, RecordingCount,
    compare_recordings, quantile_ratio,
};
use laggard_analyze::forecast::decluster;
use laggard_model::{Nanos, Route, Service};

use super::{Repetition, VersusError};

/// Level of every interval.
const CONFIDENCE: f64 = 0.95;
/// Ratios of rates from 1 / 1.25 to 1.25 count as equal (docs/method.md 10.1).
const MARGIN: f64 = 1.25;
/// The quantile that is compared.
const SHARE: f64 = 0.999;
/// Fewer samples do not tell that quantile.
const LEAST_SAMPLES: usize = 3_689;
/// Late activations no further apart are one event: a backlog drains in it.
/// Five ticks of 4 ms.
const RUN: Nanos = Nanos::from_ms(20);
/// Activations that the bootstrap keeps together: longer than any cluster.
const BLOCK: usize = 100;

/// What one kernel did.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// The largest latency seen; `None` where the kernel lacks the service.
    pub largest: Option<Nanos>,
    /// The latency that 1 in 1,000 passed, where both kernels have samples
    /// enough.
    pub p999: Option<Nanos>,
    /// How many activations.
    pub samples: usize,
}

/// How often each was late by more than a slack.
#[derive(Clone, Debug)]
pub struct SlackComparison {
    /// By more than this.
    pub slack: Nanos,
    /// Clusters on each.
    pub clusters: [u64; 2],
    /// The second kernel compared with the first.
    pub comparison: Comparison,
    /// Whether no repetition contradicts another: the sign of the difference
    /// is the same wherever there is one.
    pub is_consistent: bool,
}

/// One service under one load.
#[derive(Clone, Debug)]
pub struct VersusCell {
    /// The service that was measured.
    pub service: Service,
    /// How it was reached.
    pub route: Route,
    /// What each kernel did.
    pub sides: [Side; 2],
    /// The ratio of the quantiles, where both are known.
    pub ratio: Option<QuantileRatio>,
    /// How often it was late, by slack.
    pub late: Vec<SlackComparison>,
}

impl VersusCell {
    /// Compares the repetitions of two kernels under one load, paired by seed.
    ///
    /// # Errors
    /// When the figures are not such as can be compared.
    pub fn of(
        (route, service): (Route, Service),
        repetitions: [&[Repetition]; 2],
        slacks: &[Nanos],
    ) -> Result<Self, VersusError> {
        let key = (route, service);
        let series = repetitions.map(|all| {
            let all = all.iter().filter_map(|one| one.latencies.get(&key));
            all.map(|latencies| in_ns(latencies)).collect::<Vec<_>>()
        });
        let ratio = match series.iter().all(|all| samples(all) >= LEAST_SAMPLES) {
            true => {
                let bootstrap = BlockBootstrap {
                    block: BLOCK,
                    rounds: 999,
                    seed: 1,
                };
                let [first, second] = &series;
                Some(quantile_ratio(first, second, SHARE, CONFIDENCE, bootstrap)?)
            }
            false => None,
        };
        let sides = [0, 1].map(|index| Side {
            largest: largest(&series[index]),
            p999: ratio.map(|found| nanos(found.quantiles[index])),
            samples: samples(&series[index]),
        });
        // A kernel without the service is not one that is never late.
        let is_on_both = series.iter().all(|all| !all.is_empty());
        let late = slacks
            .iter()
            .filter(|_| is_on_both)
            .map(|&slack| late(key, repetitions, slack))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            service,
            route,
            sides,
            ratio,
            late,
        })
    }
}

/// Zero would have no ratio; the clock has no finer step than 1 ns.
fn in_ns(latencies: &[Nanos]) -> Vec<f64> {
    let ns = |latency: &Nanos| latency.ns().max(1) as f64;
    latencies.iter().map(ns).collect()
}

fn samples(repetitions: &[Vec<f64>]) -> usize {
    repetitions.iter().map(Vec::len).sum()
}

fn largest(repetitions: &[Vec<f64>]) -> Option<Nanos> {
    let all = repetitions.iter().flatten().copied();
    all.reduce(f64::max).map(nanos)
}

/// Whole ns below 2^53, back from what is computed with.
fn nanos(ns: f64) -> Nanos {
    Nanos::from_f64(ns)
}

fn late(
    key: (Route, Service),
    repetitions: [&[Repetition]; 2],
    slack: Nanos,
) -> Result<SlackComparison, VersusError> {
    let mut clusters = [0; 2];
    let mut counts = [Vec::new(), Vec::new()];
    for (index, all) in repetitions.into_iter().enumerate() {
        for repetition in all {
            let times = events(repetition, key, slack)?;
            clusters[index] += times.len() as u64;
            let exposure = repetition.exposure.as_f64();
            counts[index].push(RecordingCount::of(times, exposure, exposure)?);
        }
    }
    let found = compare_recordings(&counts[0], &counts[1], MARGIN, CONFIDENCE)?;
    let signs = || {
        let pairs = counts[0].iter().zip(&counts[1]);
        pairs.map(|(one, other)| other.events.total_cmp(&one.events))
    };
    Ok(SlackComparison {
        slack,
        clusters,
        comparison: found.comparison,
        is_consistent: !(signs().any(|sign| sign.is_gt()) && signs().any(|sign| sign.is_lt())),
    })
}

/// When each event of one repetition began, ns from its start.
fn events(
    repetition: &Repetition,
    key: (Route, Service),
    slack: Nanos,
) -> Result<Vec<f64>, VersusError> {
    let stream = repetition.streams.get(&key);
    let stalls = stream.map_or_else(Vec::new, |stream| stream.stalls_beyond(slack));
    let since = |at: Nanos| {
        let since = at.saturating_sub(repetition.start);
        since.min(repetition.exposure).as_f64()
    };
    let starts: Vec<f64> = stalls.iter().map(|stall| since(stall.from)).collect();
    let ends: Vec<f64> = stalls.iter().map(|stall| since(stall.until)).collect();
    let latencies: Vec<f64> = stalls.iter().map(|stall| stall.latency.as_f64()).collect();
    let clusters = decluster(&starts, &ends, &latencies, slack.as_f64(), RUN.as_f64())?;
    Ok(clusters.iter().map(|cluster| cluster.first).collect())
}

impl SlackComparison {
    /// What may be said, in words.
    pub fn words(&self) -> &'static str {
        use laggard_analyze::compare::Magnitude;
        match (
            self.is_consistent,
            self.comparison.magnitude,
            self.comparison.verdict,
        ) {
            (false, ..) => "repetitions disagree",
            (_, Magnitude::TenTimesBetter, _) => "10 times better",
            (_, Magnitude::TenTimesWorse, _) => "10 times worse",
            (_, Magnitude::Compatible, ComparisonVerdict::Better) => "better, perhaps 10 times",
            (_, Magnitude::Compatible, ComparisonVerdict::Worse) => "worse, perhaps 10 times",
            (_, Magnitude::Less, ComparisonVerdict::Better) => "better, less than 10 times",
            (_, Magnitude::Less, ComparisonVerdict::Worse) => "worse, less than 10 times",
            (_, _, ComparisonVerdict::Equivalent) => "equal",
            (_, _, ComparisonVerdict::Inconclusive) => "cannot be told",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use laggard_analyze::exceedance::{Exceedance, Stream};
    use laggard_model::Cpu;

    use super::*;

    const KEY: (Route, Service) = (Route::Direct, Service::Fifo(90));

    /// 5,000 activations of 30 us, 2 ms apart, of which every `every`-th is
    /// `late_us` late.
    fn repetition(every: u64, late_us: u64) -> Repetition {
        let exceedances: Vec<Exceedance> = (0..5_000)
            .map(|number| Exceedance {
                expiry: Nanos::from_ms(2 * number),
                latency: Nanos::from_us(if number % every == 1 { late_us } else { 30 }),
                free_until: Nanos::ZERO,
            })
            .collect();
        let stream = Stream {
            cpu: Cpu(0),
            service: KEY.1,
            route: KEY.0,
            samples: 5_000,
            floor: Nanos::ZERO,
            exceedances,
        };
        let latencies = stream.exceedances.iter().map(|late| late.latency);
        Repetition {
            latencies: BTreeMap::from([(KEY, latencies.collect())]),
            streams: BTreeMap::from([(KEY, stream)]),
            start: Nanos::ZERO,
            exposure: Nanos::from_secs(10),
            lost: 0,
        }
    }

    #[test]
    fn a_kernel_that_is_late_twenty_times_as_often_is_ten_times_worse() {
        let (rare, often) = (repetition(1_000, 2_000), repetition(50, 2_000));
        let (rare, often) = (vec![rare; 3], vec![often; 3]);

        let cell = VersusCell::of(KEY, [&rare, &often], &[Nanos::from_ms(1)]).unwrap();

        assert_eq!(cell.late[0].clusters, [15, 300]);
        assert_eq!(cell.late[0].words(), "10 times worse");
        assert_eq!(cell.sides[1].largest, Some(Nanos::from_ms(2)));
        let swapped = VersusCell::of(KEY, [&often, &rare], &[Nanos::from_ms(1)]).unwrap();
        assert_eq!(swapped.late[0].words(), "10 times better");
    }

    #[test]
    fn a_stall_is_one_event_however_long() {
        let mut stalled = repetition(1_000, 2_000);
        let stream = stalled.streams.get_mut(&KEY).unwrap();
        // Longer than the time that keeps events apart, and shorter than the
        // 2 s until the next.
        for late in stream.exceedances.iter_mut().skip(1).step_by(1_000) {
            late.latency = Nanos::from_ms(500);
        }

        let ordinary = [repetition(1_000, 2_000)];

        let cell = VersusCell::of(KEY, [&ordinary, &[stalled]], &[Nanos::from_ms(1)]).unwrap();

        assert_eq!(cell.late[0].clusters, [5, 5]);
    }

    #[test]
    fn repetitions_that_contradict_each_other_are_no_verdict() {
        let (rare, often) = (repetition(1_000, 2_000), repetition(50, 2_000));
        let first = [often.clone(), rare.clone()];
        let second = [rare, often];

        let cell = VersusCell::of(KEY, [&first, &second], &[Nanos::from_ms(1)]).unwrap();

        assert_eq!(cell.late[0].words(), "repetitions disagree");
    }

    #[test]
    fn what_one_repetition_alone_saw_is_no_verdict() {
        let (rare, often) = (repetition(1_000, 2_000), repetition(40, 2_000));
        let first = vec![rare.clone(); 3];
        let second = [rare.clone(), rare, often];

        let cell = VersusCell::of(KEY, [&first, &second], &[Nanos::from_ms(1)]).unwrap();

        // 15 against 135 would be no chance, were they as many in each.
        assert_eq!(cell.late[0].clusters, [15, 135]);
        assert_eq!(cell.late[0].words(), "cannot be told");
    }

    #[test]
    fn a_service_that_one_kernel_lacks_is_not_compared() {
        let with = [repetition(50, 2_000)];

        let cell = VersusCell::of(KEY, [&with, &[]], &[Nanos::from_ms(1)]).unwrap();

        assert!(cell.late.is_empty() && cell.ratio.is_none());
        assert_eq!(cell.sides[1].largest, None);
    }

    #[test]
    fn the_quantile_ratio_of_twice_the_latency_is_two() {
        let (one, other) = ([repetition(10, 100)], [repetition(10, 200)]);

        let cell = VersusCell::of(KEY, [&one, &other], &[]).unwrap();

        assert!((cell.ratio.unwrap().ratio - 2.0).abs() < 1e-9);
        assert_eq!(cell.sides[0].p999, Some(Nanos::from_us(100)));
    }
}
