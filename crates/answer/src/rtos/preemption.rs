//! Multithreaded and pre-emptible: how soon a woken thread takes over from one of
//! less priority that computes.

use laggard_model::text::{Unit, count};
use laggard_model::{DuelRound, DuelsSeen, Nanos, RivalThread, RtosCriterion, printable};
use schemars::JsonSchema;
use serde::Serialize;

use super::{RtosRow, RtosVerdict};

/// Fewer rounds decide nothing.
const ENOUGH: usize = 100;

/// What was seen of take-overs.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct TakeOverFigures {
    /// Wakeups while the other thread computed.
    pub rounds: usize,
    /// Wakeups when it did not; in no other figure.
    pub unkept: u64,
    /// Half of the take-overs took no longer, from when the wakeup was due.
    pub median_ns: Option<Nanos>,
    /// The longest.
    pub largest_ns: Option<Nanos>,
    /// The longest without what the hypervisor took meanwhile; absent where its
    /// clock cannot be read.
    pub largest_net_ns: Option<Nanos>,
    /// How many took longer than they may.
    pub late: usize,
    /// How many of these did so because of the hypervisor: without what it took they
    /// took no longer than they may.
    pub late_stolen: usize,
    /// Of how many of these that cannot be told.
    pub late_untold: usize,
    /// How many of these threads of other programs may have made late, which the
    /// woken one has to wait for.
    pub late_by_rivals: usize,
    /// Those threads, as far as they ran meanwhile, the longest first.
    pub rivals: Vec<RivalThread>,
    /// What the hypervisor took of the CPU in all this time, in the system's steps.
    pub stolen_ns: Option<Nanos>,
}

/// Of the rounds, with `within` as the longest that a take-over may take.
pub(super) fn figures(seen: &DuelsSeen, within: Nanos) -> TakeOverFigures {
    let mut took: Vec<Nanos> = seen.rounds.iter().map(|round| round.took).collect();
    took.sort_unstable();
    let net = |round: &DuelRound| Some(round.took.saturating_sub(round.stolen?));
    let late: Vec<&DuelRound> = seen.rounds.iter().filter(|it| it.took > within).collect();
    let known = late.iter().filter(|round| round.stolen.is_some()).count();
    let by_clock = late
        .iter()
        .filter(|it| net(it).is_some_and(|net| net <= within));
    let unknown = late.len() - known;
    let is_untold = may_be_stolen(seen, &late);
    let rivals = ran(&seen.rivals);
    let by_rivals = late.iter().filter(|round| {
        let own = net(round).unwrap_or(round.took);
        let is_told = round.stolen.is_some() || !is_untold;
        is_told && own > within && own.saturating_sub(rivals) <= within
    });
    TakeOverFigures {
        rounds: took.len(),
        unkept: seen.unkept,
        median_ns: took.get(took.len().saturating_sub(1) / 2).copied(),
        largest_ns: took.last().copied(),
        largest_net_ns: longest_known(seen.rounds.iter().map(net)),
        late: late.len(),
        late_stolen: by_clock.count(),
        late_untold: if is_untold { unknown } else { 0 },
        late_by_rivals: by_rivals.count(),
        rivals: seen.rivals.clone(),
        stolen_ns: seen.stolen.map(|stolen| stolen.time),
    }
}

