//! Options for actions on late wakeups.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use laggard_model::Nanos;
use laggard_session::{LateAction, LateActions, LateCommandOutput, OnLate, OnLateError};

use super::some_time;
use crate::pipe;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Actions on late wakeups")]
pub struct OnLateArgs {
    /// Act on a late wakeup, at most once per --on-late-interval; several actions run in
    /// order. stop: end the measurement and print the wakeup. exec=COMMAND: run a command,
    /// without a shell and for at most 10 s, with the wakeup as JSON on standard input.
    /// signal=PID or signal=PID:NAME: send SIGUSR1, or the named signal. trace=FILE: write
    /// the last 200 ms of scheduler, interrupt and timer events of all CPUs, as text for
    /// Perfetto, or in the format of trace-cmd if FILE ends in .dat
    #[arg(long, value_name = "ACTION")]
    pub on_late: Vec<LateAction>,
    /// Latency threshold of --on-late [default: the threshold of each series, once it is chosen;
    /// with attach the deadline]
    #[arg(long, value_name = "TIME", requires = "on_late", value_parser = some_time)]
    pub on_late_threshold: Option<Nanos>,
    /// Minimum time between two late wakeups that trigger --on-late
    #[arg(long, value_name = "TIME", requires = "on_late", default_value = "1s")]
    pub on_late_interval: Nanos,
}

impl OnLateArgs {
    /// Prepares the actions and prints their notes. Returns `None` without actions. `interrupted`
    /// ends them.
    ///
    /// # Errors
    ///
    /// Returns an error if an action is not possible.
    pub fn start(
        &self,
        output: LateCommandOutput,
        interrupted: &Arc<AtomicBool>,
    ) -> Result<Option<LateActions>, OnLateError> {
        if self.on_late.is_empty() {
            return Ok(None);
        }
        let mut actions = LateActions::start(&OnLate {
            actions: self.on_late.clone(),
            threshold: self.on_late_threshold,
            interval: self.on_late_interval,
            output,
        })?;
        actions.end_at(Arc::clone(interrupted));
        for note in actions.notes() {
            pipe::say(note);
        }
        Ok(Some(actions))
    }
}
