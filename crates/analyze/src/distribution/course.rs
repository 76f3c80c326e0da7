//! Latency over time: medians and maxima per interval, and exact late samples.
//!
//! A picture cannot show each sample of a week, and an average hides the important
//! ones. Ordinary samples are therefore reduced to the median and max of each interval,
//! and every sample above a limit is kept exactly.

use laggard_model::{Activation, Cpu, Histogram, Nanos, Route, Service};

/// Number of intervals of a recording: about the resolution of a screen.
pub const INTERVALS: u64 = 600;
/// Minimum length of an interval. Shorter ones would hold only a few samples.
const MIN_INTERVAL: Nanos = Nanos::from_ms(10);
/// Number of exact samples to keep if none is above the threshold.
const MIN_EXACT_SAMPLES: f64 = 2_000.0;
/// Buckets of a [`Histogram`] per bucket of a median, which has 16 per octave.
const MERGED: usize = 4;

/// Late wakeup.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Point {
    /// Programmed time, `CLOCK_MONOTONIC`.
    pub expiry: Nanos,
    /// CPU where the service ran.
    pub cpu: Cpu,
    /// Exact latency.
    pub latency: Nanos,
    /// Whether the activation was missed.
    pub missed: bool,
    /// Whether the service was still waiting when the measurement ended: the latency is
    /// a lower bound.
    pub still_waiting: bool,
}

/// Samples of one interval.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CourseInterval {
    /// Number of the interval; it starts at this multiple of the interval length.
    pub number: usize,
    /// Median; at most 4.4 % high; `None` if only the largest samples are known.
    pub median: Option<Nanos>,
    /// Exact maximum.
    pub largest: Nanos,
}

/// Division of a recording's time into intervals.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cut {
    start: Nanos,
    length: Nanos,
}

impl Cut {
    /// Divides the time from `start` to `end`.
    pub fn new(start: Nanos, end: Nanos) -> Self {
        let length = Nanos::from_ns(end.saturating_sub(start).ns().div_ceil(INTERVALS));
        Self {
            start,
            length: length.max(MIN_INTERVAL),
        }
    }

    /// Returns the length of an interval.
    const fn length(self) -> Nanos {
        self.length
    }

    /// Returns the interval that contains `time`; times outside count in the nearest
    /// one.
    fn number(self, time: Nanos) -> usize {
        let number = time.saturating_sub(self.start).ns() / self.length.ns();
        usize::try_from(number.min(INTERVALS - 1)).unwrap_or(0)
    }
}

/// Returns the limit for keeping samples exactly. It is `threshold`, or lower to include the
/// largest thousandth (at most about 2,000 samples). A small number of samples is kept completely.
pub fn limit(latency: &Histogram, threshold: Nanos) -> Nanos {
    let count = latency.count() as f64;
    if count <= MIN_EXACT_SAMPLES {
        return Nanos::ZERO;
    }
    let q = (1.0 - MIN_EXACT_SAMPLES / count).max(0.999);
    latency
        .quantile(q)
        .map_or(threshold, |tail| tail.min(threshold))
}

/// Selection of samples of a service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Focus {
    /// Service of the samples.
    pub service: Service,
    /// Route to the service.
    pub route: Route,
    /// Samples above this limit are kept exactly.
    pub limit: Nanos,
    /// Median of all samples; `None` if the added samples are only a part, so that
    /// neither medians nor a typical sample exist.
    pub median: Option<Nanos>,
}

/// Latency of one service over time.
#[derive(Clone, Debug)]
pub struct Course {
    focus: Focus,
    cut: Cut,
    intervals: Vec<Counts>,
    points: Vec<Point>,
    typical: Option<Activation>,
    worst: Option<Activation>,
}

/// Samples of an interval during counting.
#[derive(Clone, Debug, Default)]
struct Counts {
    merged: Vec<u32>,
    largest: Option<Nanos>,
}

impl Course {
    /// Creates an empty course.
    pub const fn new(focus: Focus, cut: Cut) -> Self {
        Self {
            focus,
            cut,
            intervals: Vec::new(),
            points: Vec::new(),
            typical: None,
            worst: None,
        }
    }

    /// Adds an activation of this service that was `latency` late on `cpu`.
    pub fn add(&mut self, activation: &Activation, cpu: Cpu, latency: Nanos) {
        let interval = self.interval(activation.expiry);
        interval.largest = interval.largest.max(Some(latency));
        if self.focus.median.is_some() {
            self.interval(activation.expiry).count(latency);
        }
        if latency > self.focus.limit {
            self.points.push(Point {
                expiry: activation.expiry,
                cpu,
                latency,
                missed: activation.missed,
                still_waiting: activation.censored,
            });
        }
        if !activation.missed {
            self.keep_typical(Some(*activation));
            self.keep_worst(Some(*activation));
        }
    }

