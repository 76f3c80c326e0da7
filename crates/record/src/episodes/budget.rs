//! Limit on the number of kept late wakeups, shared among lines.

use laggard_model::Nanos;

const MINUTE: f64 = 60.0;
/// Number of minutes of the limit that may be kept at once. A recording of a few
/// minutes then has trace data of nearly all late wakeups, and a long one stays within
/// the limit.
const MINUTES_AT_ONCE: f64 = 10.0;
/// Minimum room; with less, no activation would ever be kept.
const MIN_ROOM: f64 = 2.0;

/// Room for late wakeups. A line may use at most the amount that is free at that time.
///
/// The rule comes from a shared packet buffer (Choudhury & Hahne 1998, "Dynamic Queue Length
/// Thresholds for Shared-Memory Packet Switches", section III, with alpha = 1). n lines that always
/// ask hold 1 / (n + 1) of the room each, so the same amount is free for a line that was quiet.
/// Late wakeups of a line therefore find room next to any number of noisy lines. The held room
/// decays with time. At that rate, a full room gives the limit.
#[derive(Debug)]
pub(super) struct Budget {
    room: f64,
    /// Time constant of the decay, s.
    decay_s: f64,
    all: HeldRoom,
    lines: Vec<HeldRoom>,
}

/// Held room at a time.
#[derive(Clone, Copy, Debug, Default)]
struct HeldRoom {
    amount: f64,
    at: Nanos,
}

impl HeldRoom {
    /// Returns the held room at `now`. Lines are read one after the other, so `now` can
    /// be earlier than the previous time. No room has decayed then.
    fn at(&mut self, now: Nanos, decay_s: f64) -> f64 {
        if let Some(passed) = Nanos::between(self.at, now) {
            self.amount *= (-passed.as_secs_f64() / decay_s).exp();
            self.at = now;
        }
        self.amount
    }
}

impl Budget {
    /// Creates a budget for `lines` lines that together keep at most `per_minute` in
    /// the long run; 0 does not keep any.
    pub(super) fn new(lines: usize, per_minute: u64) -> Self {
        let limit = per_minute as f64;
        let room = match per_minute {
            0 => 0.0,
            _ => (limit * MINUTES_AT_ONCE).max(MIN_ROOM),
        };
        Self {
            room,
            decay_s: room * MINUTE / limit.max(1.0),
            all: HeldRoom::default(),
            lines: vec![HeldRoom::default(); lines],
        }
    }

    /// Takes room for an activation of `line` at `now`, if there is any.
    pub(super) fn take(&mut self, line: usize, now: Nanos) -> bool {
        if self.room == 0.0 {
            return false;
        }
        let free = self.room - self.all.at(now, self.decay_s);
        let Some(own) = self.lines.get_mut(line) else {
            return false;
        };
        let has_room = own.at(now, self.decay_s) + 1.0 <= free;
        if has_room {
            own.amount += 1.0;
            self.all.amount += 1.0;
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of kept activations per line if the first `noisy` lines ask
    /// every millisecond, for `seconds`.
    fn kept(noisy: usize, lines: usize, per_minute: u64, seconds: u64) -> Vec<u64> {
        let mut budget = Budget::new(lines, per_minute);
        let mut kept = vec![0; lines];
        for ms in 0..seconds * 1_000 {
            for (line, kept) in kept.iter_mut().enumerate().take(noisy) {
                *kept += u64::from(budget.take(line, Nanos::from_ms(ms)));
            }
        }
        kept
    }

    #[test]
    fn busy_lines_get_equal_shares_within_the_limit() {
        for noisy in [1, 3, 10] {
            let kept = kept(noisy, 12, 600, 120);

            let total: u64 = kept.iter().sum();
            assert!(total <= 2 * 600 + 6_000, "{noisy}: {total}");
            let (least, most) = (kept[..noisy].iter().min(), kept[..noisy].iter().max());
            assert!(most.unwrap() - least.unwrap() <= 2, "{noisy}: {kept:?}");
            assert!(total >= 600, "{noisy}: {total}");
        }
    }

    #[test]
    fn quiet_line_finds_room_next_to_noisy_ones() {
        for noisy in [1, 5, 15] {
            let mut budget = Budget::new(noisy + 1, 600);
            for ms in 0..30_000 {
                for line in 0..noisy {
                    budget.take(line, Nanos::from_ms(ms));
                }
            }

            let now = Nanos::from_secs(30);
            assert!(budget.take(noisy, now), "{noisy}");
            assert!(!budget.take(0, now) || !budget.take(0, now), "{noisy}");
        }
    }

    #[test]
    fn limit_of_one_keeps_five_at_once_and_limit_of_zero_none() {
        assert_eq!(kept(1, 1, 1, 1), [5]);
        assert!(kept(1, 1, 0, 1) == [0]);
    }
}
