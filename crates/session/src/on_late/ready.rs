//! Actions that are ready to be carried out.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use laggard_files::{AtSignal, OutputFile};
use laggard_measure::linux::{EventTrace, HeldProcess, reason_of};
use laggard_model::{LateActionCounts, Nanos};

use super::action::LateActionKind;
use super::command::LateCommand;
use super::{LateAction, LateCommandOutput, LateJob, OnLateError, SharedState};

/// Time before a late wakeup that a trace covers.
pub(super) const TRACE_LENGTH: Nanos = Nanos::from_ms(200);

/// Extension of binary trace files, as trace-cmd names them. Others are text.
const DATA_EXTENSION: &str = "dat";

/// Action that is possible, and its counts.
#[derive(Debug)]
pub(super) struct ReadyAction {
    means: Means,
    counts: LateActionCounts,
}

/// Resources of an action.
#[derive(Debug)]
enum Means {
    Stop,
    Exec(LateCommand),
    Signal {
        process: HeldProcess,
        signal: i32,
    },
    Trace {
        /// `None`: tracefs is not available.
        trace: Option<EventTrace>,
        file: PathBuf,
    },
}

impl ReadyAction {
    /// Readies an action. `notes` gets a message if it is not fully available.
    pub(super) fn new(
        action: &LateAction,
        output: LateCommandOutput,
        notes: &mut Vec<String>,
    ) -> Result<Self, OnLateError> {
        let means = match &action.kind {
            LateActionKind::Stop => Means::Stop,
            LateActionKind::Exec(words) => {
                let command = LateCommand::find(words, output);
                Means::Exec(command.map_err(|reason| OnLateError::Command {
                    program: words.first().cloned().unwrap_or_default(),
                    reason,
                })?)
            }
            &LateActionKind::Signal { process, signal } => {
                if process == std::process::id() {
                    return Err(OnLateError::Own(process));
                }
                let held = HeldProcess::open(process);
                Means::Signal {
                    process: held.map_err(|reason| OnLateError::Process { process, reason })?,
                    signal: signal as i32,
                }
            }
            LateActionKind::Trace(file) => {
                let checked = laggard_files::check_regular(file, "trace");
                checked.map_err(|err| OnLateError::File(format!("{err:#}")))?;
                Means::Trace {
                    trace: trace(action, notes),
                    file: file.clone(),
                }
            }
        };
        Ok(Self {
            means,
            counts: LateActionCounts {
                action: action.to_string(),
                ..LateActionCounts::default()
            },
        })
    }

    /// Returns whether it traces events of the kernel.
    pub(super) const fn traces(&self) -> bool {
        matches!(self.means, Means::Trace { trace: Some(_), .. })
    }

    /// Acts on a late wakeup.
    pub(super) fn carry_out(&mut self, job: &LateJob, shared: &SharedState) {
        let counts = &mut self.counts;
        if shared.is_cancelled.load(Ordering::Relaxed) {
            counts.skipped += 1;
            return;
        }
        let result = match &self.means {
            Means::Stop => {
                shared.is_stopped.store(true, Ordering::Relaxed);
                counts.delay.add(job.delay());
                Ok(())
            }
            Means::Exec(command) => command.run(&job.input, &shared.is_cancelled, || {
                counts.delay.add(job.delay());
            }),
            Means::Signal { process, signal } => {
                let sent = process.signal(*signal);
                if sent.is_ok() {
                    counts.delay.add(job.delay());
                }
                sent.map_err(|err| reason_of(&err))
            }
            Means::Trace { trace: None, .. } => {
                counts.skipped += 1;
                return;
            }
            Means::Trace {
                trace: Some(trace),
                file,
            } => keep(trace, file, job.trace_from, || {
                counts.delay.add(job.delay())
            }),
        };
        match result {
            Ok(()) => counts.done += 1,
            Err(reason) => {
                counts.failed += 1;
                counts.error.get_or_insert(reason);
            }
        }
    }

    /// Returns the counts, and releases the resources.
    pub(super) fn take_counts(&mut self) -> LateActionCounts {
        self.means = Means::Stop;
        std::mem::take(&mut self.counts)
    }
}

/// Starts to trace. If that is not possible, the measurement continues without it.
fn trace(action: &LateAction, notes: &mut Vec<String>) -> Option<EventTrace> {
    match EventTrace::start() {
        Ok(trace) => {
            if let Some(other) = trace.other_tracer() {
                notes.push(format!(
                    "tracefs is in use by another tracer (`{other}`), which delays wakeups; laggard traces in a separate instance"
                ));
            }
            Some(trace)
        }
        Err(err) => {
            notes.push(format!(
                "no trace for `--on-late {action}`: {}; the measurement continues without it",
                reason_of(&err)
            ));
            None
        }
    }
}

/// Writes the trace since `from` to `file`, and continues to trace. Calls `stopped` once its
/// events are safe.
fn keep(
    trace: &EventTrace,
    file: &Path,
    from: Nanos,
    stopped: impl FnOnce(),
) -> Result<(), String> {
    trace.stop().map_err(|err| reason_of(&err))?;
    stopped();
    let written = write(trace, file, from).map_err(|err| format!("{err:#}"));
    let resumed = trace.resume().map_err(|err| reason_of(&err));
    written.and(resumed)
}

fn write(trace: &EventTrace, file: &Path, from: Nanos) -> Result<(), Box<dyn std::error::Error>> {
    let mut output = BufWriter::new(OutputFile::begin_private(file, AtSignal::Finishes)?);
    if file.extension().is_some_and(|end| end == DATA_EXTENSION) {
        trace.write_data_since(from, &mut output)?;
    } else {
        trace.write_since(from, &mut output)?;
    }
    let output = output.into_inner().map_err(|err| err.into_error())?;
    Ok(output.keep()?)
}
