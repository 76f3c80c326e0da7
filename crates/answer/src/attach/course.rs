//! Change of the responses of a thread during the measurement.

use laggard_analyze::trend::trend;
use laggard_model::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// Maximum number of parts; then pairs of parts are merged.
const MAX_PARTS: usize = 64;
/// Initial length of a part.
const FIRST_LENGTH: Nanos = Nanos::from_ms(100);
/// Number of parts in the report.
const EIGHTHS: usize = 8;
/// Minimum number of cycles in each of them.
const MIN_CYCLES: u64 = 8;
/// A trend is significant if its probability in a random order is below this.
const MAX_CHANCE: f64 = 0.01;

/// Eighth of the time of a thread.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachPart {
    /// Cycles that were due in it.
    pub activations: u64,
    /// Mean response.
    pub mean_ns: Nanos,
    /// Maximum response.
    pub largest_ns: Nanos,
}

/// Change of the responses from the first cycle to the last, in eighths.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct AttachCourse {
    /// Eighths of the time, in order.
    pub parts: Vec<AttachPart>,
    /// Change of the mean response from the first eighth to the last, along the line of Sen
    /// (1968); positive if it grew and the margin shrank.
    pub change_ns: i64,
    /// Probability that means in a random order are at least as ordered (Kendall 1938).
    pub chance: f64,
}

impl AttachCourse {
    /// Returns whether the change is significant.
    pub(super) fn is_significant(&self) -> bool {
        self.chance < MAX_CHANCE
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct ResponsePart {
    count: u64,
    sum: Nanos,
    largest: Nanos,
}

impl ResponsePart {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.largest = self.largest.max(other.largest);
    }
}

/// Parts of equal length, which doubles when there are too many.
#[derive(Debug)]
pub(super) struct CourseBuilder {
    began: Option<Nanos>,
    last: Nanos,
    length: Nanos,
    parts: Vec<ResponsePart>,
}

impl Default for CourseBuilder {
    fn default() -> Self {
        Self {
            began: None,
            last: Nanos::ZERO,
            length: FIRST_LENGTH,
            parts: Vec::new(),
        }
    }
}

impl CourseBuilder {
    /// Adds a cycle that was due at `origin`.
    pub(super) fn add(&mut self, origin: Nanos, response: Nanos) {
        let began = *self.began.get_or_insert(origin);
        self.last = self.last.max(origin);
        let after = origin.saturating_sub(began).ns();
        while after / self.length.ns() >= MAX_PARTS as u64 {
            self.coarsen();
        }
        let place = usize::try_from(after / self.length.ns()).unwrap_or(MAX_PARTS - 1);
        if self.parts.len() <= place {
            self.parts.resize(place + 1, ResponsePart::default());
        }
        self.parts[place].merge(&ResponsePart {
            count: 1,
            sum: response,
            largest: response,
        });
    }

    /// Merges pairs of parts.
    fn coarsen(&mut self) {
        let merged = self.parts.chunks(2).map(|two| {
            let mut sum = two[0];
            two.iter().skip(1).for_each(|part| sum.merge(part));
            sum
        });
        self.parts = merged.collect();
        self.length = Nanos::from_ns(2 * self.length.ns());
    }

    /// Returns the time from the first cycle to the last; `None` without a cycle.
    pub(super) fn span(&self) -> Option<Nanos> {
        Some(self.last.saturating_sub(self.began?))
    }

    /// Returns the course in eighths; `None`: too few parts or cycles.
    pub(super) fn course(&self) -> Option<AttachCourse> {
        // With fewer parts, one eighth may be half the length of another.
        if self.parts.len() < 2 * EIGHTHS {
            return None;
        }
        let ends = |eighth: usize| eighth * self.parts.len() / EIGHTHS;
        let parts = (0..EIGHTHS).map(|eighth| {
            let mut sum = ResponsePart::default();
            let within = &self.parts[ends(eighth)..ends(eighth + 1)];
            within.iter().for_each(|part| sum.merge(part));
            (sum.count >= MIN_CYCLES).then(|| AttachPart {
                activations: sum.count,
                mean_ns: Nanos::from_ns(sum.sum.ns() / sum.count),
                largest_ns: sum.largest,
            })
        });
        let parts: Vec<AttachPart> = parts.collect::<Option<_>>()?;
        let means: Vec<f64> = parts.iter().map(|part| part.mean_ns.as_f64()).collect();
        let slope = trend(&means)?;
        let change = slope.slope * (EIGHTHS - 1) as f64;
        let size = signed(Nanos::from_f64(change.abs()));
        Some(AttachCourse {
            change_ns: if change < 0.0 { -size } else { size },
            chance: slope.chance,
            parts,
        })
    }
}

/// Converts a time to a difference in ns.
pub(super) fn signed(time: Nanos) -> i64 {
    i64::try_from(time.ns()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(number: u64, every: Nanos, response: impl Fn(u64) -> Nanos) -> CourseBuilder {
        let mut builder = CourseBuilder::default();
        for cycle in 0..number {
            builder.add(Nanos::from_ns(5_000 + cycle * every.ns()), response(cycle));
        }
        builder
    }

    #[test]
    fn growth_has_its_size() {
        let course = course(10_000, Nanos::from_ms(1), |index| {
            Nanos::from_ns(100_000 + 10 * index + index * index * 7_919 % 5_000)
        })
        .course()
        .unwrap();

        assert!(course.is_significant(), "{course:?}");
        // 10 ns each, over seven eighths of 10,000.
        assert!((course.change_ns - 87_500).abs() < 1_500, "{course:?}");
        let total: u64 = course.parts.iter().map(|part| part.activations).sum();
        assert_eq!(total, 10_000);
        assert_eq!(course.parts.len(), 8);
    }

    #[test]
    fn one_late_cycle_is_not_a_trend() {
        let course = course(3_000, Nanos::from_ms(7), |index| {
            let late = if index == 2_990 { 50_000_000 } else { 0 };
            Nanos::from_ns(100_000 + index * index * 7_919 % 5_000 + late)
        })
        .course()
        .unwrap();

        assert!(!course.is_significant(), "{course:?}");
        let largest = course.parts.iter().map(|part| part.largest_ns).max();
        assert!(largest >= Some(Nanos::from_ms(50)), "{course:?}");
    }

    #[test]
    fn number_of_parts_is_limited() {
        // A month, with a pause of a week in the middle.
        let mut course_so_far = course(1_000, Nanos::from_secs(600), |_| Nanos::from_us(80));
        course_so_far.add(Nanos::from_secs(30 * 86_400), Nanos::from_us(80));

        assert!(
            course_so_far.parts.len() <= MAX_PARTS,
            "{}",
            course_so_far.parts.len()
        );
        let total: u64 = course_so_far.parts.iter().map(|part| part.count).sum();
        assert_eq!(total, 1_001);
        // A week without cycles does not have a mean.
        assert_eq!(course_so_far.course(), None);
        assert_eq!(
            course(100, Nanos::from_ms(1), |_| Nanos::ZERO).course(),
            None
        );
    }
}
