//! The notion of thread priority exists: how many there are, and whether each
//! preempts the next lower one.

use std::collections::BTreeMap;

use laggard_model::{PrioritiesSeen, RtosCriterion};
use schemars::JsonSchema;
use serde::Serialize;

use super::{RtosRow, RtosVerdict};

/// POSIX asks for so many (IEEE Std 1003.1, `sched_get_priority_min`); the paper
/// found 7 too few.
const ENOUGH: usize = 32;

/// What was seen of priorities.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct PriorityFigures {
    /// The lowest and the highest that the system states for real-time threads.
    pub stated: (u8, u8),
    /// How many of them this process may have.
    pub usable: usize,
    /// Pairs of neighbours that were tried.
    pub pairs: usize,
    /// Of those, pairs whose higher one took over from the lower one at most times.
    pub preempting: usize,
    /// The first pair that did not: who computed, and who was woken.
    pub not_preempting: Option<(u8, u8)>,
    /// Priorities that were tried against their equals.
    pub equals: usize,
    /// Of those, where the woken one waited for the other's end at most times.
    pub waiting: usize,
}

pub(super) fn figures(seen: &PrioritiesSeen) -> PriorityFigures {
    let mut pairs: BTreeMap<(u8, u8), (usize, usize)> = BTreeMap::new();
    for round in &seen.duels.rounds {
        let of = pairs.entry((round.computing, round.woken)).or_default();
        of.0 += 1;
        of.1 += usize::from(round.took_over);
    }
    // A stop of the whole machine can make either come first, once.
    let mostly = |&(all, some): &(usize, usize)| 2 * some > all;
    let (equals, pairs): (Vec<_>, Vec<_>) =
        pairs.iter().partition(|((one, other), _)| one == other);
    PriorityFigures {
        stated: seen.stated,
        usable: seen.usable.len(),
        pairs: pairs.len(),
        preempting: pairs.iter().filter(|(_, rounds)| mostly(rounds)).count(),
        not_preempting: pairs
            .iter()
            .find(|(_, rounds)| !mostly(rounds))
            .map(|(pair, _)| **pair),
        equals: equals.len(),
        waiting: equals.iter().filter(|(_, rounds)| !mostly(rounds)).count(),
    }
}

pub(super) fn row(figures: &PriorityFigures) -> RtosRow {
    let (verdict, because) = judged(figures);
    RtosRow {
        criterion: RtosCriterion::Priorities,
        verdict,
        because,
        absence: None,
    }
}

fn judged(figures: &PriorityFigures) -> (RtosVerdict, String) {
    let (least, most) = figures.stated;
    let of = format!("{} priorities ({least} to {most} stated)", figures.usable);
    if figures.usable < ENOUGH {
        let stated = usize::from(most.saturating_sub(least)) + 1;
        let verdict = match stated < ENOUGH {
            true => RtosVerdict::Fail,
            // The limit is this user's, not the system's.
            false => RtosVerdict::CannotBeTold,
        };
        return (
            verdict,
            format!("{of} can be had: fewer than the {ENOUGH} that POSIX asks for"),
        );
    }
    if let Some((low, high)) = figures.not_preempting {
        let because = format!(
            "{of}, but of {} neighbours only {} preempt each other: {high} does not take over from {low}",
            figures.pairs, figures.preempting
        );
        return (RtosVerdict::Fail, because);
    }
    if figures.waiting < figures.equals {
        let because = format!(
            "{of}, but of {} that met their equal only {} waited for its end",
            figures.equals, figures.waiting
        );
        return (RtosVerdict::Fail, because);
    }
    if figures.pairs + 1 < figures.usable {
        let because = format!("{of}, but only {} neighbours could be tried", figures.pairs);
        return (RtosVerdict::CannotBeTold, because);
    }
    let because = format!(
        "{of}: each of {} takes over from the next lower one, and waits for an equal ({} tried)",
        figures.pairs, figures.equals
    );
    (RtosVerdict::Pass, because)
}

#[cfg(test)]
mod tests {
    use laggard_model::{DuelRound, DuelsSeen, Nanos};

    use super::*;

    fn seen(usable: u8, took_over: impl Fn(u8, u8, usize) -> bool) -> PrioritiesSeen {
        let pairs = (1..usable)
            .map(|low| (low, low + 1))
            .chain([(1, 1), (11, 11)]);
        let rounds = pairs.flat_map(|(computing, woken)| {
            let took_over = &took_over;
            (0..4).map(move |number| DuelRound {
                computing,
                woken,
                took: Nanos::from_us(7),
                took_over: took_over(computing, woken, number),
                stolen: None,
            })
        });
        PrioritiesSeen {
            stated: (1, 99),
            usable: (1..=usable).collect(),
            duels: DuelsSeen {
                rounds: rounds.collect(),
                ..DuelsSeen::default()
            },
        }
    }

    fn verdict(seen: &PrioritiesSeen) -> (RtosVerdict, String) {
        judged(&figures(seen))
    }

    #[test]
    fn priorities_that_preempt_pass_even_where_the_machine_once_stopped() {
        let stopped = |low, high, number| low < high && !(low == 7 && number == 2);

        let (verdict, because) = verdict(&seen(99, stopped));

        assert_eq!(verdict, RtosVerdict::Pass);
        assert_eq!(
            because,
            "99 priorities (1 to 99 stated): each of 98 takes over from the next lower one, and waits for an equal (2 tried)"
        );
    }

    #[test]
    fn priorities_of_which_two_are_the_same_fail() {
        let (verdict, because) = verdict(&seen(99, |low, high, _| low < high && low != 63));

        assert_eq!(verdict, RtosVerdict::Fail);
        assert!(
            because.ends_with("only 97 preempt each other: 64 does not take over from 63"),
            "{because}"
        );
    }

    /// A system that gives each thread a turn, whatever its priority.
    #[test]
    fn who_takes_over_from_an_equal_has_no_priorities() {
        let (verdict, because) = verdict(&seen(99, |_, _, _| true));

        assert_eq!(verdict, RtosVerdict::Fail);
        assert!(because.contains("only 0 waited"), "{because}");
    }

    #[test]
    fn few_priorities_fail_a_system_and_only_limit_a_user() {
        let mut few = seen(7, |low, high, _| low < high);
        assert_eq!(verdict(&few).0, RtosVerdict::CannotBeTold);

        few.stated = (16, 22);
        let (told, because) = verdict(&few);
        assert_eq!(told, RtosVerdict::Fail);
        assert!(
            because.starts_with("7 priorities (16 to 22 stated) can be had"),
            "{because}"
        );
    }

    #[test]
    fn what_was_ended_early_is_not_told() {
        let mut cut = seen(99, |low, high, _| low < high);
        cut.duels.rounds.truncate(200);

        assert_eq!(verdict(&cut).0, RtosVerdict::CannotBeTold);
    }
}
