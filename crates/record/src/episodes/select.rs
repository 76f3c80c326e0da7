//! Selection of late wakeups as episodes.

use laggard_model::{
    Activation, Batch, EpisodeNotes, Histogram, LineId, LineWatch, Nanos, Untraced,
};

use super::budget::Budget;

/// Observation time of a line before its automatic threshold is chosen.
const OBSERVATION_TIME: Nanos = Nanos::from_secs(3);
/// Quantile of the observed latencies that is an upper bound of the automatic
/// threshold.
const LATE_QUANTILE: f64 = 0.999;
/// Multiple of the median that is an upper bound of the automatic threshold. A fault
/// that is present from the start raises the upper quantiles, but the median only if it
/// hits more than half of all wakeups.
const MEDIAN_MULTIPLE: u64 = 10;
/// Minimum automatic threshold.
const MIN_THRESHOLD: Nanos = Nanos::from_us(50);
/// Maximum automatic threshold. A fault can hit most wakeups of the first seconds, so
/// that both the median and the p99.9 are latencies of the fault.
const MAX_THRESHOLD: Nanos = Nanos::from_ms(1);

/// Maximum number of expiries that are kept with one late wakeup. Further ones count like late
/// wakeups without trace data.
pub(super) const MAX_PASSED: usize = 1 << 16;

/// Latency threshold of late activations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Threshold {
    /// The same for every line.
    Fixed(Nanos),
    /// Per line, 10 times the median of its first 3 s, at most their p99.9, and between 50 us and 1
    /// ms. Until it is chosen, each new maximum above 50 us is late. Every latency above 1 ms is
    /// late, too, because automatic thresholds never exceed 1 ms.
    Automatic,
}

/// Late wakeup to keep.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChosenActivation {
    /// The late wakeup.
    pub activation: Activation,
    /// Threshold of its line.
    pub threshold: Nanos,
    /// Later expiries that passed before the service ran, as times after the expiry.
    pub passed: Vec<Nanos>,
}

impl ChosenActivation {
    /// Returns the latency of this wakeup and of every expiry that passed during it.
    fn latencies(&self) -> impl Iterator<Item = Nanos> {
        let latency = self.activation.latency();
        let passed = self.passed.iter();
        std::iter::once(latency).chain(passed.map(move |&after| latency.saturating_sub(after)))
    }

    /// Returns the number of late wakeups in it, itself included, and the sum of their
    /// latencies.
    pub fn wakeups(&self) -> (u64, Nanos) {
        let total = self
            .latencies()
            .fold(Nanos::ZERO, |sum, latency| sum + latency);
        (1 + self.passed.len() as u64, total)
    }
}

/// Expiry that passed during a late wakeup of an earlier batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PassedExpiry {
    /// Line of both.
    pub line: LineId,
    /// [`Activation::seq`] of the late wakeup.
    pub seq: u64,
    /// Time from the expiry of the late wakeup to this expiry.
    pub after: Nanos,
    /// Time from this expiry to the end of the late wakeup.
    pub latency: Nanos,
}

/// Selects late wakeups.
///
/// Every new maximum of a line is kept, from its first activation. In addition, a
/// limited number per minute is kept, spread over the minute and shared fairly among
/// the lines.
#[derive(Debug)]
pub struct EpisodeSelector {
    lines: Vec<Watched>,
    budget: Budget,
    kept: u64,
    /// Expiries in the last batch that passed during late wakeups of earlier batches.
    passed: Vec<PassedExpiry>,
}

#[derive(Debug)]
struct Watched {
    threshold: Option<Nanos>,
    first: Option<Nanos>,
    /// All latencies until the threshold was chosen.
    seen: Histogram,
    /// Latencies of the recording that were not kept, because the threshold was not chosen yet.
    early: Histogram,
    /// Maximum of the recording.
    largest: Nanos,
    /// True once the wakeup that the line still waits for at the end was read.
    is_waiting: bool,
    /// Late wakeups of the recording that were not kept, without the ones in `early`.
    untraced: Untraced,
    /// Last wakeup, if it was late. The expiries that passed during it are known with
    /// the next wakeup of the line, possibly several batches later.
    newest: Option<NewestWakeup>,
    notes: LineWatch,
}

/// Late wakeup, and whether it is kept in any case.
struct Candidate {
    late: ChosenActivation,
    is_largest: bool,
}

/// Last wakeup of a line, which was late.
#[derive(Clone, Copy, Debug)]
struct NewestWakeup {
    seq: u64,
    expiry: Nanos,
    end: Nanos,
    /// Number of expiries that passed during it.
    passed: usize,
    choice: Choice,
}

