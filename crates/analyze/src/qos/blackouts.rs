//! Replay of blackouts: exact for any number of buffers, bursts included
//! (docs/method.md 6.4).

use super::{Blackout, Buffering, episodes_of};
use crate::InputError;
use crate::input::{ascending, finite, not_negative, positive};

/// A replay of blackouts.
#[derive(Clone, Debug, PartialEq)]
pub struct BlackoutReplay {
    /// Jobs that missed.
    pub misses: usize,
    /// Runs of consecutive misses.
    pub episodes: usize,
    /// Each job's response time, from its due start to its end.
    pub responses: Vec<f64>,
}

/// Replays `blackouts` from time 0 to `until`: jobs are due at `phase` and
/// every buffer period after it, are served in order, each takes the compute
/// time and `base` more (the ordinary latency), and nothing runs in a blackout.
///
/// # Errors
/// When the blackouts do not ascend or overlap, or a time is out of its range.
pub fn replay_blackouts(
    blackouts: &[Blackout],
    until: f64,
    buffering: Buffering,
    phase: f64,
    base: f64,
) -> Result<BlackoutReplay, InputError> {
    check(blackouts)?;
    positive("end of the replay", until)?;
    not_negative("phase", phase)?;
    let cost = buffering.compute() + not_negative("base latency", base)?;
    let mut cpu = Cpu::new(blackouts);
    let mut responses = Vec::new();
    for job in 0_u64.. {
        let due = phase + job as f64 * buffering.period();
        if due >= until {
            break;
        }
        cpu.start(due);
        cpu.work(cost);
        responses.push(cpu.now - due);
    }
    let missed = |response: &f64| buffering.is_missed(*response);
    Ok(BlackoutReplay {
        misses: responses.iter().copied().filter(missed).count(),
        episodes: episodes_of(responses.iter().map(missed)),
        responses,
    })
}

/// That blackouts ascend and do not overlap.
pub(crate) fn check(blackouts: &[Blackout]) -> Result<(), InputError> {
    let edges: Vec<f64> = blackouts.iter().flat_map(|b| [b.start, b.end]).collect();
    finite("blackouts", &edges)?;
    ascending("edges of blackouts", &edges)
}

/// A processor that does nothing in a blackout.
pub(super) struct Cpu<'a> {
    blackouts: &'a [Blackout],
    /// The first blackout that ends after `now`.
    next: usize,
    now: f64,
}

impl<'a> Cpu<'a> {
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

    /// When the next blackout begins; after [`Cpu::start`] none is on.
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

    fn buffering() -> Buffering {
        Buffering::new(3, 6.0, 1.5).unwrap()
    }

    #[test]
    fn without_blackouts_every_job_takes_its_compute_time() {
        let replay = replay_blackouts(&[], 60.0, buffering(), 0.0, 0.5).unwrap();

        assert_eq!(replay.responses.len(), 10);
        assert!(replay.responses.iter().all(|r| (r - 2.0).abs() < 1e-9));
        assert_eq!((replay.misses, replay.episodes), (0, 0));
    }

    #[test]
    fn a_blackout_that_begins_while_a_job_computes_delays_it() {
        let blackout = [Blackout {
            start: 1.0,
            end: 3.0,
        }];

        let replay = replay_blackouts(&blackout, 6.0, buffering(), 0.0, 0.0).unwrap();

        assert_eq!(replay.responses, [3.5]);
    }

    #[test]
    fn overlapping_blackouts_are_refused() {
        let overlapping = [(0.0, 5.0), (4.0, 6.0)].map(|(start, end)| Blackout { start, end });

        assert!(replay_blackouts(&overlapping, 10.0, buffering(), 0.0, 0.0).is_err());
    }
}
