//! Windows does not report the run times of the threads of other users.

use laggard_model::{CompetingThread, Cpu};

#[derive(Debug)]
pub(super) struct Competitors;

#[allow(clippy::unused_self, reason = "as on Linux")]
impl Competitors {
    pub(super) const fn new(_: Cpu) -> Self {
        Self
    }

    pub(super) const fn that_ran(&self) -> Vec<CompetingThread> {
        Vec::new()
    }
}
