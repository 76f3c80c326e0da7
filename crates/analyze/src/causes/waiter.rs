//! The thread that waits for the CPU in an episode.

use laggard_model::{Episode, Service, Tid, windows_priority};

use super::context::{Context, Thread};
use super::index::EvidenceIndex;

/// Kernel priority of the most urgent normal thread.
pub(super) const NORMAL: i16 = 100;
/// Priority assumed for a Windows thread if its switches do not show it.
const USUAL_OF_WINDOWS: u8 = 8;
/// Minimum priority that MMCSS gives a `Pro Audio` thread.
const MMCSS: u8 = 23;

/// A thread that waits for the CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    /// `None`: the thread has not run and is unknown.
    pub(super) tid: Option<Tid>,
    /// Kernel priority: lower is more urgent.
    pub(super) priority: i16,
}

impl Waiter {
    pub(super) fn is(self, thread: &Thread) -> bool {
        self.tid == Some(thread.tid)
    }

    /// Returns the thread of an episode of `service`. The thread that runs at the end
    /// is this thread only if the service was reached. If it still waited when the
    /// measurement ended, another thread runs then.
    pub(super) fn from_episode(
        episode: &Episode,
        index: &EvidenceIndex<'_>,
        service: Service,
        at_end: Option<&Context>,
    ) -> Option<Self> {
        let priority = match service {
            // The priority applies from its request to the end of its work.
            Service::Fifo(priority) | Service::Lent(priority) | Service::Kthread(priority) => {
                NORMAL - 1 - i16::from(priority)
            }
            // The kernel's priority of a deadline thread.
            Service::Deadline => -1,
            // Only its switches can show the real priority.
            Service::Other if index.is_windows => windows_priority(USUAL_OF_WINDOWS),
            Service::Realtime(level) | Service::SystemThread(level) => windows_priority(level),
            Service::Mmcss => windows_priority(MMCSS),
            Service::Other
            | Service::Slice(_)
            | Service::Worker
            | Service::Dpc
            | Service::Task(_)
            | Service::Traced(_) => NORMAL + 20,
            Service::Nice(nice) => NORMAL + 20 + i16::from(nice),
            Service::Irq | Service::Softirq => return None,
        };
        if episode.censored {
            let tid = episode.thread;
            return Some(Self { tid, priority });
        }
        let at_end = at_end?;
        let runs = at_end.thread.as_ref().filter(|_| !at_end.is_lost);
        let tid = episode.thread.or(runs.map(|thread| thread.tid))?;
        Some(Self {
            tid: Some(tid),
            priority: runs
                .filter(|thread| thread.tid == tid)
                .map_or(priority, |thread| thread.priority),
        })
    }
}
