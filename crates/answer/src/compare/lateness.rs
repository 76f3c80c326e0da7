//! Late wakeups of the recordings of one side.

use std::ops::Range;

use laggard_analyze::InputError;
use laggard_analyze::compare::RecordingCount;
use laggard_analyze::exceedance::Stream;
use laggard_model::{Nanos, Route, Service};

use super::LateCount;
use crate::load::{Load, Run};

/// Late wakeups of a CPU that are at most this far apart are one cluster. Within five ticks of 4
/// ms, tasks that waited behind a stall have run.
pub(crate) const RUN: Nanos = Nanos::from_ms(20);

/// Late wakeups of each recording of one side.
#[derive(Clone, Debug)]
pub(super) struct Lateness {
    pub(super) counts: Vec<RecordingCount>,
    /// Per recording: other wakeups that may have been late.
    pub(super) unknown: Vec<u64>,
    /// Per recording: wakeups, and late ones.
    wakeups: Vec<[u64; 2]>,
}

impl Lateness {
    /// Counts the late wakeups of a series. Clusters are more than `run` apart.
    pub(super) fn new(
        load: &Load,
        line: (Service, Route),
        level: Nanos,
        run: Nanos,
    ) -> Result<Self, InputError> {
        let mut lateness = Self {
            counts: Vec::new(),
            unknown: Vec::new(),
            wakeups: Vec::new(),
        };
        for recorded in &load.runs {
            lateness.add(recorded, line, level, run)?;
        }
        Ok(lateness)
    }

    fn add(
        &mut self,
        recording: &Run,
        (service, route): (Service, Route),
        level: Nanos,
        run: Nanos,
    ) -> Result<(), InputError> {
        let is_of = |stream: &&Stream| (stream.service, stream.route) == (service, route);
        let mut times = Vec::new();
        let mut cpus = 0_u32;
        for stream in recording.streams.iter().filter(is_of) {
            cpus += 1;
            let since = |time: Nanos| {
                time.saturating_sub(recording.start)
                    .min(recording.duration)
                    .as_f64()
            };
            times.extend(clusters(stream, level, run).into_iter().map(since));
        }
        let exposure = recording.duration.as_f64() * f64::from(cpus.max(1));
        self.counts.push(RecordingCount::new(
            times,
            recording.duration.as_f64(),
            exposure,
        )?);
        let waiting = recording.waiting.iter().filter(|waiting| {
            (waiting.service, waiting.route) == (service, route) && waiting.at_least_ns <= level
        });
        let mut unknown = waiting.count() as u64;
        let (mut samples, mut later) = (0, 0);
        for group in &recording.groups {
            if (group.key.service, group.key.route) == (service, route) {
                let histogram = group.latency.histogram();
                samples += histogram.count();
                later += histogram.count_above(level);
                unknown += group.lost;
            }
        }
        self.unknown.push(unknown);
        self.wakeups.push([samples, later]);
        Ok(())
    }

    /// Returns the counts if all unknown wakeups had been late.
    pub(super) fn at_most(&self) -> Vec<RecordingCount> {
        let counts = self.counts.iter().zip(&self.unknown);
        counts
            .map(|(count, &unknown)| RecordingCount {
                events: count.events + unknown as f64,
                ..*count
            })
            .collect()
    }

    /// Returns the sum of all recordings. `dispersion` clusters count as one independent event.
    pub(super) fn view(&self, dispersion: f64) -> LateCount {
        self.part(0..self.counts.len(), dispersion)
    }

    /// Returns the sum of a part of the recordings.
    pub(super) fn part(&self, range: Range<usize>, dispersion: f64) -> LateCount {
        let counts = &self.counts[range.clone()];
        let wakeups = &self.wakeups[range.clone()];
        LateCount {
            clusters: counts.iter().map(|count| count.events).sum(),
            dispersion,
            exposure_ns: counts.iter().map(|count| count.exposure).sum(),
            samples: wakeups.iter().map(|counts| counts[0]).sum(),
            later: wakeups.iter().map(|counts| counts[1]).sum(),
            unknown: self.unknown[range].iter().sum(),
        }
    }

    /// Returns the counts of each recording.
    pub(super) fn points(&self) -> Vec<LateCount> {
        let each = self.counts.iter().enumerate();
        each.map(|(index, point)| self.part(index..index + 1, point.dispersion.max(1.0)))
            .collect()
    }

    pub(super) fn events(&self) -> f64 {
        self.counts.iter().map(|count| count.events).sum()
    }
}

/// Returns the start times of runs of wakeups that were later than `level`. A run lasts until
/// its first wakeup was served, and `run` longer. A stall that starts before the end extends
/// it. Other late wakeups do not, because a thread that is always late would have one run.
pub(crate) fn clusters(stream: &Stream, level: Nanos, run: Nanos) -> Vec<Nanos> {
    let mut found_clusters = Vec::new();
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
                found_clusters.push(late.expiry);
                Some(served + run)
            }
        };
    }
    found_clusters
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_analyze::exceedance::Exceedance;
    use laggard_model::Cpu;

    #[test]
    fn stall_and_stalls_right_after_it_are_one_cluster() {
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
            // Stalls: 5 s, the next right after it, another 21 ms after that, and
            // one that is not late enough.
            exceedances: vec![
                late(100, 5_000),
                late(5_110, 3),
                late(5_134, 3),
                late(6_000, 2),
            ],
        };

        let runs = clusters(&stream, Nanos::from_ms(2), RUN);

        assert_eq!(runs, [Nanos::from_ms(100), Nanos::from_ms(5_134)]);
    }

    /// One run would be less frequent than one late wakeup per second.
    #[test]
    fn permanent_lateness_has_many_clusters() {
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

        let runs = clusters(&stream, Nanos::from_ms(2), RUN);

        // 20 ms after the first was served, so that every third starts a run.
        assert_eq!(runs.len(), 334);
    }
}
