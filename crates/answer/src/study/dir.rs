//! Directory of a study.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use laggard_model::{Backend, CaveatKind, Host, Lacks, Nanos, Route, Service};
use laggard_record::Recording;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::{Role, Step};
use super::{
    MissingReason, StudyCell, StudyError, StudyMissing, StudyName, StudyStep, StudySystem,
};
use crate::show::{By, HistogramView, RecordingReport, measured, recording};

/// Extension of recordings.
const EXTENSION: &str = "laggard";
/// Extension of results.
const RESULT: &str = "json";
/// Cell of a value that the machine does not report.
pub(super) const NOT_REPORTED: StudyCell = StudyCell::Missing {
    reason: MissingReason::NotReported,
};
/// Maximum number of recordings of a step: one per interruption.
const MAX_PIECES: usize = 1_000;
/// A recording may end this much earlier than planned.
pub const TOLERANCE: Nanos = Nanos::from_ms(100);

/// Kind of a study: what its directory contains.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct StudyKind {
    pub study: StudyName,
    /// Whether the recordings have the lengths of `--quick`.
    pub is_quick: bool,
    /// Loads that replace the paper's; empty for the paper's loads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<String>,
}

#[derive(Debug)]
pub struct StudyDir {
    path: PathBuf,
    is_quick: bool,
    steps: Vec<Step>,
    /// Whether its loads are not those of the paper.
    has_other_loads: bool,
    pieces: Vec<Vec<Piece>>,
    /// Results of the tests that stand for recordings, by the name of the step.
    results: BTreeMap<&'static str, Value>,
    /// Steps that this machine cannot record.
    missing: Vec<StudyMissing>,
}

/// Part of each result.
#[derive(Debug, Deserialize)]
struct Measured {
    host: Host,
}

/// Recording of a part of a step.
#[derive(Debug)]
pub struct Piece {
    pub recording: Recording,
    pub length: Nanos,
}

impl StudyDir {
    /// Opens the recordings of a study. A directory without any is an empty study.
    ///
    /// # Errors
    /// If a recording or a result cannot be read.
    pub fn open(path: &Path, kind: &StudyKind) -> Result<Self, StudyError> {
        let &StudyKind {
            study: name,
            is_quick,
            ref loads,
        } = kind;
        let steps = name.steps_with(loads);
        let pieces = steps.iter().map(|step| pieces(path, step));
        Ok(Self {
            path: path.into(),
            is_quick,
            has_other_loads: !loads.is_empty(),
            pieces: pieces.collect::<Result<_, _>>()?,
            results: results(path, &steps)?,
            steps,
            missing: Vec::new(),
        })
    }

    /// Names the steps that this machine cannot record.
    #[must_use]
    pub fn without(self, missing: Vec<StudyMissing>) -> Self {
        Self { missing, ..self }
    }

    /// Returns the file of the result of a step.
    pub fn result_file(&self, step: &Step) -> PathBuf {
        result_file(&self.path, step)
    }

    /// Returns the result of the step with this name.
    ///
    /// # Errors
    /// If another version of laggard wrote it.
    pub fn result<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StudyError> {
        let Some(result) = self.results.get(name) else {
            return Ok(None);
        };
        let read = T::deserialize(result);
        read.map(Some).map_err(|source| StudyError::Result {
            file: self.path.join(name).with_extension(RESULT),
            source,
        })
    }

    /// Returns the machine of each recording and result.
    ///
    /// # Errors
    /// If another version of laggard wrote a result.
    pub fn hosts(&self) -> Result<Vec<Host>, StudyError> {
        let pieces = self.pieces.iter().flatten();
        let recorded = pieces.map(|piece| Ok(piece.recording.manifest().host.clone()));
        let names = self.results.keys();
        let results = names.filter_map(|name| self.result::<Measured>(name).transpose());
        recorded.chain(results.map(|read| Ok(read?.host))).collect()
    }

    /// Returns the cell of a step that has a result instead of a recording, if it is missing.
    pub(super) fn no_result(&self, name: &str) -> StudyCell {
        let mut steps = self.steps.iter();
        let step = steps.find(|step| step.name == name);
        step.map_or(NOT_REPORTED, |step| self.unrecorded(step))
    }

