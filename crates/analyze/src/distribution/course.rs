//! Latency over time: what is ordinary in intervals, what was late exactly.
//!
//! A picture cannot show a week of samples one by one, and an average hides
//! what matters. So the ordinary is reduced to the median and largest of each
//! interval, and everything above a limit is kept as it was.

use laggard_model::{Activation, Cpu, Histogram, Nanos, Route, Service};

/// Intervals that the time of a recording is cut into: about as many as a
/// screen can tell apart.
pub const INTERVALS: u64 = 600;
/// Shorter intervals would hold a handful of samples each.
const SHORTEST_INTERVAL: Nanos = Nanos::from_ms(10);
/// How many samples are kept exactly where none is above the threshold.
const KEPT: f64 = 2_000.0;
/// A median's buckets: 16 per octave, four of a [`Histogram`]'s.
const MERGED: usize = 4;

/// One late activation.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Point {
    /// The programmed time, `CLOCK_MONOTONIC`.
    pub expiry: Nanos,
    /// Where it ran.
    pub cpu: Cpu,
    /// Its latency, exactly.
    pub latency: Nanos,
    /// Whether it was missed.
    pub missed: bool,
    /// Whether it was still waiting when measuring ended: its latency is at
    /// least that.
    pub still_waiting: bool,
}

/// The samples of one interval.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CourseInterval {
    /// Its number; it begins at this many times the interval's length.
    pub number: usize,
    /// Half of the samples are not later; at most 4.4 % high. `None` where
    /// only the largest are known.
    pub median: Option<Nanos>,
    /// The largest, exactly.
    pub largest: Nanos,
}

/// How a recording's time is cut into intervals.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cut {
    start: Nanos,
    length: Nanos,
}

impl Cut {
    /// Intervals from `start` to `end`.
    pub fn new(start: Nanos, end: Nanos) -> Self {
        let length = Nanos::from_ns(end.saturating_sub(start).ns().div_ceil(INTERVALS));
        Self {
            start,
            length: length.max(SHORTEST_INTERVAL),
        }
    }

    /// How long an interval is.
    const fn length(self) -> Nanos {
        self.length
    }

    /// In which interval `time` lies; what is outside counts to the nearest.
    fn number(self, time: Nanos) -> usize {
        let number = time.saturating_sub(self.start).ns() / self.length.ns();
        usize::try_from(number.min(INTERVALS - 1)).unwrap_or(0)
    }
}

/// Above which latency samples of `latency` are kept exactly: `threshold`, or
/// lower where the largest thousandth (at most about 2,000 samples) is. A
/// small sample is kept whole.
pub fn limit(latency: &Histogram, threshold: Nanos) -> Nanos {
    let count = latency.count() as f64;
    if count <= KEPT {
        return Nanos::ZERO;
    }
    let q = (1.0 - KEPT / count).max(0.999);
    latency
        .quantile(q)
        .map_or(threshold, |tail| tail.min(threshold))
}

/// What is looked for in the samples of a service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Focus {
    /// The service that ran.
    pub service: Service,
    /// How it was reached.
    pub route: Route,
    /// Samples above this are kept exactly.
    pub limit: Nanos,
    /// The median of all samples; `None` where the samples that will be added
    /// are only a part, so that medians and a typical one cannot be told.
    pub median: Option<Nanos>,
}

/// How one service fared over time.
#[derive(Clone, Debug)]
pub struct Course {
    focus: Focus,
    cut: Cut,
    intervals: Vec<Counts>,
    points: Vec<Point>,
    typical: Option<Activation>,
    worst: Option<Activation>,
}

/// The samples of an interval while they are counted.
#[derive(Clone, Debug, Default)]
struct Counts {
    merged: Vec<u32>,
    largest: Option<Nanos>,
}

impl Course {
    /// Nothing seen yet.
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

    /// Adds one activation that was `latency` late at this service on `cpu`.
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

    /// Adds a sample of which no stages are known, one of the largest of its
    /// time. It may have been added with its stages as well.
    pub fn add_largest(&mut self, point: Point) {
        let interval = self.interval(point.expiry);
        interval.largest = interval.largest.max(Some(point.latency));
        if point.latency > self.focus.limit {
            self.points.push(point);
        }
    }

