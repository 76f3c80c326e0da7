//! Threads that handle a device interrupt.
//!
//! The service's thread cannot run until they have woken it. A delay of a handler
//! delays the service, and the execution of a handler is the activation's wakeup path.

use laggard_model::{Episode, Happening, Nanos, Stage};

use super::context::SAME_INSTANT;
use super::context::Thread;

/// First thread of the activation's interrupt that was switched in.
#[derive(Debug)]
pub(super) struct Handler {
    pub(super) thread: Thread,
    /// Time when the service's thread was woken.
    woken: Nanos,
}

impl Handler {
    /// Returns the handler of the episode's interrupt, if it ran in a thread.
    pub(super) fn from_episode(episode: &Episode) -> Option<Self> {
        let arrival = episode.at(Stage::IrqThread)?;
        let near = |time: Nanos| time.ns().abs_diff(arrival.ns()) <= SAME_INSTANT.ns();
        let thread = episode.evidence.events.iter().find_map(|event| {
            let Happening::Switch {
                tid,
                name,
                priority,
                ..
            } = &event.what
            else {
                return None;
            };
            (near(event.at_ns) && group_of(name).is_some()).then(|| Thread {
                tid: *tid,
                name: name.as_str().into(),
                priority: *priority,
            })
        })?;
        let woken = episode
            .at(Stage::Waking)
            .or_else(|| episode.at(Stage::Running));
        Some(Self {
            thread,
            woken: woken.unwrap_or_else(|| episode.end()),
        })
    }

    /// Returns whether the interrupt has not been handled at `time`.
    pub(super) fn is_awaited(&self, time: Nanos) -> bool {
        time < self.woken
    }

    /// Returns whether `thread` handles the same interrupt. There can be several such
    /// threads.
    pub(super) fn is(&self, thread: &Thread) -> bool {
        group_of(&thread.name) == group_of(&self.thread.name)
    }
}

/// Returns the common prefix of the names of an interrupt's threads: `irq/21` for
/// `irq/21-uio` and `irq/21-s-uio`.
fn group_of(name: &str) -> Option<&str> {
    let (begin, _) = name.split_once('-')?;
    begin.starts_with("irq/").then_some(begin)
}
