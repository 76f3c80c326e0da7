//! ISR latency and ISR dispatch latency: from a thread's last instruction to the
//! handler's first, and from the handler's last to the thread's next; and how many
//! interrupts a device may ask for.

use laggard_model::text::{Unit, count, percent};
use laggard_model::{InterruptSeen, InterruptSource, InterruptsSeen, Nanos, RtosCriterion};
use schemars::JsonSchema;
use serde::Serialize;

use super::preemption::longest_known;
use super::{RtosRow, RtosVerdict};

/// Fewer interrupts decide nothing.
const ENOUGH: usize = 100;
/// The level that is told, of so many interrupts in all who reach it, and how many
/// of them there have to be.
const LEVELS: [(f64, usize); 2] = [(0.999, 1_000), (0.99, ENOUGH)];
const SECOND_NS: f64 = 1e9;

/// What was seen of interrupts.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct InterruptFigures {
    /// Interrupts that were seen whole.
    pub interrupts: usize,
    /// Those that came too close to another, or whose times do not agree; in no other
    /// figure.
    pub unkept: u64,
    /// Of how many the thread that computed was not what they interrupted: a softirq or
    /// another thread was.
    pub of_others: usize,
    /// What made them, and whether that has a clock of its own.
    pub source: String,
    /// The same in a few words.
    #[serde(skip)]
    pub(super) by: &'static str,
    /// From one reading of the clock to the next: nothing is known to be shorter.
    pub reading_ns: Nanos,
    /// The quantile that `level_ns` is.
    pub level: Option<f64>,
    /// From the thread's last instruction to the handler's first.
    pub latency: InterruptTimes,
    /// From the handler's first instruction to its last: here it does next to nothing.
    pub handler: InterruptTimes,
    /// From the handler's last instruction to the thread's next.
    pub dispatch: InterruptTimes,
    /// The highest rate that a device with such a handler may ask for: 1 / (level of
    /// the ISR latency + level of the handler).
    pub highest_rate_hz: Option<f64>,
    /// How many were begun, or left, later than they may.
    pub late: usize,
    /// How many of these were because of the hypervisor: without what it took they
    /// were not.
    pub late_stolen: usize,
    /// Of how many of these that cannot be told.
    pub late_untold: usize,
    /// What the hypervisor took of the CPU in all this time, in the system's steps.
    pub stolen_ns: Option<Nanos>,
}

/// Times of one part of all interrupts.
#[derive(Clone, Copy, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct InterruptTimes {
    /// Half of them are no longer.
    pub median_ns: Option<Nanos>,
    /// So long at most are as many as `level` says; absent where there are too few.
    pub level_ns: Option<Nanos>,
    /// The longest.
    pub largest_ns: Option<Nanos>,
    /// The longest without what the hypervisor took from the thread's last instruction
    /// to its next; absent where its clock cannot be read.
    pub largest_net_ns: Option<Nanos>,
}

impl InterruptTimes {
    fn of(times: impl Iterator<Item = (Nanos, Option<Nanos>)>, level: Option<f64>) -> Self {
        let (mut all, nets): (Vec<Nanos>, Vec<Option<Nanos>>) = times
            .map(|(time, stolen)| (time, stolen.map(|stolen| time.saturating_sub(stolen))))
            .unzip();
        all.sort_unstable();
        Self {
            median_ns: at(&all, 0.5),
            level_ns: level.and_then(|level| at(&all, level)),
            largest_ns: all.last().copied(),
            largest_net_ns: longest_known(nets.into_iter()),
        }
    }
}

/// The smallest of the sorted that a share of `quantile` is not above.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a place among few"
)]
fn at(sorted: &[Nanos], quantile: f64) -> Option<Nanos> {
    let place = (sorted.len() as f64 * quantile).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}