    /// Adds all that `other`, of the same service, has seen, in any order.
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

    /// What is looked for.
    pub const fn focus(&self) -> Focus {
        self.focus
    }

    /// How long an interval is.
    pub const fn interval_length(&self) -> Nanos {
        self.cut.length()
    }

    /// Intervals in which something was seen, in order.
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

    /// Every sample above the limit, in the order of time.
    pub fn points(&self) -> Vec<Point> {
        let mut points = self.points.clone();
        points.sort_unstable();
        if self.focus.median.is_none() {
            // The tail and the largest of a minute overlap.
            points.dedup();
        }
        points
    }

    /// A served activation that was as late as the median, within 1 % where
    /// there is one, with as many stages seen as possible.
    pub const fn typical(&self) -> Option<&Activation> {
        match self.focus.median {
            Some(_) => self.typical.as_ref(),
            None => None,
        }
    }

    /// The served activation that was latest; the first of equals.
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
        let rank = |one: &Activation| {
            let away = one
                .latency_of(service)
                .map_or(u64::MAX, |latency| latency.ns().abs_diff(median.ns()));
            let unseen = one.steps.iter().filter(|step| step.is_none()).count();
            (
                away.saturating_sub(median.ns() / 100),
                unseen,
                away,
                (one.expiry, one.line, one.seq),
            )
        };
        self.typical = [self.typical, other].into_iter().flatten().min_by_key(rank);
    }

    fn keep_worst(&mut self, other: Option<Activation>) {
        let service = self.focus.service;
        self.worst = [self.worst, other].into_iter().flatten().max_by_key(|one| {
            let first = std::cmp::Reverse((one.expiry, one.line, one.seq));
            (one.latency_of(service), first)
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
        let all: u64 = self.merged.iter().map(|&count| u64::from(count)).sum();
        let mut seen = 0;
        let bucket = self.merged.iter().position(|&count| {
            seen += u64::from(count);
            count > 0 && seen * 2 >= all
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

    fn activation(at: Nanos, missed: bool, steps: &[(Stage, u64)]) -> Activation {
        let mut one = Activation {
            line: LineId(0),
            seq: 0,
            expiry: at,
            missed,
            censored: false,
            steps: [None; STAGES.len()],
        };
        for &(stage, us) in steps {
            one.steps[stage.index()] = Some(Nanos::from_us(us));
        }
        one
    }

    fn course(all: &[Activation]) -> Course {
        let cut = Cut::new(Nanos::ZERO, Nanos::from_secs(60));
        let mut course = Course::new(FOCUS, cut);
        for one in all {
            course.add(one, Cpu(3), one.latency());
        }
        course
    }

    #[test]
    fn every_sample_above_the_limit_is_kept_as_it_was() {
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
    fn one_of_the_largest_that_is_in_the_tail_too_is_kept_once() {
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
            .map(|one| one.latency.ns() / 1_000)
            .collect();
        assert_eq!(kept, [800, 900]);
    }

    #[test]
    fn an_interval_has_its_median_and_its_largest() {
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
    fn the_typical_one_is_served_and_has_its_stages() {
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
    fn a_small_sample_is_kept_whole_and_a_large_one_above_its_tail() {
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
        fn courses_merge_to_the_course_of_all(
            rows in prop::collection::vec((0..70_000_u64, 0..2_000_u64, any::<bool>()), 0..60),
            cut in 0..60_usize,
        ) {
            let all: Vec<Activation> = rows
                .iter()
                .map(|&(ms, us, missed)| activation(Nanos::from_ms(ms), missed, &[(Stage::User, us)]))
                .collect();
            let cut = cut.min(all.len());
            let mut merged = course(&all[..cut]);
            merged.merge(course(&all[cut..]));
            let whole = course(&all);

            assert_eq!(merged.points(), whole.points());
            assert!(merged.intervals().eq(whole.intervals()));
            let latency = |one: Option<&Activation>| one.map(Activation::latency);
            assert_eq!(latency(merged.typical()), latency(whole.typical()));
            assert_eq!(latency(merged.worst()), latency(whole.worst()));
        }
    }
}
