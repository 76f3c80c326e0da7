//! Peaks of independent clusters from the late wakeups of recordings.

use laggard_model::Nanos;

use super::{Cluster, Peaks, decluster};
use crate::InputError;
use crate::exceedance::{LateStretch, Stream};
use crate::period::{PeriodicSource, SourceSearch, periodic_sources_by_size};
use crate::sample::{descending, index};

/// Maximum distance of exceedances in one cluster: two ticks of a slow kernel (HZ 250)
/// and a little more.
const RUN_NS: f64 = 10e6;
/// Minimum number of peaks to keep, if there are that many.
const MIN_KEPT: usize = 500;
/// Mean distance of exceedances, in runs, below which clusters merge.
const MIN_MEAN_DISTANCE: f64 = 5.0;
/// Number of largest peaks of a recording whose periodic fraction is computed.
const LARGEST_PEAKS: usize = 30;
/// Maximum number of searches (recordings x services) that share the level of
/// significance. Each additional one would make a search slower.
const MAX_SEARCHES: usize = 100;

/// Observation of one service in one recording: the streams of all CPUs.
#[derive(Clone, Debug)]
pub struct Observation<'a> {
    /// Start, `CLOCK_MONOTONIC`.
    pub start: Nanos,
    /// Duration.
    pub duration: Nanos,
    /// Streams of the service on every CPU, by one route.
    pub streams: Vec<&'a Stream>,
}

/// Peaks of observations, with their origin.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedPeaks {
    /// Peaks, one observation after the other.
    pub peaks: Peaks,
    /// Per peak: time span of its cluster.
    pub spans: Vec<PeakSpan>,
    /// Time and peak of every cluster, including clusters below the threshold of the peaks, one
    /// observation after the other.
    pub events: Vec<(f64, f64)>,
}

/// Time span of a peak's cluster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PeakSpan {
    /// Index of the observation, from 0.
    pub observation: usize,
    /// First expiry, `CLOCK_MONOTONIC`.
    pub from: Nanos,
    /// Last time when an activation was, or would have been, late.
    pub to: Nanos,
}

