//! Sentences of `laggard qos`.

use laggard_answer::qos::{
    Apart, Application, Fitness, Goal, GoalOutlook, MissFigures, MissPolicy, Needed,
    ProfileVerdict, Resolution, ServiceOutlook,
};
use laggard_model::name::series_words;
use laggard_model::text::rough_time;
use laggard_model::{CpuList, LoadLabel, Nanos};

use super::{code, trust};
use crate::doc::{Cell, Reason, quoted};
use crate::text::Tone;

/// Digits of an estimated time.
const DIGITS: i32 = 2;
/// Number of services that are named with the same verdict. More are counted.
const MAX_NAMED: usize = 3;

/// Returns the word for a verdict.
pub(crate) const fn verdict(verdict: Fitness) -> &'static str {
    match verdict {
        Fitness::Fit => "FIT",
        Fitness::NotFit => "NOT FIT",
        Fitness::Unknown => "UNKNOWN",
    }
}

/// Returns whether a verdict is good news.
pub(crate) const fn tone(verdict: Fitness) -> Tone {
    match verdict {
        Fitness::Fit => Tone::Good,
        Fitness::NotFit => Tone::Bad,
        Fitness::Unknown => Tone::Open,
    }
}

/// Returns ` under ` and the load, or nothing without a load.
pub(crate) fn under(load: &LoadLabel) -> String {
    load.load()
        .map_or_else(String::new, |load| format!(" under {}", code(load)))
}

/// States how often an application has an xrun as one service.
pub(crate) fn xruns(service: &ServiceOutlook) -> String {
    let is_waiting = service.waited_ns.is_some();
    match &service.apart {
        Some(apart) => parted(apart, |figures| rate(figures, is_waiting)),
        None => rate(&service.outlook, is_waiting),
    }
}

/// States a fact about the CPUs that fail more often, and about the others.
pub(crate) fn parted(apart: &Apart, write: impl Fn(&MissFigures) -> String) -> String {
    let others = match apart.others {
        1 => "other".into(),
        others => format!("{} others", Cell::Count(others as u64)),
    };
    format!(
        "{} {}; on the {others} {}",
        on_cpus(&apart.cpus),
        write(&apart.on),
        write(&apart.elsewhere)
    )
}

/// Names CPUs: `on CPU 17`.
pub(crate) fn on_cpus(cpus: &CpuList) -> String {
    let plural = if cpus.len() == 1 { "" } else { "s" };
    format!("on CPU{plural} {cpus}")
}

/// States the rate of xruns with its confidence interval.
pub(crate) fn rate(figures: &MissFigures, is_waiting: bool) -> String {
    let time = |ns| rough_time(ns, DIGITS);
    let low = time(figures.mttf_low_ns);
    let high = figures.mttf_high_ns.map(time);
    let mean = figures.mttf_ns.map(time);
    match (is_waiting, mean, high, figures.failures) {
        (true, Some(bound), ..) | (true, None, Some(bound), _) => {
            format!("1 xrun per {bound} or more often (it was still waiting when measuring ended)")
        }
        (true, None, None, _) => {
            "rate of xruns unknown, because it was still waiting when measuring ended".into()
        }
        (false, Some(mean), Some(high), _) => {
            format!("1 xrun per {mean} (95 % CI {low} to {high})")
        }
        (false, Some(mean), None, _) => {
            format!("1 xrun per {mean} (95 % CI: at most 1 per {low})")
        }
        (false, None, _, Some(0.0)) => format!("no xrun in the recording; at most 1 per {low}"),
        (false, None, _, Some(failures)) => format!(
            "{} xruns in the recording (mean over the phases of the replay); at most 1 per {low}",
            Cell::MeanCount(failures)
        ),
        (false, None, Some(high), None) => format!("1 xrun per {low} to {high} (95 % CI)"),
        (false, None, None, None) => format!("at most 1 xrun per {low}"),
    }
}

/// Returns the mean time between xruns with its interval, as a cell of a table.
pub(crate) fn mean_time(service: &ServiceOutlook, figures: &MissFigures) -> Cell {
    let [low, mean, high] = [
        Some(figures.mttf_low_ns),
        figures.mttf_ns,
        figures.mttf_high_ns,
    ]
    .map(|ns| ns.map(Cell::MeanTime));
    let low = low.unwrap_or(Cell::Empty);
    match (service.waited_ns.is_some(), mean, high) {
        (true, Some(bound), _) | (true, None, Some(bound)) => Cell::AtMost(Box::new(bound)),
        (true, None, None) => Cell::Unknown(Reason::StillWaiting),
        (false, Some(mean), Some(high)) => Cell::estimate(mean, low, high),
        (false, Some(mean), None) => Cell::Estimate(
            Box::new(mean),
            Box::new((low, Cell::Text("no limit".into()))),
        ),
        (false, None, Some(high)) => Cell::Interval(Box::new(low), Box::new(high)),
        (false, None, None) => Cell::AtLeast(Box::new(low)),
    }
}

