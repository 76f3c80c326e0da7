//! A known largest time: how long a woken thread waits at most is not twice as long under
//! any load.

use laggard_model::text::Unit;
use laggard_model::{
    Absence, DuelRound, DuelsSeen, LoadedDuels, Nanos, RivalThread, RtosCriterion,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::preemption::{ran, rival_words};
use super::{RtosRow, RtosVerdict};
use crate::switch::{Growth, GrowthChange, figure, times_over};

/// The wakeups of a load are parted into so many stretches, of which each has a
/// largest.
const STRETCHES: usize = 10;
/// A stretch of fewer says little of its largest.
const ENOUGH: usize = 20;
/// Where the largest may be so much longer under a load, it is not known; where it is for
/// sure, it is none.
const KNOWN_TO: f64 = 2.0;

/// What was seen of wakeups under one load.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LoadedFigures {
    /// The load.
    pub load: String,
    /// Wakeups.
    pub rounds: usize,
    /// The longest.
    pub largest_ns: Option<Nanos>,
    /// The longest without what the hypervisor took meanwhile; absent where its
    /// clock cannot be read.
    pub largest_net_ns: Option<Nanos>,
    /// Whether the hypervisor may have taken some, and how much cannot be told.
    pub may_be_stolen: bool,
    /// Threads of other programs that the woken one has to wait for, where they ran
    /// for as long as the longest took, the longest first.
    pub rivals: Vec<RivalThread>,
    /// The largest of a stretch, without what the hypervisor is known to have taken,
    /// over that under the first load.
    pub growth: Option<Growth>,
    /// Why it could not be tried under this load.
    pub absence: Option<Absence>,
}

pub(super) fn loads(seen: &[LoadedDuels]) -> Vec<LoadedFigures> {
    let of = |one: &LoadedDuels| one.duels.as_ref().map(stretches).unwrap_or_default();
    let first = seen.first().map(of).unwrap_or_default();
    let figures = seen.iter().enumerate().map(|(number, one)| {
        let growth = match number {
            0 => None,
            // Figures are positive, so this is no error.
            _ => figure([first.clone(), of(one)])
                .ok()
                .flatten()
                .map(|growth| steady(growth, &first, &of(one))),
        };
        let (duels, absence) = match &one.duels {
            Ok(duels) => (Some(duels), None),
            Err(absence) => (None, Some(absence.clone())),
        };
        let rounds = duels.map_or(&[][..], |duels| &duels.rounds);
        let nets = rounds
            .iter()
            .map(|it| Some(it.took.saturating_sub(it.stolen?)));
        LoadedFigures {
            load: one.load.clone(),
            rounds: rounds.len(),
            largest_ns: rounds.iter().map(|round| round.took).max(),
            largest_net_ns: nets.max().flatten(),
            may_be_stolen: duels.is_some_and(may_be_stolen),
            rivals: duels.map(rivals).unwrap_or_default(),
            growth,
            absence,
        }
    });
    figures.collect()
}

/// Whether the coarse counter allows that the hypervisor made the longest wait
/// longer, of which its clock tells nothing.
fn may_be_stolen(duels: &DuelsSeen) -> bool {
    let untold = duels.rounds.iter().filter(|round| round.stolen.is_none());
    let longest = untold.map(|round| round.took).max();
    let counted = duels.stolen.zip(longest);
    counted.is_some_and(|(stolen, longest)| stolen.allows(longest))
}

/// Those that may have made the longest so long.
fn rivals(duels: &DuelsSeen) -> Vec<RivalThread> {
    let net = |it: &DuelRound| it.took.saturating_sub(it.stolen.unwrap_or_default());
    let longest = duels.rounds.iter().map(net).max();
    match longest.is_some_and(|longest| ran(&duels.rivals) >= longest) {
        true => duels.rivals.clone(),
        false => Vec::new(),
    }
}

impl LoadedFigures {
    /// Whether somebody else than the system may have made the longest so long.
    fn is_open(&self) -> bool {
        self.may_be_stolen || !self.rivals.is_empty()
    }
}

