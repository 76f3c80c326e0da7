//! Actions on late wakeups: end the measurement, run a command, signal a process, keep a trace.
//!
//! Measuring threads are not involved. The thread that collects their samples notices a late wakeup
//! and hands it to a thread of normal priority, which carries out the actions. Nothing waits for
//! that thread: while it works, further late wakeups are counted and skipped.

mod action;
mod command;
mod error;
mod ready;
mod watch;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use laggard_measure::linux;
use laggard_model::{Caveat, CaveatKind, LateActionCounts, LateActionReport, Nanos};

pub use action::LateAction;
pub use error::OnLateError;
use ready::ReadyAction;
pub use watch::DescribeLate;
pub(crate) use watch::LateWatcher;

use crate::system;

/// Interval of the passes over the probe if late wakeups are acted on: the mean time from a late
/// wakeup to the action is a little more than half of it.
pub(crate) const PASS_INTERVAL: Duration = Duration::from_millis(50);
/// Time that a running command has to end after a signal that ends laggard.
pub(crate) const END_TIME: Duration = Duration::from_millis(500);
/// Interval of the checks whether the acting thread has ended.
const JOIN_INTERVAL: Duration = Duration::from_millis(5);
/// Interval of the checks whether an action has ended.
const WAIT_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum number of actions: each trace takes memory of the kernel.
const MAX_ACTIONS: usize = 16;
/// Stack of the thread that acts, bytes. The memory of a measuring process is locked.
const STACK_BYTES: usize = 512 << 10;

/// Actions on late wakeups that the user requested.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OnLate {
    /// Actions in their order.
    pub actions: Vec<LateAction>,
    /// Latency threshold of late wakeups; `None` for the threshold of the measurement.
    pub threshold: Option<Nanos>,
    /// Minimum time between two late wakeups that are acted on.
    pub interval: Nanos,
    /// Output of commands.
    pub output: LateCommandOutput,
}

/// Output of the commands that run on late wakeups.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LateCommandOutput {
    /// Standard output and standard error go to laggard's standard error.
    #[default]
    StandardError,
    /// Nothing is printed, because a screen is drawn.
    Discarded,
}

/// Description of a late wakeup for a command.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LateInput {
    /// Standard input.
    pub json: Vec<u8>,
    /// Environment variables.
    pub variables: Vec<(&'static str, String)>,
}

/// Late wakeup that is acted on.
#[derive(Debug)]
struct LateJob {
    input: LateInput,
    /// Start of the trace to keep.
    trace_from: Nanos,
    /// Time from the late wakeup to `seen`.
    waited: Nanos,
    seen: Instant,
}

impl LateJob {
    /// Returns the time since the late wakeup.
    fn delay(&self) -> Nanos {
        self.waited + Nanos::from(self.seen.elapsed())
    }
}

/// Actions that are ready, and the thread that carries them out.
#[derive(Debug)]
pub struct LateActions {
    report: LateActionReport,
    /// Time when the last late wakeup was acted on.
    last_acted: Option<Nanos>,
    measured_from: Nanos,
    shared: Arc<SharedState>,
    jobs: Option<SyncSender<LateJob>>,
    thread: Option<JoinHandle<()>>,
    notes: Vec<String>,
    traces: bool,
    /// Set by Ctrl-C or a termination.
    interrupted: Arc<AtomicBool>,
}

/// State that the collector and the acting thread share.
#[derive(Debug, Default)]
struct SharedState {
    is_busy: AtomicBool,
    is_stopped: AtomicBool,
    /// Whether running actions end early, and later ones do not start.
    is_cancelled: AtomicBool,
    counts: Mutex<Vec<LateActionCounts>>,
}

