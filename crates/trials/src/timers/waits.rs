//! The two phases of a timer test, and their results.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use laggard_model::{HeldOff, Nanos, PeriodicWait, SingleWait};

use super::{TimerPlan, TimerSystem, held_off};
use crate::random::Random;
use laggard_measure::{Served, TimedWait};

/// Minimum and maximum length of a single wait.
const MIN_MAX_SINGLE: (Nanos, Nanos) = (Nanos::from_ms(1), Nanos::from_ms(3));
/// Minimum time between two single waits.
const MIN_GAP: Nanos = Nanos::from_us(200);
/// Random addition to this time. Together with lengths of 1 to 3 ms, the phases of two waits in a
/// tick of up to 10 ms are almost independent.
const GAP_JITTER: Nanos = Nanos::from_ms(8);
/// Minimum duration of a cycle of single waits.
const MIN_CYCLE: Nanos = Nanos::from_us(1_200);
/// Maximum number of waits per phase.
const MAX_WAITS: u64 = 200_000;
/// Maximum delay in periods. A thread that is later continues with the next expiry that has not
/// passed.
const MAX_PERIODS_BEHIND: u64 = 100;

/// Waits that a thread observed.
#[derive(Debug, Default)]
pub(crate) struct ObservedWaits {
    pub(crate) allowed_slack: Nanos,
    pub(crate) periodic: Vec<PeriodicWait>,
    pub(crate) held_off: Vec<HeldOff>,
    pub(crate) single: Vec<SingleWait>,
    pub(crate) left_out: u64,
}

impl ObservedWaits {
    /// Returns room for all waits in the time of the plan, with all pages present.
    pub(crate) fn for_plan(plan: &TimerPlan, allowed_slack: Nanos) -> Self {
        let half = plan.duration.ns() / 2;
        let most = |cycle: Nanos| (half / cycle.ns().max(1)).saturating_mul(2).min(MAX_WAITS) + 16;
        let no_wait = PeriodicWait {
            due: Nanos::MAX,
            woke: Nanos::MAX,
            follows: false,
        };
        Self {
            allowed_slack,
            periodic: touched(most(plan.period), no_wait),
            held_off: held_off::room(plan),
            single: touched(most(MIN_CYCLE), NO_WAIT),
            left_out: 0,
        }
    }

    /// Removes the waits that overlap these spans. laggard was stopped in them.
    pub(crate) fn without(mut self, stops: &[(Nanos, Nanos)]) -> Self {
        let is_apart = |from: Nanos, to: Nanos| {
            let apart = |stop: &(Nanos, Nanos)| to < stop.0 || stop.1 < from;
            stops.iter().all(apart)
        };
        let before = self.periodic.len() + self.single.len();
        let mut is_whole = true;
        self.periodic.retain_mut(|wait| {
            let is_kept = is_apart(wait.due.min(wait.woke), wait.due.max(wait.woke));
            wait.follows &= is_whole;
            is_whole = is_kept;
            is_kept
        });
        self.single.retain(|wait| is_apart(wait.called, wait.woke));
        self.held_off.retain(|wait| {
            let (Some(&first), Some(&last)) = (wait.woke.first(), wait.woke.last()) else {
                return false;
            };
            is_apart(wait.from, wait.back) && is_apart(first, last)
        });
        let lost = before - self.periodic.len() - self.single.len();
        self.left_out += lost as u64;
        self
    }
}

const NO_WAIT: SingleWait = SingleWait {
    asked: Nanos::MAX,
    called: Nanos::MAX,
    woke: Nanos::MAX,
    is_tight: false,
    reference_late: Nanos::MAX,
};

/// Returns a vector with room for `count` values, with all pages present.
fn touched<T: Copy>(count: u64, filling: T) -> Vec<T> {
    let mut room = vec![filling; usize::try_from(count).unwrap_or(0)];
    room.clear();
    room
}

/// Repeats the same period for half of the time.
pub(super) fn periodic(
    plan: &TimerPlan,
    system: &impl TimerSystem,
    wait: &mut dyn TimedWait,
    end: &AtomicBool,
    seen: &mut ObservedWaits,
) -> io::Result<()> {
    let period = plan.period;
    let half = Nanos::from_ns(plan.duration.ns() / 2);
    let over = system.now() + half.saturating_sub(held_off::length(plan));
    let mut due = wait.begin(system.now() + period, period)?;
    let mut follows = false;
    while seen.periodic.len() < seen.periodic.capacity() && !end.load(Ordering::Relaxed) {
        let called = system.now();
        if called >= over {
            break;
        }
        if !plan.api.keeps_time() {
            due = called + period;
        }
        let result = wait.next(due, period);
        let woke = wait.over_at(system.now());
        let served = match result {
            Ok(served) => served,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {
                seen.left_out += 1;
                follows = false;
                continue;
            }
            Err(err) => return Err(err),
        };
        if served == Served::UnknownCount && woke < due {
            // An expiry that was assumed served came only now.
            due = due.saturating_sub(period * (due.saturating_sub(woke).ns() / period.ns() + 1));
        }
        seen.periodic.push(PeriodicWait { due, woke, follows });
        follows = true;
        due += match served {
            Served::One => period,
            Served::Together(count) => period * count,
            Served::UnknownCount => period * (1 + woke.saturating_sub(due).ns() / period.ns()),
        };
        let behind = woke.saturating_sub(due).ns() / period.ns();
        if served == Served::One && behind >= MAX_PERIODS_BEHIND {
            due += period * (behind + 1);
        }
    }
    wait.end()
}