/// Of the interrupts, with `within` as the longest that each way may take.
pub(super) fn figures(seen: &InterruptsSeen, within: Nanos) -> InterruptFigures {
    let all = &seen.interrupts;
    let level = LEVELS.iter().find(|(_, enough)| all.len() >= *enough);
    let level = level.map(|(level, _)| *level);
    let of = |time: fn(&InterruptSeen) -> Option<Nanos>| {
        let times = all.iter().filter_map(|it| Some((time(it)?, it.stolen)));
        InterruptTimes::of(times, level)
    };
    let (latency, handler, dispatch) = (
        of(|it| Some(it.latency)),
        of(|it| Some(it.handler)),
        of(|it| it.dispatch),
    );
    let longest = |it: &InterruptSeen| it.latency.max(it.dispatch.unwrap_or_default());
    let late = || all.iter().filter(|it| longest(it) > within);
    let stolen = late().filter(|it| {
        it.stolen
            .is_some_and(|stolen| longest(it).saturating_sub(stolen) <= within)
    });
    let unread = late().filter(|it| it.stolen.is_none());
    let most = late().map(longest).max();
    let counted = seen.stolen.zip(most);
    let may_be_stolen = counted.is_some_and(|(stolen, longest)| stolen.allows(longest));
    InterruptFigures {
        interrupts: all.len(),
        unkept: seen.unkept,
        of_others: all.iter().filter(|it| !it.is_of_thread).count(),
        source: match seen.source {
            InterruptSource::Cpu => {
                "another CPU, at instants of its timer (reads of a counter); not an external clock"
            }
            InterruptSource::Hpet => "/dev/hpet, a timer with a clock of its own",
        }
        .into(),
        by: match seen.source {
            InterruptSource::Cpu => "another CPU, not an external clock",
            InterruptSource::Hpet => "/dev/hpet, a clock of its own",
        },
        reading_ns: seen.reading,
        level,
        highest_rate_hz: highest_rate(&latency, &handler),
        latency,
        handler,
        dispatch,
        late: late().count(),
        late_stolen: stolen.count(),
        late_untold: match may_be_stolen {
            true => unread.count(),
            false => 0,
        },
        stolen_ns: seen.stolen.map(|stolen| stolen.time),
    }
}

fn highest_rate(latency: &InterruptTimes, handler: &InterruptTimes) -> Option<f64> {
    let both = latency.level_ns? + handler.level_ns?;
    (both > Nanos::ZERO).then(|| SECOND_NS / both.as_f64())
}

pub(super) fn row(figures: &InterruptFigures, within: Nanos) -> RtosRow {
    let (verdict, because) = judged(figures, within);
    RtosRow {
        criterion: RtosCriterion::Interrupts,
        verdict,
        because,
        absence: None,
    }
}

fn judged(figures: &InterruptFigures, within: Nanos) -> (RtosVerdict, String) {
    let time = |ns: Option<Nanos>| Unit::Auto.write_nanos(ns.unwrap_or_default());
    let interrupts = count(figures.interrupts as u64);
    if figures.interrupts < ENOUGH {
        let because = format!("only {interrupts} interrupts of the computing thread were seen");
        return (RtosVerdict::CannotBeTold, because);
    }
    let (latency, dispatch) = (&figures.latency, &figures.dispatch);
    let mut all = format!(
        "{} from a thread's last instruction to the handler's first, at most {}; {} from the handler's last to the thread's next, at most {} ({interrupts} interrupts by {})",
        time(latency.median_ns),
        time(latency.largest_ns),
        time(dispatch.median_ns),
        time(dispatch.largest_ns),
        figures.by,
    );
    if let Some((rate, level)) = figures.highest_rate_hz.zip(figures.level) {
        all += &format!(
            "; at the level of {} % a device may ask for {} a second (1 / (ISR latency + handler))",
            percent(level),
            rough(rate)
        );
    }
    if figures.unkept > 0 {
        all += &format!(
            "; {} more came too close to another to be told",
            count(figures.unkept)
        );
    }
    let owned = figures.late - figures.late_stolen - figures.late_untold;
    let within = Unit::Auto.write_nanos(within);
    match (owned, figures.late_untold, figures.late_stolen) {
        (1.., ..) => (
            RtosVerdict::Fail,
            format!("{all}; {owned} took more than {within}"),
        ),
        (0, 1.., _) => (
            RtosVerdict::CannotBeTold,
            format!(
                "{all}; of {} above {within} the hypervisor may have taken the CPU",
                figures.late
            ),
        ),
        (0, 0, 1..) => (
            RtosVerdict::Pass,
            format!(
                "{all}; without what the hypervisor took at most {} and {}",
                time(latency.largest_net_ns),
                time(dispatch.largest_net_ns)
            ),
        ),
        (0, 0, 0) => (RtosVerdict::Pass, all),
    }
}

/// A rate to two digits, rounded down: it is the highest.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, and at most 1e9"
)]
fn rough(rate: f64) -> String {
    let digits = 10_f64.powf(rate.log10().floor() - 1.0).max(1.0);
    count(((rate / digits).floor() * digits) as u64)
}

#[cfg(test)]
mod tests {
    use laggard_model::StolenInAll;

    use super::*;

    const WITHIN: Nanos = Nanos::from_ms(1);
    const US: fn(u64) -> Nanos = Nanos::from_us;

    const USUAL: InterruptSeen = InterruptSeen {
        latency: Nanos::from_us(2),
        is_of_thread: true,
        handler: Nanos::from_us(1),
        dispatch: Some(Nanos::from_us(3)),
        stolen: Some(Nanos::ZERO),
    };

