//! Larger CPU share for a thread that reads the rings or writes the recording, while it runs too
//! late.
//!
//! On a machine with many more threads than CPUs, a `SCHED_OTHER` thread can wait longer than a
//! ring lasts. A thread that has waited too long gets a larger share of its CPU, in short turns,
//! until it has run on time for a while. It remains a `SCHED_OTHER` thread. A thread that runs on
//! time is not boosted, because it would delay the `SCHED_OTHER` threads that are measured.

use laggard_model::Nanos;

use super::policy::CpuShare;
use super::{clock, inherited};

/// Maximum absence. After a longer one, the ring of a busy CPU may be overwritten.
const MAX_ABSENCE: Nanos = Nanos::from_ms(400);
/// Maximum wait of data to be written. A kill could lose data that wait longer.
const MAX_WRITE_WAIT: Nanos = Nanos::from_secs(2);
/// Time that a thread must run on time before its boost ends.
const MIN_CALM: Nanos = Nanos::from_secs(10);
/// Share of a boosted thread, 87 times the ordinary share. With 50 busy threads on each CPU, a
/// thread with a period of 200 ms ran 1.3 s late with an ordinary share, 0.7 s late with this
/// share and turns of the usual length, and 27 ms late with these turns.
const URGENT: CpuShare = CpuShare {
    nice: -20,
    turn: Some(Nanos::from_us(100)),
};

/// Boost of the calling thread while it runs too late.
#[derive(Debug, Default)]
pub struct LateBoost {
    last: Option<Nanos>,
    /// Time since which the thread has run on time; `None` if it is not boosted.
    calm_since: Option<Nanos>,
}

/// Resets the calling thread to the CPU share that this program was started with. For threads
/// that a boosted thread may have started.
pub fn take_usual_share() {
    // A smaller share is always allowed, and a thread without a boost is not reset.
    let _ = usual().take();
}

/// Sets nice 0 for the calling thread, if this process may. For threads whose child processes are
/// not part of the measurement.
pub fn take_default_share() {
    let share = CpuShare {
        nice: 0,
        turn: None,
    };
    // Without the right to lower the nice value, it stays the user's.
    let _ = share.take();
}

/// Drops the ambient capabilities of the calling thread, which its child processes would
/// inherit.
pub fn drop_ambient_capabilities() {
    let clear = libc::PR_CAP_AMBIENT_CLEAR_ALL;
    // SAFETY: the call takes numbers and changes only this thread. A kernel before 4.3 does not
    // have ambient capabilities and refuses it.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, clear, 0, 0, 0) };
}

fn usual() -> CpuShare {
    CpuShare {
        nice: inherited::usual_nice(),
        turn: None,
    }
}

impl LateBoost {
    /// Creates the state of a thread that has run on time so far.
    pub const fn new() -> Self {
        Self {
            last: None,
            calm_since: None,
        }
    }

    /// Records a run of a thread that is to run often.
    pub(super) fn note(&mut self) {
        let now = clock::now();
        let last = self.last.replace(now).unwrap_or(now);
        self.take(now, now.saturating_sub(last) > MAX_ABSENCE);
    }

    /// Records that a thread starts work that has waited for `waited`.
    pub fn note_wait(&mut self, waited: Nanos) {
        self.take(clock::now(), waited > MAX_WRITE_WAIT);
    }

    fn take(&mut self, now: Nanos, is_late: bool) {
        if let Some(share) = self.share_at(now, is_late) {
            // Without the right to change it the share stays the same, and losses are counted.
            let _ = share.take();
        }
    }

    /// Returns the share to take when the thread runs at `now`, if it changes.
    fn share_at(&mut self, now: Nanos, is_late: bool) -> Option<CpuShare> {
        let was_hurried = self.calm_since.is_some();
        if is_late {
            self.calm_since = Some(now);
            return (!was_hurried).then_some(URGENT);
        }
        let is_calm = self.calm_since.is_some_and(|since| now >= since + MIN_CALM);
        is_calm.then(|| {
            self.calm_since = None;
            usual()
        })
    }
}

impl Drop for LateBoost {
    /// Threads that are started later would inherit the boost.
    fn drop(&mut self) {
        if self.calm_since.is_some() {
            take_usual_share();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the shares taken by a thread that runs at these times in ms.
    fn shares(times_ms: impl IntoIterator<Item = u64>) -> Vec<(u64, i32)> {
        let mut boost = LateBoost::new();
        let mut last = 0;
        times_ms
            .into_iter()
            .filter_map(|ms| {
                let away = Nanos::from_ms(ms - std::mem::replace(&mut last, ms));
                Some((
                    ms,
                    boost.share_at(Nanos::from_ms(ms), away > MAX_ABSENCE)?.nice,
                ))
            })
            .collect()
    }

    #[test]
    fn thread_on_time_gets_no_boost() {
        assert_eq!(shares((0..100).map(|n| n * 200)), []);
    }

    #[test]
    fn thread_with_work_waiting_for_seconds_is_boosted() {
        let mut boost = LateBoost::new();
        let mut share = |second, waited: Nanos| {
            let share = boost.share_at(Nanos::from_secs(second), waited > MAX_WRITE_WAIT);
            share.map(|share| share.nice)
        };

        assert_eq!(share(1, Nanos::from_ms(1_900)), None);
        assert_eq!(share(3, Nanos::from_ms(2_100)), Some(-20));
        assert_eq!(share(4, Nanos::from_ms(9_000)), None);
        assert_eq!(share(14, Nanos::from_ms(1)), Some(0));
    }

    #[test]
    fn late_thread_is_boosted_until_it_has_been_on_time_for_a_while() {
        let times = [0, 200, 1_500, 1_700, 2_500].into_iter();
        let times = times.chain((0..80).map(|n| 2_700 + n * 200));

        assert_eq!(shares(times), [(1_500, -20), (12_500, 0)]);
    }
}