    /// Returns the cells of a step without a recording.
    pub(super) fn unrecorded(&self, step: &Step) -> StudyCell {
        let mut missing = self.missing.iter();
        if let Some(missing) = missing.find(|missing| missing.step == step.name) {
            return StudyCell::Missing {
                reason: match missing.absence.lacks {
                    _ if missing.is_failed => MissingReason::Failed,
                    Lacks::Rights => MissingReason::NeedsRoot,
                    Lacks::Kernel | Lacks::Machine if step.role == Role::KernelThread => {
                        MissingReason::NoService
                    }
                    Lacks::Kernel | Lacks::Machine => MissingReason::NoLoad,
                },
            };
        }
        StudyCell::Record {
            ns: step.length(self.is_quick).as_f64(),
        }
    }

    /// Returns the cell of a series without a value: the step was not recorded, or its recordings
    /// lack the service, or no wakeup has the value.
    pub(super) fn absent(
        &self,
        step: &Step,
        pieces: &[Piece],
        service: Service,
        routes: &[Route],
    ) -> StudyCell {
        if pieces.is_empty() {
            return self.unrecorded(step);
        }
        let mut lines = pieces
            .iter()
            .flat_map(|piece| &piece.recording.manifest().lines);
        let mut backends = pieces
            .iter()
            .map(|piece| piece.recording.manifest().backend);
        // Interrupts are on the way of every series, but are seen only with the rights to trace.
        let has_interrupts =
            service == Service::Irq && backends.any(|backend| backend != Backend::User);
        let is_recorded = has_interrupts
            || lines.any(|line| line.service == service && routes.contains(&line.route));
        StudyCell::Missing {
            reason: if is_recorded {
                MissingReason::NoWakeup
            } else {
                MissingReason::NoService
            },
        }
    }

    /// Returns whether its loads are not those of the paper.
    pub(super) const fn has_other_loads(&self) -> bool {
        self.has_other_loads
    }

    /// Returns whether the recordings have the lengths of `--quick`.
    pub const fn is_quick(&self) -> bool {
        self.is_quick
    }

    /// Returns the steps with their recordings, in the order of recording.
    pub fn steps(&self) -> impl Iterator<Item = (&Step, &[Piece])> {
        let pieces = self.pieces.iter().map(Vec::as_slice);
        self.steps.iter().zip(pieces)
    }

    /// Returns the directory of the next recording of a step.
    pub fn next(&self, step: &Step) -> Option<PathBuf> {
        let mut numbers = 1..MAX_PIECES;
        let place = |number| piece_path(&self.path, step, number);
        // A directory that is not a recording, for example because it is incomplete, keeps its
        // name.
        numbers.find_map(|number| {
            let is_free = place(number).symlink_metadata().is_err();
            is_free.then(|| place(number))
        })
    }

    /// Returns the recorded length of a step.
    pub fn recorded(&self, step: &Step) -> Nanos {
        if self.results.contains_key(step.name) {
            return step.length(self.is_quick);
        }
        let entry = self
            .steps()
            .find(|(candidate, _)| candidate.name == step.name);
        entry.map_or(Nanos::ZERO, |(_, pieces)| recorded(pieces))
    }

    /// Returns whether a step was recorded for its whole length.
    pub(super) fn is_whole(&self, step: &Step) -> bool {
        self.recorded(step) + TOLERANCE >= step.length(self.is_quick)
    }

    /// Returns the recordings of a step.
    pub fn recordings(&self, step: &Step) -> Vec<PathBuf> {
        let entry = self
            .steps()
            .find(|(candidate, _)| candidate.name == step.name);
        let pieces = entry.map_or(&[][..], |(_, pieces)| pieces).iter();
        pieces.map(|piece| piece.recording.dir().into()).collect()
    }

    /// Returns the distributions of each step that was recorded over all recordings of the step.
    ///
    /// # Errors
    /// If a recording cannot be read.
    pub fn distributions(
        &self,
        threads: NonZeroUsize,
    ) -> Result<Vec<(&Step, RecordingReport)>, StudyError> {
        let mut reports = Vec::new();
        for (step, pieces) in self.steps() {
            let read = |piece: &Piece| -> Result<RecordingReport, StudyError> {
                Ok(recording(
                    measured(&piece.recording, By::Service, threads)?,
                    false,
                ))
            };
            let Some((first, others)) = pieces.split_first() else {
                continue;
            };
            let mut report = read(first)?;
            for piece in others {
                add(&mut report, read(piece)?);
            }
            reports.push((step, report));
        }
        Ok(reports)
    }