/// Returns the largest peaks of `observations` one after the other, in ns.
/// Simultaneous latencies on several CPUs are one peak, so levels describe the worst CPU. Keeps at
/// least 500 peaks and at least twice the number of horizons in the exposure.
///
/// # Errors
/// If observations are missing, or the duration of one is zero.
pub fn peaks_of(observations: &[Observation<'_>], horizon: f64) -> Result<Peaks, InputError> {
    Ok(observe(observations, horizon)?.peaks)
}

/// Returns the peaks of [`peaks_of`] with their origin.
///
/// # Errors
/// As for [`peaks_of`].
pub fn observe(
    observations: &[Observation<'_>],
    horizon: f64,
) -> Result<ObservedPeaks, InputError> {
    let exposure: f64 = observations
        .iter()
        .map(|observation| observation.duration.as_f64())
        .sum();
    crate::input::positive("exposure", exposure)?;
    let most = MIN_KEPT.max(2 * index((exposure / horizon).min(1e6)) + 20);
    let threshold = threshold(observations, exposure, most);
    let mut clusters: Vec<(Cluster, PeakSpan)> = Vec::new();
    let mut before = 0.0;
    for (observation, seen_by) in observations.iter().enumerate() {
        let [times, ends, latencies] = late_of(seen_by, threshold);
        let declustered = decluster(&times, &ends, &latencies, threshold, RUN_NS)?;
        clusters.extend(declustered.into_iter().map(|cluster| {
            let span = PeakSpan {
                observation,
                from: seen_by.start + Nanos::from_f64(cluster.first),
                to: seen_by.start + Nanos::from_f64(cluster.last),
            };
            let time = (before + cluster.time).min(exposure);
            (Cluster { time, ..cluster }, span)
        }));
        before += seen_by.duration.as_f64();
    }
    let events = clusters.iter();
    let events = events.map(|(cluster, _)| (cluster.time, cluster.peak));
    let events: Vec<(f64, f64)> = events.collect();
    let sizes: Vec<f64> = events.iter().map(|(_, peak)| *peak).collect();
    let threshold = descending(&sizes).get(most).copied().unwrap_or(threshold);
    clusters.retain(|(cluster, _)| cluster.peak > threshold);
    let (clusters, spans): (Vec<Cluster>, Vec<PeakSpan>) = clusters.into_iter().unzip();
    Ok(ObservedPeaks {
        peaks: Peaks::from_clusters(&clusters, threshold, exposure)?,
        spans,
        events,
    })
}

/// Returns the periodic sources among the `events` of each recording (time and size, as
/// in [`ObservedPeaks::events`]), and the largest fraction of the 30 largest events of
/// a recording that belongs to them.
///
/// The level of significance is divided evenly (Bonferroni; Holm 1979, section 2) among
/// these recordings and `services` searched services. Up to a hundred searches together
/// find a period by chance in 1 % of all cases, and p refers to all of them.
///
/// # Errors
/// If the duration of a recording is zero.
pub fn periodic_share(
    observations: &[Observation<'_>],
    events: &[(f64, f64)],
    services: usize,
) -> Result<(Vec<PeriodicSource>, f64), InputError> {
    let mut sources = Vec::new();
    let mut largest_share = 0.0_f64;
    let mut before = 0.0;
    let searched = (observations.len() * services).clamp(1, MAX_SEARCHES);
    for observation in observations {
        let length = observation.duration.as_f64();
        let mut within: Vec<(f64, f64)> = events
            .iter()
            .map(|&(time, size)| (time - before, size))
            .filter(|(time, _)| (0.0..=length).contains(time))
            .collect();
        before += length;
        within.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (times, sizes): (Vec<f64>, Vec<f64>) = within.into_iter().unzip();
        let search = SourceSearch {
            alpha: 0.01 / searched as f64,
            rounds: 200 * searched,
            ..SourceSearch::new(length, &[5e6, 20e6], 0.2e9, 1)
        };
        let periodic = periodic_sources_by_size(&times, &sizes, &search)?;
        let largest = descending(&sizes);
        let least = largest.get(LARGEST_PEAKS - 1).or(largest.last()).copied();
        let is_large = |size: f64| least.is_some_and(|least| size >= least);
        let large = sizes.iter().filter(|&&size| is_large(size)).count();
        let owned = periodic.iter().flat_map(|source| &source.comb.events);
        let owned = owned.filter(|&&index| is_large(sizes[index])).count();
        largest_share = largest_share.max(owned as f64 / large.max(1) as f64);
        sources.extend(periodic.into_iter().map(|source| PeriodicSource {
            p: (source.p * searched as f64).min(1.0),
            ..source
        }));
    }
    Ok((sources, largest_share))
}

/// Returns a threshold with sparse and sufficiently numerous exceedances; never below the floor of
/// a stream.
fn threshold(observations: &[Observation<'_>], exposure: f64, most: usize) -> f64 {
    let streams = || {
        observations
            .iter()
            .flat_map(|observation| &observation.streams)
    };
    let floor = streams()
        .map(|stream| stream.floor)
        .max()
        .unwrap_or_default();
    let latencies: Vec<f64> = streams()
        .flat_map(|stream| &stream.exceedances)
        .filter(|late| late.latency > floor)
        .map(|late| late.latency.as_f64())
        .collect();
    let wanted = (20 * most).min(index(exposure / (MIN_MEAN_DISTANCE * RUN_NS)));
    let candidate = descending(&latencies).get(wanted).copied();
    candidate.unwrap_or(0.0).max(floor.as_f64())
}

/// Returns start and end of each stall since the start of the recording, and its
/// latency, in order of the starts.
fn late_of(observation: &Observation<'_>, threshold: f64) -> [Vec<f64>; 3] {
    let streams = observation.streams.iter();
    let mut stalls: Vec<LateStretch> = streams
        .flat_map(|stream| stream.stalls_beyond(Nanos::from_f64(threshold)))
        .collect();
    stalls.sort_by_key(|stall| stall.from);
    let since = |time: Nanos| time.saturating_sub(observation.start).as_f64();
    [
        stalls.iter().map(|stall| since(stall.from)).collect(),
        stalls.iter().map(|stall| since(stall.until)).collect(),
        stalls.iter().map(|stall| stall.latency.as_f64()).collect(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exceedance::Exceedance;
    use laggard_model::{Cpu, Route, Service};

    fn stream(cpu: u32, late: &[(u64, u64)]) -> Stream {
        Stream {
            cpu: Cpu(cpu),
            service: Service::Other,
            route: Route::Direct,
            samples: 100_000,
            floor: Nanos::from_us(1),
            exceedances: late
                .iter()
                .map(|&(ms, us)| Exceedance {
                    expiry: Nanos::from_ms(ms),
                    latency: Nanos::from_us(us),
                    free_until: Nanos::from_ms(ms - 1),
                })
                .collect(),
        }
    }

    fn observation<'a>(streams: &[&'a Stream]) -> Observation<'a> {
        Observation {
            start: Nanos::ZERO,
            duration: Nanos::from_secs(60),
            streams: streams.to_vec(),
        }
    }

    #[test]
    fn stall_of_two_cpus_is_one_peak_of_the_larger_latency() {
        let (first, second) = (
            stream(0, &[(1_000, 80), (9_000, 50)]),
            stream(1, &[(1_003, 90)]),
        );

        let peaks = peaks_of(&[observation(&[&first, &second])], 3.6e12).unwrap();

        assert_eq!(peaks.sizes(), [90_000.0, 50_000.0]);
        assert_eq!(peaks.exposure(), 60e9);
    }

    #[test]
    fn stall_with_its_immediate_followers_is_one_peak() {
        // 2 s; an activation that waited behind it 5 ms after its end, and another 10 s
        // later.
        let late = stream(0, &[(1_000, 2_000_000), (3_005, 300), (13_000, 700)]);

        let peaks = observe(&[observation(&[&late])], 3.6e12).unwrap();

        assert_eq!(peaks.peaks.sizes(), [2e9, 7e5]);
        assert_eq!(peaks.spans[0].from, Nanos::from_secs(1));
        assert!(peaks.spans[0].to > Nanos::from_ms(3_005), "{peaks:?}");
    }

    #[test]
    fn recordings_follow_each_other() {
        let late = stream(0, &[(1_000, 80)]);
        let recording = observation(&[&late]);

        let peaks = peaks_of(&[recording.clone(), recording], 3.6e12).unwrap();

        assert_eq!(peaks.times(), [1e9, 61e9]);
        assert_eq!(peaks.exposure(), 120e9);
    }

    #[test]
    fn stall_every_five_seconds_is_found_with_its_share() {
        let regular: Vec<(u64, u64)> = (1..12).map(|k| (5_000 * k, 7_700)).collect();
        let late = stream(0, &regular);
        let observations = [observation(&[&late])];
        let peaks = observe(&observations, 3.6e12).unwrap();

        let (sources, share) = periodic_share(&observations, &peaks.events, 8).unwrap();

        assert_eq!((sources.len(), share), (1, 1.0));
        assert!((sources[0].comb.period - 5e9).abs() < 1e6);
        assert!(sources[0].p <= 0.01, "{}", sources[0].p);
    }

    /// At 1 % for each of ten services, a tenth of all recordings would have a period
    /// by chance.
    #[test]
    fn false_alarm_rate_holds_for_many_services() {
        use rand::{RngExt, SeedableRng};
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(29);
        let services = 10;
        let mut alarms = 0;
        for _ in 0..50 {
            let mut is_alarm = false;
            for _ in 0..services {
                let mut times: Vec<u64> =
                    (0..24).map(|_| random.random_range(100..60_000)).collect();
                times.sort_unstable();
                let late: Vec<(u64, u64)> = times.into_iter().map(|time| (time, 7_700)).collect();
                let late = stream(0, &late);
                let observations = [observation(&[&late])];
                let peaks = observe(&observations, 3.6e12).unwrap();
                let (sources, _) = periodic_share(&observations, &peaks.events, services).unwrap();
                is_alarm |= !sources.is_empty();
            }
            alarms += u32::from(is_alarm);
        }

        // Four or more of 50 at 1 % have a probability of 0.2 %.
        assert!(alarms <= 3, "{alarms} of 50");
    }
}
