//! One look after another at what was told.

use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use laggard_answer::attach::Attended;
use laggard_measure::linux::{self, AttachError, AttachProbe, MarkReader};
use laggard_model::Nanos;
use laggard_model::text::count;

use super::activations::ActivationFile;
use super::explain::LateWatch;
use super::group::FollowedGroup;
use super::live::AttachLive;
use super::recording::AttachRecording;
use crate::pipe;

/// From one look at what was told to the next.
pub(super) const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// All that is looked at, and what becomes of it.
pub(super) struct AttachLooks {
    pub(super) probe: AttachProbe,
    pub(super) seen: Attended,
    pub(super) watch: LateWatch,
    pub(super) file: Option<ActivationFile>,
    pub(super) recording: Option<AttachRecording>,
    pub(super) group: Option<FollowedGroup>,
    pub(super) marks: MarkReader,
    pub(super) live: Option<AttachLive>,
}

impl AttachLooks {
    /// Looks until it is time, until it is interrupted, or until nobody is left; how the
    /// command ended, if it did.
    pub(super) fn until_end(
        &mut self,
        duration: Option<Nanos>,
        mut command: Option<&mut Child>,
        stop: &AtomicBool,
    ) -> anyhow::Result<Option<ExitStatus>> {
        let begun = Instant::now();
        let limit = duration.map(|one| Duration::from_nanos(one.ns()));
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
                ended = command.try_wait().context("wait for the command")?;
            }
            self.watch_who_comes();
            self.look(linux::now());
            if !self.show()? {
                return Ok(ended);
            }
            // By the kernel's count: what was told of an end may have been lost.
            let (gone, all) = (self.probe.ended(), self.probe.watched());
            let is_nobody_left = gone >= all;
            if command.is_some() {
                match ended {
                    Some(_) if is_nobody_left => return Ok(ended),
                    Some(_) if !ended_before => pipe::say(&goes_on(all - gone)),
                    _ => {}
                }
            } else if !waits_for_more && all > 0 && is_nobody_left {
                pipe::say(&match all {
                    1 => "the thread has ended".into(),
                    all => format!("all {} threads have ended", count(all)),
                });
                return Ok(None);
            }
        }
    }

    /// Takes in what was told; all that happened before `until` is told by now.
    pub(super) fn look(&mut self, until: Nanos) {
        // Marks first: what they are in is told later.
        let mut marks = Vec::new();
        if !self.probe.renumbers() {
            let processes = self.seen.processes();
            self.marks.read(&processes, linux::now(), &mut marks);
        }
        let mut told = Vec::new();
        self.probe.drain(&mut told);
        if let Some(recording) = &mut self.recording {
            recording.count(&told);
        }
        self.seen.marked(&marks);
        self.seen.told(&mut told, until);
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
        self.watch
            .explain(&mut self.seen, self.recording.as_mut(), self.live.as_mut());
        if until == Nanos::MAX {
            self.watch.explain_unfinished(&mut self.seen);
        }
    }

    /// Shows what came, where it is time; whether anybody still reads it.
    fn show(&mut self) -> anyhow::Result<bool> {
        match &mut self.live {
            Some(live) => live.show(&mut self.seen, linux::now()),
            None => Ok(true),
        }
    }

    /// Watches who has come to the group. Where that fails, nobody more is, which is
    /// said: what was seen so far is good.
    fn watch_who_comes(&mut self) {
        let Some(group) = &mut self.group else {
            return;
        };
        let watched = group.come().and_then(|come| match self.probe.watch(&come) {
            // They have ended meanwhile.
            Err(AttachError::Nobody) => Ok(()),
            watched => Ok(watched?),
        });
        if let Err(err) = watched {
            pipe::say(&format!("who comes from now on is not watched: {err:#}"));
            self.group = None;
        }
    }
}

/// What is said where the command has ended before what it started: a program that goes
/// to the background, or the end of a pipeline.
fn goes_on(threads: u64) -> String {
    match threads {
        1 => "the command has ended; a thread that it started is watched on".into(),
        more => format!(
            "the command has ended; {} threads that it started are watched on",
            count(more)
        ),
    }
}
