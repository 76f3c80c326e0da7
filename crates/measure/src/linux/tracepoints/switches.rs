//! Switches to laggard's threads, as an ordinary user may record them.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;

use laggard_model::{Nanos, Tid};

use super::StampedThread;
use super::ring::{EventRing, RingRecord};
use crate::board::BoardSlot;

/// Size of a thread's ring in bytes: 4,096 records, two per wakeup. The memory for the rings of a
/// user is limited (`kernel.perf_event_mlock_kb`).
const RING_BYTES: usize = 64 << 10;

/// Reader of the switches to the threads that are the service of a line.
#[derive(Debug)]
pub(crate) struct SwitchReader {
    threads: Vec<SwitchedThread>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct SwitchedThread {
    cpu: u32,
    place: usize,
    ring: EventRing,
    /// Times of the switches to the thread that no slot has, oldest first.
    switches: VecDeque<Nanos>,
    /// Times before which switches are missing.
    gaps: VecDeque<Nanos>,
    lost: u64,
}

/// Checks whether this process may record the switches of its threads.
pub(crate) fn try_switches() -> io::Result<()> {
    // SAFETY: without arguments; cannot fail.
    let tid = unsafe { libc::gettid() }.cast_unsigned();
    EventRing::of_thread(Tid(tid), 0).map(drop)
}

impl SwitchReader {
    /// Starts to record the switches to `threads`.
    pub(crate) fn start(threads: &[StampedThread]) -> io::Result<Self> {
        let services = threads.iter().filter(|thread| thread.is_service);
        let threads = services.map(|thread| {
            let ring = EventRing::of_thread(Tid(thread.tid), RING_BYTES)?;
            ring.enable()?;
            Ok(SwitchedThread {
                cpu: thread.cpu,
                place: thread.place,
                ring,
                switches: VecDeque::new(),
                gaps: VecDeque::new(),
                lost: 0,
            })
        });
        Ok(Self {
            threads: threads.collect::<io::Result<_>>()?,
            buffer: Vec::new(),
        })
    }

    pub(super) fn read(&mut self) {
        for thread in &mut self.threads {
            let (switches, gaps, lost) = (&mut thread.switches, &mut thread.gaps, &mut thread.lost);
            thread.ring.read(&mut self.buffer, |record| match record {
                RingRecord::SwitchIn(time) => switches.push_back(time),
                RingRecord::Lost(time, count) => {
                    *lost += count;
                    gaps.push_back(time);
                }
                RingRecord::Event(..) => {}
            });
        }
    }

    /// Writes the time of the first switch to the thread after the expiry in a slot.
    pub(super) fn stamp(&mut self, cpu: u32, place: usize, slot: &BoardSlot) {
        let mut threads = self.threads.iter_mut();
        let thread = threads.find(|thread| (thread.cpu, thread.place) == (cpu, place));
        if let Some(thread) = thread
            && let Some(time) = thread.switch_of(slot.expiry(), slot.end())
        {
            slot.running_ns.store(time.ns(), Ordering::Relaxed);
        }
    }

    pub(super) fn lost(&self) -> u64 {
        self.threads.iter().map(|thread| thread.lost).sum()
    }
}

impl SwitchedThread {
    fn switch_of(&mut self, expiry: Nanos, end: Nanos) -> Option<Nanos> {
        first_switch(&mut self.switches, &mut self.gaps, expiry, end)
    }
}

/// Removes and returns the first switch between `expiry` and `end`, if none before it can be
/// missing.
fn first_switch(
    switches: &mut VecDeque<Nanos>,
    gaps: &mut VecDeque<Nanos>,
    expiry: Nanos,
    end: Nanos,
) -> Option<Nanos> {
    while switches.pop_front_if(|time| *time < expiry).is_some() {}
    while gaps.pop_front_if(|time| *time < expiry).is_some() {}
    let first = switches.pop_front_if(|time| *time <= end)?;
    gaps.front().is_none_or(|gap| *gap > first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_switch_after_the_expiry_belongs_to_the_wakeup() {
        let us = |times: &[u64]| times.iter().map(|&us| Nanos::from_us(us)).collect();
        let mut switches: VecDeque<Nanos> = us(&[90, 105, 108, 205, 320]);
        let mut gaps: VecDeque<Nanos> = us(&[95, 201]);
        let mut switch = |expiry_us, end_us| {
            let (expiry, end) = (Nanos::from_us(expiry_us), Nanos::from_us(end_us));
            first_switch(&mut switches, &mut gaps, expiry, end).map(Nanos::ns)
        };

        assert_eq!(switch(100, 110), Some(105_000));
        // Switches are missing before the one at 205.
        assert_eq!(switch(200, 210), None);
        // The switch at 320 is of the next wakeup.
        assert_eq!(switch(250, 260), None);
        assert_eq!(switch(300, 330), Some(320_000));
    }
}
