//! A known largest time: how long a woken thread waits at most is not twice as long under
//! any load.

use laggard_model::text::{Unit, count};
use laggard_model::{
    Absence, DuelRound, DuelsSeen, LoadedDuels, Nanos, RivalThread, RtosCriterion,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::preemption::{longest_known, ran, rival_words};
use super::{RtosRow, RtosVerdict};
use crate::qos::CONFIDENCE;
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
    /// Wakeups that were due before the one before them had run, and in no other
    /// figure.
    pub missed: u64,
    /// Wakeups that are in no figure because laggard itself was stopped meanwhile.
    pub unkept: u64,
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
    /// over that under the first load. The intervals of all loads hold together with
    /// 95 % confidence (Bonferroni).
    pub growth: Option<Growth>,
    /// Why it could not be tried under this load.
    pub absence: Option<Absence>,
}

pub(super) fn loads(seen: &[LoadedDuels]) -> Vec<LoadedFigures> {
    let first = seen.first().and_then(|one| one.duels.as_ref().ok());
    let held = seen.iter().skip(1).filter(|one| one.duels.is_ok());
    // Of several intervals one may miss by chance what each holds 19 times of 20.
    let confidence = 1.0 - (1.0 - CONFIDENCE) / held.count().max(1) as f64;
    let figures = seen.iter().enumerate().map(|(number, one)| {
        let (duels, absence) = match &one.duels {
            Ok(duels) => (Some(duels), None),
            Err(absence) => (None, Some(absence.clone())),
        };
        let pair = first.zip(duels).filter(|_| number > 0);
        let rounds = duels.map_or(&[][..], |duels| &duels.rounds);
        let nets = rounds
            .iter()
            .map(|it| Some(it.took.saturating_sub(it.stolen?)));
        LoadedFigures {
            load: one.load.clone(),
            rounds: rounds.len(),
            missed: duels.map_or(0, |duels| duels.missed),
            unkept: duels.map_or(0, |duels| duels.unkept),
            largest_ns: rounds.iter().map(|round| round.took).max(),
            largest_net_ns: longest_known(nets),
            may_be_stolen: duels.is_some_and(may_be_stolen),
            rivals: duels.map(rivals).unwrap_or_default(),
            growth: pair.and_then(|(first, load)| grown(first, load, confidence)),
            absence,
        }
    });
    figures.collect()
}

/// How the largest of a stretch stands to that under the first load; `None` where
/// there are too few.
fn grown(first: &DuelsSeen, load: &DuelsSeen, confidence: f64) -> Option<Growth> {
    // A longer stretch has a longer largest by itself.
    let each = first.rounds.len().min(load.rounds.len()) / STRETCHES;
    if each < ENOUGH {
        return None;
    }
    let visits = [first, load].map(|seen| stretches(seen, each));
    // Figures are positive, so this is no error.
    let growth = figure([&visits[0].concat(), &visits[1].concat()], confidence).ok()??;
    Some(steady(growth, &visits))
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
    /// The longest without what the hypervisor took, in words, where that is another.
    fn net(&self) -> Option<String> {
        let [gross, net] = [self.largest_ns?, self.largest_net_ns?];
        let [gross, net] = [gross, net].map(|time| Unit::Auto.write_nanos(time));
        (net != gross).then_some(net)
    }

    /// `fp 1.20 ms (59.0 us net, 2 missed)`.
    fn told(&self) -> String {
        let (Some(largest), None) = (self.largest_ns, &self.absence) else {
            let why = self
                .absence
                .as_ref()
                .map(|one| format!(" ({})", one.reason));
            return format!("{} not tried{}", self.load, why.unwrap_or_default());
        };
        let missed = (self.missed > 0).then(|| format!("{} missed", count(self.missed)));
        let net = self.net().map(|net| format!("{net} net"));
        let besides: Vec<String> = net.into_iter().chain(missed).collect();
        let besides = match besides.is_empty() {
            true => String::new(),
            false => format!(" ({})", besides.join(", ")),
        };
        let largest = Unit::Auto.write_nanos(largest);
        format!("{} {largest}{besides}", self.load)
    }

    /// Whether somebody else than the system may have made the longest so long.
    fn is_open(&self) -> bool {
        self.may_be_stolen || !self.rivals.is_empty()
    }
}

