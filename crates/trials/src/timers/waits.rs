//! The two phases in which a timer is tried, and what is seen of it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use laggard_model::{HeldOff, Nanos, PeriodicWait, SingleWait};

use super::{TimerPlan, TimerSystem, held_off};
use crate::random::Random;
use laggard_measure::{Served, TimedWait};

/// Single waits are for such times.
const SINGLE: (Nanos, Nanos) = (Nanos::from_ms(1), Nanos::from_ms(3));
/// Between two single waits there is at least this much,
const GAP: Nanos = Nanos::from_us(200);
/// and up to so much more. With times of 1 to 3 ms besides, two waits tell next
/// to nothing of each other's phase in a tick of up to 10 ms.
const GAP_MORE: Nanos = Nanos::from_ms(8);
/// A cycle of single waits takes at least this long.
const LEAST_CYCLE: Nanos = Nanos::from_us(1_200);
/// No timer is asked for more waits in a phase.
const MOST_WAITS: u64 = 200_000;
/// Who is behind by so many periods goes on with the next that is not past.
const MOST_BEHIND: u64 = 100;

/// What a thread saw.
#[derive(Debug, Default)]
pub(crate) struct WaitsSeen {
    pub(crate) allowed_slack: Nanos,
    pub(crate) periodic: Vec<PeriodicWait>,
    pub(crate) held_off: Vec<HeldOff>,
    pub(crate) single: Vec<SingleWait>,
    pub(crate) left_out: u64,
}

impl WaitsSeen {
    /// With room for as many as there is time for, whose pages are there.
    pub(crate) fn for_plan(plan: &TimerPlan, allowed_slack: Nanos) -> Self {
        let half = plan.duration.ns() / 2;
        let most = |cycle: Nanos| (half / cycle.ns().max(1)).saturating_mul(2).min(MOST_WAITS) + 16;
        let no_wait = PeriodicWait {
            due: Nanos::MAX,
            woke: Nanos::MAX,
            follows: false,
        };
        Self {
            allowed_slack,
            periodic: touched(most(plan.period), no_wait),
            held_off: held_off::room(plan),
            single: touched(most(LEAST_CYCLE), NO_WAIT),
            left_out: 0,
        }
    }