impl SharedState {
    /// Calls `change` with the counts of the actions.
    fn with_counts<T>(&self, change: impl FnOnce(&mut Vec<LateActionCounts>) -> T) -> T {
        // A panic of the acting thread leaves counts that are correct up to its action.
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Counts of the actions while they are carried out.
#[derive(Clone, Debug)]
pub struct LateActionCounters(Arc<SharedState>);

impl LateActionCounters {
    /// Returns the counts so far, in the order of the actions.
    #[must_use]
    pub fn counts(&self) -> Vec<LateActionCounts> {
        self.0.with_counts(|counts| counts.clone())
    }

    /// Returns whether `stop` was carried out, if only after the measurement had ended.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Ordering::Relaxed)
    }
}

impl LateActions {
    /// Readies the actions: finds commands, holds processes, checks files and starts to trace.
    ///
    /// # Errors
    ///
    /// Returns an error if an action is not possible.
    pub fn start(wanted: &OnLate) -> Result<Self, OnLateError> {
        if wanted.actions.len() > MAX_ACTIONS {
            return Err(OnLateError::TooMany(wanted.actions.len()));
        }
        let mut notes = Vec::new();
        let mut ready = Vec::new();
        for action in &wanted.actions {
            ready.push(ReadyAction::new(action, wanted.output, &mut notes)?);
        }
        let traces = ready.iter().any(ReadyAction::traces);
        let counts = wanted.actions.iter().map(|action| LateActionCounts {
            action: action.to_string(),
            ..LateActionCounts::default()
        });
        let shared = Arc::new(SharedState {
            counts: Mutex::new(counts.collect()),
            ..SharedState::default()
        });
        // At most one job is sent, because a busy thread gets none.
        let (jobs, taken) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("laggard/onlate".into())
            .stack_size(STACK_BYTES)
            .spawn({
                let shared = Arc::clone(&shared);
                move || carry_out(&ready, &taken, &shared)
            })
            .map_err(OnLateError::Thread)?;
        Ok(Self {
            report: LateActionReport {
                threshold: wanted.threshold,
                interval: wanted.interval,
                ..LateActionReport::default()
            },
            last_acted: None,
            measured_from: Nanos::ZERO,
            shared,
            jobs: Some(jobs),
            thread: Some(thread),
            notes,
            traces,
            interrupted: Arc::default(),
        })
    }

    /// Sets the flag of a signal that ends the program. A running command then has 0.5 s
    /// to end.
    pub fn end_at(&mut self, interrupted: Arc<AtomicBool>) {
        self.interrupted = interrupted;
    }

    /// Returns messages for the user about the start, for example that no trace is available.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns a warning if it traces events of the kernel.
    pub fn caveat(&self) -> Option<Caveat> {
        self.traces.then(|| {
            Caveat::new(
                CaveatKind::OtherTracers,
                "`--on-late trace` traces events of the kernel, which delays wakeups",
                "measure without this option to compare",
            )
        })
    }

    /// Returns the latency threshold of late wakeups; `None` for the threshold of the measurement.
    pub const fn threshold(&self) -> Option<Nanos> {
        self.report.threshold
    }

    /// Notes the start of the measurement.
    pub const fn measure_from(&mut self, start: Nanos) {
        self.measured_from = start;
    }

    /// Returns the start of the last measurement.
    pub const fn measured_from(&self) -> Nanos {
        self.measured_from
    }

    /// Returns the counts of the actions, which change while they are carried out.
    pub fn counters(&self) -> LateActionCounters {
        LateActionCounters(Arc::clone(&self.shared))
    }

    /// Returns whether an action ended the measurement.
    pub fn is_stopped(&self) -> bool {
        self.shared.is_stopped.load(Ordering::Relaxed)
    }

    /// Acts on a wakeup at `at` that was `latency` late, if the limits permit it. It is the first
    /// of `number` late wakeups that were noticed together; the others are only counted. `now` is
    /// the current time of the same clock, and `describe` returns the input of commands. Returns
    /// whether it acts.
    pub fn act(
        &mut self,
        number: u64,
        (at, latency): (Nanos, Nanos),
        now: Nanos,
        describe: impl FnOnce() -> LateInput,
    ) -> bool {
        self.report.late += number;
        if self.is_stopped() {
            self.report.after_stop += number;
            return false;
        }
        if self
            .last_acted
            .is_some_and(|last| now < last + self.report.interval)
        {
            self.report.within_interval += number;
            return false;
        }
        if self.shared.is_busy.swap(true, Ordering::Acquire) {
            self.report.busy += number;
            return false;
        }
        let job = LateJob {
            waited: now.saturating_sub(at),
            seen: Instant::now(),
            trace_from: at.saturating_sub(ready::TRACE_LENGTH.max(latency)),
            input: describe(),
        };
        // The thread lives until this value is dropped.
        let is_sent = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.try_send(job).is_ok());
        if is_sent {
            self.last_acted = Some(now);
            self.report.acted += 1;
            self.report.within_interval += number - 1;
        } else {
            self.report.busy += number;
        }
        is_sent
    }

