//! `--on-late`: actions on late wakeups.

use laggard_answer::live::LateWakeupLog;
use laggard_console::args::OnLateArgs;
use laggard_measure::LiveNames;
use laggard_model::text::Unit;
use laggard_model::{Episode, Line};
use laggard_session::{Done, LateActions, LateCommandOutput, Plan, Session, SessionError, Watcher};
use laggard_view::doc::{self, Detail};
use laggard_view::{on_late as view, why};

use crate::{pipe, terminal};

/// Actions of a measurement, and the late wakeup that was acted on last.
pub(crate) struct OnLateRun {
    actions: LateActions,
    log: LateWakeupLog,
}

impl OnLateRun {
    /// Readies the actions. `None`: there are none.
    pub(crate) fn start(
        args: &OnLateArgs,
        output: LateCommandOutput,
    ) -> anyhow::Result<Option<Self>> {
        let actions = args.start(output)?;
        Ok(actions.map(|actions| Self {
            actions,
            // Read before the measurement, because it takes CPU time.
            log: LateWakeupLog::new(Box::new(LiveNames::read())),
        }))
    }

    /// Ends the actions and prints their counts, and the late wakeup that ended the measurement.
    /// Returns whether there is one.
    pub(crate) fn end(self, is_quiet: bool) -> anyhow::Result<bool> {
        let is_stopped = self.actions.is_stopped();
        let start = self.actions.measured_from();
        print_counts(self.actions, is_quiet);
        let Some((explained, symbols)) = self.log.last().filter(|_| is_stopped) else {
            return Ok(false);
        };
        let document = why::episode(&explained, symbols, start, Detail::Short);
        pipe::print_screen(&doc::terminal(&document, terminal::look(Unit::Auto)))?;
        Ok(true)
    }
}

/// Runs a session that acts on its late wakeups if there are actions.
pub(crate) fn run(
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

/// Ends the actions and prints their counts. A quiet command prints them only after a failure.
fn print_counts(actions: LateActions, is_quiet: bool) {
    let report = actions.finish();
    let has_failed = report.actions.iter().any(|action| action.failed > 0);
    if has_failed || !is_quiet {
        let screen = doc::terminal(&view::document(&report), terminal::look(Unit::Auto));
        pipe::say_as_it_is(&screen.plain());
    }
}
