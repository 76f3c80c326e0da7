//! Activations of a few lines, as `show` counts them.

use std::path::Path;

use laggard_analyze::distribution::{Fold, Lost, Split};
use laggard_answer::show::{Measured, RecordingReport, recording};
use laggard_model::{
    Activation, Backend, Batch, Clock, Cpu, Episode, EpisodeNotes, Line, LineCount, LineId, Losses,
    Manifest, Nanos, OwnCost, ProbePlan, Route, STAGES, Service, Stage, State,
};
use laggard_record::{EpisodeWriter, Recorder};

/// Start of these recordings.
pub const START: Nanos = Nanos::from_secs(100);
/// Duration of these recordings.
pub const LENGTH: Nanos = Nanos::from_secs(6);

/// Returns `service` on this CPU, reached directly.
pub const fn line(service: Service, cpu: u32) -> Line {
    Line::new(Cpu(cpu), service, Route::Direct)
}

/// Recording of a few seconds, built line by line.
#[derive(Debug)]
pub struct Made {
    pub manifest: Manifest,
    rows: Batch,
    seq: Vec<u64>,
}

impl Made {
    /// Creates an empty recording with these lines.
    pub fn new(lines: &[Line]) -> Self {
        let clock = Clock {
            end_ns: Some(START + LENGTH),
            ..Clock::monotonic(START, "2026-11-20T11:00:00.000+01:00")
        };
        let mut manifest = Manifest::new(Backend::Bpf, ProbePlan::default(), clock, lines.to_vec());
        manifest.state = State::Complete;
        Self {
            manifest,
            rows: Batch::default(),
            seq: vec![0; lines.len()],
        }
    }

    /// Adds an activation of a line, 1 ms after the previous one.
    fn push(&mut self, line: u16, missed: bool, censored: bool, steps: &[(Stage, u64)]) {
        let seq = &mut self.seq[usize::from(line)];
        let mut activation = Activation {
            line: LineId(line),
            seq: *seq,
            expiry: START + Nanos::from_ms(*seq),
            missed,
            censored,
            steps: [None; STAGES.len()],
        };
        *seq += 1;
        for &(stage, ns) in steps {
            activation.steps[stage.index()] = Some(Nanos::from_ns(ns));
        }
        self.manifest.counts[usize::from(line)].add(missed, censored);
        self.rows.push(&activation);
    }

    /// Adds served activations with these steps, ns.
    #[must_use]
    pub fn served(mut self, line: u16, times: u64, steps: &[(Stage, u64)]) -> Self {
        (0..times).for_each(|_| self.push(line, false, false, steps));
        self
    }

    /// Adds activations that were missed and served this much later.
    #[must_use]
    pub fn missed(mut self, line: u16, late: impl IntoIterator<Item = Nanos>) -> Self {
        let rows = late.into_iter();
        rows.for_each(|late| self.push(line, true, false, &[(Stage::User, late.ns())]));
        self
    }

    /// Adds activations that were still waiting at the end, the first of them for
    /// `longest`, each following one a millisecond less.
    #[must_use]
    pub fn waiting(mut self, line: u16, times: u64, longest: Nanos) -> Self {
        for number in 0..times {
            let waited = longest.saturating_sub(Nanos::from_ms(number));
            self.push(line, true, true, &[(Stage::User, waited.ns())]);
        }
        self
    }

    /// Sets the planned and lost activations of a line.
    #[must_use]
    pub fn planned(mut self, line: u16, planned: u64, lost: u64) -> Self {
        let count = &mut self.manifest.counts[usize::from(line)];
        *count = LineCount {
            planned: Some(planned),
            lost,
            ..*count
        };
        self.manifest.losses.ring_full += lost;
        self
    }

    /// Sets the losses by reason.
    #[must_use]
    pub fn losses(mut self, losses: Losses) -> Self {
        self.manifest.losses = losses;
        self
    }

    /// Sets the overhead, in percent of one CPU.
    #[must_use]
    pub fn cost(mut self, percent: u64) -> Self {
        self.manifest.cost = OwnCost {
            wall_ns: LENGTH,
            measuring_cpu_ns: Nanos::from_ns(LENGTH.ns() / 100 * percent),
            ..OwnCost::default()
        };
        self
    }

    /// Returns the counts.
    pub fn measured(&self) -> Measured {
        let mut fold = Fold::new(self.manifest.lines.len(), Split::Whole);
        fold.add(&self.rows);
        fold.set_lost(Lost::new(&self.manifest.counts, &self.manifest.losses));
        Measured {
            path: "made.laggard".into(),
            manifest: self.manifest.clone(),
            shortfalls: Vec::new(),
            fold,
            last: None,
        }
    }

    /// Writes the recording to the new directory `dir`, with the duration of its rows.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn record(self, dir: &Path) {
        self.record_with(dir, &[], &EpisodeNotes::default());
    }

    /// Writes the recording with late wakeups and their notes.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn record_with(mut self, dir: &Path, late: &[Episode], notes: &EpisodeNotes) {
        let last = self.seq.iter().max().copied().unwrap_or_default();
        self.manifest.clock.end_ns = Some(START + Nanos::from_ms(last));
        let mut recorder = Recorder::create(dir, self.manifest).expect("is new");
        recorder.append(&self.rows).expect("there is room");
        let mut episodes = EpisodeWriter::new(recorder.folder());
        for episode in late {
            episodes.append(episode).expect("there is room");
        }
        if !late.is_empty() {
            let notes = EpisodeNotes {
                kept: late.len() as u64,
                ..notes.clone()
            };
            episodes.finish(&notes).expect("there is room");
        }
        recorder.finish(State::Complete).expect("there is room");
    }

    /// Returns the report of `laggard show --json`.
    pub fn report(&self) -> RecordingReport {
        recording(self.measured(), false)
    }
}