    /// Without what falls into these spans, in which laggard was stopped.
    pub(crate) fn without(mut self, stops: &[(Nanos, Nanos)]) -> Self {
        let is_apart = |from: Nanos, to: Nanos| {
            let apart = |stop: &(Nanos, Nanos)| to < stop.0 || stop.1 < from;
            stops.iter().all(apart)
        };
        let before = self.periodic.len() + self.single.len();
        let mut is_whole = true;
        self.periodic.retain_mut(|one| {
            let is_kept = is_apart(one.due.min(one.woke), one.due.max(one.woke));
            one.follows &= is_whole;
            is_whole = is_kept;
            is_kept
        });
        self.single.retain(|one| is_apart(one.called, one.woke));
        self.held_off.retain(|one| {
            let (Some(&first), Some(&last)) = (one.woke.first(), one.woke.last()) else {
                return false;
            };
            is_apart(one.from, one.back) && is_apart(first, last)
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

/// Room for `count`, whose pages are there.
fn touched<T: Copy>(count: u64, filling: T) -> Vec<T> {
    let mut room = vec![filling; usize::try_from(count).unwrap_or(0)];
    room.clear();
    room
}

/// The same period again and again, for half of the time.
pub(super) fn periodic(
    plan: &TimerPlan,
    system: &impl TimerSystem,
    wait: &mut dyn TimedWait,
    end: &AtomicBool,
    seen: &mut WaitsSeen,
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
        if served == Served::Untold && woke < due {
            // What was taken for served came only now.
            due = due.saturating_sub(period * (due.saturating_sub(woke).ns() / period.ns() + 1));
        }
        seen.periodic.push(PeriodicWait { due, woke, follows });
        follows = true;
        due += match served {
            Served::One => period,
            Served::Together(count) => period * count,
            Served::Untold => period * (1 + woke.saturating_sub(due).ns() / period.ns()),
        };
        let behind = woke.saturating_sub(due).ns() / period.ns();
        if served == Served::One && behind >= MOST_BEHIND {
            due += period * (behind + 1);
        }
    }
    wait.end()
}

/// Times and instants that differ, for the other half.
pub(super) fn single(
    plan: &TimerPlan,
    system: &impl TimerSystem,
    wait: &mut dyn TimedWait,
    end: &AtomicBool,
    seen: &mut WaitsSeen,
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
        let at = from + GAP + random.below(GAP_MORE);
        system.sleep_until(at);
        let reference_late = system.now().saturating_sub(at);
        let is_tight = random.next() & 1 == 1;
        if !is_tight {
            system.allow_timer_slack(allowed);
        }
        let asked = SINGLE.0 + random.below(SINGLE.1.saturating_sub(SINGLE.0));
        let called = system.now();
        let result = wait.once(asked);
        let woke = wait.over_at(system.now());
        match result {
            Ok(()) => seen.single.push(SingleWait {
                asked,
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

    /// A machine on which only reading the clock and sleeping take time.
    struct Simulated(Cell<Nanos>);

    impl Simulated {
        fn new() -> Self {
            Self(Cell::new(Nanos::from_secs(1_000_000)))
        }
    }

    impl TimerSystem for Simulated {
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

    /// Comes at once, as often as it has something to tell of what it served.
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
        let mut seen = WaitsSeen {
            periodic: Vec::with_capacity(16),
            ..WaitsSeen::default()
        };
        let end = AtomicBool::new(false);
        let mut at_once = AtOnce(served.to_vec(), &end);
        periodic(&plan, &Simulated::new(), &mut at_once, &end, &mut seen).unwrap();
        seen.periodic
    }

    /// By the clock alone, what expired between the wait's end and the clock's
    /// reading would be taken for served, and every expiry after it be early.
    #[test]
    fn what_is_due_next_is_told_by_how_many_expiries_were_served() {
        let served = [
            Served::Together(1),
            Served::Together(3),
            Served::Together(1),
            Served::One,
            Served::One,
        ];

        let seen = periodic_of(&served);

        let after = |one: &PeriodicWait| one.due.saturating_sub(seen[0].due).ns() / PERIOD.ns();
        let dues: Vec<u64> = seen.iter().map(after).collect();
        assert_eq!(dues, [0, 1, 4, 5, 6]);
        assert!(!seen[0].follows && seen[1..].iter().all(|one| one.follows));
    }

    #[test]
    fn where_it_is_not_told_nothing_is_served_before_it_is_due() {
        for one in periodic_of(&[Served::Untold; 5]) {
            let late = Nanos::between(one.due, one.woke);

            assert!(late.is_some_and(|late| late < PERIOD), "{one:?}");
        }
    }

    #[test]
    fn what_falls_into_a_stop_is_left_out_and_the_next_does_not_follow_it() {
        let at = |ms: u64| PeriodicWait {
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
        let seen = WaitsSeen {
            allowed_slack: Nanos::ZERO,
            periodic: [1, 2, 3, 4, 5].map(at).to_vec(),
            held_off: vec![round(2), round(6)],
            single: vec![NO_WAIT],
            left_out: 1,
        };

        let left = seen.without(&[(Nanos::from_us(2_500), Nanos::from_us(3_500))]);

        let follows: Vec<bool> = left.periodic.iter().map(|one| one.follows).collect();
        assert_eq!(follows, [true, true, false, true]);
        assert_eq!((left.left_out, left.single.len()), (2, 1));
        assert_eq!(left.held_off, [round(6)]);
    }

    /// As after the machine stood still: to go through all of them would ask for
    /// what is long past.
    #[test]
    fn who_is_far_behind_goes_on_with_what_is_not_past() {
        /// The first wait ends 1,000 periods late.
        struct Stopped<'a>(u32, Served, &'a Simulated);
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
        for served in [Served::One, Served::Untold] {
            let period = Nanos::from_us(50);
            let plan = plan(period, HOUR);
            let mut seen = WaitsSeen {
                periodic: Vec::with_capacity(2),
                ..WaitsSeen::default()
            };
            let end = AtomicBool::new(false);
            let machine = Simulated::new();

            let mut stopped = Stopped(0, served, &machine);
            periodic(&plan, &machine, &mut stopped, &end, &mut seen).unwrap();

            let [first, second] = seen.periodic[..] else {
                panic!("{seen:?}");
            };
            assert!(second.due > first.woke, "{seen:?}");
            let apart = second.due.saturating_sub(first.due).ns();
            assert_eq!(apart % period.ns(), 0, "{seen:?}");
            // Not more than the next: what was not past would be left out.
            assert!(second.due <= first.woke + period, "{seen:?}");
        }
    }

    #[test]
    fn about_half_of_the_single_waits_are_without_slack_and_all_within_their_range() {
        let plan = plan(PERIOD, HOUR);
        let mut seen = WaitsSeen {
            single: Vec::with_capacity(40),
            ..WaitsSeen::default()
        };

        let end = AtomicBool::new(false);
        let mut at_once = AtOnce(Vec::new(), &end);
        single(&plan, &Simulated::new(), &mut at_once, &end, &mut seen).unwrap();

        assert_eq!(seen.single.len(), 40);
        let tight = seen.single.iter().filter(|one| one.is_tight).count();
        // By chance beyond one in a hundred million times.
        assert!((3..=37).contains(&tight), "{tight}");
        let range = SINGLE.0..SINGLE.1;
        assert!(seen.single.iter().all(|one| range.contains(&one.asked)));
        let called = seen
            .single
            .windows(2)
            .map(|two| (two[0].woke, two[1].called));
        for (before, next) in called {
            assert!(next.saturating_sub(before) >= GAP, "{before} {next}");
        }
    }

    #[test]
    fn there_is_room_for_every_wait_that_there_is_time_for() {
        let room = |period, duration| {
            WaitsSeen::for_plan(&plan(period, duration), Nanos::ZERO)
                .periodic
                .capacity() as u64
        };

        let half_of_ten_seconds = room(Nanos::from_ms(1), Nanos::from_secs(10));
        assert!((5_000..20_000).contains(&half_of_ten_seconds));
        let hour = room(Nanos::from_us(1), HOUR);
        assert!((MOST_WAITS..2 * MOST_WAITS).contains(&hour), "{hour}");
    }
}