/// Returns the interval of the mean time between xruns, as a cell of a table.
pub(crate) fn interval(service: &ServiceOutlook, figures: &MissFigures) -> Cell {
    let low = Cell::MeanTime(figures.mttf_low_ns);
    let high = figures.mttf_high_ns.map(Cell::MeanTime);
    match (service.waited_ns.is_some(), high) {
        (true, _) => mean_time(service, figures),
        (false, Some(high)) => Cell::Interval(Box::new(low), Box::new(high)),
        (false, None) => Cell::AtLeast(Box::new(low)),
    }
}

/// Returns the mean time between xruns of a profile, or the recording that a verdict needs.
pub(crate) fn profile(service: &ServiceOutlook) -> Cell {
    let (figures, _) = service.judged();
    if service.waited_ns.is_none()
        && figures.failures == Some(0.0)
        && service.verdict == Fitness::Unknown
        && let Some(record) = service.hourly().and_then(|hourly| hourly.record_ns)
        && !service.hourly().is_some_and(|hourly| hourly.is_coarse)
    {
        return format!("no xrun; record {}", rough_time(record, 1)).into();
    }
    let mean = mean_time(service, figures);
    match &service.apart {
        Some(apart) => format!("{mean} {}", on_cpus(&apart.cpus)).into(),
        None => mean,
    }
}

/// States buffers and slack of an application.
pub(crate) fn demand(application: &Application) -> String {
    let policy = policy(application.policy);
    format!(
        "{} buffers of {}, {} of work each: may start up to {} late (slack){}",
        application.buffers,
        Cell::Time(application.buffer_ns),
        Cell::Time(application.compute_ns),
        Cell::Time(application.slack_ns),
        policy.map_or_else(String::new, |policy| format!("; {policy}"))
    )
}

/// Describes what happens after an xrun; `None` for the default.
pub(crate) const fn policy(policy: MissPolicy) -> Option<&'static str> {
    match policy {
        MissPolicy::Late => None,
        MissPolicy::Drop => {
            Some("after an xrun the buffer is dropped at its deadline and the next one filled")
        }
        MissPolicy::Reset => {
            Some("after an xrun all due buffers are discarded and the stream restarts")
        }
    }
}

/// Returns the period of a goal.
pub(crate) const fn goal(goal: Goal) -> &'static str {
    match goal {
        Goal::Hour => "hour",
        Goal::Day => "day",
        Goal::Week => "week",
    }
}

/// States a goal, and the odds that longer recordings decide about it.
pub(crate) fn stated_goal(outlook: &GoalOutlook) -> String {
    let goal = outlook.goal;
    let bursts = match goal.failures {
        1 => "at most 1 burst of xruns".to_owned(),
        failures => format!("at most {failures} bursts of xruns"),
    };
    let per = rough_time(goal.per_ns.as_f64(), DIGITS);
    let stated = match goal.sessions {
        None => format!("goal of {bursts} per {per}"),
        Some(sessions) => format!(
            "goal of {} of {} sessions of {} without an xrun ({bursts} per {per}, if they come at random times)",
            sessions.without,
            sessions.of,
            rough_time(sessions.length_ns.as_f64(), DIGITS),
        ),
    };
    let odds: Vec<String> = outlook
        .odds
        .iter()
        .map(|odds| {
            let length = rough_time(odds.length_ns, DIGITS);
            format!("{:.0} % with {length}", 100.0 * odds.odds)
        })
        .collect();
    if odds.is_empty() {
        return stated;
    }
    let gain = match outlook.odds[..] {
        [first, second, ..] => 100.0 * (second.odds - first.odds),
        _ => 0.0,
    };
    format!(
        "{stated}. Odds that another recording decides, at most: {}. Doubling it gains {gain:.0} points",
        odds.join(", ")
    )
}

/// States the buffers that at most one xrun per hour needs.
pub(crate) fn enough(service: &ServiceOutlook) -> Option<String> {
    let hourly = service.hourly()?;
    let buffers = |buffers: u32| {
        let mut points = service.curve.iter();
        let point = points.find(|point| point.buffers == buffers);
        let buffering = point.map_or(Nanos::ZERO, |point| point.buffering_ns);
        format!("{buffers} buffers ({} of buffering)", Cell::Time(buffering))
    };
    if let Some(surely) = hourly.surely {
        let rarer = service
            .needed
            .iter()
            .filter(|needed| needed.one_miss_per != Goal::Hour);
        let rarer = rarer.filter_map(|needed| {
            Some(format!(
                ", per {}: {}",
                goal(needed.one_miss_per),
                needed.surely?
            ))
        });
        return Some(format!(
            "Enough for one xrun per hour: {}{}",
            buffers(surely),
            rarer.collect::<String>()
        ));
    }
    if let Some(estimate) = hourly.by_estimate {
        return Some(format!(
            "Enough for one xrun per hour: about {} (estimate, not proved)",
            buffers(estimate)
        ));
    }
    let max = service.curve.last().map_or(0, |point| point.buffers);
    let none = service.without_failure().map(|point| point.buffers);
    Some(match (none, hourly.record_ns) {
        _ if hourly.is_coarse => {
            "Enough for one xrun per hour: unknown, the recording is too coarse".into()
        }
        (Some(none), Some(_)) => format!("{} had no xrun in the recording", buffers(none)),
        (None, Some(_)) => format!("Even {} had xruns in the recording", buffers(max)),
        (_, None) => format!("{} are not enough for one xrun per hour", buffers(max)),
    })
}

