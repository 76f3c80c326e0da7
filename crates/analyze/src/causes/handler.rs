//! The threads that handle a device's interrupt, where they do.
//!
//! Until they have woken the service's thread, that one cannot run: what holds
//! a handler up holds the service up, and what a handler does itself is the
//! activation's own path.

use laggard_model::{Episode, Happening, Nanos, Stage};

use super::context::SAME_INSTANT;
use super::context::Thread;

/// The first thread of the activation's interrupt to be switched in.
#[derive(Debug)]
pub(super) struct Handler {
    pub(super) thread: Thread,
    /// When the service's thread was woken.
    woken: Nanos,
}

impl Handler {
    /// The handler of the episode's interrupt, if that ran in a thread.
    pub(super) fn of(episode: &Episode) -> Option<Self> {
        let at = episode.at(Stage::IrqThread)?;
        let near = |time: Nanos| time.ns().abs_diff(at.ns()) <= SAME_INSTANT.ns();
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

    /// Whether the interrupt is still to be handled at `time`.
    pub(super) fn is_awaited(&self, time: Nanos) -> bool {
        time < self.woken
    }

    /// Whether `thread` handles the same interrupt; there can be several.
    pub(super) fn is(&self, thread: &Thread) -> bool {
        group_of(&thread.name) == group_of(&self.thread.name)
    }
}

/// The common beginning of the names of an interrupt's threads, such as
/// `irq/21-uio` and `irq/21-s-uio`: `irq/21`.
fn group_of(name: &str) -> Option<&str> {
    let (begin, _) = name.split_once('-')?;
    begin.starts_with("irq/").then_some(begin)
}
