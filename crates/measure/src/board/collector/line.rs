//! Reader of one line.

use std::sync::atomic::Ordering;

use laggard_model::{Account, Activation, Batch, LineId, LossReason, Nanos, STAGES, Stage};

use super::super::writer::slot_of;
use super::super::{BoardCpu, BoardSlot, Stamps, Timeline};
use super::{BoardView, Mirror, Skips, Stops};

/// Stages that the activations of a line should have.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpectedStages {
    /// Callback of a timer, in an interrupt or in softirq context.
    pub expire: bool,
    /// Interrupt before the first stage.
    pub irq: bool,
    /// Wakeup of a thread.
    pub waking: bool,
}

/// Requester of a line's service, which determines why an expiry can stay without service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asker {
    /// Timer of the thread that serves the expiry.
    Thread,
    /// Softirq timer of the CPU, whose callback serves the expiry.
    Callback,
    /// The same callback, which asks several followers in turn.
    Follower,
    /// Timer descriptor, armed by a thread that does not serve the expiry.
    Carrier,
    /// Interrupt of a device.
    Device,
    /// None: the line is derived from the activations of another line.
    Mirrored,
}

/// Last run of the service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) end: Nanos,
    /// Whether the service ran on another CPU than the line's.
    pub(super) is_foreign: bool,
}

#[derive(Debug)]
pub struct LineReader {
    pub id: LineId,
    /// Place among the lines of its CPU.
    pub index: usize,
    pub expected: ExpectedStages,
    /// Last stage, whose time is `end_ns`.
    pub last: Stage,
    /// Intermediate stages that are kept.
    pub stamps: Stamps,
    pub asker: Asker,
    /// Timeline that repeats the plan, to compute the times of missed expiries.
    pub planned: Option<Timeline>,
    /// Interval in expiries: only every `stride`-th expiry of the timeline, starting at `first`,
    /// belongs to this line.
    pub stride: u64,
    pub first: u64,
    /// Start: earlier expiries are neither recorded nor numbered.
    pub begin: Nanos,
    /// End: expiries from this time are not recorded either, because ending the measurement
    /// disturbs them.
    pub until: Nanos,
    /// Line of the softirq, if it is derived from this line's activations.
    pub mirror: Option<Mirror>,
    /// Number of the next activation.
    pub(super) next_seq: u64,
    pub(super) before: Option<Reading>,
    /// Time when an external source last raised its interrupt.
    pub(super) last_raise: Nanos,
    /// Number of expiries before `begin`.
    unrecorded: u64,
    /// Number of settled expiries.
    pub(super) settled: u64,
    pub(super) account: Account,
    /// Number of activations whose timer expired on another CPU.
    elsewhere: u64,
    /// Longest wait among the expiries that were given up, and their number.
    pub(super) given_up: Option<(Nanos, u64)>,
}

impl LineReader {
    /// Creates a reader of line `id`, at place `index` of its CPU, that has not read anything.
    pub fn new(id: LineId, index: usize, last: Stage, asker: Asker) -> Self {
        Self {
            id,
            index,
            expected: ExpectedStages::default(),
            last,
            stamps: Stamps::default(),
            asker,
            planned: None,
            stride: 1,
            first: 0,
            begin: Nanos::ZERO,
            until: Nanos::MAX,
            mirror: None,
            next_seq: 0,
            before: None,
            last_raise: Nanos::ZERO,
            unrecorded: 0,
            settled: 0,
            account: Account::default(),
            elsewhere: 0,
            given_up: None,
        }
    }

    pub fn number_from(&mut self, first: LineId) {
        self.id.0 += first.0;
        if let Some(mirror) = &mut self.mirror {
            mirror.id.0 += first.0;
        }
    }

    /// Derives line `softirq` from this line's activations.
    pub fn tell_softirq(&mut self, softirq: LineId) {
        self.mirror = Some(Mirror::new(softirq));
    }

    /// Appends all new activations and counts the lost ones. The softirq line of a CPU comes
    /// before its followers. A gap in a follower waits until the softirq line covers it, which
    /// may be in the next pass.
    pub fn drain(&mut self, look: &mut BoardView<'_>, into: &mut Batch) {
        let line = &look.cpu.lines[self.index];
        let head = line.head.load(Ordering::Acquire);
        let mut tail = line.tail.load(Ordering::Relaxed);
        while tail < head {
            let slot = slot_of(look.ring, tail);
            if slot.end() > look.until || self.must_wait(slot, look.skips) {
                break;
            }
            self.take(slot, look, into);
            tail += 1;
            line.tail.store(tail, Ordering::Release);
        }
        if self.asker == Asker::Callback {
            look.skips.read_until(self.number(self.next_seq));
        }
        if let Some(mirror) = &mut self.mirror {
            mirror.drain(into);
        }
    }