/// Returns the buffers that a goal needs, as a cell of a table. The curve has up to `max`.
pub(crate) fn needed(needed: &Needed, max: u32) -> Cell {
    match (needed.surely, needed.by_estimate, needed.record_ns) {
        (Some(surely), ..) => Cell::Count(surely.into()),
        (None, Some(estimate), _) => format!("about {estimate}, not proved").into(),
        (None, None, None) if !needed.is_coarse => format!("more than {max}").into(),
        _ if needed.is_coarse => Cell::Unknown(Reason::TooCoarse),
        _ => Cell::Unknown(Reason::TooShort),
    }
}

/// Names the profiles without a row, per verdict.
pub(crate) fn other_profiles(profiles: &[ProfileVerdict]) -> String {
    let verdicts = [Fitness::NotFit, Fitness::Unknown, Fitness::Fit];
    let parts = verdicts.into_iter().filter_map(|fitness| {
        let alike = profiles.iter().filter(|profile| profile.verdict == fitness);
        let names: Vec<&str> = alike.map(|profile| profile.name.as_str()).collect();
        (!names.is_empty()).then(|| format!("Also {}: {}", verdict(fitness), names.join(", ")))
    });
    parts.collect::<Vec<_>>().join(". ")
}

/// States the verdict if other services ran the application.
pub(crate) fn others(services: &[&ServiceOutlook]) -> String {
    let verdicts = [Fitness::Fit, Fitness::Unknown, Fitness::NotFit];
    let parts = verdicts.into_iter().filter_map(|fitness| {
        let alike = services.iter().filter(|service| service.verdict == fitness);
        let names: Vec<String> = alike
            .map(|service| series_words(service.service, service.route))
            .collect();
        let word = verdict(fitness);
        match names.len() {
            0 => None,
            1..=MAX_NAMED => Some(format!("{word} as {}", names.join(", "))),
            count if count == services.len() => Some(format!("all {count} {word}")),
            count => Some(format!("{count} {word}")),
        }
    });
    parts.collect::<Vec<_>>().join("; ")
}

/// States the data behind the figures of a service.
pub(crate) fn data(service: &ServiceOutlook, recordings: &[String]) -> String {
    let figures = &service.outlook;
    let failures = match (figures.failures, figures.clusters) {
        (Some(failures), Some(clusters)) if failures > 0.0 => format!(
            "{} {} in {} independent {}, ",
            Cell::MeanCount(failures),
            noun(failures, "xrun"),
            Cell::MeanCount(clusters),
            noun(clusters, "cluster")
        ),
        _ => String::new(),
    };
    let recordings: Vec<String> = recordings.iter().map(|path| code(path)).collect();
    format!(
        "{failures}{} on {} in {}",
        Cell::MeanTime(figures.exposure_ns / service.cpus.max(1) as f64),
        cpus(service.cpus),
        recordings.join(", ")
    )
}

/// Returns a noun as it follows a mean number.
fn noun(number: f64, singular: &str) -> String {
    let s = if (number - 1.0).abs() < f64::EPSILON {
        ""
    } else {
        "s"
    };
    format!("{singular}{s}")
}

/// Writes a number of CPUs.
pub(crate) fn cpus(cpus: usize) -> String {
    if cpus == 1 {
        "1 CPU".into()
    } else {
        format!("{cpus} CPUs")
    }
}

/// States the next step for the user.
pub(crate) fn next_step(service: &ServiceOutlook, recordings: &[String]) -> Option<String> {
    let why = || {
        let recording = recordings.first()?;
        Some(code(&format!("laggard why {}", quoted(recording))))
    };
    let hourly = service.hourly().filter(|hourly| !hourly.is_coarse);
    let record = hourly.and_then(|hourly| hourly.record_ns);
    match service.verdict {
        Fitness::Fit => None,
        Fitness::NotFit => why().map(|why| format!("{why} shows the causes of late wakeups")),
        Fitness::Unknown if service.waited_ns.is_some() => Some("record until it has run".into()),
        // A longer recording of the same resolution decides, unless stalls between two
        // samples can use up the slack.
        Fitness::Unknown if service.outlook.failures == Some(0.0) => match record {
            Some(record) => Some(format!(
                "record {}; without an xrun in it, the verdict is FIT",
                rough_time(record, DIGITS)
            )),
            None => remedy(&service.resolution),
        },
        Fitness::Unknown => remedy(&service.resolution)
            .or_else(|| Some("record for longer to narrow the interval".into())),
    }
}

