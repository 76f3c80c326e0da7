//! Which late activations are kept as episodes.

use laggard_model::{Activation, Batch, EpisodeNotes, Histogram, Nanos};

/// How long a line is watched before its automatic threshold is decided.
const WATCH: Nanos = Nanos::from_secs(3);
/// The quantile that the automatic threshold is.
const LATE: f64 = 0.999;
/// The smallest automatic threshold: less is not worth a word.
const SMALLEST: Nanos = Nanos::from_us(50);
const MINUTE: Nanos = Nanos::from_secs(60);
/// The time for which a limit can be saved up.
const AT_ONCE: Nanos = Nanos::from_secs(15);

/// From which latency on an activation is late.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Threshold {
    /// The same for every line.
    Fixed(Nanos),
    /// For each line the p99.9 of its first seconds, but at least 50 us.
    Automatic,
}

/// A late activation that is to be kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Late {
    /// Which.
    pub activation: Activation,
    /// From which latency on its line was late.
    pub threshold: Nanos,
}

/// Chooses late activations.
///
/// A limited number is kept in each minute, spread over it, a quarter of them
/// at once at most; beyond that only those that are later than any kept before
/// of their line: those that matter most.
#[derive(Debug)]
pub struct EpisodeSelector {
    lines: Vec<Watched>,
    /// What keeping one costs, as time that must pass.
    price: Nanos,
    /// Time that has passed and is not spent, and until when it is counted.
    credit: Nanos,
    counted: Nanos,
    kept: u64,
    surplus: u64,
}

#[derive(Debug)]
struct Watched {
    threshold: Option<Nanos>,
    first: Option<Nanos>,
    seen: Histogram,
    largest_kept: Nanos,
}

impl EpisodeSelector {
    /// For `lines` lines.
    pub fn new(lines: usize, threshold: Threshold, per_minute: u64) -> Self {
        let fixed = match threshold {
            Threshold::Fixed(threshold) => Some(threshold),
            Threshold::Automatic => None,
        };
        let watched = || Watched {
            threshold: fixed,
            first: None,
            seen: Histogram::default(),
            largest_kept: Nanos::ZERO,
        };
        Self {
            lines: std::iter::repeat_with(watched).take(lines).collect(),
            price: Nanos::from_ns(MINUTE.ns() / per_minute.max(1)),
            credit: if per_minute == 0 {
                Nanos::ZERO
            } else {
                AT_ONCE
            },
            counted: Nanos::MAX,
            kept: 0,
            surplus: 0,
        }
    }

    /// The late activations of a batch that are to be kept. A missed one is
    /// never: what made it late is the episode of the one before.
    pub fn choose(&mut self, batch: &Batch) -> Vec<Late> {
        let mut chosen = Vec::new();
        for activation in batch.iter().filter(|one| !one.missed) {
            let Some(line) = self.lines.get_mut(usize::from(activation.line.0)) else {
                continue;
            };
            let latency = activation.latency();
            let Some(threshold) = line.threshold else {
                line.watch(activation.expiry, latency);
                continue;
            };
            if latency <= threshold {
                continue;
            }
            let passed = activation.expiry.saturating_sub(self.counted);
            self.credit = (self.credit + passed).min(AT_ONCE.max(self.price));
            if passed > Nanos::ZERO || self.counted == Nanos::MAX {
                self.counted = activation.expiry;
            }
            if self.credit < self.price && latency <= line.largest_kept {
                self.surplus += 1;
                continue;
            }
            self.credit = self.credit.saturating_sub(self.price);
            self.kept += 1;
            line.largest_kept = line.largest_kept.max(latency);
            chosen.push(Late {
                activation,
                threshold,
            });
        }
        chosen
    }

    /// How many were kept so far; the last one's number.
    pub const fn kept(&self) -> u64 {
        self.kept
    }

    /// What is to be said of the choice so far.
    pub fn notes(&self) -> EpisodeNotes {
        EpisodeNotes {
            thresholds_ns: self.lines.iter().map(|line| line.threshold).collect(),
            kept: self.kept,
            surplus: self.surplus,
            ..EpisodeNotes::default()
        }
    }
}

impl Watched {
    fn watch(&mut self, expiry: Nanos, latency: Nanos) {
        self.seen.add(latency);
        if expiry >= *self.first.get_or_insert(expiry) + WATCH {
            let late = self.seen.quantile(LATE).unwrap_or_default();
            self.threshold = Some(late.max(SMALLEST));
        }
    }
}
