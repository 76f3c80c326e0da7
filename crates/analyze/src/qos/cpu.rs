//! Processor time that blackouts leave.

use crate::exceedance::Blackout;

/// Processor that stops during blackouts.
pub(super) struct StalledCpu<'a> {
    blackouts: &'a [Blackout],
    /// Index of the first blackout that ends after `now`.
    next: usize,
    now: f64,
}

impl<'a> StalledCpu<'a> {
    pub(super) const fn new(blackouts: &'a [Blackout]) -> Self {
        Self {
            blackouts,
            next: 0,
            now: 0.0,
        }
    }

    pub(super) const fn now(&self) -> f64 {
        self.now
    }

    /// Returns the start of the next blackout. After [`StalledCpu::start`], none is
    /// active.
    pub(super) fn next_blackout(&self) -> Option<f64> {
        self.blackouts.get(self.next).map(|blackout| blackout.start)
    }

    /// Waits until `due` and until the job can start.
    pub(super) fn start(&mut self, due: f64) {
        self.now = self.now.max(due);
        self.leave_blackout();
    }

    fn leave_blackout(&mut self) {
        while let Some(blackout) = self.blackouts.get(self.next) {
            if blackout.end > self.now {
                if blackout.start > self.now {
                    return;
                }
                self.now = blackout.end;
            }
            self.next += 1;
        }
    }

    /// Works for `left`, but stops at `deadline` if the work cannot end by then or
    /// within `rounding` after it. Returns whether it ended.
    pub(super) fn work_before(&mut self, mut left: f64, deadline: f64, rounding: f64) -> bool {
        while left > 0.0 {
            let end = self.now + left;
            match self.next_blackout().filter(|&pause| end > pause) {
                Some(pause) if pause < deadline => {
                    left -= pause - self.now;
                    self.now = pause;
                    self.leave_blackout();
                }
                None if end <= deadline + rounding => {
                    self.now = end;
                    return true;
                }
                Some(_) | None => {
                    self.now = self.now.max(deadline);
                    return false;
                }
            }
        }
        true
    }

    pub(super) fn work(&mut self, mut left: f64) {
        while left > 0.0 {
            let pause = self.blackouts.get(self.next).map(|b| b.start);
            match pause {
                Some(pause) if self.now + left > pause => {
                    left -= pause - self.now;
                    self.now = pause;
                    self.leave_blackout();
                }
                _ => {
                    self.now += left;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_ends_at_the_start_of_a_blackout_does_not_wait() {
        let blackouts = [Blackout::new(5.0, 9.0)];
        let ended = |work: f64| {
            let mut cpu = StalledCpu::new(&blackouts);
            cpu.start(2.0);
            cpu.work(work);
            cpu.now()
        };

        assert_eq!(ended(3.0), 5.0);
        assert_eq!(ended(3.5), 9.5);
        assert_eq!(ended(0.0), 2.0);
    }
}
