//! The end of a line: what its plan still has when nobody waits any more.

use std::sync::atomic::Ordering;

use laggard_model::{Activation, Batch, LossReason, Nanos, Stage};

use super::super::{BoardSlot, unserved};
use super::BoardView;
use super::line::{Asker, LineReader};
use super::mirror::SoftirqFate;

/// How a line stood when nobody waited for its service any more.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// From this number on, its service had still not come, besides from what
    /// its slot on the board says.
    pub unserved_from: Option<u64>,
    /// Until when that is known: at most then it was given up.
    pub given_up: Nanos,
    /// Whether its thread waits on another CPU than its line's: who runs on
    /// that one does not keep it waiting, and its wait says nothing of it.
    pub is_elsewhere: bool,
}

impl LineReader {
    /// Settles what is left of the plan, after all that was served has been
    /// drained. An expiry for which the service has not come is missed, and its
    /// latency how long it had waited when it was given up: the true one is at
    /// least that. A CPU's softirq line comes before its followers.
    pub fn close(&mut self, standing: Standing, look: &mut BoardView<'_>, into: &mut Batch) {
        if self.account.planned.is_some() || self.planned.is_none() {
            return;
        }
        let waiting = unserved(look.cpu, self.index, look.ring);
        let had_room = self.lost_since(look.cpu) == 0;
        let unserved_from = match waiting {
            Some(slot) => Some(slot.seq()),
            // Without room, a thread that waits does not say what for.
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

    /// Keeps expiry `next_seq` as one that had waited until `given_up`;
    /// `waiting`: what was asked for before it, or is it.
    fn give_up(
        &mut self,
        planned: Nanos,
        waiting: Option<&BoardSlot>,
        given_up: Nanos,
        look: &mut BoardView<'_>,
        into: &mut Batch,
    ) {
        // That of a device: when it was raised.
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

    /// What became of the softirq that the thread with slot `waiting`, which has
    /// not come, was to be woken by, for expiry `next_seq`.
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
        // Its losses are the thread's.
        let losses = self.account.losses;
        let found = self.read_until(slot, 0, Stage::Softirq, end);
        self.account.losses = losses;
        found.map_or(SoftirqFate::Not, SoftirqFate::Served)
    }
}