    /// Returns whether the softirq may still explain a gap before this activation. At the end of
    /// the measurement no gap waits.
    fn must_wait(&self, slot: &BoardSlot, skips: &Skips) -> bool {
        let seq = slot.seq();
        self.asker == Asker::Follower
            && self.until == Nanos::MAX
            && self.next_seq < seq
            && !skips.knows(self.number(seq - 1))
    }

    /// Returns the timeline's number of expiry `seq`.
    pub(super) fn number(&self, seq: u64) -> u64 {
        seq * self.stride + self.first
    }

    /// Returns the slots of activations that have been served and are not read yet.
    pub fn unread<'a>(
        &self,
        cpu: &BoardCpu,
        ring: &'a [BoardSlot],
    ) -> impl Iterator<Item = &'a BoardSlot> + use<'a> {
        let line = &cpu.lines[self.index];
        let numbers = line.tail.load(Ordering::Relaxed)..line.head.load(Ordering::Acquire);
        numbers.map(|number| slot_of(ring, number))
    }

    /// Returns the account of the line's plan since `begin`.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// Returns the number of activations whose timer expired on another CPU.
    pub const fn elsewhere(&self) -> u64 {
        self.elsewhere
    }

    /// Returns the longest wait among the expiries that were given up, and their number.
    pub const fn given_up(&self) -> Option<(Nanos, u64)> {
        self.given_up
    }

    /// Returns the number of activations lost since the last one that found room. They are not
    /// settled yet.
    pub fn lost_since(&self, cpu: &BoardCpu) -> u64 {
        cpu.lines[self.index].lost.load(Ordering::Relaxed)
    }

    /// Resets the counts and numbers from `start`.
    pub fn begin_at(&mut self, start: Nanos) {
        self.begin = start;
        self.unrecorded = self.next_seq;
        self.settled = 0;
        self.account = Account::default();
        if let Some(mirror) = &mut self.mirror {
            mirror.begin_again();
        }
    }

    fn take(&mut self, slot: &BoardSlot, look: &mut BoardView<'_>, into: &mut Batch) {
        let (seq, end) = (slot.seq(), slot.end());
        let is_foreign = slot.is_foreign();
        // The ring fills up last, so the lost activations are the newest of the gap.
        let found_room = seq.saturating_sub(slot.lost_before.load(Ordering::Relaxed));
        while self.next_seq < seq {
            let expiry = self.planned_expiry();
            let served = self.served_by(expiry, look.skips, Some(end));
            match served {
                _ if self.next_seq >= found_room => self.lose(expiry, LossReason::RingFull),
                Some(reading) => self.miss(expiry, reading, look, into),
                None if is_foreign => self.lose(expiry, LossReason::Foreign),
                None => self.lose(expiry, self.reason()),
            }
            self.next_seq += 1;
        }
        let planned = self.planned_expiry();
        if self.is_recorded(planned) {
            self.take_served(slot, look, into);
        }
        self.next_seq = seq + 1;
        self.before = Some(Reading { end, is_foreign });
        self.last_raise = slot.expiry();
    }

    /// Adds the activation in a slot, whose expiry is to be recorded.
    fn take_served(&mut self, slot: &BoardSlot, look: &mut BoardView<'_>, into: &mut Batch) {
        let planned = self.planned_expiry();
        let seq = self.next_seq - self.unrecorded;
        if slot.is_foreign() {
            return self.lose(planned, LossReason::Foreign);
        }
        if slot.expiry() >= self.until {
            // Raised after the end.
            return self.lose(planned, self.reason());
        }
        if look.stops.overlap(slot.expiry(), slot.end()) {
            return self.lose(planned, LossReason::Stopped);
        }
        self.elsewhere += slot.elsewhere.load(Ordering::Relaxed);
        let is_late = slot.is_armed_late()
            || self.asker == Asker::Carrier && look.skips.get(self.number(self.next_seq)).is_some();
        let activation = if is_late {
            self.account.losses.add(LossReason::ArmedLate, 1);
            self.read_end(slot, seq)
        } else {
            self.read(slot, seq)
        };
        match activation {
            Ok(activation) => self.keep(activation, look.stops, into),
            Err(reason) => self.lose(planned, reason),
        }
    }

    /// Stores an activation that is to be recorded, unless laggard was stopped while it waited.
    pub(super) fn keep(&mut self, activation: Activation, stops: &Stops, into: &mut Batch) {
        if stops.overlap(activation.expiry, activation.expiry + activation.latency()) {
            return self.lose(activation.expiry, LossReason::Stopped);
        }
        self.settled += 1;
        into.push(&activation);
        if let Some(mirror) = &mut self.mirror {
            mirror.take(&activation);
        }
    }

    /// Counts expiry `next_seq`, due at `expiry`, as lost if it is to be recorded.
    pub(super) fn lose(&mut self, expiry: Nanos, reason: LossReason) {
        if !self.is_recorded(expiry) {
            return;
        }
        self.settled += 1;
        self.account.lose(reason);
        if let Some(mirror) = &mut self.mirror {
            mirror.lose(reason);
        }
    }

    /// Stores the missed expiry `next_seq` if it is to be recorded.
    pub(super) fn miss(
        &mut self,
        expiry: Nanos,
        reading: Reading,
        look: &mut BoardView<'_>,
        into: &mut Batch,
    ) {
        if self.asker == Asker::Callback {
            look.skips.add(self.number(self.next_seq), reading.end);
        }
        if !self.is_recorded(expiry) {
            return;
        }
        if reading.is_foreign {
            return self.lose(expiry, LossReason::Foreign);
        }
        self.keep(self.missed(expiry, reading.end), look.stops, into);
    }

    /// Returns whether expiry `next_seq`, due at `expiry`, is to be recorded.
    pub(super) fn is_recorded(&mut self, expiry: Nanos) -> bool {
        if expiry < self.begin {
            self.unrecorded = self.next_seq + 1;
            return false;
        }
        expiry < self.until
    }

    /// Returns when the missed expiry `next_seq` would have been served had it queued. That is
    /// when the service reached the previous activation or, if the service was not requested,
    /// when its requester ran (at the earliest).
    pub(super) fn served_by(
        &self,
        expiry: Nanos,
        skips: &Skips,
        first_end: Option<Nanos>,
    ) -> Option<Reading> {
        // A late raise kept the external source from raising, not the service from serving.
        if self.asker == Asker::Device && expiry < self.last_raise {
            return None;
        }
        let reading_at = |end| Reading {
            end,
            is_foreign: false,
        };
        let skipped = match self.asker {
            Asker::Follower | Asker::Carrier => skips.get(self.number(self.next_seq)),
            Asker::Thread | Asker::Callback | Asker::Device | Asker::Mirrored => None,
        };
        // Before the first served activation, that activation is used instead.
        let before = self.before.or(first_end.map(reading_at));
        [before, skipped.map(reading_at)]
            .into_iter()
            .flatten()
            .filter(|reading| reading.end >= expiry)
            .max_by_key(|reading| reading.end)
    }

    /// Returns the loss reason of an expiry that was not served for an unknown reason.
    pub(super) const fn reason(&self) -> LossReason {
        match self.asker {
            Asker::Thread | Asker::Callback | Asker::Mirrored => LossReason::RingFull,
            Asker::Follower | Asker::Carrier => LossReason::SignalFailed,
            Asker::Device => LossReason::NotRaised,
        }
    }

    /// Returns the planned time of expiry `next_seq`.
    pub(super) fn planned_expiry(&mut self) -> Nanos {
        let number = self.number(self.next_seq);
        let Some(timeline) = &mut self.planned else {
            return Nanos::ZERO;
        };
        while timeline.seq() < number {
            timeline.advance();
        }
        timeline.expiry()
    }

    /// Returns the missed activation of expiry `next_seq`, whose service ran at `served`.
    pub(super) fn missed(&self, expiry: Nanos, served: Nanos) -> Activation {
        let mut steps = [None; STAGES.len()];
        steps[self.last.index()] = Some(served.saturating_sub(expiry));
        Activation {
            line: self.id,
            seq: self.next_seq - self.unrecorded,
            expiry,
            missed: true,
            censored: false,
            steps,
        }
    }
}