/// States that a service was still waiting when measuring ended.
pub(crate) fn waiting(service: &ServiceOutlook) -> Option<String> {
    let waited = service.waited_ns?;
    Some(format!(
        "{} was still waiting when measuring ended, for {} by then: xruns and late buffers are lower limits (>=), mean times are upper limits (<=)",
        series_words(service.service, service.route),
        Cell::Time(waited)
    ))
}

/// States the limits of the resolution for this slack and the remedy; `None` if it is full.
pub(crate) fn resolution(resolution: &Resolution, slack: Nanos) -> Option<String> {
    let slack = Cell::Time(slack);
    let interval = |ns: f64| rough_time(ns, DIGITS);
    let fact = match resolution {
        Resolution::Full => return None,
        Resolution::OnsetCoarse {
            sample_interval_ns, ..
        } => format!(
            "a sample every {} resolves a slack of {slack} only coarsely, so the interval is wide",
            interval(*sample_interval_ns)
        ),
        Resolution::TailOnly { sample_interval_ns } => format!(
            "the recording keeps only the late samples (`--keep tail`), and a sample every {} is not fine enough for a slack of {slack}: there is only an interval, and late buffers are from the histogram",
            interval(*sample_interval_ns)
        ),
        Resolution::TooCoarse {
            sample_interval_ns, ..
        } => format!(
            "samples are {} apart, and a stall between two samples can use up a slack of {slack}: there is only an interval, and late buffers are from the share of samples above the slack",
            interval(*sample_interval_ns)
        ),
        Resolution::NotRecorded {
            floor_ns,
            matters_above_ns,
            is_tail,
        } => format!(
            "the times of latencies up to {} were not recorded ({}), and with a slack of {slack} those above {} matter: there is only an interval (for `--policy late`), and late buffers are from the histogram",
            Cell::Time(*floor_ns),
            if *is_tail {
                "`--keep tail`"
            } else {
                "too many samples"
            },
            Cell::Time(*matters_above_ns),
        ),
    };
    let remedy = remedy(resolution)?;
    Some(format!("{fact}; {remedy}"))
}

/// Returns the remedy for a limited resolution.
pub(crate) fn remedy(resolution: &Resolution) -> Option<String> {
    match resolution {
        Resolution::Full => None,
        Resolution::OnsetCoarse { finer, .. } | Resolution::TooCoarse { finer, .. } => {
            Some(trust::finer(finer))
        }
        Resolution::TailOnly { .. } | Resolution::NotRecorded { is_tail: true, .. } => {
            Some("record with `--keep all`".into())
        }
        Resolution::NotRecorded { is_tail: false, .. } => {
            Some("record only the services and CPUs that matter, or a shorter time".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use laggard_answer::qos::VerdictOdds;

    use super::*;

    #[test]
    fn interval_without_a_replay_names_its_policy() {
        let not_recorded = Resolution::NotRecorded {
            floor_ns: Nanos::from_us(10),
            matters_above_ns: Nanos::from_us(5),
            is_tail: true,
        };

        assert_eq!(
            resolution(&not_recorded, Nanos::from_us(50)).unwrap(),
            "the times of latencies up to 10.0 us were not recorded (`--keep tail`), and with a slack of 50.0 us those above 5.00 us matter: there is only an interval (for `--policy late`), and late buffers are from the histogram; record with `--keep all`"
        );
        assert_eq!(resolution(&Resolution::Full, Nanos::from_us(50)), None);
    }

    #[test]
    fn open_goal_has_the_odds_of_longer_recordings() {
        let odds = |minutes: f64, odds: f64| VerdictOdds {
            length_ns: minutes * 6e10,
            odds,
        };
        let mut outlook = GoalOutlook {
            goal: "2 per 8h".parse().unwrap(),
            verdict: Fitness::Unknown,
            odds: vec![odds(10.0, 0.123), odds(20.0, 0.5)],
        };

        assert_eq!(
            stated_goal(&outlook),
            "goal of at most 2 bursts of xruns per 8.0 h. Odds that another recording decides, at most: 12 % with 10 min, 50 % with 20 min. Doubling it gains 38 points"
        );
        outlook.odds.clear();
        assert_eq!(
            stated_goal(&outlook),
            "goal of at most 2 bursts of xruns per 8.0 h"
        );
    }
}