    fn seen(others: &[InterruptSeen], coarse: Option<(u64, bool)>) -> InterruptsSeen {
        let mut interrupts = vec![USUAL; 2_000];
        interrupts.extend(others);
        InterruptsSeen {
            source: InterruptSource::Cpu,
            interrupts,
            unkept: 4,
            reading: Nanos::from_ns(40),
            stolen: coarse.map(|(ms, has_counted)| StolenInAll {
                time: Nanos::from_ms(ms),
                step: Nanos::from_ms(10),
                has_counted,
            }),
        }
    }

    fn verdict(seen: &InterruptsSeen) -> (RtosVerdict, String) {
        judged(&figures(seen, WITHIN), WITHIN)
    }

    #[test]
    fn both_ways_are_told_with_the_rate_that_a_device_may_ask_for() {
        let (told, because) = verdict(&seen(&[], None));

        assert_eq!(told, RtosVerdict::Pass);
        assert_eq!(
            because,
            "2.00 us from a thread's last instruction to the handler's first, at most 2.00 us; 3.00 us from the handler's last to the thread's next, at most 3.00 us (2,000 interrupts by another CPU, not an external clock); at the level of 99.9 % a device may ask for 330,000 a second (1 / (ISR latency + handler)); 4 more came too close to another to be told"
        );
    }

    #[test]
    fn what_interrupted_is_said_with_whether_it_has_a_clock_of_its_own() {
        let of_timer = InterruptsSeen {
            source: InterruptSource::Hpet,
            ..seen(&[], None)
        };

        let (_, because) = verdict(&of_timer);

        let by = "(2,000 interrupts by /dev/hpet, a clock of its own)";
        assert!(because.contains(by), "{because}");
        assert!(!because.contains("external"), "{because}");
    }

    #[test]
    fn interrupts_that_are_off_too_long_fail_and_are_in_the_latency_alone() {
        let late = InterruptSeen {
            latency: US(1_400),
            is_of_thread: false,
            dispatch: None,
            ..USUAL
        };

        let figures = figures(&seen(&[late], None), WITHIN);

        let (told, because) = judged(&figures, WITHIN);
        assert_eq!(told, RtosVerdict::Fail);
        assert!(because.ends_with("; 1 took more than 1.00 ms"), "{because}");
        assert_eq!(figures.latency.largest_ns, Some(US(1_400)));
        assert_eq!(figures.dispatch.largest_ns, Some(US(3)));
        assert_eq!(figures.of_others, 1);
        // One in 2,000: the level is not made of it.
        assert_eq!(figures.latency.level_ns, Some(US(2)));
    }

    #[test]
    fn a_way_back_that_takes_too_long_fails_too() {
        let late = InterruptSeen {
            dispatch: Some(US(1_001)),
            ..USUAL
        };

        assert_eq!(verdict(&seen(&[late], None)).0, RtosVerdict::Fail);
    }

    #[test]
    fn what_the_hypervisor_took_is_not_the_system_s_failing() {
        let late = InterruptSeen {
            latency: US(13_000),
            stolen: Some(US(12_990)),
            ..USUAL
        };

        let (told, because) = verdict(&seen(&[late], None));

        assert_eq!(told, RtosVerdict::Pass);
        assert!(
            because.ends_with("; without what the hypervisor took at most 10.0 us and 3.00 us"),
            "{because}"
        );
    }

    #[test]
    fn what_the_hypervisor_may_have_taken_cannot_be_told() {
        let late = InterruptSeen {
            latency: US(1_500),
            stolen: None,
            ..USUAL
        };
        let told = |coarse| verdict(&seen(&[late], coarse)).0;

        assert_eq!(told(Some((20, true))), RtosVerdict::CannotBeTold);
        assert_eq!(told(Some((0, false))), RtosVerdict::Fail);
        assert_eq!(told(None), RtosVerdict::Fail);
    }

    #[test]
    fn a_few_interrupts_decide_nothing_and_have_no_level() {
        let mut few = seen(&[], None);
        few.interrupts.truncate(99);

        let figures = figures(&few, WITHIN);

        assert_eq!(judged(&figures, WITHIN).0, RtosVerdict::CannotBeTold);
        assert_eq!((figures.level, figures.highest_rate_hz), (None, None));
        few.interrupts.resize(500, USUAL);
        assert_eq!(super::figures(&few, WITHIN).level, Some(0.99));
    }

    #[test]
    fn a_rate_is_never_rounded_up() {
        assert_eq!(rough(333_333.3), "330,000");
        assert_eq!(rough(99_999.0), "99,000");
        assert_eq!(rough(7.9), "7");
    }
}
