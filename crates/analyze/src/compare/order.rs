//! Order of the recordings of two sides (docs/method.md 10.10).
//!
//! With the order A B B A repeated, a job that runs in every fourth recording occurs in
//! recordings of one side only. Such an order cannot distinguish the job from the
//! change. Orders are therefore drawn at random, and periodic ones are recognised.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Number of random orders. The most balanced order is used.
const DRAWS: usize = 64;

/// Side of each recording, 0 or 1, in order of time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecordingOrder {
    sides: Vec<usize>,
    /// Whether it was drawn from a seed for this comparison.
    is_drawn: bool,
}

impl RecordingOrder {
    /// Creates the order of existing recordings from their sides, 0 or 1.
    pub fn new(sides: Vec<usize>) -> Self {
        Self {
            sides,
            is_drawn: false,
        }
    }

    /// Creates the order of recordings that were made in a random order. Some of them may
    /// be missing.
    pub fn from_drawn(sides: Vec<usize>) -> Self {
        Self {
            sides,
            is_drawn: true,
        }
    }

    /// Draws an order of this number of rounds from a seed. Each round has one
    /// recording of each side. The result is the best of 64 random orders: a job of any period
    /// falls most evenly on both sides, after all rounds and after four or more.
    pub fn from_seed(rounds: usize, seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut draw = || {
            let rounds = (0..rounds).flat_map(|_| {
                let first = usize::from(random.random::<bool>());
                [first, 1 - first]
            });
            Self::from_drawn(rounds.collect())
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

    /// Returns the side of each recording, 0 or 1.
    pub fn sides(&self) -> &[usize] {
        &self.sides
    }

    /// Returns the period of the order in recordings, if the order repeats at least
    /// twice from the first recording to the last. One recording may be missing. A random
    /// order does not have a period: it can look like a repetition by chance if some are missing.
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
        if self.is_drawn {
            return None;
        }
        let candidates = whole.into_iter().chain(self.incomplete());
        candidates
            .filter(|_| is_both)
            .min_by_key(|repetition| repetition.period)
    }

    /// Returns the repetition of a balanced order that lacks one recording. It must
    /// occur three times: random orders can look like two repetitions by chance.
    fn incomplete(&self) -> Option<Repetition> {
        let slots = self.sides.len() + 1;
        let seconds: usize = self.sides.iter().sum();
        if (2 * seconds).abs_diff(self.sides.len()) != 1 {
            return None;
        }
        let periods = (2..=slots / 3).step_by(2);
        let mut candidates = periods.flat_map(|period| {
            (1..slots - 1).map(move |missing| Repetition {
                period,
                missing: Some(missing),
            })
        });
        candidates.find(|repetition| self.is_of(*repetition) && self.is_balanced(*repetition))
    }

    fn is_of(&self, repetition: Repetition) -> bool {
        let mut pattern = vec![None; repetition.period];
        self.sides.iter().enumerate().all(|(index, &side)| {
            let side_of = &mut pattern[repetition.position(index)];
            *side_of.get_or_insert(side) == side
        })
    }

    /// Returns whether the repetition has equal numbers of recordings of both sides.
    fn is_balanced(&self, repetition: Repetition) -> bool {
        let first = (0..repetition.period).filter(|&position| {
            let mut sides = self.sides.iter().enumerate();
            sides.any(|(index, &side)| side == 0 && repetition.position(index) == position)
        });
        2 * first.count() == repetition.period
    }

    /// Returns, for each position within a repetition, its side and the indices of its
    /// recordings among the recordings of that side. Empty if the order does not
    /// repeat.
    pub(super) fn positions(&self) -> Vec<(usize, Vec<usize>)> {
        let Some(repetition) = self.repetition() else {
            return Vec::new();
        };
        let mut positions = vec![(0, Vec::new()); repetition.period];
        let mut counts = [0, 0];
        for (index, &side) in self.sides.iter().enumerate() {
            let position = &mut positions[repetition.position(index)];
            position.0 = side;
            position.1.push(counts[side]);
            counts[side] += 1;
        }
        positions
    }

    /// Returns the imbalance of the whole order and of its prefixes of eight or more
    /// recordings, where verdicts are possible.
    fn imbalance_of_parts(&self) -> f64 {
        let count = self.sides.len();
        let parts = (8..count).step_by(4).chain([count]);
        parts.map(|until| imbalance(&self.sides[..until])).sum()
    }
}

/// Repetition of an order.
#[derive(Clone, Copy, Debug)]
struct Repetition {
    /// Number of recordings, including the missing one.
    period: usize,
    /// Position of a missing recording, included in the period.
    missing: Option<usize>,
}

impl Repetition {
    /// Returns the position within the repetition of the recording at position `index` of
    /// the order.
    fn position(self, index: usize) -> usize {
        let is_after = self.missing.is_some_and(|missing| index >= missing);
        (index + usize::from(is_after)) % self.period
    }
}

/// Returns how unevenly jobs of each period and phase fall on the sides. The squared
/// difference of the numbers of recordings with the job, divided by their sum, is
/// approximately the job's contribution to the square of Student's t.
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
    fn repeated_order_is_recognised() {
        for (letters, period) in [
            ("ABBAABBA", Some(4)),
            ("ABBAABBAABBA", Some(4)),
            ("ABABABAB", Some(2)),
            ("ABBABAAB", None),
            ("ABABBABA", None),
            ("AAAABBBB", None),
            // One recording of a fourfold A B B A or A B is missing.
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

    /// Complete random orders keep their power. A random order that lacks one recording
    /// can equal a fixed order that lacks one. It counts as fixed if its seed is unknown.
    #[test]
    fn random_orders_do_not_look_like_repetitions() {
        let mut alike = 0;
        for rounds in [4, 6, 8] {
            for seed in 0..500 {
                let drawn = RecordingOrder::from_seed(rounds, seed);
                let complete = RecordingOrder::new(drawn.sides().to_vec());
                assert_eq!(complete.repeats_after(), None, "{drawn:?}");
                for missing in 0..2 * rounds {
                    let mut sides = drawn.sides().to_vec();
                    sides.remove(missing);
                    let unknown = RecordingOrder::new(sides.clone());
                    alike += usize::from(unknown.repeats_after().is_some());
                    let drawn = RecordingOrder::from_drawn(sides);
                    assert_eq!(drawn.repeats_after(), None, "{drawn:?}");
                }
            }
        }
        assert!(alike > 100, "{alike}");
    }

    #[test]
    fn random_orders_are_balanced_and_reproducible() {
        let mut orders = std::collections::BTreeSet::new();
        for seed in 0..50 {
            for rounds in [1, 4, 6, 8, 16] {
                let drawn = RecordingOrder::from_seed(rounds, seed);

                assert_eq!(drawn, RecordingOrder::from_seed(rounds, seed));
                assert_eq!(drawn.sides().len(), 2 * rounds);
                assert!(drawn.sides().chunks(2).all(|round| round[0] != round[1]));
                assert!(rounds == 1 || drawn.repeats_after().is_none(), "{drawn:?}");
                // A job in every fourth recording is in recordings of both sides.
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