    pub(super) fn system(&self, threads: NonZeroUsize) -> Result<StudySystem, StudyError> {
        let mut steps = Vec::new();
        let mut host = None;
        for (step, pieces) in self.steps() {
            let (mut trust, mut lost) = (Vec::new(), 0);
            for piece in pieces {
                let report = recording(measured(&piece.recording, By::Service, threads)?, false);
                lost += report.losses.activations();
                trust.push(is_trusted(&report));
                host.get_or_insert(report.host);
            }
            steps.push(StudyStep {
                name: step.name.into(),
                planned_ns: step.length(self.is_quick),
                recorded_ns: self.recorded(step),
                recordings: pieces.len(),
                is_trusted: (!trust.is_empty()).then(|| !trust.contains(&false)),
                lost,
            });
        }
        if let (None, Some(name)) = (&host, self.results.keys().next()) {
            host = self.result::<Measured>(name)?.map(|result| result.host);
        }
        Ok(StudySystem {
            directory: Some(self.path.display().to_string()),
            is_quick: self.is_quick,
            host,
            steps,
            missing: self.missing.clone(),
        })
    }
}

/// Returns whether a recording describes its step: it is trustworthy, no part of it is damaged, and
/// its load ran until its end.
fn is_trusted(report: &RecordingReport) -> bool {
    let mut caveats = report.caveats.iter();
    report.is_reliable() && !caveats.any(|caveat| caveat.kind == CaveatKind::LoadEnded)
}

/// Adds the counts of a later recording of the same step.
fn add(report: &mut RecordingReport, later: RecordingReport) {
    report.duration_ns += later.duration_ns;
    for view in later.histograms {
        let is_same =
            |own: &&mut HistogramView| (own.service, own.route) == (view.service, view.route);
        let Some(own) = report.histograms.iter_mut().find(is_same) else {
            report.histograms.push(view);
            continue;
        };
        let mut counts: BTreeMap<usize, u64> = own.buckets.iter().copied().collect();
        for (bucket, count) in view.buckets {
            *counts.entry(bucket).or_default() += count;
        }
        own.buckets = counts.into_iter().collect();
    }
}

/// Returns the recorded length of a step.
pub(crate) fn recorded(pieces: &[Piece]) -> Nanos {
    let lengths = pieces.iter().map(|piece| piece.length);
    lengths.fold(Nanos::ZERO, |sum, length| sum + length)
}

fn result_file(dir: &Path, step: &Step) -> PathBuf {
    dir.join(step.name).with_extension(RESULT)
}

/// Reads the results of the tests that stand for recordings.
fn results(dir: &Path, steps: &[Step]) -> Result<BTreeMap<&'static str, Value>, StudyError> {
    let mut results = BTreeMap::new();
    for step in steps.iter().filter(|step| step.bench.is_some()) {
        let file = result_file(dir, step);
        let text = match laggard_files::read_regular(&file) {
            Ok(text) => text,
            Err(err) if err.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(StudyError::Read { file, source }),
        };
        let read = serde_json::from_slice(&text);
        let result = read.map_err(|source| StudyError::Result { file, source })?;
        results.insert(step.name, result);
    }
    Ok(results)
}

fn piece_path(dir: &Path, step: &Step, number: usize) -> PathBuf {
    let mut name = String::from(step.name);
    name.push('-');
    name.push_str(&number.to_string());
    dir.join(name).with_extension(EXTENSION)
}

/// Opens the recordings of a step, in their order. A recording without data is left out.
fn pieces(dir: &Path, step: &Step) -> Result<Vec<Piece>, StudyError> {
    let mut pieces = Vec::new();
    for number in 1..MAX_PIECES {
        let path = piece_path(dir, step, number);
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => {}
            // A number may be missing, because a user removed that recording.
            Ok(_) | Err(_) => continue,
        }
        // `record` was killed before it wrote the manifest.
        if path.join("manifest.json").symlink_metadata().is_err() {
            continue;
        }
        let recording = Recording::open(path)?;
        let clock = &recording.manifest().clock;
        // The end of a recording that was killed is missing. It counts until its last sample.
        let end = clock.end_ns.or_else(|| last(&recording));
        let length = end.map_or(Nanos::ZERO, |end| end.saturating_sub(clock.start_ns));
        if length > Nanos::ZERO {
            pieces.push(Piece { recording, length });
        }
    }
    Ok(pieces)
}

/// Returns the time of the last sample.
fn last(recording: &Recording) -> Option<Nanos> {
    measured(recording, By::Service, NonZeroUsize::MIN)
        .ok()?
        .last
}
