//! End of a line: settles the rest of its plan when no thread waits any more.

use std::sync::atomic::Ordering;

use laggard_model::{Activation, Batch, LossReason, Nanos, Stage};

use super::super::{BoardSlot, unserved};
use super::BoardView;
use super::line::{Asker, LineReader};
use super::mirror::SoftirqFate;

/// State of a line when the wait for its service ended.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// First expiry number whose service had not run. The slot on the board shows the others.
    pub unserved_from: Option<u64>,
    /// Time until which the service is known not to have run. The expiry was given up then or
    /// earlier.
    pub given_up: Nanos,
    /// Whether the thread waits on another CPU than its line's. Threads on that CPU do not keep
    /// it waiting, and its wait is not a latency of that CPU.
    pub is_elsewhere: bool,
}

impl LineReader {
    /// Settles the rest of the plan after all served expiries have been drained. An expiry
    /// without service is missed, and its latency is the wait until it was given up, a lower
    /// bound. The softirq line of a CPU comes before its followers.
    pub fn close(&mut self, standing: Standing, look: &mut BoardView<'_>, into: &mut Batch) {
        if self.account.planned.is_some() || self.planned.is_none() {
            return;
        }
        let waiting = unserved(look.cpu, self.index, look.ring);
        let had_room = self.lost_since(look.cpu) == 0;
        let unserved_from = match waiting {
            Some(slot) => Some(slot.seq()),
            // If its ring is full, a waiting thread does not show its expiry.
            None => standing.unserved_from.filter(|_| had_room),
        };
        if let (Asker::Callback, Some(_)) = (self.asker, unserved_from) {
            look.skips.stop_at(self.number(self.next_seq));
        }
        let mut expiry = self.planned_expiry();
        while expiry < self.until {
            let served = self.served_by(expiry, look.skips, None);
            let is_unserved = unserved_from.is_some_and(|from| self.next_seq >= from)
                || self.asker == Asker::Follower && look.skips.stops_at(self.number(self.next_seq));
            match served {
                Some(reading) => self.miss(expiry, reading, look, into),
                None if self.before.is_some_and(|before| before.is_foreign) => {
                    self.lose(expiry, LossReason::Foreign);
                }
                None if is_unserved && standing.is_elsewhere => {
                    self.lose(expiry, LossReason::Foreign);
                }
                None if is_unserved => {
                    self.give_up(expiry, waiting, standing.given_up, look, into);
                }
                None if !had_room => self.lose(expiry, LossReason::RingFull),
                None => self.lose(expiry, self.reason()),
            }
            self.next_seq += 1;
            expiry = self.planned_expiry();
        }
        self.account.planned = Some(self.settled);
        if let Some(mirror) = &mut self.mirror {
            mirror.close();
            mirror.drain(into);
        }
    }

    /// Records expiry `next_seq` as an expiry that had waited until `given_up`. `waiting` is the
    /// slot of the last request, for this expiry or an earlier one.
    fn give_up(
        &mut self,
        planned: Nanos,
        waiting: Option<&BoardSlot>,
        given_up: Nanos,
        look: &mut BoardView<'_>,
        into: &mut Batch,
    ) {
        // The wait for a device starts when its interrupt was raised.
        let raised = waiting.filter(|slot| slot.seq() == self.next_seq);
        let expiry = raised.map_or(planned, BoardSlot::expiry);
        if expiry >= self.until {
            return self.lose(planned, self.reason());
        }
        if !self.is_recorded(planned) {
            return;
        }
        if look.stops.overlap(expiry, given_up) {
            return self.lose(planned, LossReason::Stopped);
        }
        let late = given_up.saturating_sub(expiry);
        into.push(&Activation {
            censored: true,
            ..self.missed(expiry, given_up)
        });
        self.settled += 1;
        let (longest, count) = self.given_up.unwrap_or_default();
        self.given_up = Some((longest.max(late), count + 1));
        let softirq = self.softirq_of(waiting);
        if let Some(mirror) = &mut self.mirror {
            mirror.take_unserved(expiry, late, softirq);
        }
    }

    /// Returns the fate of the softirq that was to wake the thread with slot `waiting`, which has
    /// not run, for expiry `next_seq`.
    fn softirq_of(&mut self, waiting: Option<&BoardSlot>) -> SoftirqFate {
        let Some(slot) = waiting.filter(|slot| self.mirror.is_some() && slot.is_armed()) else {
            return SoftirqFate::Not;
        };
        let end = Nanos::from_ns(slot.softirq_ns.load(Ordering::Relaxed));
        if end == Nanos::ZERO {
            return SoftirqFate::Waiting;
        }
        if slot.seq() != self.next_seq {
            return SoftirqFate::Not;
        }
        // The thread accounts for the losses.
        let losses = self.account.losses;
        let stages = self.read_until(slot, 0, Stage::Softirq, end);
        self.account.losses = losses;
        stages.map_or(SoftirqFate::Not, SoftirqFate::Served)
    }
}
