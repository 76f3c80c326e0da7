//! One line, as the collector sees it.

use std::sync::atomic::Ordering;

use laggard_model::{Account, Activation, Batch, LineId, LossReason, Nanos, STAGES, Stage};

use super::super::writer::slot_of;
use super::super::{BoardCpu, BoardSlot, Stamps, Timeline};
use super::{BoardView, Mirror, Skips, Stops};

/// Which stages a line's activations should have.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpectedStages {
    /// A timer's callback, in an interrupt or in softirq context.
    pub expire: bool,
    /// An interrupt before the first stage.
    pub irq: bool,
    /// A thread's wakeup.
    pub waking: bool,
}

/// What asks for a line's service, and so why an expiry can go without.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asker {
    /// The timer of the thread that serves it.
    Thread,
    /// The softirq timer of its CPU, whose callback serves it.
    Callback,
    /// That callback, which asks it in turn with others.
    Follower,
    /// A timer descriptor, which a thread that does not serve it arms.
    Carrier,
    /// A device's interrupt.
    Device,
    /// Nothing of its own: it has what another line's activations say of it.
    Mirrored,
}

/// The last time that the service ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) end: Nanos,
    /// On another CPU than its line's.
    pub(super) is_foreign: bool,
}

/// One line, as the collector sees it.
#[derive(Debug)]
pub struct LineReader {
    pub id: LineId,
    /// Its place among the lines of its CPU.
    pub index: usize,
    pub expected: ExpectedStages,
    /// The last stage, which `end_ns` is.
    pub last: Stage,
    /// The stages on the way that are kept.
    pub stamps: Stamps,
    pub asker: Asker,
    /// Plans the line's expiries again, to tell when missed ones were due.
    pub planned: Option<Timeline>,
    /// Only every `stride`-th expiry of the timeline, from `first` on, is
    /// this line's.
    pub stride: u64,
    pub first: u64,
    /// Expiries before this instant are not recorded, nor numbered.
    pub begin: Nanos,
    /// Nor are expiries from this instant on: ending disturbs them.
    pub until: Nanos,
    /// The softirq's line, where it has this line's activations.
    pub mirror: Option<Mirror>,
    /// The number of the next activation.
    pub(super) next_seq: u64,
    pub(super) before: Option<Reading>,
    /// When an external source last raised its interrupt.
    pub(super) last_raise: Nanos,
    /// How many expiries came before `begin`.
    unrecorded: u64,
    /// How many have been settled.
    pub(super) settled: u64,
    pub(super) account: Account,
    /// Activations whose timer expired on another CPU.
    elsewhere: u64,
    /// The longest wait of those that were given up, and how many they are.
    pub(super) given_up: Option<(Nanos, u64)>,
}

impl LineReader {
    /// Of line `id`, at place `index` of its CPU, that has read nothing yet.
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

    /// Counts lines from `first` on.
    pub fn number_from(&mut self, first: LineId) {
        self.id.0 += first.0;
        if let Some(mirror) = &mut self.mirror {
            mirror.id.0 += first.0;
        }
    }

    /// What its activations say of the softirq goes to line `softirq`.
    pub fn tell_softirq(&mut self, softirq: LineId) {
        self.mirror = Some(Mirror::new(softirq));
    }

    /// Appends everything new; counts what was lost. A CPU's softirq line
    /// comes before its followers. A follower's gap waits until that line
    /// tells what the softirq did meanwhile, which may be the next time.
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

    /// Whether there is a gap before this activation that the softirq may
    /// still explain. At the end there is nothing to wait for.
    fn must_wait(&self, slot: &BoardSlot, skips: &Skips) -> bool {
        let seq = slot.seq();
        self.asker == Asker::Follower
            && self.until == Nanos::MAX
            && self.next_seq < seq
            && !skips.knows(self.number(seq - 1))
    }

    /// The timeline's number of expiry `seq`.
    pub(super) fn number(&self, seq: u64) -> u64 {
        seq * self.stride + self.first
    }

    /// When the service ran that is yet to be read of.
    pub fn readings<'a>(
        &self,
        cpu: &BoardCpu,
        ring: &'a [BoardSlot],
    ) -> impl Iterator<Item = Nanos> + use<'a> {
        let line = &cpu.lines[self.index];
        let numbers = line.tail.load(Ordering::Relaxed)..line.head.load(Ordering::Acquire);
        numbers.map(|number| slot_of(ring, number).end())
    }

    /// What became of the line's plan since `begin`.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// Activations whose timer expired on another CPU.
    pub const fn elsewhere(&self) -> u64 {
        self.elsewhere
    }

    /// The longest wait of expiries whose service had not come when they were
    /// given up, and how many they are.
    pub const fn given_up(&self) -> Option<(Nanos, u64)> {
        self.given_up
    }

    /// Activations lost since the last one that found room; not yet settled.
    pub fn lost_since(&self, cpu: &BoardCpu) -> u64 {
        cpu.lines[self.index].lost.load(Ordering::Relaxed)
    }

    /// Forgets what was counted, and numbers anew from `start` on.
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
        // The ring fills last, so the lost ones are the newest of the gap.
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

    /// Takes in the activation in a slot, whose expiry is to be recorded.
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
        let found = if is_late {
            self.account.losses.add(LossReason::ArmedLate, 1);
            self.read_end(slot, seq)
        } else {
            self.read(slot, seq)
        };
        match found {
            Ok(activation) => self.keep(activation, look.stops, into),
            Err(reason) => self.lose(planned, reason),
        }
    }

    /// Hands over an activation that is to be recorded, unless laggard was
    /// stopped while it waited.
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

    /// Counts expiry `next_seq`, due at `expiry`, as lost, if it is to be
    /// recorded.
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

    /// Keeps expiry `next_seq`, which was missed, if it is to be recorded.
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

    /// Whether expiry `next_seq`, due at `expiry`, is to be recorded.
    pub(super) fn is_recorded(&mut self, expiry: Nanos) -> bool {
        if expiry < self.begin {
            self.unrecorded = self.next_seq + 1;
            return false;
        }
        expiry < self.until
    }

    /// When expiry `next_seq`, which was missed, would have been served had it
    /// queued: when the service got to the activation before it or, where it
    /// was not asked, when what asks it ran (at the earliest).
    pub(super) fn served_by(
        &self,
        expiry: Nanos,
        skips: &Skips,
        first_end: Option<Nanos>,
    ) -> Option<Reading> {
        // What an external source raised late kept it from raising, not the
        // service from serving.
        if self.asker == Asker::Device && expiry < self.last_raise {
            return None;
        }
        let at = |end| Reading {
            end,
            is_foreign: false,
        };
        let skipped = match self.asker {
            Asker::Follower | Asker::Carrier => skips.get(self.number(self.next_seq)),
            Asker::Thread | Asker::Callback | Asker::Device | Asker::Mirrored => None,
        };
        // Before anything was served, the first to be served stands in.
        let before = self.before.or(first_end.map(at));
        [before, skipped.map(at)]
            .into_iter()
            .flatten()
            .filter(|reading| reading.end >= expiry)
            .max_by_key(|reading| reading.end)
    }

    /// Why an expiry that nothing explains was not served.
    pub(super) const fn reason(&self) -> LossReason {
        match self.asker {
            Asker::Thread | Asker::Callback | Asker::Mirrored => LossReason::RingFull,
            Asker::Follower | Asker::Carrier => LossReason::SignalFailed,
            Asker::Device => LossReason::NotRaised,
        }
    }

    /// The planned time of expiry `next_seq`.
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

    /// Expiry `next_seq`, for which the service ran at `served`.
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
