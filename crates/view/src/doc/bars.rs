//! Log-log histograms of a few block characters (OSDI'99 Fig. 4).

use laggard_model::{Histogram, Nanos};

/// Buckets of a recording per column: a column is a quarter, half or a whole doubling of the
/// time.
const BUCKETS: [usize; 3] = [16, 32, 64];
/// Characters of the longest name of a tick, which can start in the last column.
const MAX_NAME: usize = 5;
/// Rows of characters, with eight levels each.
const ROWS: usize = 2;
/// Levels in a factor of ten of the count.
const PER_DECADE: f64 = 2.0;

const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Columns that several histograms share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BarAxis {
    /// Width in buckets of a recording.
    per_column: usize,
    first: usize,
    columns: usize,
}

impl BarAxis {
    /// Creates the finest axis of at most `room` columns that holds all buckets. Returns `None`
    /// if all histograms are empty.
    pub(crate) fn over<'a>(
        histograms: impl IntoIterator<Item = &'a [(usize, u64)]>,
        room: usize,
    ) -> Option<Self> {
        let buckets: Vec<usize> = histograms
            .into_iter()
            .flat_map(|buckets| buckets.iter().map(|(bucket, _)| *bucket))
            .collect();
        let (first, last) = (*buckets.iter().min()?, *buckets.iter().max()?);
        let axes = BUCKETS.map(|per_column| Self {
            per_column,
            first: first / per_column,
            columns: last / per_column - first / per_column + 1,
        });
        let fits = |axis: &&Self| axis.columns + MAX_NAME <= room;
        axes.iter().find(fits).or(axes.last()).copied()
    }

    /// Draws a histogram as lines of text, the top line first. Empty lines are left out.
    pub(crate) fn draw(self, buckets: &[(usize, u64)]) -> Vec<String> {
        let mut counts = vec![0_u64; self.columns];
        for &(bucket, count) in buckets {
            counts[bucket / self.per_column - self.first] += count;
        }
        let levels: Vec<usize> = counts.iter().map(|&count| level(count)).collect();
        (0..ROWS)
            .rev()
            .map(|row| {
                levels
                    .iter()
                    .map(|level| BLOCKS[level.saturating_sub(row * 8).min(8)])
                    .collect::<String>()
            })
            .filter(|line| !line.trim().is_empty())
            .collect()
    }

    /// Draws the axis: ticks at powers of ten of a nanosecond, and their names.
    pub(crate) fn ticks(self) -> [String; 2] {
        let mut ticks = vec!['─'; self.columns];
        let mut names = vec![' '; self.columns + 8];
        for (power, name) in [
            "1ns", "10ns", "100ns", "1us", "10us", "100us", "1ms", "10ms", "100ms", "1s", "10s",
            "100s",
        ]
        .iter()
        .enumerate()
        {
            let time = Nanos::from_ns(10_u64.pow(u32::try_from(power).unwrap_or(0)));
            let column = Histogram::bucket_of(time) / self.per_column;
            let Some(column) = column
                .checked_sub(self.first)
                .filter(|&at| at < self.columns)
            else {
                continue;
            };
            ticks[column] = '┴';
            // Ticks can be too close together for all names.
            let before = column.checked_sub(1).map(|before| names[before]);
            if before.is_some_and(|letter| letter != ' ') || names[column] != ' ' {
                continue;
            }
            for (offset, letter) in name.chars().enumerate() {
                names[column + offset] = letter;
            }
        }
        let text = |letters: Vec<char>| letters.into_iter().collect::<String>();
        [text(ticks), text(names).trim_end().into()]
    }
}

/// Returns one level per half power of ten. A count of 1 has level 1.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most two levels for each of 20 powers of ten"
)]
fn level(count: u64) -> usize {
    if count == 0 {
        return 0;
    }
    1 + ((count as f64).log10() * PER_DECADE).floor() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of an axis from 1 ns to 100 s, one per doubling.
    const WIDEST: usize = 37 + MAX_NAME;

    #[test]
    fn rare_and_frequent_times_are_visible() {
        let buckets = [(640, 1_000_000), (641, 500), (1_280, 1)];
        let axis = BarAxis::over([&buckets[..]], 80).unwrap();

        let lines = axis.draw(&buckets);

        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].chars().next(), Some('▅'));
        assert_eq!(lines[1].chars().next(), Some('█'));
        assert_eq!(lines[1].chars().last(), Some('▁'));
    }

    #[test]
    fn ticks_are_at_powers_of_ten() {
        let (us, ms) = (
            Histogram::bucket_of(Nanos::from_us(1)),
            Histogram::bucket_of(Nanos::from_ms(1)),
        );
        let axis = BarAxis::over([&[(us, 1), (ms, 1)][..]], 80).unwrap();

        let [ticks, names] = axis.ticks();

        assert_eq!(ticks.chars().filter(|&tick| tick == '┴').count(), 4);
        assert_eq!(
            names.split_whitespace().collect::<Vec<_>>(),
            ["1us", "10us", "100us", "1ms"]
        );
    }

    #[test]
    fn axis_fits_the_room_and_names_are_apart() {
        let (ns, s) = (
            Histogram::bucket_of(Nanos::from_ns(1)),
            Histogram::bucket_of(Nanos::from_secs(90)),
        );
        let buckets = [(ns, 1), (s, 1)];

        for room in WIDEST..160 {
            let axis = BarAxis::over([&buckets[..]], room).unwrap();

            for line in axis.ticks().into_iter().chain(axis.draw(&buckets)) {
                assert!(line.chars().count() <= room, "{room}: {line}");
            }
        }
        let [_, names] = BarAxis::over([&buckets[..]], WIDEST).unwrap().ticks();
        assert_eq!(
            names.split_whitespace().collect::<Vec<_>>(),
            ["1ns", "100ns", "10us", "1ms", "10ms", "1s", "10s"]
        );
    }
}
