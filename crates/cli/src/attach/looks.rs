//! The loop of the measurement.

use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use laggard_answer::attach::AttachCollector;
use laggard_measure::linux::{self, AttachError, AttachProbe, MarkReader};
use laggard_model::text::count;
use laggard_model::{Absence, Nanos};

use super::activations::ActivationFile;
use super::explain::LateWatch;
use super::group::FollowedGroup;
use super::live::AttachLive;
use super::on_late::AttachOnLate;
use super::recording::AttachRecording;
use crate::pipe;

/// Time between two looks at the records.
pub(super) const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Sources of records and their consumers.
pub(super) struct AttachLooks {
    pub(super) probe: AttachProbe,
    pub(super) seen: AttachCollector,
    pub(super) watch: LateWatch,
    pub(super) file: Option<ActivationFile>,
    pub(super) recording: Option<AttachRecording>,
    pub(super) group: Option<FollowedGroup>,
    pub(super) marks: MarkReader,
    pub(super) live: Option<AttachLive>,
    pub(super) on_late: Option<AttachOnLate>,
    /// Time of the next look at the states of the threads.
    pub(super) next_states: Nanos,
}

impl AttachLooks {
    /// Looks until the measurement ends: after `duration`, at an interruption, or when all
    /// threads have ended. Returns the status of the command if it ended.
    pub(super) fn until_end(
        &mut self,
        duration: Option<Nanos>,
        mut command: Option<&mut Child>,
        stop: &AtomicBool,
    ) -> anyhow::Result<Option<ExitStatus>> {
        let begun = Instant::now();
        let limit = duration.map(|time| Duration::from_nanos(time.ns()));
        let waits_for_more = self.group.is_some();
        let mut ended = None;
        loop {
            let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) || stop.load(Ordering::Relaxed) {
                return Ok(ended);
            }
            thread::sleep(left.map_or(BETWEEN_LOOKS, |left| left.min(BETWEEN_LOOKS)));
            let ended_before = ended.is_some();
            if let Some(command) = &mut command {
                ended = command.try_wait().context("cannot wait for the command")?;
            }
            self.watch_new_processes();
            self.look(linux::now());
            let is_stopped = |late: &AttachOnLate| late.is_stopped();
            if !self.show()? || self.on_late.as_ref().is_some_and(is_stopped) {
                return Ok(ended);
            }
            // The counts of the kernel: records of ends may be lost.
            let (ended_threads, threads) = (self.probe.ended(), self.probe.watched());
            let have_all_ended = ended_threads >= threads;
            if command.is_some() {
                match ended {
                    Some(_) if have_all_ended => return Ok(ended),
                    Some(_) if !ended_before => pipe::say(&still_running(threads - ended_threads)),
                    _ => {}
                }
            } else if !waits_for_more && threads > 0 && have_all_ended {
                pipe::say(&match threads {
                    1 => "the thread has ended".into(),
                    threads => format!("all {} threads have ended", count(threads)),
                });
                return Ok(None);
            }
        }
    }

    /// Takes in the records. All records from before `until` are available.
    pub(super) fn look(&mut self, until: Nanos) {
        // Marks first: the records of their cycles come later.
        let mut marks = Vec::new();
        if !self.probe.renumbers() {
            let processes = self.seen.processes();
            self.marks.read(&processes, linux::now(), &mut marks);
        }
        let mut records = Vec::new();
        self.probe.drain(&mut records);
        if let Some(recording) = &mut self.recording {
            recording.count(&records);
        }
        self.seen.marked(&marks);
        self.seen.told(&mut records, until);
        if until == Nanos::MAX {
            self.seen.settle();
        }
        let cycles = self.seen.take_ended();
        if let Some(file) = &mut self.file {
            file.add(&cycles);
        }
        if let Some(recording) = &mut self.recording {
            recording.add(&cycles, until.min(linux::now()));
            if until == Nanos::MAX {
                recording.add_unfinished(&self.seen.unfinished());
            }
        }
        self.watch.explain(
            &mut self.seen,
            until == Nanos::MAX,
            self.recording.as_mut(),
            self.live.as_mut(),
            self.on_late.as_mut(),
        );
        if until == Nanos::MAX {
            self.watch.explain_unfinished(&mut self.seen);
        } else {
            self.show_overdue(until);
        }
    }

    /// Shows the late cycles that go on. All records from before `now` were added.
    fn show_overdue(&mut self, now: Nanos) {
        /// The states of the threads take at most this part of the time.
        const SHARE: u64 = 50;
        let is_wanted = self.live.is_some() || self.on_late.is_some();
        if !is_wanted || now < self.next_states || !self.seen.may_be_overdue(now) {
            return;
        }
        let from = linux::now();
        let states = match self.probe.states() {
            Ok(states) => states,
            Err(absence) => {
                self.next_states = Nanos::MAX;
                let Absence { reason, remedy, .. } = absence;
                pipe::say(&format!(
                    "late cycles are shown when they have ended: {reason}; {remedy}"
                ));
                return;
            }
        };
        let to = linux::now();
        self.next_states = to + Nanos::from_ns(SHARE * to.saturating_sub(from).ns());
        let overdue = self.seen.overdue(&states, to);
        let (live, on_late) = (self.live.as_mut(), self.on_late.as_mut());
        self.watch.show_overdue(&overdue, live, on_late);
    }

    /// Prints the figures of an interval if it is over. Returns whether somebody still reads
    /// them.
    fn show(&mut self) -> anyhow::Result<bool> {
        match &mut self.live {
            Some(live) => live.show(&mut self.seen, linux::now()),
            None => Ok(true),
        }
    }

    /// Watches new processes of the group. After an error it prints a message and watches no
    /// further processes; the results until then are valid.
    fn watch_new_processes(&mut self) {
        let Some(group) = &mut self.group else {
            return;
        };
        let watched = group
            .take_new()
            .and_then(|new| match self.probe.watch(&new) {
                // They have ended already.
                Err(AttachError::Nobody) => Ok(()),
                watched => Ok(watched?),
            });
        if let Err(err) = watched {
            pipe::say(&format!(
                "further processes of the group are not measured: {err:#}"
            ));
            self.group = None;
        }
    }
}

/// Returns the message if the command has ended before the threads that it started: a program
/// that goes to the background, or the end of a pipeline.
fn still_running(threads: u64) -> String {
    match threads {
        1 => "the command has ended; 1 thread that it started is still measured".into(),
        more => format!(
            "the command has ended; {} threads that it started are still measured",
            count(more)
        ),
    }
}
