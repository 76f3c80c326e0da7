//! Line whose planned expiries are settled in order: served, missed or lost.

use laggard_model::{Account, Activation, Batch, LineId, LossReason, Nanos, STAGES};

/// Planned expiry that was served or missed.
#[derive(Clone, Copy, Debug)]
pub struct SettledExpiry {
    /// Time when it was due.
    pub expiry: Nanos,
    /// See [`Activation::missed`].
    pub missed: bool,
    /// See [`Activation::censored`].
    pub censored: bool,
    /// See [`Activation::steps`].
    pub steps: [Option<Nanos>; STAGES.len()],
}

/// Numbers and activations of a line. Expiries outside the recording are not numbered.
#[derive(Debug)]
pub struct SettledLine {
    pub line: LineId,
    /// Start of the recording.
    begin: Nanos,
    /// End of the recording.
    pub until: Nanos,
    next_seq: u64,
    seen: Vec<Activation>,
    account: Account,
}

impl Default for SettledLine {
    fn default() -> Self {
        Self::new()
    }
}

impl SettledLine {
    /// Creates a line without expiries.
    pub fn new() -> Self {
        Self {
            line: LineId(0),
            begin: Nanos::MAX,
            until: Nanos::MAX,
            next_seq: 0,
            seen: Vec::new(),
            account: Account::default(),
        }
    }

    /// Records and numbers expiries from `begin`, and resets the counts.
    pub fn begin(&mut self, begin: Nanos) {
        self.begin = begin;
        self.next_seq = 0;
        self.seen.clear();
        self.account = Account::default();
    }

    /// Returns the account of the plan.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// Appends the completed activations.
    pub fn drain(&mut self, into: &mut Batch) {
        self.seen
            .drain(..)
            .for_each(|activation| into.push(&activation));
    }

    fn is_recorded(&self, planned: Nanos) -> bool {
        (self.begin..self.until).contains(&planned)
    }

    /// Counts the expiry planned for `planned` as lost.
    pub fn lose(&mut self, planned: Nanos, reason: LossReason) {
        if self.is_recorded(planned) {
            self.account.lose(reason);
            self.next_seq += 1;
        }
    }

    /// Adds the outcome of the expiry planned for `planned`.
    pub fn push(&mut self, planned: Nanos, outcome: SettledExpiry) {
        if !self.is_recorded(planned) {
            return;
        }
        self.seen.push(Activation {
            line: self.line,
            seq: self.next_seq,
            expiry: outcome.expiry,
            missed: outcome.missed,
            censored: outcome.censored,
            steps: outcome.steps,
        });
        self.next_seq += 1;
    }

    /// Counts the whole plan as lost, for a line with this period without any observation.
    #[cfg(target_os = "linux")]
    pub fn lose_all(&mut self, period: Nanos) {
        if self.until > self.begin {
            let planned = self.until.saturating_sub(self.begin).ns() / period.ns().max(1);
            self.account.lost = planned;
            self.account.losses.add(LossReason::Unserved, planned);
            self.next_seq = planned;
        }
    }

    /// Marks the whole plan as settled.
    pub fn close(&mut self) {
        self.account.planned = Some(self.next_seq);
    }
}
