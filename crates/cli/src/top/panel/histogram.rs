//! Histogram of latencies with logarithmic scales (OSDI'99 Fig. 4).

use laggard_answer::live::{ServiceRoute, Window};
use laggard_model::text::brief_count;
use laggard_model::{Histogram, Nanos, whole};
use laggard_view::live_window;
use ratatui::text::{Line, Span};

use super::Shown;

/// Buckets in a doubling of the time.
const PER_OCTAVE: usize = 64;
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of the numbers at the left.
const MARGIN: usize = 6;

pub(super) fn title(shown: &Shown<'_>, route: ServiceRoute) -> String {
    format!(
        "{}, {}: histogram of latencies",
        shown.place(route),
        live_window(shown.state, shown.look.window)
    )
}

/// Returns `height` lines, scale included.
pub(super) fn lines(
    shown: &Shown<'_>,
    route: ServiceRoute,
    (width, height): (usize, usize),
) -> Vec<Line<'static>> {
    // The scale covers all samples, so that windows can be compared.
    let since_start = shown.state.histogram(route, shown.look.cpu, Window::Start);
    let histogram = match shown.look.window {
        Window::Start => since_start.clone(),
        window @ (Window::Now | Window::Minute) => {
            shown.state.histogram(route, shown.look.cpu, window)
        }
    };
    let Some(axis) = BucketAxis::over(&since_start, width.saturating_sub(MARGIN)) else {
        return vec![Line::from(" no samples yet")];
    };
    let rows = height.saturating_sub(2).max(1);
    let counts = axis.columns(&histogram);
    let most = axis
        .columns(&since_start)
        .into_iter()
        .max()
        .unwrap_or(1)
        .max(1);
    let eighths: Vec<usize> = counts
        .iter()
        .map(|&count| level(count, most, rows * 8))
        .collect();
    let mut lines: Vec<Line<'static>> = (0..rows)
        .rev()
        .map(|row| {
            let bars: String = eighths
                .iter()
                .map(|level| BLOCKS[level.saturating_sub(row * 8).min(8)])
                .collect();
            Line::from(vec![
                Span::styled(label(row, rows, most), shown.palette.faint()),
                Span::styled(bars, shown.palette.counts()),
            ])
        })
        .collect();
    let ticks = axis.ticks();
    lines.extend(
        ticks.map(|text| Line::styled(format!("{:MARGIN$}{text}", ""), shown.palette.faint())),
    );
    lines
}

/// Returns the height of a count on a logarithmic scale. A count of 1 is visible.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of the rows"
)]
fn level(count: u64, most: u64, full: usize) -> usize {
    if count == 0 {
        return 0;
    }
    let share = ((count as f64).log10() + 1.0) / ((most as f64).log10() + 1.0);
    ((share * full as f64).round() as usize).max(1)
}

/// Returns the label of a row: the count of a bar up to its top.
fn label(row: usize, rows: usize, most: u64) -> String {
    let decades = (most as f64).log10() + 1.0;
    let decade = |row: usize| decades * row as f64 / rows as f64 - 1.0;
    // The row contains a power of ten.
    let power = decade(row + 1).floor();
    if power > decade(row) && power >= 0.0 {
        let count = whole(10_f64.powf(power).round());
        format!("{:>4} ┤", brief_count(count))
    } else {
        format!("{:>4} │", "")
    }
}

/// Buckets of a histogram in columns of characters.
struct BucketAxis {
    first: usize,
    /// Exclusive.
    end: usize,
    width: usize,
}

impl BucketAxis {
    /// Creates an axis over all buckets with samples, at least two octaves. `None` without
    /// samples.
    fn over(histogram: &Histogram, width: usize) -> Option<Self> {
        let first = histogram.buckets().next()?.0;
        let last = histogram.buckets().last()?.0;
        (width > 0).then(|| Self {
            first,
            end: last.max(first + 2 * PER_OCTAVE) + 1,
            width,
        })
    }

    fn column(&self, bucket: usize) -> usize {
        (bucket.saturating_sub(self.first) * self.width / (self.end - self.first))
            .min(self.width - 1)
    }

    /// Returns the counts per column.
    fn columns(&self, histogram: &Histogram) -> Vec<u64> {
        let mut counts = vec![0; self.width];
        for (bucket, count) in histogram.buckets() {
            counts[self.column(bucket)] += count;
        }
        counts
    }

    /// Returns a line with a mark at each power of ten, and one with their names.
    fn ticks(&self) -> [String; 2] {
        let mut marks = vec!['─'; self.width];
        let mut names = String::new();
        for (power, name) in (0..).zip([
            "1ns", "10ns", "100ns", "1us", "10us", "100us", "1ms", "10ms", "100ms", "1s", "10s",
            "100s",
        ]) {
            let bucket = Histogram::bucket_of(Nanos::from_ns(10_u64.pow(power)));
            if !(self.first..self.end).contains(&bucket) {
                continue;
            }
            let column = self.column(bucket);
            marks[column] = '┴';
            if names.is_empty() || names.chars().count() < column {
                names = format!("{names:<column$}{name}");
            }
        }
        let names = names.chars().take(self.width).collect();
        [marks.into_iter().collect(), names]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_in_a_column_and_the_last_in_the_last() {
        let mut histogram = Histogram::default();
        for us in [1, 5, 5, 700, 90_000] {
            histogram.add(Nanos::from_us(us));
        }
        let axis = BucketAxis::over(&histogram, 40).unwrap();

        let columns = axis.columns(&histogram);

        assert_eq!(columns.len(), 40);
        assert_eq!(columns.iter().sum::<u64>(), 5);
        assert_eq!((columns[0], columns[39]), (1, 1));
    }

    #[test]
    fn one_sample_among_millions_still_shows() {
        assert_eq!(level(0, 1_000_000, 64), 0);
        assert!(level(1, 1_000_000, 8) >= 1);
        assert_eq!(level(1_000_000, 1_000_000, 64), 64);
    }
}
