//! Actions that are ready to be carried out.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use laggard_files::{AtSignal, OutputFile};
use laggard_measure::linux::{EventTrace, HeldProcess, reason_of};
use laggard_model::Nanos;

use super::action::LateActionKind;
use super::command::LateCommand;
use super::{LateAction, LateCommandOutput, LateJob, OnLateError, SharedState};

/// Time before a late wakeup that a trace covers.
pub(super) const TRACE_LENGTH: Nanos = Nanos::from_ms(200);

/// Extension of binary trace files, as trace-cmd names them. Others are text.
const DATA_EXTENSION: &str = "dat";

/// Action that is possible, with its resources.
#[derive(Debug)]
pub(super) enum ReadyAction {
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
        Ok(match &action.kind {
            LateActionKind::Stop => Self::Stop,
            LateActionKind::Exec(words) => {
                let command = LateCommand::find(words, output);
                Self::Exec(command.map_err(|reason| OnLateError::Command {
                    program: words.first().cloned().unwrap_or_default(),
                    reason,
                })?)
            }
            &LateActionKind::Signal { process, signal } => {
                if process == std::process::id() {
                    return Err(OnLateError::Own(process));
                }
                let held = HeldProcess::open(process);
                Self::Signal {
                    process: held.map_err(|reason| OnLateError::Process { process, reason })?,
                    signal: signal as i32,
                }
            }
            LateActionKind::Trace(file) => {
                let checked = laggard_files::check_regular(file, "trace");
                checked.map_err(|err| OnLateError::File(format!("{err:#}")))?;
                Self::Trace {
                    trace: trace(action, notes),
                    file: file.clone(),
                }
            }
        })
    }

    /// Returns whether it traces events of the kernel.
    pub(super) const fn traces(&self) -> bool {
        matches!(self, Self::Trace { trace: Some(_), .. })
    }

    /// Acts on a late wakeup. Calls `started` when the action has taken effect or runs.
    /// `None`: it is skipped.
    ///
    /// # Errors
    ///
    /// Returns the reason of a failure.
    pub(super) fn carry_out(
        &self,
        job: &LateJob,
        shared: &SharedState,
        started: impl FnOnce(),
    ) -> Option<Result<(), String>> {
        if shared.is_cancelled.load(Ordering::Relaxed) {
            return None;
        }
        Some(match self {
            Self::Stop => {
                shared.is_stopped.store(true, Ordering::Relaxed);
                started();
                Ok(())
            }
            Self::Exec(command) => command.run(&job.input, &shared.is_cancelled, started),
            Self::Signal { process, signal } => {
                let sent = process.signal(*signal);
                if sent.is_ok() {
                    started();
                }
                sent.map_err(|err| reason_of(&err))
            }
            Self::Trace { trace: None, .. } => return None,
            Self::Trace {
                trace: Some(trace),
                file,
            } => keep(trace, file, job.trace_from, started),
        })
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
    let written = write(trace, file, from).map_err(|err| {
        let system = err.downcast_ref::<io::Error>();
        system.map_or_else(|| format!("{err:#}"), reason_of)
    });
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