    /// Adds one of the largest samples of an interval, without its stages. It may also
    /// have been added with its stages.
    pub fn add_largest(&mut self, point: Point) {
        let interval = self.interval(point.expiry);
        interval.largest = interval.largest.max(Some(point.latency));
        if point.latency > self.focus.limit {
            self.points.push(point);
        }
    }

    /// Adds the samples of `other` of the same service in any order.
    pub fn merge(&mut self, other: Self) {
        if other.intervals.len() > self.intervals.len() {
            self.intervals
                .resize(other.intervals.len(), Counts::default());
        }
        for (mine, theirs) in self.intervals.iter_mut().zip(other.intervals) {
            mine.merge(&theirs);
        }
        self.points.extend(other.points);
        self.keep_typical(other.typical);
        self.keep_worst(other.worst);
    }

    /// Returns the selection.
    pub const fn focus(&self) -> Focus {
        self.focus
    }

    /// Returns the length of an interval.
    pub const fn interval_length(&self) -> Nanos {
        self.cut.length()
    }

    /// Returns the intervals with samples, in order.
    pub fn intervals(&self) -> impl Iterator<Item = CourseInterval> + '_ {
        self.intervals
            .iter()
            .enumerate()
            .filter_map(|(number, counts)| {
                Some(CourseInterval {
                    number,
                    median: counts.median(),
                    largest: counts.largest?,
                })
            })
    }

    /// Returns every sample above the limit, in time order.
    pub fn points(&self) -> Vec<Point> {
        let mut points = self.points.clone();
        points.sort_unstable();
        if self.focus.median.is_none() {
            // The tail and the largest samples of a minute overlap.
            points.dedup();
        }
        points
    }

    /// Returns a served activation with the median latency, within 1 % if possible, and
    /// with the maximum number of stages.
    pub const fn typical(&self) -> Option<&Activation> {
        match self.focus.median {
            Some(_) => self.typical.as_ref(),
            None => None,
        }
    }

    /// Returns the served activation with the largest latency; the first of equals.
    pub const fn worst(&self) -> Option<&Activation> {
        self.worst.as_ref()
    }

    fn interval(&mut self, expiry: Nanos) -> &mut Counts {
        let number = self.cut.number(expiry);
        if number >= self.intervals.len() {
            self.intervals.resize(number + 1, Counts::default());
        }
        &mut self.intervals[number]
    }

    fn keep_typical(&mut self, other: Option<Activation>) {
        let Some(median) = self.focus.median else {
            return;
        };
        let service = self.focus.service;
        let rank = |activation: &Activation| {
            let away = activation
                .latency_of(service)
                .map_or(u64::MAX, |latency| latency.ns().abs_diff(median.ns()));
            let unseen = activation
                .steps
                .iter()
                .filter(|step| step.is_none())
                .count();
            (
                away.saturating_sub(median.ns() / 100),
                unseen,
                away,
                (activation.expiry, activation.line, activation.seq),
            )
        };
        self.typical = [self.typical, other].into_iter().flatten().min_by_key(rank);
    }

    fn keep_worst(&mut self, other: Option<Activation>) {
        let service = self.focus.service;
        self.worst = [self.worst, other]
            .into_iter()
            .flatten()
            .max_by_key(|activation| {
                let first = std::cmp::Reverse((activation.expiry, activation.line, activation.seq));
                (activation.latency_of(service), first)
            });
    }
}

impl Counts {
    fn count(&mut self, latency: Nanos) {
        let bucket = Histogram::bucket_of(latency).div_ceil(MERGED);
        if bucket >= self.merged.len() {
            self.merged.resize(bucket + 1, 0);
        }
        self.merged[bucket] = self.merged[bucket].saturating_add(1);
    }

    fn merge(&mut self, other: &Self) {
        if other.merged.len() > self.merged.len() {
            self.merged.resize(other.merged.len(), 0);
        }
        for (mine, theirs) in self.merged.iter_mut().zip(&other.merged) {
            *mine = mine.saturating_add(*theirs);
        }
        self.largest = self.largest.max(other.largest);
    }

