//! A log-log histogram in a few characters (OSDI'99 Fig. 4).

use laggard_model::{Histogram, Nanos};

/// Buckets of a recording in a column, from the finest: a quarter of a doubling
/// of the time, to a whole one.
const BUCKETS: [usize; 3] = [16, 32, 64];
/// The name of a tick can begin in the last column.
const LONGEST_NAME: usize = 5;
/// Rows of characters; each has eight levels.
const ROWS: usize = 2;
/// Levels in a factor of ten of the count.
const PER_DECADE: f64 = 2.0;

const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The columns that several histograms share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BarAxis {
    /// In buckets of a recording.
    per_column: usize,
    first: usize,
    columns: usize,
}

impl BarAxis {
    /// An axis that holds all buckets of all histograms, as fine as so many
    /// columns allow; `None` when all are empty.
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
        let fits = |axis: &&Self| axis.columns + LONGEST_NAME <= room;
        axes.iter().find(fits).or(axes.last()).copied()
    }

    /// The histogram as lines of text, top first. Empty lines are left out.
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

    /// The axis itself: a tick at each power of ten of a nanosecond, named.
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
            // Where ticks are close together, not each has room for its name.
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

/// One level per half power of ten, from 1 for a single one.
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

    /// Columns of an axis from 1 ns to 100 s, one for each doubling.
    const WIDEST: usize = 37 + LONGEST_NAME;

    #[test]
    fn a_rare_time_shows_as_well_as_a_frequent_one() {
        let buckets = [(640, 1_000_000), (641, 500), (1_280, 1)];
        let axis = BarAxis::over([&buckets[..]], 80).unwrap();

        let lines = axis.draw(&buckets);

        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].chars().next(), Some('▅'));
        assert_eq!(lines[1].chars().next(), Some('█'));
        assert_eq!(lines[1].chars().last(), Some('▁'));
    }

    #[test]
    fn ticks_stand_at_powers_of_ten() {
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
    fn an_axis_is_coarser_where_there_is_less_room_and_names_do_not_run_together() {
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