/// The longest; absent where one of them is not known, which may be the longest.
pub(super) fn longest_known(times: impl Iterator<Item = Option<Nanos>>) -> Option<Nanos> {
    times.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// For how long all of them ran.
pub(super) fn ran(rivals: &[RivalThread]) -> Nanos {
    rivals.iter().fold(Nanos::ZERO, |sum, one| sum + one.ran_ns)
}

/// The one that ran longest, in words.
pub(super) fn rival_words(rivals: &[RivalThread]) -> String {
    let Some(first) = rivals.first() else {
        return String::new();
    };
    let policy = match first.priority {
        Some(priority) => format!("fifo:{priority}"),
        None => "deadline".into(),
    };
    let others = match rivals.len() {
        1 => String::new(),
        more => format!(" and {} more", more - 1),
    };
    format!(
        "`{}` ({policy}){others}, which ran for {}",
        printable(&first.name),
        Unit::Auto.write_nanos(ran(rivals))
    )
}

/// Whether the coarse counter allows that the hypervisor made one of these late.
fn may_be_stolen(seen: &DuelsSeen, late: &[&DuelRound]) -> bool {
    let longest = late.iter().map(|round| round.took).max();
    let counted = seen.stolen.zip(longest);
    counted.is_some_and(|(stolen, longest)| stolen.allows(longest))
}

pub(super) fn row(figures: &TakeOverFigures, within: Nanos) -> RtosRow {
    let (verdict, because) = judged(figures, within);
    RtosRow {
        criterion: RtosCriterion::Preemption,
        verdict,
        because,
        absence: None,
    }
}

fn judged(figures: &TakeOverFigures, within: Nanos) -> (RtosVerdict, String) {
    let time = |ns: Option<Nanos>| Unit::Auto.write_nanos(ns.unwrap_or_default());
    let rounds = count(figures.rounds as u64);
    if figures.rounds < ENOUGH {
        let because = format!("only {rounds} wakeups met the computing thread at work");
        return (RtosVerdict::CannotBeTold, because);
    }
    let open = figures.late_untold + figures.late_by_rivals;
    let owned = figures.late - figures.late_stolen - open;
    let within = Unit::Auto.write_nanos(within);
    let all = format!(
        "a woken fifo:90 takes over from a computing fifo:50 in {}, at most {} ({rounds} times)",
        time(figures.median_ns),
        time(figures.largest_ns),
    );
    match (owned, open, figures.late_stolen) {
        (1.., ..) => (
            RtosVerdict::Fail,
            format!("{all}; {owned} took more than {within}"),
        ),
        (0, 1.., _) if figures.late_by_rivals > 0 => (
            RtosVerdict::CannotBeTold,
            format!(
                "{all}; of {} above {within} another program may have had the CPU: {}",
                figures.late,
                rival_words(&figures.rivals)
            ),
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
                "{all}; {} without what the hypervisor took",
                time(figures.largest_net_ns)
            ),
        ),
        (0, 0, 0) => (RtosVerdict::Pass, all),
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::StolenInAll;

    use super::*;

    const WITHIN: Nanos = Nanos::from_ms(1);

    fn seen(some: &[(u64, Option<u64>)], coarse: Option<(u64, bool)>) -> DuelsSeen {
        let round = |&(us, stolen): &(u64, Option<u64>)| DuelRound {
            computing: 50,
            woken: 90,
            took: Nanos::from_us(us),
            took_over: true,
            stolen: stolen.map(Nanos::from_us),
        };
        let usual = std::iter::repeat_n((7, some.first().and_then(|one| one.1)), 200);
        let mut all: Vec<_> = usual.collect();
        all.extend(some);
        DuelsSeen {
            rounds: all.iter().map(round).collect(),
            unkept: 3,
            stolen: coarse.map(|(ms, has_counted)| StolenInAll {
                time: Nanos::from_ms(ms),
                step: Nanos::from_ms(10),
                has_counted,
            }),
            ..DuelsSeen::default()
        }
    }

    fn verdict(seen: &DuelsSeen) -> (RtosVerdict, String) {
        judged(&figures(seen, WITHIN), WITHIN)
    }

    #[test]
    fn who_always_takes_over_in_time_passes() {
        let (verdict, because) = verdict(&seen(&[(212, None)], None));

        assert_eq!(verdict, RtosVerdict::Pass);
        assert_eq!(
            because,
            "a woken fifo:90 takes over from a computing fifo:50 in 7.00 us, at most 212 us (201 times)"
        );
    }

    #[test]
    fn one_that_is_late_by_the_system_itself_fails() {
        for late in [(1_500, Some(0)), (1_500, Some(499)), (20_000, Some(3_000))] {
            let (verdict, because) = verdict(&seen(&[late], None));

            assert_eq!(verdict, RtosVerdict::Fail, "{late:?}");
            assert!(because.ends_with("; 1 took more than 1.00 ms"), "{because}");
        }
    }

    /// On a machine without a hypervisor nothing is stolen.
    #[test]
    fn one_that_is_late_fails_where_no_hypervisor_ever_took_anything() {
        for coarse in [None, Some((0, false))] {
            let (verdict, _) = verdict(&seen(&[(1_500, None)], coarse));

            assert_eq!(verdict, RtosVerdict::Fail, "{coarse:?}");
        }
    }

    #[test]
    fn what_the_hypervisor_took_is_not_the_system_s_failing() {
        let (verdict, because) = verdict(&seen(&[(13_000, Some(12_500))], None));

        assert_eq!(verdict, RtosVerdict::Pass);
        assert!(
            because
                .ends_with("at most 13.0 ms (201 times); 500 us without what the hypervisor took"),
            "{because}"
        );
    }

    #[test]
    fn what_the_hypervisor_may_have_taken_cannot_be_told() {
        // A step of the coarse counter is enough for one of 1.5 ms, not for 50 ms.
        let coarse = Some((20, true));
        let (told, because) = verdict(&seen(&[(1_500, None)], coarse));
        assert_eq!(told, RtosVerdict::CannotBeTold);
        assert!(
            because.ends_with("the hypervisor may have taken the CPU"),
            "{because}"
        );

        let (told, _) = verdict(&seen(&[(50_000, None)], coarse));
        assert_eq!(told, RtosVerdict::Fail);
    }

    /// Of a higher priority: the system gives it the CPU as it must.
    #[test]
    fn what_another_program_s_thread_may_have_taken_is_not_the_system_s_failing() {
        let beside = |late: &[(u64, Option<u64>)], ran_us| DuelsSeen {
            rivals: vec![RivalThread {
                name: "audio".into(),
                priority: Some(97),
                ran_ns: Nanos::from_us(ran_us),
            }],
            ..seen(late, None)
        };

        let (told, because) = verdict(&beside(&[(3_000, Some(0))], 2_500));
        assert_eq!(told, RtosVerdict::CannotBeTold);
        assert!(
            because.ends_with(
                "; of 1 above 1.00 ms another program may have had the CPU: `audio` (fifo:97), \
                 which ran for 2.50 ms"
            ),
            "{because}"
        );
        // It ran for less than that.
        let (told, because) = verdict(&beside(&[(3_000, None), (1_300, None)], 1_500));
        assert_eq!(told, RtosVerdict::Fail);
        assert!(because.ends_with("; 1 took more than 1.00 ms"), "{because}");
        assert_eq!(verdict(&beside(&[(900, None)], 9_000)).0, RtosVerdict::Pass);
    }

    #[test]
    fn a_few_rounds_decide_nothing() {
        let few = DuelsSeen {
            rounds: seen(&[], None).rounds[..99].to_vec(),
            ..DuelsSeen::default()
        };

        assert_eq!(verdict(&few).0, RtosVerdict::CannotBeTold);
        assert_eq!(verdict(&DuelsSeen::default()).0, RtosVerdict::CannotBeTold);
    }
}