    fn median(&self) -> Option<Nanos> {
        let total: u64 = self.merged.iter().map(|&count| u64::from(count)).sum();
        let mut passed = 0;
        let bucket = self.merged.iter().position(|&count| {
            passed += u64::from(count);
            count > 0 && passed * 2 >= total
        })?;
        let edge = Histogram::upper_edge(bucket * MERGED);
        Some(self.largest.map_or(edge, |largest| edge.min(largest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_model::{LineId, STAGES, Stage};
    use proptest::prelude::{any, prop, proptest};

    const FOCUS: Focus = Focus {
        service: Service::Fifo(90),
        route: Route::Direct,
        limit: Nanos::from_us(100),
        median: Some(Nanos::from_us(10)),
    };

    fn activation(expiry: Nanos, missed: bool, steps: &[(Stage, u64)]) -> Activation {
        let mut activation = Activation {
            line: LineId(0),
            seq: 0,
            expiry,
            missed,
            censored: false,
            steps: [None; STAGES.len()],
        };
        for &(stage, us) in steps {
            activation.steps[stage.index()] = Some(Nanos::from_us(us));
        }
        activation
    }

    fn course(activations: &[Activation]) -> Course {
        let cut = Cut::new(Nanos::ZERO, Nanos::from_secs(60));
        let mut course = Course::new(FOCUS, cut);
        for activation in activations {
            course.add(activation, Cpu(3), activation.latency());
        }
        course
    }

    #[test]
    fn samples_above_the_limit_are_kept_exactly() {
        let course = course(&[
            activation(Nanos::from_secs(2), true, &[(Stage::User, 900)]),
            activation(Nanos::from_secs(1), false, &[(Stage::User, 101)]),
            activation(Nanos::from_secs(3), false, &[(Stage::User, 100)]),
        ]);

        let point = |secs, us, missed| Point {
            expiry: Nanos::from_secs(secs),
            cpu: Cpu(3),
            latency: Nanos::from_us(us),
            missed,
            still_waiting: false,
        };
        assert_eq!(course.points(), [point(1, 101, false), point(2, 900, true)]);
    }

    #[test]
    fn largest_sample_in_the_tail_is_kept_once() {
        let partly = Focus {
            median: None,
            ..FOCUS
        };
        let cut = Cut::new(Nanos::ZERO, Nanos::from_secs(60));
        let mut course = Course::new(partly, cut);
        let late = activation(Nanos::from_secs(1), false, &[(Stage::User, 900)]);
        course.add(&late, Cpu(3), late.latency());

        for us in [900, 800, 50] {
            course.add_largest(Point {
                expiry: Nanos::from_secs(1),
                cpu: Cpu(3),
                latency: Nanos::from_us(us),
                missed: false,
                still_waiting: false,
            });
        }

        let kept: Vec<u64> = course
            .points()
            .iter()
            .map(|point| point.latency.ns() / 1_000)
            .collect();
        assert_eq!(kept, [800, 900]);
    }

    #[test]
    fn interval_has_its_median_and_its_max() {
        let late = |us| activation(Nanos::from_ms(10), false, &[(Stage::User, us)]);

        let intervals: Vec<CourseInterval> = course(&[late(10), late(10), late(50)])
            .intervals()
            .collect();

        assert_eq!(intervals.len(), 1);
        assert_eq!(intervals[0].largest, Nanos::from_us(50));
        let median = intervals[0].median.unwrap().ns();
        assert!((10_000..=10_440).contains(&median), "{median}");
    }

    #[test]
    fn typical_activation_is_served_and_has_its_stages() {
        let course = course(&[
            activation(Nanos::from_ms(1), false, &[(Stage::User, 10)]),
            activation(
                Nanos::from_ms(2),
                false,
                &[(Stage::Irq, 4), (Stage::User, 6)],
            ),
            activation(Nanos::from_ms(3), true, &[(Stage::User, 5_000)]),
            activation(
                Nanos::from_ms(4),
                false,
                &[(Stage::Irq, 4), (Stage::User, 60)],
            ),
        ]);

        assert_eq!(course.typical().unwrap().expiry, Nanos::from_ms(2));
        assert_eq!(course.worst().unwrap().expiry, Nanos::from_ms(4));
    }

    #[test]
    fn few_samples_are_kept_completely_and_many_above_the_tail() {
        let mut histogram = Histogram::default();
        (1..=100).for_each(|us| histogram.add(Nanos::from_us(us)));
        assert_eq!(limit(&histogram, Nanos::from_ms(1)), Nanos::ZERO);
        (1..=9_880).for_each(|us| histogram.add(Nanos::from_us(us)));
        (1..=20).for_each(|times| histogram.add(Nanos::from_ms(10 * times)));

        assert_eq!(limit(&histogram, Nanos::from_ms(1)), Nanos::from_ms(1));
        let tail = limit(&histogram, Nanos::from_secs(1));
        assert!(
            (100_000_000..=101_100_000).contains(&tail.ns()),
            "{tail}, which half of the twenty exceed"
        );
    }

    proptest! {
        #[test]
        fn merged_courses_equal_the_course_of_all(
            rows in prop::collection::vec((0..70_000_u64, 0..2_000_u64, any::<bool>()), 0..60),
            cut in 0..60_usize,
        ) {
            let activations: Vec<Activation> = rows
                .iter()
                .map(|&(ms, us, missed)| activation(Nanos::from_ms(ms), missed, &[(Stage::User, us)]))
                .collect();
            let cut = cut.min(activations.len());
            let mut merged = course(&activations[..cut]);
            merged.merge(course(&activations[cut..]));
            let whole = course(&activations);

            assert_eq!(merged.points(), whole.points());
            assert!(merged.intervals().eq(whole.intervals()));
            let latency = |activation: Option<&Activation>| activation.map(Activation::latency);
            assert_eq!(latency(merged.typical()), latency(whole.typical()));
            assert_eq!(latency(merged.worst()), latency(whole.worst()));
        }
    }
}
