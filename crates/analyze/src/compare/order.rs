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
    /// first recording to the last, twice or more.
    pub fn repeats_after(&self) -> Option<usize> {
        let count = self.sides.len();
        let is_both = self.sides.iter().any(|&side| side != self.sides[0]);
        let repeats =
            |&period: &usize| (period..count).all(|at| self.sides[at] == self.sides[at - period]);
        (1..=count / 2).find(repeats).filter(|_| is_both)
    }

    /// For each position within a repetition: its side, and the indices of its
    /// recordings among those of that side. Empty if the order does not repeat itself.
    pub(super) fn positions(&self) -> Vec<(usize, Vec<usize>)> {
        let Some(period) = self.repeats_after() else {
            return Vec::new();
        };
        let mut positions: Vec<(usize, Vec<usize>)> = (0..period)
            .map(|position| (self.sides[position], Vec::new()))
            .collect();
        let mut counts = [0, 0];
        for (at, &side) in self.sides.iter().enumerate() {
            positions[at % period].1.push(counts[side]);
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
