//! The order in which the recordings of two sides were made (docs/method.md 10.10).
//!
//! A job that runs in every fourth recording is in recordings of one side only, if the
//! order is A B B A again and again. Such an order cannot distinguish the job from the
//! change. So orders are drawn at random, and those that repeat themselves are
//! recognised.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Orders that are drawn, of which the most balanced is taken.
const DRAWS: usize = 64;

/// Sides of recordings, in the order in which they were made: 0 or 1 for each.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecordingOrder {
    sides: Vec<usize>,
}

impl RecordingOrder {
    /// The order of recordings that were made: the side of each, 0 or 1.
    pub fn new(sides: Vec<usize>) -> Self {
        Self { sides }
    }

    /// Draws an order of this number of rounds from a seed. Each round has a recording
    /// of each side. Of 64 random orders it is the one in which a job of any period falls
    /// most evenly on both sides, after all rounds and after four or more.
    pub fn from_seed(rounds: usize, seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut draw = || {
            let rounds = (0..rounds).flat_map(|_| {
                let first = usize::from(random.random::<bool>());
                [first, 1 - first]
            });
            Self::new(rounds.collect())
        };
        let first = draw();
        let least = first.imbalance_of_parts();
        let rest = (1..DRAWS).map(|_| draw());
        let best = rest.fold((least, first), |best, order| {
            let imbalance = order.imbalance_of_parts();
            if imbalance < best.0 {
                (imbalance, order)
            } else {
                best
            }
        });
        best.1
    }

    /// The side of each recording, 0 or 1.
    pub fn sides(&self) -> &[usize] {
        &self.sides
    }

    /// Number of recordings after which the order repeats itself, if it does from the
    /// first recording to the last, twice or more. One recording may be missing.
    pub fn repeats_after(&self) -> Option<usize> {
        self.repetition().map(|repetition| repetition.period)
    }

    fn repetition(&self) -> Option<Repetition> {
        let is_both = self.sides.iter().any(|&side| side != self.sides[0]);
        let whole = (1..=self.sides.len() / 2)
            .map(|period| Repetition {
                period,
                missing: None,
            })
            .find(|repetition| self.is_of(*repetition));
        let all = whole.into_iter().chain(self.incomplete());
        all.filter(|_| is_both)
            .min_by_key(|repetition| repetition.period)
    }

    /// The repetition of an order with as many recordings of one side as of the other, of
    /// which one is missing. It must be there three times: an order that was drawn looks
    /// like fewer by chance.
    fn incomplete(&self) -> Option<Repetition> {
        let slots = self.sides.len() + 1;
        let seconds: usize = self.sides.iter().sum();
        if (2 * seconds).abs_diff(self.sides.len()) != 1 {
            return None;
        }
        let periods = (2..=slots / 3).step_by(2);
        let mut all = periods.flat_map(|period| {
            (1..slots - 1).map(move |missing| Repetition {
                period,
                missing: Some(missing),
            })
        });
        all.find(|repetition| self.is_of(*repetition) && self.is_balanced(*repetition))
    }

    fn is_of(&self, repetition: Repetition) -> bool {
        let mut pattern = vec![None; repetition.period];
        self.sides.iter().enumerate().all(|(at, &side)| {
            let known = &mut pattern[repetition.position(at)];
            *known.get_or_insert(side) == side
        })
    }

    /// Whether the repetition has as many recordings of one side as of the other.
    fn is_balanced(&self, repetition: Repetition) -> bool {
        let first = (0..repetition.period).filter(|&position| {
            let mut sides = self.sides.iter().enumerate();
            sides.any(|(at, &side)| side == 0 && repetition.position(at) == position)
        });
        2 * first.count() == repetition.period
    }

    /// For each position within a repetition: its side, and the indices of its
    /// recordings among those of that side. Empty if the order does not repeat itself.
    pub(super) fn positions(&self) -> Vec<(usize, Vec<usize>)> {
        let Some(repetition) = self.repetition() else {
            return Vec::new();
        };
        let mut positions = vec![(0, Vec::new()); repetition.period];
        let mut counts = [0, 0];
        for (at, &side) in self.sides.iter().enumerate() {
            let position = &mut positions[repetition.position(at)];
            position.0 = side;
            position.1.push(counts[side]);
            counts[side] += 1;
        }
        positions
    }

    /// Imbalance of the whole order and of its beginnings from eight recordings, at
    /// which verdicts may be looked for.
    fn imbalance_of_parts(&self) -> f64 {
        let count = self.sides.len();
        let parts = (8..count).step_by(4).chain([count]);
        parts.map(|until| imbalance(&self.sides[..until])).sum()
    }
}