/// A growth that both visits of a load show: of each, the stretches are longer than
/// those of each visit of the first load. What the machine does by itself for some
/// seconds is not.
fn steady(growth: Growth, [first, load]: &[[Vec<f64>; 2]; 2]) -> Growth {
    // Of logarithms, as the ratio is.
    let mean = |some: &Vec<f64>| some.iter().map(|one| one.ln()).sum::<f64>() / some.len() as f64;
    let is_longer = |visit: &Vec<f64>, than: &Vec<f64>| mean(visit) > mean(than);
    // A visit of which nothing was kept is longer than no other.
    let is_steady = load
        .iter()
        .all(|visit| first.iter().all(|than| is_longer(visit, than)));
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

/// The largest of each stretch of `each` wakeups, ns, above 0; of each visit, none is
/// of both.
fn stretches(duels: &DuelsSeen, each: usize) -> [Vec<f64>; 2] {
    let later_from = duels.later_from.unwrap_or(duels.rounds.len());
    let (there, back) = duels.rounds.split_at(later_from.min(duels.rounds.len()));
    [there, back].map(|visit| {
        let largest = visit.chunks_exact(each).map(|stretch| {
            let nets = stretch
                .iter()
                .map(|it| it.took.saturating_sub(it.stolen.unwrap_or_default()));
            nets.max().unwrap_or_default().as_f64().max(1.0)
        });
        largest.collect()
    })
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
    let told: Vec<String> = loads.iter().map(LoadedFigures::told).collect();
    let net = match loads.iter().any(|load| load.net().is_some()) {
        true => "; net is without what the hypervisor took",
        false => "",
    };
    let all = format!("at most {}{net}", told.join(", "));
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
                later_from: Some(500),
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
        assert!(
            because.contains("net not tried (load `net` needs iperf3); whether"),
            "{because}"
        );
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
        let longest =
            [&idle, &busy].map(|one| stretches(one.duels.as_ref().unwrap(), 100).concat());
        let alone = figure([&longest[0], &longest[1]], CONFIDENCE)
            .unwrap()
            .unwrap();

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
            because.starts_with(
                "at most idle 59.0 us, fp 4.06 ms (59.0 us net); net is without what the hypervisor took; under no load"
            ),
            "{because}"
        );
    }

    /// Of the first visit nine of ten chunks were left out, as laggard was stopped in
    /// them: by number, the middle is within the second.
    #[test]
    fn visits_are_told_apart_by_when_they_were_and_not_by_how_much_was_kept_of_them() {
        let mut busy = loaded("fp", 50);
        let duels = busy.duels.as_mut().unwrap();
        duels.rounds.drain(..300);
        duels.later_from = Some(200);
        for round in &mut duels.rounds[200..] {
            round.took = Nanos::from_ns(round.took.ns() * 10);
        }
        let told = |busy: &LoadedDuels| {
            let seen = loads(&[loaded("idle", 50), busy.clone()]);
            seen[1].growth.unwrap().change
        };

        assert_eq!(told(&busy), GrowthChange::NotTold);
        let duels = busy.duels.as_mut().unwrap();
        for round in &mut duels.rounds[..200] {
            round.took = Nanos::from_ns(round.took.ns() * 10);
        }
        assert_eq!(told(&busy), GrowthChange::Grows, "at both");
        busy.duels.as_mut().unwrap().later_from = Some(0);
        assert_eq!(told(&busy), GrowthChange::NotTold, "one visit was lost");
    }

    /// With 19 loads that are all like the first, one interval of 95 % misses it.
    #[test]
    fn the_more_loads_are_tried_the_wider_each_interval_is() {
        let widths = [1, 4].map(|others| {
            let mut seen = vec![loaded("idle", 50)];
            seen.extend((0..others).map(|_| loaded("fp", 60)));
            let growth = loads(&seen)[1].growth.unwrap();
            (growth.confidence, growth.ratio_high / growth.ratio_low)
        });

        assert!((widths[0].0 - 0.95).abs() < 1e-9, "{widths:?}");
        assert!((widths[1].0 - 0.9875).abs() < 1e-9, "{widths:?}");
        assert!(widths[1].1 > widths[0].1, "{widths:?}");
    }

    /// What is not known may be the longest.
    #[test]
    fn a_net_largest_is_not_known_where_that_of_one_wakeup_is_not() {
        let mut seen = loaded("idle", 50);
        let rounds = &mut seen.duels.as_mut().unwrap().rounds;
        for round in &mut rounds[..999] {
            round.stolen = Some(Nanos::ZERO);
        }

        assert_eq!(loads(&[seen.clone()])[0].largest_net_ns, None);
        seen.duels.as_mut().unwrap().rounds[999].stolen = Some(Nanos::ZERO);
        let known = loads(&[seen])[0].largest_net_ns;
        assert_eq!(known, Some(Nanos::from_us(59)));
    }

    #[test]
    fn wakeups_that_were_missed_are_told_beside_the_largest() {
        let mut busy = loaded("fp", 50);
        busy.duels.as_mut().unwrap().missed = 1_200;

        let (_, because) = verdict(&[loaded("idle", 50), busy]);

        assert!(
            because.starts_with("at most idle 59.0 us, fp 59.0 us (1,200 missed); under no"),
            "{because}"
        );
    }
}
