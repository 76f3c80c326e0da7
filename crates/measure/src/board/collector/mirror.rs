//! Line of the softirq, if the timer descriptor of a thread serves it.

use laggard_model::{Account, Activation, Batch, LineId, LossReason, Nanos, STAGES, Stage};

/// Line of the softirq, if the timer descriptor of a thread serves it. The activations of the
/// thread show when the softirq ran. Its plan is the plan of the thread.
#[derive(Debug)]
pub struct Mirror {
    pub id: LineId,
    next_seq: u64,
    last_softirq: Nanos,
    seen: Vec<Activation>,
    account: Account,
    /// Number of settled expiries.
    settled: u64,
}

/// Fate of the softirq of an expiry that its thread has not served.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a value exists only briefly, at the end"
)]
pub(super) enum SoftirqFate {
    Served(Activation),
    /// The softirq has not run for this expiry or for the one before.
    Waiting,
    /// No thread armed its timer.
    Not,
}

impl Mirror {
    /// Creates the mirror of line `id` without activations.
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

    /// Returns the account of the line's plan.
    pub const fn account(&self) -> Account {
        self.account
    }

    pub(super) fn begin_again(&mut self) {
        (self.next_seq, self.settled) = (0, 0);
        self.account = Account::default();
    }

    /// Marks the end of the input.
    pub(super) const fn close(&mut self) {
        self.account.planned = Some(self.settled);
    }

    /// Adds an activation of the thread, served or missed. If the thread missed it, the softirq
    /// missed it too unless the softirq had not run before; otherwise no thread had armed its
    /// timer.
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

    /// Adds an expiry that the thread has not served. `softirq` is the fate of its softirq, which
    /// was requested `late` ago. No later expiry was requested.
    pub(super) fn take_unserved(&mut self, expiry: Nanos, late: Nanos, softirq: SoftirqFate) {
        match softirq {
            SoftirqFate::Served(activation) => self.take(&activation),
            SoftirqFate::Waiting => self.give_up(expiry, late),
            SoftirqFate::Not => self.lose(LossReason::SignalFailed),
        }
    }

    /// Gives up an expiry that the softirq has not reached for `late`.
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

    /// Moves the collected activations to `into`.
    pub(super) fn drain(&mut self, into: &mut Batch) {
        self.seen
            .drain(..)
            .for_each(|activation| into.push(&activation));
    }
}

fn only_softirq(late: Nanos) -> [Option<Nanos>; STAGES.len()] {
    let mut steps = [None; STAGES.len()];
    steps[Stage::Softirq.index()] = Some(late);
    steps
}