/// How an order repeats itself.
#[derive(Clone, Copy, Debug)]
struct Repetition {
    /// Number of recordings, with the missing one.
    period: usize,
    /// Place of a recording that is missing, counted with it.
    missing: Option<usize>,
}

impl Repetition {
    /// Position within the repetition of the recording at this place in the order.
    fn position(self, at: usize) -> usize {
        let is_after = self.missing.is_some_and(|missing| at >= missing);
        (at + usize::from(is_after)) % self.period
    }
}

/// How unevenly jobs of each period and phase fall on the sides: the squared difference
/// of the recordings with the job on both sides over their number is about what a job
/// adds to the square of Student's t.
fn imbalance(sides: &[usize]) -> f64 {
    let mut sum = 0.0;
    for period in 2..=sides.len() / 2 {
        for phase in 0..period {
            let hit = sides.iter().skip(phase).step_by(period);
            let (mut difference, mut count) = (0.0, 0.0);
            for &side in hit {
                difference += if side == 0 { 1.0 } else { -1.0 };
                count += 1.0;
            }
            let ratio: f64 = difference * difference / count;
            sum += ratio * ratio;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(letters: &str) -> RecordingOrder {
        let side = |letter| usize::from(letter == 'B');
        RecordingOrder::new(letters.chars().map(side).collect())
    }

    #[test]
    fn order_that_repeats_itself_is_recognised() {
        for (letters, period) in [
            ("ABBAABBA", Some(4)),
            ("ABBAABBAABBA", Some(4)),
            ("ABABABAB", Some(2)),
            ("ABBABAAB", None),
            ("ABABBABA", None),
            ("AAAABBBB", None),
            // One of four times A B B A or A B, of which any is missing.
            ("ABBABBAABBAABBA", Some(4)),
            ("ABBAABBABBAABBA", Some(4)),
            ("ABBAABBAABBAABB", Some(4)),
            ("BBAABBAABBAABBA", Some(4)),
            ("ABABABABBABABAB", Some(2)),
            ("ABABABAABABABAB", Some(2)),
            ("ABBABAABABBABA", None),
            ("AAAA", None),
            ("AB", None),
            ("", None),
        ] {
            assert_eq!(order(letters).repeats_after(), period, "{letters}");
        }
    }

    #[test]
    fn positions_have_the_recordings_of_their_side() {
        let positions = order("ABBAABBA").positions();

        let expected = [
            (0, vec![0, 2]),
            (1, vec![0, 2]),
            (1, vec![1, 3]),
            (0, vec![1, 3]),
        ];
        assert_eq!(positions, expected);
        assert!(order("ABABBABA").positions().is_empty());
    }

    /// Complete orders that were drawn keep their power. One that lacks a recording can be
    /// the same as a fixed order that lacks one; such an order counts as fixed.
    #[test]
    fn drawn_orders_do_not_look_like_repetitions() {
        for rounds in [4, 6, 8] {
            for seed in 0..500 {
                let drawn = RecordingOrder::from_seed(rounds, seed);
                assert_eq!(drawn.repeats_after(), None, "{drawn:?}");
            }
        }
    }

    #[test]
    fn drawn_orders_are_of_rounds_balanced_and_the_same_for_the_same_seed() {
        let mut orders = std::collections::BTreeSet::new();
        for seed in 0..50 {
            for rounds in [1, 4, 6, 8, 16] {
                let drawn = RecordingOrder::from_seed(rounds, seed);

                assert_eq!(drawn, RecordingOrder::from_seed(rounds, seed));
                assert_eq!(drawn.sides().len(), 2 * rounds);
                assert!(drawn.sides().chunks(2).all(|round| round[0] != round[1]));
                assert!(rounds == 1 || drawn.repeats_after().is_none(), "{drawn:?}");
                // No job in every fourth recording is in those of one side only.
                for phase in 0..4 {
                    let of_job: Vec<usize> = drawn
                        .sides()
                        .iter()
                        .skip(phase)
                        .step_by(4)
                        .copied()
                        .collect();
                    let second: usize = of_job.iter().sum();
                    assert!(
                        rounds < 4 || (second > 0 && second < of_job.len()),
                        "{drawn:?}"
                    );
                }
            }
            orders.insert(RecordingOrder::from_seed(8, seed).sides().to_vec());
        }
        assert!(orders.len() > 10, "{}", orders.len());
    }
}
