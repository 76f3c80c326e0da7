//! The softirq's line where a thread's timer descriptor serves it.

use laggard_model::{Account, Activation, Batch, LineId, LossReason, Nanos, STAGES, Stage};

/// The softirq's line where a thread's timer descriptor serves it: what the
/// thread's activations say of the softirq. Its plan is the thread's.
#[derive(Debug)]
pub struct Mirror {
    pub id: LineId,
    next_seq: u64,
    last_softirq: Nanos,
    seen: Vec<Activation>,
    account: Account,
    /// How many expiries have been settled.
    settled: u64,
}

/// What became of the softirq of an expiry that its thread has not served.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one lives for a moment, at the end"
)]
pub(super) enum SoftirqFate {
    /// The activation came.
    Served(Activation),
    /// It has not come, for this expiry or the one before.
    Waiting,
    /// Nobody armed its timer.
    Not,
}

impl Mirror {
    /// Of line `id`, that has seen nothing yet.
    pub fn new(id: LineId) -> Self {
        Self {
            id,
            next_seq: 0,
            last_softirq: Nanos::ZERO,
            seen: Vec::new(),
            account: Account::default(),
            settled: 0,
        }
    }

    /// What became of the line's plan.
    pub const fn account(&self) -> Account {
        self.account
    }

    pub(super) fn begin_again(&mut self) {
        (self.next_seq, self.settled) = (0, 0);
        self.account = Account::default();
    }

    /// Nothing more will come.
    pub(super) const fn close(&mut self) {
        self.account.planned = Some(self.settled);
    }

    /// Takes in an activation of the thread, served or missed. One that it
    /// missed the softirq missed too if it had not got to it before; otherwise
    /// nobody had armed its timer.
    pub(super) fn take(&mut self, activation: &Activation) {
        let expiry = activation.expiry;
        if let Some(late) = activation.until(Stage::Softirq) {
            self.last_softirq = expiry + late;
            let mut steps = activation.steps;
            steps[Stage::Softirq.index() + 1..].fill(None);
            self.push(expiry, false, false, steps);
        } else if let Some(late) = Nanos::between(expiry, self.last_softirq) {
            self.push(expiry, true, false, only_softirq(late));
        } else if activation.missed {
            self.lose(LossReason::SignalFailed);
        } else {
            self.lose(LossReason::ExpireUnseen);
        }
    }

    /// Takes in an expiry that the thread has not served; `softirq`: what became
    /// of its softirq, which was asked for `late` ago. After that nobody asked.
    pub(super) fn take_unserved(&mut self, expiry: Nanos, late: Nanos, softirq: SoftirqFate) {
        match softirq {
            SoftirqFate::Served(activation) => self.take(&activation),
            SoftirqFate::Waiting => self.give_up(expiry, late),
            SoftirqFate::Not => self.lose(LossReason::SignalFailed),
        }
    }

    /// An expiry that the softirq has not got to for `late`, and is given up.
    fn give_up(&mut self, expiry: Nanos, late: Nanos) {
        self.push(expiry, true, true, only_softirq(late));
    }

    pub(super) fn lose(&mut self, reason: LossReason) {
        self.settled += 1;
        self.next_seq += 1;
        self.account.lose(reason);
    }

    fn push(
        &mut self,
        expiry: Nanos,
        missed: bool,
        censored: bool,
        steps: [Option<Nanos>; STAGES.len()],
    ) {
        self.seen.push(Activation {
            line: self.id,
            seq: self.next_seq,
            expiry,
            missed,
            censored,
            steps,
        });
        self.settled += 1;
        self.next_seq += 1;
    }

    /// Moves what has been seen to `into`.
    pub(super) fn drain(&mut self, into: &mut Batch) {
        self.seen.drain(..).for_each(|one| into.push(&one));
    }
}

fn only_softirq(late: Nanos) -> [Option<Nanos>; STAGES.len()] {
    let mut steps = [None; STAGES.len()];
    steps[Stage::Softirq.index()] = Some(late);
    steps
}
