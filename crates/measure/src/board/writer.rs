//! User-space writer of a line's slots. A line has one writer at a time. The programs use
//! `claim_slot` of `bpf/board_maps.h` instead.

use std::sync::atomic::Ordering;

use laggard_model::Nanos;

use super::{BoardCpu, BoardLine, BoardSlot};

/// Writer of one line's slots.
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

    /// Returns the state that the CPU shares with the programs.
    pub const fn cpu(&self) -> &'a BoardCpu {
        self.cpu
    }

    /// Returns the line's place on its CPU.
    pub const fn index(&self) -> usize {
        self.index
    }

    const fn line(&self) -> &'a BoardLine {
        &self.cpu.lines[self.index]
    }

    /// Claims the next slot for activation `seq`, due at `expiry`. From then on its service is
    /// awaited. Returns `None` and counts a loss if the ring is full.
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

    /// Returns the slot whose service is awaited, if there is one.
    pub fn claimed(&self) -> Option<&'a BoardSlot> {
        unserved(self.cpu, self.index, self.ring)
    }

    /// Publishes the claimed slot: its service ran at `end`, on another CPU than its line's if
    /// `is_foreign`. From then on the collector may read the slot, and the writer may claim the
    /// next one.
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

    /// Releases the claimed slot, so that the next claim uses it again.
    pub fn give_up(&self) {
        self.line().waiting.store(0, Ordering::Release);
    }
}

/// Returns the slot whose service `line` has requested, if the service has not run.
pub fn unserved<'a>(cpu: &BoardCpu, line: usize, ring: &'a [BoardSlot]) -> Option<&'a BoardSlot> {
    let state = &cpu.lines[line];
    let is_awaited = state.waiting.load(Ordering::Acquire) != 0;
    is_awaited.then(|| slot_of(ring, state.head.load(Ordering::Acquire)))
}

/// Returns slot `number` of a ring.
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
    fn claimed_slot_is_awaited_until_it_is_published() {
        let board = board();
        let writer = board.writer(0, 1);

        let slot = writer.claim(7, Nanos::from_us(5)).unwrap();
        let awaited = writer.claimed().map(BoardSlot::seq);
        writer.publish(slot, Nanos::from_us(9), true);

        assert_eq!(awaited, Some(7));
        assert!(writer.claimed().is_none());
        let line = &board.cpu(0).lines[1];
        assert_eq!(line.head.load(Ordering::Relaxed), 1);
        // The programs find the slot here, after the slots of line 0.
        assert_eq!(line.slot.load(Ordering::Relaxed), ROOM);
        let slot = &board.ring(board.cpu(0), 1)[0];
        assert_eq!((slot.end(), slot.is_foreign()), (Nanos::from_us(9), true));
    }

    #[test]
    fn claim_without_room_is_counted_in_the_next_slot() {
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