/// State of a late wakeup.
#[derive(Clone, Copy, Debug)]
enum Choice {
    /// Undecided; the position among the candidates of the current batch.
    Candidate(usize),
    Kept,
    Surplus,
}

impl NewestWakeup {
    /// Returns whether `missed` passed before the thread ran, and there is room for it.
    fn has_room(&self, missed: &Activation) -> bool {
        self.passed < MAX_PASSED
            && missed.expiry > self.expiry
            && missed.expiry + missed.latency() <= self.end
    }
}

impl EpisodeSelector {
    /// Creates a selector for `lines` lines. It keeps `per_minute` late wakeups of
    /// all lines together, in addition to each new maximum.
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
            untraced: Untraced::default(),
            newest: None,
            notes: LineWatch {
                from_ns: fixed.map(|_| Nanos::ZERO),
                ..LineWatch::default()
            },
        };
        Self {
            lines: std::iter::repeat_with(watched).take(lines).collect(),
            budget: Budget::new(lines, per_minute),
            kept: 0,
            passed: Vec::new(),
        }
    }

    /// Starts the recording: activations are kept and counted from now.
    pub fn begin(&mut self) {
        self.kept = 0;
        for line in &mut self.lines {
            line.largest = Nanos::ZERO;
            line.early = Histogram::default();
            line.untraced = Untraced::default();
            line.newest = None;
            line.notes = LineWatch {
                from_ns: line.notes.from_ns,
                ..LineWatch::default()
            };
        }
    }

    /// Selects the late wakeups of a batch, in time order. A missed expiry is part of the preceding
    /// late wakeup. If that is in an earlier batch, [`Self::passed`] has the expiry. If the thread
    /// still waits at the end, its first expiry is the late wakeup.
    pub fn choose(&mut self, batch: &Batch) -> Vec<ChosenActivation> {
        let mut candidates: Vec<Candidate> = Vec::new();
        self.passed.clear();
        let mut latencies = Vec::new();
        batch.latencies(&mut latencies);
        for (row, latency) in latencies.into_iter().enumerate() {
            let Some(line) = self.lines.get_mut(usize::from(batch.line[row].0)) else {
                continue;
            };
            // Nearly all rows: their other columns need not be read.
            if !batch.missed[row] && line.skip_in_time(Nanos::from_ns(latency)) {
                continue;
            }
            let activation = batch.get(row);
            if activation.missed && !(activation.censored && line.start_waiting()) {
                line.pass(&activation, &mut candidates, &mut self.passed);
            } else {
                line.take_in(activation, &mut candidates);
            }
        }
        // The rows are ordered by line, and the budget is spent in time order.
        candidates.sort_by_key(|candidate| candidate.late.activation.expiry);
        let mut chosen = Vec::new();
        for Candidate { late, is_largest } in candidates {
            let line = usize::from(late.activation.line.0);
            let has_room = self.budget.take(line, late.activation.expiry);
            let watched = &mut self.lines[line];
            let is_kept = has_room || is_largest;
            if let Some(newest) = &mut watched.newest
                && newest.seq == late.activation.seq
            {
                newest.choice = if is_kept {
                    Choice::Kept
                } else {
                    Choice::Surplus
                };
            }
            if is_kept {
                watched.notes.kept += 1;
                self.kept += 1;
                chosen.push(late);
            } else {
                watched.notes.surplus += 1;
                late.latencies()
                    .for_each(|latency| watched.add_untraced(latency));
            }
        }
        chosen
    }

    /// Returns the expiries in the last batch that passed during late wakeups of
    /// earlier ones.
    pub fn passed(&self) -> &[PassedExpiry] {
        &self.passed
    }

    /// Returns whether a later batch may have expiries that passed during wakeup `seq`
    /// of `line`.
    pub fn may_grow(&self, line: LineId, seq: u64) -> bool {
        let watched = self.lines.get(usize::from(line.0));
        let newest = watched.and_then(|watched| watched.newest);
        newest.is_some_and(|newest| newest.seq == seq)
    }

    /// Returns the number of kept activations, which is the number of the last one.
    pub const fn kept(&self) -> u64 {
        self.kept
    }

    /// Returns the facts about the selection so far.
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
    /// Returns true if this expiry is the first that the thread still waits for at the end.
    fn start_waiting(&mut self) -> bool {
        !std::mem::replace(&mut self.is_waiting, true)
    }

    /// Returns whether a wakeup with this latency is neither late nor a new maximum. Expiries that
    /// pass after it do not belong to an earlier late wakeup.
    fn skip_in_time(&mut self, latency: Nanos) -> bool {
        let is_in_time = self
            .threshold
            .is_some_and(|threshold| latency <= threshold && latency <= self.largest);
        if is_in_time {
            self.newest = None;
        }
        is_in_time
    }

    /// Adds a wakeup. If it is late, it becomes a candidate.
    fn take_in(&mut self, activation: Activation, candidates: &mut Vec<Candidate>) {
        let latency = activation.latency();
        let is_largest = latency > self.largest;
        self.largest = self.largest.max(latency);
        let (threshold, is_late) = match self.threshold {
            Some(threshold) => (threshold, latency > threshold),
            None => {
                let is_late = latency > MIN_THRESHOLD && (is_largest || latency > MAX_THRESHOLD);
                if !is_late {
                    self.early.add(latency);
                }
                self.watch(activation.expiry, latency);
                (MIN_THRESHOLD, is_late)
            }
        };
        self.newest = is_late.then_some(NewestWakeup {
            seq: activation.seq,
            expiry: activation.expiry,
            end: activation.expiry + latency,
            passed: 0,
            choice: Choice::Candidate(candidates.len()),
        });
        let late = ChosenActivation {
            activation,
            threshold,
            passed: Vec::new(),
        };
        candidates.extend(is_late.then_some(Candidate { late, is_largest }));
    }

    /// Counts an expiry that passed before the service ran. If the newest wakeup is
    /// late, the expiry is part of it.
    fn pass(
        &mut self,
        missed: &Activation,
        candidates: &mut [Candidate],
        earlier: &mut Vec<PassedExpiry>,
    ) {
        let latency = missed.latency();
        if latency <= self.threshold.unwrap_or(MIN_THRESHOLD) {
            return;
        }
        let Some(newest) = (self.newest.as_mut()).filter(|newest| newest.has_room(missed)) else {
            return self.add_untraced(latency);
        };
        newest.passed += 1;
        let after = missed.expiry.saturating_sub(newest.expiry);
        match newest.choice {
            Choice::Candidate(place) => candidates[place].late.passed.push(after),
            Choice::Kept => earlier.push(PassedExpiry {
                line: missed.line,
                seq: newest.seq,
                after,
                latency,
            }),
            Choice::Surplus => self.add_untraced(latency),
        }
    }

    /// Counts a wakeup without trace data that was late at the time. The threshold may
    /// have been chosen since, or may be chosen later.
    fn add_untraced(&mut self, latency: Nanos) {
        match self.threshold {
            Some(threshold) if latency > threshold => self.untraced.add(1, latency),
            Some(_) => {}
            None if latency > MAX_THRESHOLD => self.untraced.add(1, latency),
            None => self.early.add(latency),
        }
    }

    fn watch(&mut self, expiry: Nanos, latency: Nanos) {
        self.seen.add(latency);
        if expiry >= *self.first.get_or_insert(expiry) + OBSERVATION_TIME {
            self.notes = self.notes();
            self.untraced = self.notes.untraced.unwrap_or_default();
            self.notes.from_ns = Some(expiry);
            self.threshold = Some(self.automatic());
            self.seen = Histogram::default();
            self.early = Histogram::default();
        }
    }

    /// Returns the threshold from the latencies so far.
    fn automatic(&self) -> Nanos {
        let quantile = |q| self.seen.quantile(q).unwrap_or_default();
        let typical = quantile(0.5) * MEDIAN_MULTIPLE;
        quantile(LATE_QUANTILE)
            .min(typical)
            .clamp(MIN_THRESHOLD, MAX_THRESHOLD)
    }

    /// Returns the facts about the line. Before the choice of the threshold, lateness
    /// is decided by the threshold that would be chosen now.
    fn notes(&self) -> LineWatch {
        if self.threshold.is_some() {
            return LineWatch {
                untraced: Some(self.untraced),
                ..self.notes
            };
        }
        let threshold = self.automatic();
        let mut untraced = self.untraced;
        let mut early = 0;
        for (bucket, count) in self.early.buckets() {
            let latency = Histogram::upper_edge(bucket);
            if latency > threshold {
                early += count;
                untraced.add(count, latency * count);
            }
        }
        LineWatch {
            early,
            early_largest_ns: self.early.max().filter(|&largest| largest > threshold),
            untraced: Some(untraced),
            ..self.notes
        }
    }
}
