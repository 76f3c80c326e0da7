//! `--on-late`: actions on late wakeups, in the commands that measure.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use laggard_answer::live::LateWakeupLog;
use laggard_measure::LiveNames;
use laggard_model::{Episode, LateActionReport, Line};
use laggard_session::{
    Done, LateActionCounters, LateActions, LateCommandOutput, OnLateError, Plan, Session,
    SessionError, Watcher,
};
use laggard_view::doc::{self, Detail};
use laggard_view::text::Look;
use laggard_view::{on_late as view, why};

use crate::args::OnLateArgs;
use crate::pipe;

/// Actions of a measurement, and the late wakeup that was acted on last.
#[derive(Debug)]
pub struct OnLateRun {
    actions: LateActions,
    log: LateWakeupLog,
}

impl OnLateRun {
    /// Readies the actions, which `interrupted` ends. `None` without actions.
    ///
    /// # Errors
    ///
    /// Returns an error if an action is not possible.
    pub fn start(
        args: &OnLateArgs,
        output: LateCommandOutput,
        interrupted: &Arc<AtomicBool>,
    ) -> Result<Option<Self>, OnLateError> {
        let actions = args.start(output, interrupted)?;
        Ok(actions.map(|actions| Self {
            actions,
            // Read before the measurement, because it takes CPU time.
            log: LateWakeupLog::new(Box::new(LiveNames::read())),
        }))
    }

    /// Returns the counts of the actions, which change while they are carried out.
    pub fn counters(&self) -> LateActionCounters {
        self.actions.counters()
    }

    /// Returns whether an action ended the measurement.
    pub fn is_stopped(&self) -> bool {
        self.actions.is_stopped()
    }

    /// Ends the actions and prints their counts, and the late wakeup that ended the measurement.
    /// Returns its number in the recording, or 0 if it is in none. `None`: no action ended the
    /// measurement.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be printed.
    pub fn end(self, is_quiet: bool, look: Look) -> anyhow::Result<Option<u64>> {
        let start = self.actions.measured_from();
        let counters = self.actions.counters();
        print_counts(&self.actions.finish(), is_quiet, look);
        let late = self.log.last().filter(|_| counters.is_stopped());
        let Some((explained, symbols)) = late else {
            return Ok(None);
        };
        let document = why::episode(&explained, symbols, start, Detail::Short);
        pipe::print_as_it_is(&doc::terminal(&document, look).plain())?;
        Ok(Some(explained.episode.number))
    }
}

/// Runs a session that acts on its late wakeups if there are actions.
///
/// # Errors
///
/// Returns the errors of [`Session::run`].
pub fn run(
    session: Session<'_>,
    plan: &Plan,
    late: Option<&mut OnLateRun>,
    watcher: &mut dyn Watcher,
) -> Result<Done, SessionError> {
    let Some(OnLateRun { actions, log }) = late else {
        return session.run(&mut [watcher]);
    };
    let mut describe = |episode: &Episode, line: Line| {
        let described = pipe::json_line(&log.describe(episode, line));
        described.unwrap_or_default().into_bytes()
    };
    session.run_acting(watcher, plan, actions, &mut describe)
}

/// Prints the counts of the actions to standard error. A quiet command prints them only after a
/// failure.
pub fn print_counts(report: &LateActionReport, is_quiet: bool, look: Look) {
    let has_failed = report.actions.iter().any(|action| action.failed > 0);
    if has_failed || !is_quiet {
        pipe::say_as_it_is(&doc::terminal(&view::document(report), look).plain());
    }
}
