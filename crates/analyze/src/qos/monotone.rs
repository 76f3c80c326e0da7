//! Failures as a function of the number of buffers: a curve that never rises.

use super::Outlook;

/// Makes `outlooks` of one recording, ordered by number of buffers, agree that more
/// buffers never fail more often. No job is late that is on time with fewer buffers.
/// But a long run that splits counts as several failures, so raw counts can rise.
///
/// The estimate becomes the isotonic one: neighbours in the wrong order are pooled
/// (Barlow, Bartholomew, Bremner & Brunk 1972, section 1.2; Robertson, Wright & Dykstra
/// 1988, section 1.4), with equal weights because the exposure is the same. It is the
/// nearest ordered estimate, and closer to the truth than the raw one. Intervals only
/// become wider: each lower end is the lowest of all with the same number of buffers or
/// more, each upper end the highest of all with the same number or fewer.
pub fn monotone(outlooks: &mut [Outlook]) {
    // Pools: sum of failures and number of outlooks in each.
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for outlook in outlooks.iter() {
        let mut pool = (outlook.failures, 1);
        while let Some(&(sum, size)) = pools.last()
            && sum / (size as f64) < pool.0 / pool.1 as f64
        {
            pool = (pool.0 + sum, pool.1 + size);
            pools.pop();
        }
        pools.push(pool);
    }
    let failures = pools
        .into_iter()
        .flat_map(|(sum, size)| std::iter::repeat_n(sum / size as f64, size));
    for (outlook, failures) in outlooks.iter_mut().zip(failures) {
        outlook.failures = failures;
        outlook.mean_time = (failures >= 1.0).then(|| outlook.exposure / failures);
    }
    let mut low = f64::INFINITY;
    for outlook in outlooks.iter_mut().rev() {
        low = low.min(outlook.mean_time_interval.low);
        outlook.mean_time_interval.low = low;
    }
    let mut high = 0.0_f64;
    for outlook in outlooks {
        high = high.max(outlook.mean_time_interval.high);
        outlook.mean_time_interval.high = high;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interval;
    use crate::exceedance::{StreamBlackouts, in_a_row};
    use crate::qos::{Buffering, Observed, outlook};
    use proptest::prelude::{prop, prop_assert, proptest};

    fn of(failures: f64, low: f64, high: f64) -> Outlook {
        Outlook {
            exposure: 100.0,
            failures,
            clusters: failures,
            misses: failures,
            mean_time: (failures >= 1.0).then(|| 100.0 / failures),
            mean_time_interval: Interval::new(low, high),
            dispersion: None,
        }
    }

    #[test]
    fn rising_counts_are_pooled_and_intervals_only_become_wider() {
        let mut outlooks = [
            of(8.0, 5.0, 30.0),
            of(2.0, 20.0, 200.0),
            of(4.0, 10.0, 90.0),
            of(0.0, 33.0, f64::INFINITY),
        ];

        monotone(&mut outlooks);

        assert_eq!(
            outlooks.map(|outlook| outlook.failures),
            [8.0, 3.0, 3.0, 0.0]
        );
        assert_eq!(outlooks[1].mean_time, Some(100.0 / 3.0));
        assert_eq!(outlooks[1].mean_time_interval.low, 10.0);
        assert_eq!(outlooks[2].mean_time_interval.high, 200.0);
    }

    proptest! {
        #[test]
        fn failures_never_rise_with_the_number_of_buffers(
            gaps in prop::collection::vec((0.5..60.0_f64, 0.1..90.0_f64), 1..60),
        ) {
            let (blackouts, now) = in_a_row(gaps);
            let observed = [Observed {
                recording: 0,
                blackouts: StreamBlackouts {
                    inner: blackouts.clone(),
                    middle: blackouts.clone(),
                    outer: blackouts,
                },
                exposure: now + 50.0,
                base: 0.0,
            }];
            let mut outlooks: Vec<Outlook> = (2..10)
                .map(|buffers| {
                    let buffering = Buffering::new(buffers, 6.0, 4.5).unwrap();
                    outlook(&observed, buffering, 0.95).unwrap()
                })
                .collect();

            monotone(&mut outlooks);

            for pair in outlooks.windows(2) {
                let [fewer, more] = pair else { unreachable!("windows of two") };
                prop_assert!(more.failures <= fewer.failures * (1.0 + 1e-12));
                prop_assert!(fewer.mean_time_interval.low <= more.mean_time_interval.low);
                prop_assert!(fewer.mean_time_interval.high <= more.mean_time_interval.high);
                for outlook in pair {
                    let time = outlook.mean_time.unwrap_or(f64::INFINITY) * (1.0 + 1e-12);
                    prop_assert!(outlook.mean_time_interval.low <= time);
                    if let Some(time) = outlook.mean_time {
                        prop_assert!(time <= outlook.mean_time_interval.high * (1.0 + 1e-12));
                    }
                }
            }
        }
    }
}
