//! A larger share of the CPU for whoever reads the rings, or writes what came,
//! while it comes too late.
//!
//! On a machine with many more threads than CPUs a normal thread can stay
//! away for longer than a ring lasts. So a thread that stayed away too long
//! gets a larger share of its CPU, in short turns, until it has come in time
//! for a while. It stays a normal thread, and where it comes in time by itself
//! it has no advantage: it would delay the normal threads that are measured.

use laggard_model::Nanos;

use super::policy::CpuShare;
use super::{clock, inherited};

/// Staying away longer risks that a busy CPU's ring is overwritten.
const TOO_LONG: Nanos = Nanos::from_ms(400);
/// What waits longer than this to be written could be lost by a kill.
const WAITS_TOO_LONG: Nanos = Nanos::from_secs(2);
/// How long it must have come in time to be as before.
const CALM: Nanos = Nanos::from_secs(10);
/// The share meanwhile, 87 times an ordinary thread's. Beside 50 busy threads
/// on each CPU, a thread that comes every 200 ms came 1.3 s late with an
/// ordinary share, 0.7 s with this share and turns of the usual length, and
/// 27 ms with these turns.
const URGENT: CpuShare = CpuShare {
    nice: -20,
    turn: Some(Nanos::from_us(100)),
};

/// Boosts the calling thread while it comes too late.
#[derive(Debug, Default)]
pub struct LateBoost {
    last: Option<Nanos>,
    /// Since when it comes in time; `None`: it is not boosted.
    calm_since: Option<Nanos>,
}

/// Gives the calling thread the share of a CPU that this program was started
/// with. For threads that a boosted thread may have started.
pub fn take_usual_share() {
    // Less is always allowed, and who never had more has nothing to give back.
    let _ = usual().take();
}

fn usual() -> CpuShare {
    CpuShare {
        nice: inherited::usual_nice(),
        turn: None,
    }
}

impl LateBoost {
    /// Of a thread that comes in time so far.
    pub const fn new() -> Self {
        Self {
            last: None,
            calm_since: None,
        }
    }

    /// To be called whenever a thread comes that is to come often.
    pub(super) fn note(&mut self) {
        let now = clock::now();
        let last = self.last.replace(now).unwrap_or(now);
        self.take(now, now.saturating_sub(last) > TOO_LONG);
    }

    /// To be called whenever a thread begins with work that waited for so long.
    pub fn note_wait(&mut self, waited: Nanos) {
        self.take(clock::now(), waited > WAITS_TOO_LONG);
    }

    fn take(&mut self, now: Nanos, is_late: bool) {
        if let Some(share) = self.share_at(now, is_late) {
            // Without the right it stays as it is, and losses are counted.
            let _ = share.take();
        }
    }

    /// The share to take on coming at `now`, where it changes.
    fn share_at(&mut self, now: Nanos, is_late: bool) -> Option<CpuShare> {
        let was_hurried = self.calm_since.is_some();
        if is_late {
            self.calm_since = Some(now);
            return (!was_hurried).then_some(URGENT);
        }
        let is_calm = self.calm_since.is_some_and(|since| now >= since + CALM);
        is_calm.then(|| {
            self.calm_since = None;
            usual()
        })
    }
}

impl Drop for LateBoost {
    /// What the thread starts later would inherit its advantage.
    fn drop(&mut self) {
        if self.calm_since.is_some() {
            take_usual_share();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares taken by a thread that comes at these times, ms.
    fn shares(times_ms: impl IntoIterator<Item = u64>) -> Vec<(u64, i32)> {
        let mut boost = LateBoost::new();
        let mut last = 0;
        times_ms
            .into_iter()
            .filter_map(|ms| {
                let away = Nanos::from_ms(ms - std::mem::replace(&mut last, ms));
                Some((
                    ms,
                    boost.share_at(Nanos::from_ms(ms), away > TOO_LONG)?.nice,
                ))
            })
            .collect()
    }

    #[test]
    fn who_comes_in_time_has_no_advantage() {
        assert_eq!(shares((0..100).map(|n| n * 200)), []);
    }

    #[test]
    fn whose_work_waits_for_seconds_is_hurried() {
        let mut boost = LateBoost::new();
        let mut share = |second, waited: Nanos| {
            let share = boost.share_at(Nanos::from_secs(second), waited > WAITS_TOO_LONG);
            share.map(|share| share.nice)
        };

        assert_eq!(share(1, Nanos::from_ms(1_900)), None);
        assert_eq!(share(3, Nanos::from_ms(2_100)), Some(-20));
        assert_eq!(share(4, Nanos::from_ms(9_000)), None);
        assert_eq!(share(14, Nanos::from_ms(1)), Some(0));
    }

    #[test]
    fn who_stayed_away_is_hurried_until_it_has_been_calm() {
        let times = [0, 200, 1_500, 1_700, 2_500].into_iter();
        let times = times.chain((0..80).map(|n| 2_700 + n * 200));

        assert_eq!(shares(times), [(1_500, -20), (12_500, 0)]);
    }
}
