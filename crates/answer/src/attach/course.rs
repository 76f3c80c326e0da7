//! How the responses of a thread changed while it was watched.

use laggard_analyze::trend::trend;
use laggard_model::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// A course has so many parts at most; then two become one.
const MOST_PARTS: usize = 64;
/// How long parts are at first.
const FIRST_LENGTH: Nanos = Nanos::from_ms(100);
/// So many are told.
const TOLD: usize = 8;
/// Each of them has so many activations at least.
const LEAST: u64 = 8;
/// By chance, in a random order of the parts, it is told this seldom.
const SURE: f64 = 0.01;

/// An eighth of the time in which a thread was watched.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachPart {
    /// Activations that were due in it.
    pub activations: u64,
    /// The mean of their responses.
    pub mean_ns: Nanos,
    /// The largest.
    pub largest_ns: Nanos,
}

/// How responses changed, from the first activation to the last, eighth by eighth.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct AttachCourse {
    /// The eighths.
    pub parts: Vec<AttachPart>,
    /// By how much the mean response changed from the first to the last, along the line
    /// of Sen (1968): positive where it rose, and the margin shrank.
    pub change_ns: i64,
    /// How often means in a random order lie as much in one order (Kendall 1938).
    pub chance: f64,
}

impl AttachCourse {
    /// Whether it is more than chance.
    pub(super) fn is_sure(&self) -> bool {
        self.chance < SURE
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

/// What was seen of it: parts of one length each, which grows with the time.
#[derive(Debug)]
pub(super) struct CourseSeen {
    began: Option<Nanos>,
    last: Nanos,
    length: Nanos,
    parts: Vec<ResponsePart>,
}

impl Default for CourseSeen {
    fn default() -> Self {
        Self {
            began: None,
            last: Nanos::ZERO,
            length: FIRST_LENGTH,
            parts: Vec::new(),
        }
    }
}

impl CourseSeen {
    /// An activation that was due at `origin`.
    pub(super) fn add(&mut self, origin: Nanos, response: Nanos) {
        let began = *self.began.get_or_insert(origin);
        self.last = self.last.max(origin);
        let after = origin.saturating_sub(began).ns();
        while after / self.length.ns() >= MOST_PARTS as u64 {
            self.coarsen();
        }
        let place = usize::try_from(after / self.length.ns()).unwrap_or(MOST_PARTS - 1);
        if self.parts.len() <= place {
            self.parts.resize(place + 1, ResponsePart::default());
        }
        self.parts[place].merge(&ResponsePart {
            count: 1,
            sum: response,
            largest: response,
        });
    }

    /// Two parts become one of twice their length.
    fn coarsen(&mut self) {
        let merged = self.parts.chunks(2).map(|two| {
            let mut sum = two[0];
            two.iter().skip(1).for_each(|one| sum.merge(one));
            sum
        });
        self.parts = merged.collect();
        self.length = Nanos::from_ns(2 * self.length.ns());
    }

    /// From when the first was due until the last was; `None`: there is none.
    pub(super) fn span(&self) -> Option<Nanos> {
        Some(self.last.saturating_sub(self.began?))
    }

    /// All of it in eighths; `None`: it was too short, or too seldom.
    pub(super) fn told(&self) -> Option<AttachCourse> {
        // Of fewer parts an eighth may be half as long as another.
        if self.parts.len() < 2 * TOLD {
            return None;
        }
        let ends = |eighth: usize| eighth * self.parts.len() / TOLD;
        let parts = (0..TOLD).map(|eighth| {
            let mut sum = ResponsePart::default();
            let within = &self.parts[ends(eighth)..ends(eighth + 1)];
            within.iter().for_each(|one| sum.merge(one));
            (sum.count >= LEAST).then(|| AttachPart {
                activations: sum.count,
                mean_ns: Nanos::from_ns(sum.sum.ns() / sum.count),
                largest_ns: sum.largest,
            })
        });
        let parts: Vec<AttachPart> = parts.collect::<Option<_>>()?;
        let means: Vec<f64> = parts.iter().map(|one| one.mean_ns.as_f64()).collect();
        let found = trend(&means)?;
        let change = found.slope * (TOLD - 1) as f64;
        let size = signed(Nanos::from_f64(change.abs()));
        Some(AttachCourse {
            change_ns: if change < 0.0 { -size } else { size },
            chance: found.chance,
            parts,
        })
    }
}

/// A time as a difference: nanoseconds.
pub(super) fn signed(time: Nanos) -> i64 {
    i64::try_from(time.ns()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(number: u64, every: Nanos, response: impl Fn(u64) -> Nanos) -> CourseSeen {
        let mut seen = CourseSeen::default();
        for one in 0..number {
            seen.add(Nanos::from_ns(5_000 + one * every.ns()), response(one));
        }
        seen
    }

    #[test]
    fn what_grows_is_told_with_by_how_much() {
        let told = course(10_000, Nanos::from_ms(1), |one| {
            Nanos::from_ns(100_000 + 10 * one + one * one * 7_919 % 5_000)
        })
        .told()
        .unwrap();

        assert!(told.is_sure(), "{told:?}");
        // 10 ns each, over seven eighths of 10,000.
        assert!((told.change_ns - 87_500).abs() < 1_500, "{told:?}");
        let all: u64 = told.parts.iter().map(|one| one.activations).sum();
        assert_eq!(all, 10_000);
        assert_eq!(told.parts.len(), 8);
    }

    #[test]
    fn what_stays_is_not_told_to_change_and_a_single_late_one_is_no_trend() {
        let told = course(3_000, Nanos::from_ms(7), |one| {
            let late = if one == 2_990 { 50_000_000 } else { 0 };
            Nanos::from_ns(100_000 + one * one * 7_919 % 5_000 + late)
        })
        .told()
        .unwrap();

        assert!(!told.is_sure(), "{told:?}");
        let largest = told.parts.iter().map(|one| one.largest_ns).max();
        assert!(largest >= Some(Nanos::from_ms(50)), "{told:?}");
    }

    #[test]
    fn parts_are_never_more_than_so_many_however_long_it_is() {
        // A month, with a pause of a week in its midst.
        let mut seen = course(1_000, Nanos::from_secs(600), |_| Nanos::from_us(80));
        seen.add(Nanos::from_secs(30 * 86_400), Nanos::from_us(80));

        assert!(seen.parts.len() <= MOST_PARTS, "{}", seen.parts.len());
        let all: u64 = seen.parts.iter().map(|one| one.count).sum();
        assert_eq!(all, 1_001);
        // A week of nothing has no mean.
        assert_eq!(seen.told(), None);
        assert_eq!(course(100, Nanos::from_ms(1), |_| Nanos::ZERO).told(), None);
    }
}