    /// Counts late cycles without a wakeup: they were due while another cycle of their thread
    /// went on, which is acted on itself.
    pub const fn skip_passed(&mut self, number: u64) {
        self.report.late += number;
        self.report.passed += number;
    }

    /// Counts a late wakeup that was noticed too long after its end.
    pub const fn skip_old(&mut self) {
        self.report.late += 1;
        self.report.old += 1;
    }

    /// Waits until no action runs, or until a signal ends the program.
    pub(crate) fn wait(&self) {
        let acts = || {
            self.thread
                .as_ref()
                .is_some_and(|thread| !thread.is_finished())
        };
        while self.shared.is_busy.load(Ordering::Acquire)
            && acts()
            && !self.interrupted.load(Ordering::Relaxed)
        {
            std::thread::sleep(WAIT_INTERVAL);
        }
    }

    /// Waits for running actions, ends the trace, and returns the counts.
    pub fn finish(mut self) -> LateActionReport {
        self.join();
        self.report.actions = self.counters().counts();
        std::mem::take(&mut self.report)
    }

    fn join(&mut self) {
        // The thread ends when all senders are gone.
        self.jobs = None;
        let Some(thread) = self.thread.take() else {
            return;
        };
        let mut signalled: Option<Instant> = None;
        while !thread.is_finished() {
            if self.interrupted.load(Ordering::Relaxed) {
                let since = signalled.get_or_insert_with(Instant::now);
                if since.elapsed() >= END_TIME {
                    self.shared.is_cancelled.store(true, Ordering::Relaxed);
                }
            }
            std::thread::sleep(JOIN_INTERVAL);
        }
        if thread.join().is_err() {
            self.shared.with_counts(|counts| {
                if let Some(first) = counts.first_mut() {
                    first.failed += 1;
                    first.error = Some("the thread that acts ended unexpectedly".into());
                }
            });
        }
    }
}

impl Drop for LateActions {
    /// Removes the trace instance before the program ends.
    fn drop(&mut self) {
        self.join();
    }
}

