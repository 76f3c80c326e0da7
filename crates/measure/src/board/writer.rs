//! Filling a line's slots, in user space. A line has one writer at a time; the
//! programs' is `claim_slot` of `bpf/board_maps.h`.

use std::sync::atomic::Ordering;

use laggard_model::Nanos;

use super::{BoardCpu, BoardLine, BoardSlot};

/// Who fills the slots of one line.
#[derive(Clone, Copy, Debug)]
pub struct LineWriter<'a> {
    cpu: &'a BoardCpu,
    index: usize,
    ring: &'a [BoardSlot],
}

impl<'a> LineWriter<'a> {
    pub(super) const fn new(cpu: &'a BoardCpu, index: usize, ring: &'a [BoardSlot]) -> Self {
        Self { cpu, index, ring }
    }

    /// What its CPU's programs know.
    pub const fn cpu(&self) -> &'a BoardCpu {
        self.cpu
    }

    /// Its line's place on that CPU.
    pub const fn index(&self) -> usize {
        self.index
    }

    const fn line(&self) -> &'a BoardLine {
        &self.cpu.lines[self.index]
    }

    /// Takes the next slot for activation `seq`, due at `expiry`: from now on its
    /// service is awaited. `None`: there is no room, and that is counted.
    pub fn claim(&self, seq: u64, expiry: Nanos) -> Option<&'a BoardSlot> {
        let line = self.line();
        let head = line.head.load(Ordering::Acquire);
        let room = self.ring.len() as u64;
        let lost = line.lost.load(Ordering::Relaxed);
        if head - line.tail.load(Ordering::Acquire) >= room {
            line.lost.store(lost + 1, Ordering::Relaxed);
            return None;
        }
        let slot = slot_of(self.ring, head);
        slot.begin(seq, expiry, lost);
        line.lost.store(0, Ordering::Relaxed);
        let first = self.cpu.lines_first_slot.load(Ordering::Relaxed) + self.index as u64 * room;
        line.slot.store(first + head % room, Ordering::Relaxed);
        line.waiting.store(1, Ordering::Release);
        Some(slot)
    }

    /// The slot whose service is awaited, if one is.
    pub fn claimed(&self) -> Option<&'a BoardSlot> {
        unserved(self.cpu, self.index, self.ring)
    }

    /// The service of the claimed slot ran at `end`, on another CPU than its
    /// line's where `is_foreign`. The collector may read it from here on, and
    /// whoever claims may claim the next.
    pub fn publish(&self, slot: &BoardSlot, end: Nanos, is_foreign: bool) {
        let line = self.line();
        if is_foreign {
            slot.set_foreign();
        }
        slot.end_ns.store(end.ns(), Ordering::Relaxed);
        let head = line.head.load(Ordering::Relaxed);
        line.head.store(head + 1, Ordering::Release);
        line.waiting.store(0, Ordering::Release);
    }

    /// Gives the claimed slot up: the next claim takes it again.
    pub fn give_up(&self) {
        self.line().waiting.store(0, Ordering::Release);
    }
}

/// The slot that `line` has asked its service for, if that has not come.
pub fn unserved<'a>(cpu: &BoardCpu, line: usize, ring: &'a [BoardSlot]) -> Option<&'a BoardSlot> {
    let state = &cpu.lines[line];
    let is_awaited = state.waiting.load(Ordering::Acquire) != 0;
    is_awaited.then(|| slot_of(ring, state.head.load(Ordering::Acquire)))
}

/// Slot number `number` of a ring.
#[allow(
    clippy::cast_possible_truncation,
    reason = "less than the length of the ring"
)]
pub(super) const fn slot_of(ring: &[BoardSlot], number: u64) -> &BoardSlot {
    &ring[(number % ring.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::super::Board;
    use super::*;

    const ROOM: u64 = 4;

    fn board() -> Board {
        let board = Board::owned(1, 2 * 4);
        board
            .cpu(0)
            .ring_bits
            .store(ROOM.ilog2(), Ordering::Relaxed);
        board
    }

    #[test]
    fn a_claimed_slot_is_awaited_until_it_is_published() {
        let board = board();
        let writer = board.writer(0, 1);

        let slot = writer.claim(7, Nanos::from_us(5)).unwrap();
        let awaited = writer.claimed().map(BoardSlot::seq);
        writer.publish(slot, Nanos::from_us(9), true);

        assert_eq!(awaited, Some(7));
        assert!(writer.claimed().is_none());
        let line = &board.cpu(0).lines[1];
        assert_eq!(line.head.load(Ordering::Relaxed), 1);
        // Where the programs find it: behind the slots of line 0.
        assert_eq!(line.slot.load(Ordering::Relaxed), ROOM);
        let slot = &board.ring(board.cpu(0), 1)[0];
        assert_eq!((slot.end(), slot.is_foreign()), (Nanos::from_us(9), true));
    }

    #[test]
    fn what_finds_no_room_is_counted_and_told_with_the_next_that_does() {
        let board = board();
        let writer = board.writer(0, 0);
        let claim = |seq| writer.claim(seq, Nanos::from_us(seq));
        for seq in 0..ROOM {
            writer.publish(claim(seq).unwrap(), Nanos::from_us(seq), false);
        }

        let refused = (claim(ROOM).is_none(), claim(ROOM + 1).is_none());
        let lost = board.cpu(0).lines[0].lost.load(Ordering::Relaxed);
        board.cpu(0).lines[0].tail.store(1, Ordering::Release);
        let slot = claim(ROOM + 2).unwrap();

        assert_eq!((refused, lost), ((true, true), 2));
        assert_eq!(slot.lost_before.load(Ordering::Relaxed), 2);
        assert_eq!(board.cpu(0).lines[0].lost.load(Ordering::Relaxed), 0);
    }
}