/// A growth that both visits of a load show: each half of its stretches is longer than
/// each of the first load's. What the machine does by itself for some seconds is not.
fn steady(growth: Growth, first: &[f64], load: &[f64]) -> Growth {
    let halves = |all: &[f64]| {
        let (there, back) = all.split_at(all.len() / 2);
        // Of logarithms, as the ratio is.
        [there, back].map(|some| some.iter().map(|one| one.ln()).sum::<f64>() / some.len() as f64)
    };
    let ([one, other], [first_one, first_other]) = (halves(load), halves(first));
    let is_steady = one.min(other) > first_one.max(first_other);
    let is_doubtful = growth.change == GrowthChange::Grows && !is_steady;
    Growth {
        change: if is_doubtful {
            GrowthChange::NotTold
        } else {
            growth.change
        },
        ..growth
    }
}

/// The largest of each stretch, ns, above 0; none where there are too few.
fn stretches(duels: &DuelsSeen) -> Vec<f64> {
    let each = duels.rounds.len() / STRETCHES;
    if each < ENOUGH {
        return Vec::new();
    }
    let largest = duels.rounds.chunks_exact(each).map(|stretch| {
        let nets = stretch
            .iter()
            .map(|it| it.took.saturating_sub(it.stolen.unwrap_or_default()));
        nets.max().unwrap_or_default().as_f64().max(1.0)
    });
    largest.collect()
}

pub(super) fn row(loads: &[LoadedFigures]) -> RtosRow {
    let (verdict, because) = judged(loads);
    RtosRow {
        criterion: RtosCriterion::Largest,
        verdict,
        because,
        absence: together(loads),
    }
}

/// All that is lacking, as one.
fn together(loads: &[LoadedFigures]) -> Option<Absence> {
    let mut absences = loads.iter().filter_map(|load| load.absence.as_ref());
    let mut all = absences.next()?.clone();
    for other in absences {
        if other.remedy != all.remedy {
            all.reason = format!("{}; {}", all.reason, other.reason);
            all.remedy = format!("{}; {}", all.remedy, other.remedy);
        }
    }
    Some(all)
}

fn judged(loads: &[LoadedFigures]) -> (RtosVerdict, String) {
    let Some((first, others)) = loads.split_first() else {
        return (RtosVerdict::CannotBeTold, "no load was tried".into());
    };
    let told = loads
        .iter()
        .map(|load| match (load.largest_ns, &load.absence) {
            (Some(largest), None) => format!("{} {}", load.load, Unit::Auto.write_nanos(largest)),
            _ => format!("{} not tried", load.load),
        });
    let all = format!("at most {}", told.collect::<Vec<_>>().join(", "));
    let grows = |load: &&LoadedFigures| {
        let grows =
            |growth: Growth| growth.change == GrowthChange::Grows && growth.ratio_low > KNOWN_TO;
        load.growth.is_some_and(grows) && !load.is_open() && !first.is_open()
    };
    let ratio = |load: &LoadedFigures| load.growth.map_or(0.0, |growth| growth.ratio);
    let most = |one: &&LoadedFigures, other: &&LoadedFigures| ratio(one).total_cmp(&ratio(other));
    if let Some((load, growth)) = others
        .iter()
        .filter(grows)
        .max_by(most)
        .and_then(|load| Some((&load.load, load.growth?)))
    {
        let [ratio, low, high] =
            [growth.ratio, growth.ratio_low, growth.ratio_high].map(times_over);
        let because = format!(
            "{all}; a stretch's largest is {ratio} times [{low}, {high}] as long under {load} as under {}",
            first.load
        );
        return (RtosVerdict::Fail, because);
    }
    let own = |load: &LoadedFigures| load.largest_net_ns.or(load.largest_ns).map(Nanos::as_f64);
    let is_as_long = |load: &LoadedFigures| {
        own(load)
            .zip(own(first))
            .is_some_and(|(largest, first)| largest < KNOWN_TO * first)
    };
    let is_known = |load: &LoadedFigures| {
        load.growth
            .is_some_and(|growth| growth.ratio_high < KNOWN_TO)
            && !load.is_open()
    };
    if !others.is_empty() && others.iter().all(is_known) && !first.is_open() {
        // One wakeup of thousands is seldom the mean's doing, and is seen all the same.
        return match others.iter().find(|load| !is_as_long(load)) {
            None => {
                let because = format!("{all}; under no load is a stretch's largest twice as long");
                (RtosVerdict::Pass, because)
            }
            Some(load) => {
                let [largest, firsts] = [load, first].map(|one| {
                    let own = one.largest_net_ns.or(one.largest_ns);
                    Unit::Auto.write_nanos(own.unwrap_or_default())
                });
                let net = match load.largest_net_ns {
                    Some(_) => " without what the hypervisor took",
                    None => "",
                };
                let because = format!(
                    "{all}; a stretch's largest is not, on average, twice as long under {}, but the largest of all is{net}: {largest} against {firsts}",
                    load.load
                );
                (RtosVerdict::CannotBeTold, because)
            }
        };
    }
    if let Some(load) = loads.iter().find(|load| !load.rivals.is_empty()) {
        let because = format!(
            "{all}; another program may have had the CPU: {}",
            rival_words(&load.rivals)
        );
        return (RtosVerdict::CannotBeTold, because);
    }
    let because = match loads.iter().any(|load| load.may_be_stolen) {
        true => format!("{all}; the hypervisor may have taken the CPU meanwhile"),
        false if others.is_empty() => {
            format!("{all}; whether it grows takes a second load to hold against it")
        }
        false => format!("{all}; whether it grows takes a longer trial, or all loads"),
    };
    (RtosVerdict::CannotBeTold, because)
}