/// Carries out the actions on each late wakeup, in order.
fn carry_out(actions: &[ReadyAction], jobs: &Receiver<LateJob>, shared: &SharedState) {
    system::use_little();
    linux::take_default_share();
    linux::drop_ambient_capabilities();
    for job in jobs {
        for (index, action) in actions.iter().enumerate() {
            let mut delay = None;
            let result = action.carry_out(&job, shared, || delay = Some(job.delay()));
            shared.with_counts(|counts| counts[index].add(result, delay));
        }
        shared.is_busy.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(texts: &[&str], interval: Nanos) -> LateActions {
        LateActions::start(&OnLate {
            actions: texts.iter().map(|text| text.parse().unwrap()).collect(),
            threshold: None,
            interval,
            output: LateCommandOutput::Discarded,
        })
        .unwrap()
    }

    fn act(actions: &mut LateActions, ms: u64) -> bool {
        let due = Nanos::from_ms(ms);
        let now = due + Nanos::from_ms(2);
        actions.act(1, (due, Nanos::from_ms(1)), now, LateInput::default)
    }

    #[test]
    fn late_wakeups_within_the_interval_are_counted_and_not_acted_on() {
        let mut actions = actions(&["exec=true"], Nanos::from_ms(100));

        let mut acted = Vec::new();
        for ms in [10, 60, 109, 110, 150, 300] {
            acted.push(act(&mut actions, ms));
            actions.wait();
        }
        let report = actions.finish();

        assert_eq!(acted, [true, false, false, true, false, true]);
        assert_eq!((report.late, report.acted), (6, 3));
        assert_eq!((report.within_interval, report.busy), (3, 0));
        assert_eq!(report.actions[0].done, 3);
        assert!(report.actions[0].delay.quantile(0.5) >= Some(Nanos::from_ms(2)));
    }

    #[test]
    fn every_late_wakeup_that_is_not_acted_on_has_a_reason() {
        let mut actions = actions(&["exec=true", "stop"], Nanos::from_ms(100));
        let wakeup = |ms| (Nanos::from_ms(ms), Nanos::from_ms(1));
        actions.skip_old();
        let mut act = |number, due, now| {
            let acted = actions.act(number, wakeup(due), Nanos::from_ms(now), LateInput::default);
            actions.wait();
            acted
        };

        assert!(act(3, 1_990, 2_010));
        assert!(!act(2, 2_020, 2_030), "the measurement has ended");
        actions.skip_passed(4);
        let report = actions.finish();

        assert_eq!((report.late, report.acted), (10, 1));
        let skipped = (report.old, report.within_interval, report.after_stop);
        assert_eq!((skipped, report.busy, report.passed), ((1, 2, 2), 0, 4));
    }

    #[test]
    fn late_wakeups_during_an_action_are_skipped_and_counted() {
        let mut actions = actions(&["exec=sleep 0.3"], Nanos::ZERO);

        let acted = [act(&mut actions, 1), act(&mut actions, 2)];
        let report = actions.finish();

        assert_eq!(acted, [true, false]);
        assert_eq!((report.acted, report.busy), (1, 1));
        assert_eq!(report.actions[0].done, 1);
    }

    #[test]
    fn signal_that_ends_laggard_ends_a_command_and_skips_the_next() {
        let mut actions = actions(&["exec=sleep 60", "exec=true"], Nanos::ZERO);
        let interrupted = Arc::new(AtomicBool::new(false));
        actions.end_at(Arc::clone(&interrupted));

        act(&mut actions, 1);
        interrupted.store(true, Ordering::Relaxed);
        let report = actions.finish();

        let error = report.actions[0].error.as_deref();
        assert_eq!(error, Some("it was ended with laggard"));
        assert_eq!((report.actions[1].done, report.actions[1].skipped), (0, 1));
    }

    #[test]
    fn trace_to_a_fifo_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let wanted = OnLate {
            actions: vec![format!("trace={}", fifo.display()).parse().unwrap()],
            ..OnLate::default()
        };

        let refused = LateActions::start(&wanted).unwrap_err().to_string();

        assert!(refused.contains("not a regular file"), "{refused}");
    }

    #[test]
    fn actions_run_in_order_and_a_failure_does_not_prevent_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("order");
        let first = format!("exec=sh -c 'echo 1 >> {0}; exit 3'", file.display());
        let second = format!("exec=sh -c 'echo 2 >> {}'", file.display());
        let mut actions = actions(&[&first, "stop", &second], Nanos::ZERO);

        act(&mut actions, 1);
        actions.wait();
        assert!(actions.is_stopped());
        assert!(!act(&mut actions, 2), "it has ended");
        let report = actions.finish();

        assert_eq!(std::fs::read_to_string(&file).unwrap(), "1\n2\n");
        let counts: Vec<(u64, u64)> = report
            .actions
            .iter()
            .map(|action| (action.done, action.failed))
            .collect();
        assert_eq!(counts, [(0, 1), (1, 0), (1, 0)]);
        assert_eq!(report.actions[0].error.as_deref(), Some("exit status: 3"));
    }

    #[test]
    fn process_that_ends_during_the_run_is_a_counted_failure() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let signal = format!("signal={}", child.id());
        let mut actions = actions(&[&signal], Nanos::ZERO);

        child.kill().unwrap();
        child.wait().unwrap();
        act(&mut actions, 1);
        let report = actions.finish();

        assert_eq!((report.actions[0].done, report.actions[0].failed), (0, 1));
        assert_eq!(report.actions[0].error.as_deref(), Some("no such process"));
    }

    #[test]
    fn impossible_actions_are_refused_at_the_start() {
        let refused = |text: &str| {
            let wanted = OnLate {
                actions: vec![text.parse().unwrap()],
                ..OnLate::default()
            };
            LateActions::start(&wanted).unwrap_err().to_string()
        };

        let missing = refused("exec=laggard-no-such-command -x");
        assert!(
            missing.contains("cannot run `laggard-no-such-command`"),
            "{missing}"
        );
        let missing = refused("signal=4194303");
        assert!(
            missing.contains("process 4194303: no such process"),
            "{missing}"
        );
        let many = OnLate {
            actions: vec!["stop".parse().unwrap(); 17],
            ..OnLate::default()
        };
        let many = LateActions::start(&many).unwrap_err().to_string();
        assert!(many.contains("17 actions; give at most 16"), "{many}");
        let own = refused(&format!("signal={}", std::process::id()));
        assert!(own.contains("laggard itself"), "{own}");
        let missing = refused("trace=/no/such/directory/x");
        assert!(missing.contains("/no/such/directory/x"), "{missing}");
    }
}