/// Makes waits of different lengths at different times for the other half.
pub(super) fn single(
    plan: &TimerPlan,
    system: &impl TimerSystem,
    wait: &mut dyn TimedWait,
    end: &AtomicBool,
    seen: &mut ObservedWaits,
) -> io::Result<()> {
    let allowed = system.timer_slack();
    let begin = system.now();
    let over = begin + Nanos::from_ns(plan.duration.ns() / 2);
    let mut random = Random(begin.ns());
    while seen.single.len() < seen.single.capacity() && !end.load(Ordering::Relaxed) {
        let from = system.now();
        if from >= over {
            break;
        }
        system.refuse_timer_slack();
        let start = from + MIN_GAP + random.below(GAP_JITTER);
        system.sleep_until(start);
        let reference_late = system.now().saturating_sub(start);
        let is_tight = random.next() & 1 == 1;
        if !is_tight {
            system.allow_timer_slack(allowed);
        }
        let length =
            MIN_MAX_SINGLE.0 + random.below(MIN_MAX_SINGLE.1.saturating_sub(MIN_MAX_SINGLE.0));
        let called = system.now();
        let result = wait.once(length);
        let woke = wait.over_at(system.now());
        match result {
            Ok(()) => seen.single.push(SingleWait {
                asked: length,
                called,
                woke,
                is_tight,
                reference_late,
            }),
            Err(err) if err.kind() == io::ErrorKind::Interrupted => seen.left_out += 1,
            Err(err) => return Err(err),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use laggard_model::{Cpu, Service, TimerApi};

    use super::*;

    const PERIOD: Nanos = Nanos::from_secs(1_000);
    const HOUR: Nanos = Nanos::from_secs(3_600);

    fn plan(period: Nanos, duration: Nanos) -> TimerPlan {
        TimerPlan {
            api: TimerApi::Timerfd,
            service: Service::Other,
            period,
            duration,
            cpu: Cpu(0),
        }
    }

    /// Machine where only reading the clock and sleeping take time.
    struct SimulatedMachine(Cell<Nanos>);

    impl SimulatedMachine {
        fn new() -> Self {
            Self(Cell::new(Nanos::from_secs(1_000_000)))
        }
    }

    impl TimerSystem for SimulatedMachine {
        fn now(&self) -> Nanos {
            self.0.set(self.0.get() + Nanos::from_us(1));
            self.0.get()
        }

        fn sleep_until(&self, time: Nanos) {
            self.0.set(self.0.get().max(time));
        }

        fn timer_slack(&self) -> Nanos {
            Nanos::ZERO
        }

        fn refuse_timer_slack(&self) {}

        fn allow_timer_slack(&self, _: Nanos) {}
    }

    /// Timer that expires immediately, once for each count of served expiries.
    struct AtOnce<'a>(Vec<Served>, &'a AtomicBool);

    impl TimedWait for AtOnce<'_> {
        fn once(&mut self, _: Nanos) -> io::Result<()> {
            Ok(())
        }

        fn next(&mut self, _: Nanos, _: Nanos) -> io::Result<Served> {
            let served = self.0.remove(0);
            self.1.store(self.0.is_empty(), Ordering::Relaxed);
            Ok(served)
        }
    }

    fn periodic_of(served: &[Served]) -> Vec<PeriodicWait> {
        let plan = plan(PERIOD, HOUR);
        let mut observed = ObservedWaits {
            periodic: Vec::with_capacity(16),
            ..ObservedWaits::default()
        };
        let end = AtomicBool::new(false);
        let mut at_once = AtOnce(served.to_vec(), &end);
        periodic(
            &plan,
            &SimulatedMachine::new(),
            &mut at_once,
            &end,
            &mut observed,
        )
        .unwrap();
        observed.periodic
    }

    /// If only the clock decided, an expiry between the end of the wait and the reading of the
    /// clock would count as served, and every later expiry would be early.
    #[test]
    fn next_due_time_follows_the_number_of_served_expiries() {
        let served = [
            Served::Together(1),
            Served::Together(3),
            Served::Together(1),
            Served::One,
            Served::One,
        ];

        let waits = periodic_of(&served);

        let after = |wait: &PeriodicWait| wait.due.saturating_sub(waits[0].due).ns() / PERIOD.ns();
        let dues: Vec<u64> = waits.iter().map(after).collect();
        assert_eq!(dues, [0, 1, 4, 5, 6]);
        assert!(!waits[0].follows && waits[1..].iter().all(|wait| wait.follows));
    }

    #[test]
    fn expiry_is_never_served_early_if_the_count_is_unknown() {
        for wait in periodic_of(&[Served::UnknownCount; 5]) {
            let late = Nanos::between(wait.due, wait.woke);

            assert!(late.is_some_and(|late| late < PERIOD), "{wait:?}");
        }
    }

    #[test]
    fn wait_during_a_stop_is_removed_and_the_next_does_not_follow_it() {
        let wait_at = |ms: u64| PeriodicWait {
            due: Nanos::from_ms(ms),
            woke: Nanos::from_ms(ms),
            follows: true,
        };
        let round = |ms: u64| HeldOff {
            from: Nanos::from_ms(ms),
            back: Nanos::from_ms(ms + 1),
            woke: vec![Nanos::from_ms(ms + 2)],
            told: None,
        };
        let observed = ObservedWaits {
            allowed_slack: Nanos::ZERO,
            periodic: [1, 2, 3, 4, 5].map(wait_at).to_vec(),
            held_off: vec![round(2), round(6)],
            single: vec![NO_WAIT],
            left_out: 1,
        };

        let left = observed.without(&[(Nanos::from_us(2_500), Nanos::from_us(3_500))]);

        let follows: Vec<bool> = left.periodic.iter().map(|wait| wait.follows).collect();
        assert_eq!(follows, [true, true, false, true]);
        assert_eq!((left.left_out, left.single.len()), (2, 1));
        assert_eq!(left.held_off, [round(6)]);
    }

    /// As after a pause of the machine: serving every passed expiry would wait for times long
    /// past.
    #[test]
    fn thread_far_behind_continues_with_the_next_future_expiry() {
        /// The first wait ends 1,000 periods late.
        struct Stopped<'a>(u32, Served, &'a SimulatedMachine);
        impl TimedWait for Stopped<'_> {
            fn once(&mut self, _: Nanos) -> io::Result<()> {
                Ok(())
            }

            fn next(&mut self, due: Nanos, period: Nanos) -> io::Result<Served> {
                self.0 += 1;
                let behind = if self.0 == 1 { 1_000 } else { 0 };
                self.2.sleep_until(due + period * behind);
                Ok(self.1)
            }
        }
        for served in [Served::One, Served::UnknownCount] {
            let period = Nanos::from_us(50);
            let plan = plan(period, HOUR);
            let mut observed = ObservedWaits {
                periodic: Vec::with_capacity(2),
                ..ObservedWaits::default()
            };
            let end = AtomicBool::new(false);
            let machine = SimulatedMachine::new();

            let mut stopped = Stopped(0, served, &machine);
            periodic(&plan, &machine, &mut stopped, &end, &mut observed).unwrap();

            let [first, second] = observed.periodic[..] else {
                panic!("{observed:?}");
            };
            assert!(second.due > first.woke, "{observed:?}");
            let apart = second.due.saturating_sub(first.due).ns();
            assert_eq!(apart % period.ns(), 0, "{observed:?}");
            // Not later than the next expiry: an expiry that has not passed would be skipped.
            assert!(second.due <= first.woke + period, "{observed:?}");
        }
    }

    #[test]
    fn half_of_the_single_waits_have_no_slack_and_all_are_within_their_range() {
        let plan = plan(PERIOD, HOUR);
        let mut observed = ObservedWaits {
            single: Vec::with_capacity(40),
            ..ObservedWaits::default()
        };

        let end = AtomicBool::new(false);
        let mut at_once = AtOnce(Vec::new(), &end);
        single(
            &plan,
            &SimulatedMachine::new(),
            &mut at_once,
            &end,
            &mut observed,
        )
        .unwrap();

        assert_eq!(observed.single.len(), 40);
        let tight = observed.single.iter().filter(|wait| wait.is_tight).count();
        // Outside this range by chance once in a hundred million runs.
        assert!((3..=37).contains(&tight), "{tight}");
        let range = MIN_MAX_SINGLE.0..MIN_MAX_SINGLE.1;
        assert!(
            observed
                .single
                .iter()
                .all(|wait| range.contains(&wait.asked))
        );
        let called = observed
            .single
            .windows(2)
            .map(|two| (two[0].woke, two[1].called));
        for (before, next) in called {
            assert!(next.saturating_sub(before) >= MIN_GAP, "{before} {next}");
        }
    }

    #[test]
    fn room_fits_every_wait_of_the_plan() {
        let room = |period, duration| {
            ObservedWaits::for_plan(&plan(period, duration), Nanos::ZERO)
                .periodic
                .capacity() as u64
        };

        let half_of_ten_seconds = room(Nanos::from_ms(1), Nanos::from_secs(10));
        assert!((5_000..20_000).contains(&half_of_ten_seconds));
        let hour = room(Nanos::from_us(1), HOUR);
        assert!((MAX_WAITS..2 * MAX_WAITS).contains(&hour), "{hour}");
    }
}
