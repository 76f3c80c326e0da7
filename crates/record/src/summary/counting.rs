//! Summaries during counting.

use std::collections::BTreeMap;

use laggard_model::{Activation, Figure, Histogram, Line, LineCount, LineId, Nanos};
use parquet::errors::ParquetError;

use super::{FigureHour, Largest, histograms, largest};

const HOUR: u64 = 3_600_000_000_000;
const MINUTE: u64 = 60_000_000_000;
/// Number of largest latencies that are kept per line and minute.
const LARGEST_KEPT: usize = 8;
/// Number of samples below which p99.99 is the max.
const MIN_SAMPLES: u64 = 10_000;
/// Number of samples between computations of p99.99.
const RENEW_EVERY: u64 = 4_096;

/// Counts activations by hour, keeps the largest of each minute, and decides which
/// belong to the tail.
#[derive(Debug)]
pub(crate) struct Counting {
    start: Nanos,
    tails: Vec<Tail>,
    /// Open hours; an activation of an earlier hour counts in the first of these.
    hours: BTreeMap<u32, Hour>,
    counts: Vec<LineCount>,
}

/// Samples of one line in the whole recording.
#[derive(Clone, Debug, Default)]
struct Tail {
    all: Histogram,
    p9999: Nanos,
}

#[derive(Debug, Default)]
struct Hour {
    changed: bool,
    lines: BTreeMap<LineId, [Option<Box<FigureHour>>; Figure::COUNT]>,
    largest: BTreeMap<(LineId, u32), Vec<Largest>>,
}

/// Content of the two files of an hour.
pub(crate) struct HourFiles {
    pub(crate) hour: u32,
    pub(crate) histograms: Vec<u8>,
    pub(crate) largest: Vec<u8>,
}

impl Counting {
    /// Creates empty summaries. Hours and minutes count from `start`.
    pub(crate) const fn new(start: Nanos) -> Self {
        Self {
            start,
            tails: Vec::new(),
            hours: BTreeMap::new(),
            counts: Vec::new(),
        }
    }

    /// Counts an activation. Returns whether it belongs to the tail.
    pub(crate) fn add(&mut self, activation: &Activation) -> bool {
        let line = usize::from(activation.line.0);
        if line >= self.tails.len() {
            self.tails.resize(line + 1, Tail::default());
            self.counts.resize(line + 1, LineCount::default());
        }
        self.counts[line].add(activation.missed, activation.censored);
        let since = activation.expiry.saturating_sub(self.start).ns();
        let whole = |unit: u64| u32::try_from(since / unit).unwrap_or(u32::MAX);
        let oldest = self.hours.keys().next().copied().unwrap_or_default();
        let number = whole(HOUR).max(oldest);
        let hour = self.hours.entry(number).or_default();
        hour.add(activation, number, whole(MINUTE));
        self.tails[line].add(activation.latency())
    }

    /// Returns the counts per line so far.
    pub(crate) fn counts(&self) -> &[LineCount] {
        &self.counts
    }

    /// Returns the files of every hour that changed since the previous call.
    pub(crate) fn take_changed(&mut self, lines: &[Line]) -> Result<Vec<HourFiles>, ParquetError> {
        let changed = self.hours.iter().filter(|(_, hour)| hour.changed);
        changed
            .map(|(&hour, content)| {
                Ok(HourFiles {
                    hour,
                    histograms: histograms::encode(content.figures(), lines)?,
                    largest: largest::encode(content.largest.values().flatten(), lines)?,
                })
            })
            .collect()
    }

    /// Records that the files are in place. Lines reach a new hour at slightly
    /// different times, so the hour before the newest stays open.
    pub(crate) fn stored(&mut self) {
        let newest = self.hours.keys().next_back().copied().unwrap_or_default();
        self.hours.retain(|&hour, content| {
            content.changed = false;
            hour + 1 >= newest
        });
    }
}

impl Tail {
    fn add(&mut self, latency: Nanos) -> bool {
        let belongs = self.all.count() == 0 || latency > self.p9999;
        self.all.add(latency);
        let count = self.all.count();
        if count < MIN_SAMPLES {
            self.p9999 = self.p9999.max(latency);
        } else if count == MIN_SAMPLES || count.is_multiple_of(RENEW_EVERY) {
            self.p9999 = self.all.quantile(0.9999).unwrap_or(self.p9999);
        }
        belongs
    }
}

impl Hour {
    fn add(&mut self, activation: &Activation, hour: u32, minute: u32) {
        self.changed = true;
        let line = self.lines.entry(activation.line).or_default();
        for figure in Figure::all() {
            let Some(time) = figure.of(activation) else {
                continue;
            };
            let counted = line[figure.index()].get_or_insert_with(|| {
                Box::new(FigureHour {
                    line: activation.line,
                    figure,
                    hour,
                    histogram: Histogram::default(),
                    largest_at: activation.expiry,
                })
            });
            if counted.histogram.max().is_some_and(|max| time > max) {
                counted.largest_at = activation.expiry;
            }
            counted.histogram.add(time);
        }
        self.keep_largest(activation, minute);
    }

    fn keep_largest(&mut self, activation: &Activation, minute: u32) {
        let largest = self.largest.entry((activation.line, minute)).or_default();
        let latency = activation.latency();
        let full = largest.len() == LARGEST_KEPT;
        if full && largest.last().is_some_and(|least| latency <= least.latency) {
            return;
        }
        largest.truncate(LARGEST_KEPT - 1);
        let place = largest.partition_point(|other| other.latency >= latency);
        let row = Largest {
            line: activation.line,
            minute,
            latency,
            expiry: activation.expiry,
            seq: activation.seq,
            missed: activation.missed,
            censored: activation.censored,
        };
        largest.insert(place, row);
    }

    fn figures(&self) -> impl Iterator<Item = &FigureHour> {
        let figures = self.lines.values().flatten();
        figures.flatten().map(Box::as_ref)
    }
}