#[cfg(test)]
mod tests {
    use laggard_model::{Lacks, StolenInAll};

    use super::*;

    /// Take-overs of 5 us, and ten of about so long.
    fn loaded(load: &str, largest_us: u64) -> LoadedDuels {
        let rounds = (0..1_000).map(|number| DuelRound {
            computing: 50,
            woken: 90,
            took: Nanos::from_us(match number % 100 {
                50 => largest_us + number / 100,
                _ => 5,
            }),
            took_over: true,
            stolen: None,
        });
        LoadedDuels {
            load: load.into(),
            duels: Ok(DuelsSeen {
                rounds: rounds.collect(),
                ..DuelsSeen::default()
            }),
        }
    }

    fn verdict(seen: &[LoadedDuels]) -> (RtosVerdict, String) {
        judged(&loads(seen))
    }

    #[test]
    fn a_largest_time_that_grows_under_one_load_fails() {
        let (told, because) =
            verdict(&[loaded("idle", 50), loaded("fp", 51), loaded("fileio", 150)]);

        assert_eq!(told, RtosVerdict::Fail);
        assert!(
            because.starts_with(
                "at most idle 59.0 us, fp 60.0 us, fileio 159 us; a stretch's largest is 2.8"
            ),
            "{because}"
        );
        assert!(
            because.ends_with("as long under fileio as under idle"),
            "{because}"
        );
    }

    /// Who knows it to 10 % is not to be told worse of the system than who knows it to
    /// 90 %.
    #[test]
    fn one_that_grows_by_less_than_two_for_sure_passes() {
        let (told, because) = verdict(&[loaded("idle", 50), loaded("fp", 70)]);

        let grown = loads(&[loaded("idle", 50), loaded("fp", 70)])[1].growth;
        let grown = grown.unwrap();
        assert_eq!(grown.change, GrowthChange::Grows);
        assert!(grown.ratio_high < KNOWN_TO, "{grown:?}");
        assert_eq!(told, RtosVerdict::Pass, "{because}");
    }

    #[test]
    fn one_that_stays_passes() {
        let (told, because) = verdict(&[loaded("idle", 50), loaded("fp", 51)]);

        assert_eq!(told, RtosVerdict::Pass, "{because}");
    }

    #[test]
    fn loads_that_are_not_there_are_named_and_leave_it_open() {
        let absent = LoadedDuels {
            load: "net".into(),
            duels: Err(Absence {
                reason: "load `net` needs iperf3".into(),
                remedy: "install it".into(),
                lacks: Lacks::Machine,
            }),
        };

        let (told, because) = verdict(&[loaded("idle", 50), loaded("fp", 51), absent]);

        assert_eq!(told, RtosVerdict::CannotBeTold);
        assert!(because.contains("net not tried"), "{because}");
        let (told, because) = verdict(&[loaded("idle", 50)]);
        assert_eq!(told, RtosVerdict::CannotBeTold);
        assert!(
            because.ends_with("whether it grows takes a second load to hold against it"),
            "{because}"
        );
    }

