//! Recordings of each study.

use laggard_model::{Nanos, Service};

use super::StudyName;

/// Recording of a study.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Name, which starts the names of its recordings.
    pub name: &'static str,
    /// Name of the load; the machine as it is without one.
    pub load: Option<&'static str>,
    /// Other options of `laggard record`.
    pub options: &'static [&'static str],
    /// Lengths of the spans (an hour, a day and a week of use) in seconds of recording. The
    /// last is the length of the recording.
    pub spans: [u64; 3],
    /// The same for `--quick`.
    pub quick: [u64; 3],
}

/// Part of a study that laggard cannot repeat on any machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Gap {
    /// A program that reads every opened file (Figure 5).
    Scanner,
    /// Kernel threads at two priorities.
    KernelThreads,
    /// A load that plays to a sound device.
    Sound,
    /// Hardware timer with a separate clock.
    ExternalClock,
}

impl Step {
    /// Returns the spans in the mode.
    pub const fn spans(&self, is_quick: bool) -> [u64; 3] {
        if is_quick { self.quick } else { self.spans }
    }

    /// Returns the options of `laggard record`. Long recordings keep the tail alone.
    pub fn record_options(&self, is_quick: bool) -> Vec<&'static str> {
        let mut options = self.options.to_vec();
        if let Some(load) = self.load {
            options.extend(["--load", load]);
        }
        if self.length(is_quick) >= MIN_TAIL {
            options.extend(["--keep", "tail"]);
        }
        options
    }

    /// Returns the planned length.
    pub const fn length(&self, is_quick: bool) -> Nanos {
        Nanos::from_secs(self.spans(is_quick)[2])
    }

    /// Returns the lengths after which the recording pauses for the other steps, so that the
    /// shorter spans of all steps are recorded first.
    pub fn goals(&self, is_quick: bool) -> Vec<Nanos> {
        let mut goals = self.spans(is_quick).to_vec();
        if is_quick {
            goals = goals.split_off(2);
        }
        goals.dedup();
        goals.into_iter().map(Nanos::from_secs).collect()
    }
}

/// Length from which a recording keeps the tail alone.
const MIN_TAIL: Nanos = Nanos::from_secs(3_600);

/// Spans of a study that records each load once.
const fn once(secs: u64) -> [u64; 3] {
    [secs, secs, secs]
}

const QUICK: [u64; 3] = [6, 30, 120];

/// Spans: hours of use over the compression of the paper (OSDI'99 3.1, 4.3). A day of office
/// and workstation use has 7 h and a week 5 days; of games and the web, 3.5 h and 7 days.
const OSDI99: [Step; 4] = [
    Step {
        name: "office",
        load: Some("office"),
        options: &[],
        spans: [360, 2_520, 12_600],
        quick: QUICK,
    },
    Step {
        name: "workstation",
        load: Some("workstation"),
        options: &[],
        spans: [720, 5_040, 25_200],
        quick: QUICK,
    },
    Step {
        name: "game",
        load: Some("game"),
        options: &[],
        spans: [3_600, 12_600, 88_200],
        quick: QUICK,
    },
    Step {
        name: "web",
        load: Some("web"),
        options: &[],
        spans: [900, 3_150, 22_050],
        quick: QUICK,
    },
];

/// Services of the five tables, the most direct first.
const DEFERRED: &[&str] = &[
    "--services",
    "irq,softirq,worker,fifo:50,pi:50,nice:-20,slice:100us,other",
    "--skip-unavailable",
    // The paper has an interrupt every 20 ms.
    "--period",
    "10ms",
];

/// Builds a step of Heubaum's four scenarios.
const fn scenario(load: &'static str) -> Step {
    Step {
        name: load,
        load: Some(load),
        options: DEFERRED,
        spans: once(60),
        quick: once(10),
    }
}

const HEUBAUM: [Step; 5] = [
    scenario("idle"),
    scenario("draw"),
    scenario("fp"),
    scenario("fileio"),
    Step {
        name: "busy",
        load: None,
        options: &["--contexts", "4"],
        spans: once(60),
        quick: once(10),
    },
];

impl StudyName {
    /// Returns the recordings of the study.
    pub const fn steps(self) -> &'static [Step] {
        match self {
            Self::Osdi99 => &OSDI99,
            Self::Heubaum => &HEUBAUM,
        }
    }

    /// Returns the parts of the paper that laggard cannot repeat.
    pub const fn gaps(self) -> &'static [Gap] {
        match self {
            Self::Osdi99 => &[Gap::Scanner, Gap::KernelThreads, Gap::Sound],
            Self::Heubaum => &[Gap::ExternalClock],
        }
    }
}

/// Services of the real-time threads of OSDI'99: priorities 28 and 24 of the paper.
pub const HIGH: Service = Service::Fifo(90);
/// The lower one.
pub const MEDIUM: Service = Service::Fifo(50);

#[cfg(test)]
mod tests {
    use laggard_model::UsagePattern;

    use super::*;

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds of a week"
    )]
    #[test]
    fn spans_of_osdi99_are_hours_of_use_over_the_compression() {
        for step in &OSDI99 {
            let usage: UsagePattern = step.name.parse().unwrap();
            let hours = [
                1.0,
                usage.hours_per_day,
                usage.hours_per_day * usage.days_per_week,
            ];
            let secs = hours.map(|hours| (hours * 3600.0 / usage.compression).round() as u64);

            assert_eq!(step.spans, secs, "{}", step.name);
        }
    }

    #[test]
    fn durations_are_those_of_the_documentation() {
        let sum = |study: StudyName, is_quick: bool| -> u64 {
            let lengths = study.steps().iter().map(|step| step.length(is_quick).ns());
            lengths.sum::<u64>() / 1_000_000_000
        };

        assert_eq!(sum(StudyName::Osdi99, false) / 3600, 41);
        assert_eq!(sum(StudyName::Osdi99, true), 480);
        assert_eq!(sum(StudyName::Heubaum, false), 300);
    }
}
