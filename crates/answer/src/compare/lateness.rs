//! How often the recordings of one side were late.

use std::ops::Range;

use laggard_analyze::InputError;
use laggard_analyze::compare::RecordingCount;
use laggard_analyze::exceedance::Stream;
use laggard_model::{Nanos, Route, Service};

use super::LateCount;
use crate::load::{Load, Run};

/// Late activations of a CPU no further apart are one cluster: five ticks of
/// 4 ms, in which what waited behind a stall has run.
pub(crate) const RUN: Nanos = Nanos::from_ms(20);

/// How often each recording of one side was later than a level.
#[derive(Clone, Debug)]
pub(super) struct Lateness {
    /// By recording.
    pub(super) counts: Vec<RecordingCount>,
    /// By recording: activations that may have been later, too.
    pub(super) unknown: Vec<u64>,
    /// By recording: activations, and those that were later.
    activations: Vec<[u64; 2]>,
}

impl Lateness {
    /// Of a service by a route in the recordings of `load`; clusters are more
    /// than `run` apart.
    pub(super) fn of(
        load: &Load,
        line: (Service, Route),
        level: Nanos,
        run: Nanos,
    ) -> Result<Self, InputError> {
        let mut all = Self {
            counts: Vec::new(),
            unknown: Vec::new(),
            activations: Vec::new(),
        };
        for one in &load.runs {
            all.add(one, line, level, run)?;
        }
        Ok(all)
    }

    fn add(
        &mut self,
        seen: &Run,
        (service, route): (Service, Route),
        level: Nanos,
        run: Nanos,
    ) -> Result<(), InputError> {
        let is_of = |stream: &&Stream| (stream.service, stream.route) == (service, route);
        let mut times = Vec::new();
        let mut cpus = 0_u32;
        for stream in seen.streams.iter().filter(is_of) {
            cpus += 1;
            let since = |at: Nanos| at.saturating_sub(seen.start).min(seen.duration).as_f64();
            times.extend(clusters(stream, level, run).into_iter().map(since));
        }
        let exposure = seen.duration.as_f64() * f64::from(cpus.max(1));
        self.counts
            .push(RecordingCount::of(times, seen.duration.as_f64(), exposure)?);
        let waiting = seen
            .waiting
            .iter()
            .filter(|one| (one.service, one.route) == (service, route) && one.at_least_ns <= level);
        let mut unknown = waiting.count() as u64;
        let (mut samples, mut later) = (0, 0);
        for group in &seen.groups {
            if (group.key.service, group.key.route) == (service, route) {
                let histogram = group.latency.histogram();
                samples += histogram.count();
                later += histogram.count_above(level);
                unknown += group.lost;
            }
        }
        self.unknown.push(unknown);
        self.activations.push([samples, later]);
        Ok(())
    }

    /// As if all that is not known had been late.
    pub(super) fn at_most(&self) -> Vec<RecordingCount> {
        let counts = self.counts.iter().zip(&self.unknown);
        counts
            .map(|(count, &unknown)| RecordingCount {
                events: count.events + unknown as f64,
                ..*count
            })
            .collect()
    }

    /// For the answer; of so many clusters one is independent.
    pub(super) fn view(&self, dispersion: f64) -> LateCount {
        self.part(0..self.counts.len(), dispersion)
    }

    /// The same of some of the recordings.
    pub(super) fn part(&self, of: Range<usize>, dispersion: f64) -> LateCount {
        let counts = &self.counts[of.clone()];
        let activations = &self.activations[of.clone()];
        LateCount {
            clusters: counts.iter().map(|one| one.events).sum(),
            dispersion,
            exposure_ns: counts.iter().map(|one| one.exposure).sum(),
            samples: activations.iter().map(|one| one[0]).sum(),
            later: activations.iter().map(|one| one[1]).sum(),
            unknown: self.unknown[of].iter().sum(),
        }
    }

    /// The same of each recording by itself.
    pub(super) fn points(&self) -> Vec<LateCount> {
        let each = self.counts.iter().enumerate();
        each.map(|(at, one)| self.part(at..at + 1, one.dispersion.max(1.0)))
            .collect()
    }

    pub(super) fn events(&self) -> f64 {
        self.counts.iter().map(|one| one.events).sum()
    }
}

/// When runs of activations began that were later than `level`. A run lasts
/// until the first of them was served, and `run` more; a stall that began by then is
/// of it. Nobody's lateness makes it longer than that: else who is always late would
/// be so once.
pub(crate) fn clusters(stream: &Stream, level: Nanos, run: Nanos) -> Vec<Nanos> {
    let mut all = Vec::new();
    let mut until = None;
    for late in stream
        .exceedances
        .iter()
        .filter(|late| late.latency > level)
    {
        let served = late.expiry + late.latency;
        until = match until {
            Some(until) if late.expiry <= until => Some(served.max(until)),
            _ => {
                all.push(late.expiry);
                Some(served + run)
            }
        };
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_analyze::exceedance::Exceedance;
    use laggard_model::Cpu;

    #[test]
    fn a_stall_is_one_cluster_however_long_and_so_is_what_follows_it_at_once() {
        let late = |at_ms: u64, by_ms: u64| Exceedance {
            expiry: Nanos::from_ms(at_ms),
            latency: Nanos::from_ms(by_ms),
            free_until: Nanos::ZERO,
        };
        let stream = Stream {
            cpu: Cpu(0),
            service: Service::Fifo(90),
            route: Route::Direct,
            samples: 10_000,
            floor: Nanos::ZERO,
            // A stall of 5 s, one right after it, one 21 ms after that, and
            // one that is not late enough.
            exceedances: vec![
                late(100, 5_000),
                late(5_110, 3),
                late(5_134, 3),
                late(6_000, 2),
            ],
        };

        let found = clusters(&stream, Nanos::from_ms(2), RUN);

        assert_eq!(found, [Nanos::from_ms(100), Nanos::from_ms(5_134)]);
    }

    /// As one run it would be late less often than who is late once a second.
    #[test]
    fn who_is_late_all_the_time_is_late_more_often_than_who_is_not() {
        let stream = Stream {
            cpu: Cpu(0),
            service: Service::Fifo(90),
            route: Route::Direct,
            samples: 1_000,
            floor: Nanos::ZERO,
            exceedances: (0..1_000)
                .map(|number| Exceedance {
                    expiry: Nanos::from_ms(10 * number),
                    latency: Nanos::from_ms(4),
                    free_until: Nanos::ZERO,
                })
                .collect(),
        };

        let found = clusters(&stream, Nanos::from_ms(2), RUN);

        // 20 ms from when the first was served, so every third begins one.
        assert_eq!(found.len(), 334);
    }
}
