//! Which late activations are kept as episodes.

use laggard_model::{Activation, Batch, EpisodeNotes, Histogram, LineWatch, Nanos};

use super::budget::Budget;

/// How long a line is watched before its automatic threshold is decided.
const WATCH: Nanos = Nanos::from_secs(3);
/// The quantile that the automatic threshold is.
const LATE: f64 = 0.999;
/// The smallest automatic threshold: less is not worth a word.
const SMALLEST: Nanos = Nanos::from_us(50);
/// The largest automatic threshold: on a machine that stalls in the first
/// seconds, their p99.9 can be whole seconds, and what follows would pass for
/// ordinary. Ten milliseconds are late for whatever anybody waits for.
const LARGEST: Nanos = Nanos::from_ms(10);

/// From which latency on an activation is late.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Threshold {
    /// The same for every line.
    Fixed(Nanos),
    /// For each line the p99.9 of its first 3 s, but at least 50 us and at most
    /// 10 ms. Until then every new largest from 50 us on is late, and what is
    /// later than 10 ms, since it will be whatever the threshold becomes.
    Automatic,
}

/// A late activation that is to be kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ChosenActivation {
    /// The late activation.
    pub activation: Activation,
    /// From which latency on its line was late.
    pub threshold: Nanos,
}

/// Chooses late activations.
///
/// Of each line, every new largest is kept, from its first activation on;
/// besides, a limited number in each minute, spread over it and shared fairly
/// among the lines.
#[derive(Debug)]
pub struct EpisodeSelector {
    lines: Vec<Watched>,
    budget: Budget,
    kept: u64,
}

#[derive(Debug)]
struct Watched {
    threshold: Option<Nanos>,
    first: Option<Nanos>,
    /// All latencies until the threshold was decided.
    seen: Histogram,
    /// Those of the recording that were not kept, for want of a threshold.
    early: Histogram,
    /// The largest of the recording.
    largest: Nanos,
    /// Whether the activation was met that the line still waits for at the end.
    is_waiting: bool,
    notes: LineWatch,
}

/// A late activation, and whether it is kept in any case.
struct Candidate {
    late: ChosenActivation,
    is_largest: bool,
}

impl EpisodeSelector {
    /// For `lines` lines, of which `per_minute` late activations together are
    /// kept in a minute, besides each new largest.
    pub fn new(lines: usize, threshold: Threshold, per_minute: u64) -> Self {
        let fixed = match threshold {
            Threshold::Fixed(threshold) => Some(threshold),
            Threshold::Automatic => None,
        };
        let watched = || Watched {
            threshold: fixed,
            first: None,
            seen: Histogram::default(),
            early: Histogram::default(),
            largest: Nanos::ZERO,
            is_waiting: false,
            notes: LineWatch {
                from_ns: fixed.map(|_| Nanos::ZERO),
                ..LineWatch::default()
            },
        };
        Self {
            lines: std::iter::repeat_with(watched).take(lines).collect(),
            budget: Budget::new(lines, per_minute),
            kept: 0,
        }
    }

    /// Begins to count: what is kept from here on is of a recording.
    pub fn begin(&mut self) {
        self.kept = 0;
        for line in &mut self.lines {
            line.largest = Nanos::ZERO;
            line.early = Histogram::default();
            line.notes = LineWatch {
                from_ns: line.notes.from_ns,
                ..LineWatch::default()
            };
        }
    }

    /// The late activations of a batch that are to be kept, in order of time.
    /// A missed one is not: what made it late is the episode of the one before.
    /// But the first of those that still wait at the end has none before it.
    pub fn choose(&mut self, batch: &Batch) -> Vec<ChosenActivation> {
        let mut candidates: Vec<Candidate> = batch
            .iter()
            .filter(|one| !one.missed || one.censored)
            .filter_map(|one| {
                let line = self.lines.get_mut(usize::from(one.line.0))?;
                line.take_in(one)
            })
            .collect();
        // They come line by line, and the budget is spent in order of time.
        candidates.sort_by_key(|one| one.late.activation.expiry);
        let mut chosen = Vec::new();
        for Candidate { late, is_largest } in candidates {
            let line = usize::from(late.activation.line.0);
            let has_room = self.budget.take(line, late.activation.expiry);
            let notes = &mut self.lines[line].notes;
            if has_room || is_largest {
                notes.kept += 1;
                self.kept += 1;
                chosen.push(late);
            } else {
                notes.surplus += 1;
            }
        }
        chosen
    }

    /// How many were kept so far; the last one's number.
    pub const fn kept(&self) -> u64 {
        self.kept
    }

    /// What is to be said of the choice so far.
    pub fn notes(&self) -> EpisodeNotes {
        let lines: Vec<LineWatch> = self.lines.iter().map(Watched::notes).collect();
        EpisodeNotes {
            thresholds_ns: self.lines.iter().map(|line| line.threshold).collect(),
            kept: self.kept,
            surplus: lines.iter().map(|line| line.surplus).sum(),
            lines,
            ..EpisodeNotes::default()
        }
    }
}

impl Watched {
    /// Whether an activation is late.
    fn take_in(&mut self, activation: Activation) -> Option<Candidate> {
        let latency = activation.latency();
        if activation.censored {
            if self.is_waiting {
                return None;
            }
            self.is_waiting = true;
        }
        let is_largest = latency > self.largest;
        self.largest = self.largest.max(latency);
        let (threshold, is_late) = match self.threshold {
            Some(threshold) => (threshold, latency > threshold),
            None => {
                let is_late = latency > SMALLEST && (is_largest || latency > LARGEST);
                if !is_late {
                    self.early.add(latency);
                }
                self.watch(activation.expiry, latency);
                (SMALLEST, is_late)
            }
        };
        let late = ChosenActivation {
            activation,
            threshold,
        };
        is_late.then_some(Candidate { late, is_largest })
    }

    fn watch(&mut self, expiry: Nanos, latency: Nanos) {
        self.seen.add(latency);
        if expiry >= *self.first.get_or_insert(expiry) + WATCH {
            self.notes = self.notes();
            self.notes.from_ns = Some(expiry);
            self.threshold = Some(self.automatic());
            self.seen = Histogram::default();
            self.early = Histogram::default();
        }
    }

    /// The threshold by what was seen so far.
    fn automatic(&self) -> Nanos {
        let late = self.seen.quantile(LATE).unwrap_or_default();
        late.clamp(SMALLEST, LARGEST)
    }

    /// What is known of the line. What was late before its threshold was
    /// decided is told by the threshold that it would have now.
    fn notes(&self) -> LineWatch {
        if self.threshold.is_some() {
            return self.notes;
        }
        let threshold = self.automatic();
        let is_late = |bucket: &(usize, u64)| Histogram::upper_edge(bucket.0) > threshold;
        let late = self.early.buckets().filter(is_late);
        LineWatch {
            early: late.map(|(_, count)| count).sum(),
            early_largest_ns: self.early.max().filter(|&largest| largest > threshold),
            ..self.notes
        }
    }
}