    #[test]
    fn what_the_hypervisor_may_have_made_longer_is_not_said_to_grow() {
        let mut busy = loaded("fp", 4_000);
        if let Ok(duels) = &mut busy.duels {
            duels.stolen = Some(StolenInAll {
                time: Nanos::from_ms(20),
                step: Nanos::from_ms(10),
                has_counted: true,
            });
        }

        let (told, because) = verdict(&[loaded("idle", 50), busy]);

        assert_eq!(told, RtosVerdict::CannotBeTold, "{because}");
    }

    /// What it took can be less than a step of the counter that tells of it.
    #[test]
    fn less_than_a_step_of_the_counter_may_have_made_it_longer_too() {
        let mut busy = loaded("fp", 4_000);
        let step = |has_counted| StolenInAll {
            time: Nanos::ZERO,
            step: Nanos::from_ms(10),
            has_counted,
        };
        let mut told = |has_counted| {
            busy.duels.as_mut().unwrap().stolen = Some(step(has_counted));
            verdict(&[loaded("idle", 50), busy.clone()]).0
        };

        assert_eq!(told(true), RtosVerdict::CannotBeTold);
        assert_eq!(told(false), RtosVerdict::Fail, "there is no hypervisor");
    }

    #[test]
    fn what_another_program_s_thread_may_have_made_longer_is_not_said_to_grow() {
        let beside = |ran_us| {
            let mut busy = loaded("fp", 4_000);
            busy.duels.as_mut().unwrap().rivals = vec![RivalThread {
                name: "audio".into(),
                priority: None,
                ran_ns: Nanos::from_us(ran_us),
            }];
            verdict(&[loaded("idle", 50), busy])
        };

        let (told, because) = beside(8_000);
        assert_eq!(told, RtosVerdict::CannotBeTold);
        assert!(
            because.ends_with(
                "another program may have had the CPU: `audio` (deadline), which ran for 8.00 ms"
            ),
            "{because}"
        );
        assert_eq!(beside(1_000).0, RtosVerdict::Fail);
    }

    /// As other work on the machine does, that began while this load was tried.
    #[test]
    fn what_was_longer_at_one_visit_of_a_load_alone_does_not_grow_with_it() {
        let mut busy = loaded("fp", 50);
        for round in &mut busy.duels.as_mut().unwrap().rounds[..500] {
            round.took = Nanos::from_ns(round.took.ns() * 10);
        }

        let idle = loaded("idle", 50);
        let longest = [&idle, &busy].map(|one| stretches(one.duels.as_ref().unwrap()));
        let alone = figure(longest).unwrap().unwrap();

        let (told, because) = verdict(&[idle, busy]);

        assert_eq!(alone.change, GrowthChange::Grows, "by the mean alone");
        assert_eq!(told, RtosVerdict::CannotBeTold, "{because}");
    }

    /// In one stretch of ten, which is a tenth of the mean.
    #[test]
    fn one_take_over_of_three_times_the_largest_is_no_pass() {
        let mut busy = loaded("fp", 50);
        busy.duels.as_mut().unwrap().rounds[350].took = Nanos::from_us(180);

        let (told, because) = verdict(&[loaded("idle", 50), busy]);

        assert_eq!(told, RtosVerdict::CannotBeTold, "{because}");
        assert_eq!(
            because,
            "at most idle 59.0 us, fp 180 us; a stretch's largest is not, on average, twice as long \
             under fp, but the largest of all is: 180 us against 59.0 us"
        );
    }

    #[test]
    fn what_the_hypervisor_is_known_to_have_taken_is_taken_off() {
        let mut busy = loaded("fp", 50);
        if let Ok(duels) = &mut busy.duels {
            for round in &mut duels.rounds {
                round.stolen = Some(Nanos::from_ms(4));
                round.took += Nanos::from_ms(4);
            }
        }
        let mut idle = loaded("idle", 50);
        if let Ok(duels) = &mut idle.duels {
            for round in &mut duels.rounds {
                round.stolen = Some(Nanos::ZERO);
            }
        }

        let (told, because) = verdict(&[idle, busy]);

        assert_eq!(told, RtosVerdict::Pass, "{because}");
        assert!(
            because.starts_with("at most idle 59.0 us, fp 4.06 ms"),
            "{because}"
        );
    }
}
