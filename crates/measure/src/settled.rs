//! A line whose planned expiries are settled one after the other: served, missed or lost.

use laggard_model::{Account, Activation, Batch, LineId, LossReason, Nanos, STAGES};

/// What became of a planned expiry that was not lost.
#[derive(Clone, Copy, Debug)]
pub struct SettledExpiry {
    /// When it was due.
    pub expiry: Nanos,
    /// See [`Activation::missed`].
    pub missed: bool,
    /// See [`Activation::censored`].
    pub censored: bool,
    /// See [`Activation::steps`].
    pub steps: [Option<Nanos>; STAGES.len()],
}

/// The numbers and activations of a line. What is due outside of what is recorded is not
/// numbered.
#[derive(Debug)]
pub struct SettledLine {
    pub line: LineId,
    /// Expiries before this instant are not recorded.
    begin: Nanos,
    /// Nor are expiries from this instant on.
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
    /// Nothing settled, nothing recorded.
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

    /// Records and numbers what is due from `begin` on, and forgets what was counted.
    pub fn begin(&mut self, begin: Nanos) {
        self.begin = begin;
        self.next_seq = 0;
        self.seen.clear();
        self.account = Account::default();
    }

    /// What became of the plan.
    pub const fn account(&self) -> Account {
        self.account
    }

    /// Hands over what is complete.
    pub fn drain(&mut self, into: &mut Batch) {
        self.seen.drain(..).for_each(|one| into.push(&one));
    }

    fn is_recorded(&self, planned: Nanos) -> bool {
        (self.begin..self.until).contains(&planned)
    }

    /// What was planned for then is lost.
    pub fn lose(&mut self, planned: Nanos, reason: LossReason) {
        if self.is_recorded(planned) {
            self.account.lose(reason);
            self.next_seq += 1;
        }
    }

    /// What was planned for then came.
    pub fn push(&mut self, planned: Nanos, one: SettledExpiry) {
        if !self.is_recorded(planned) {
            return;
        }
        self.seen.push(Activation {
            line: self.line,
            seq: self.next_seq,
            expiry: one.expiry,
            missed: one.missed,
            censored: one.censored,
            steps: one.steps,
        });
        self.next_seq += 1;
    }

    /// Nothing was ever seen of a line with this period: all that was planned is lost.
    #[cfg(target_os = "linux")]
    pub fn lose_all(&mut self, period: Nanos) {
        if self.until > self.begin {
            let planned = self.until.saturating_sub(self.begin).ns() / period.ns().max(1);
            self.account.lost = planned;
            self.account.losses.add(LossReason::Unserved, planned);
            self.next_seq = planned;
        }
    }

    /// All that was planned is settled.
    pub fn close(&mut self) {
        self.account.planned = Some(self.next_seq);
    }
}
