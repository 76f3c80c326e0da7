//! Recordings of each study.

use laggard_model::{Nanos, Service};

use super::StudyName;

/// Recording of a study, or a test of `laggard bench`.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Name, which starts the names of its recordings. The result of a test is `NAME.json`.
    pub name: &'static str,
    /// Name of the load; `None`: the machine without an additional load.
    pub load: Option<&'static str>,
    /// Other options of `laggard record`.
    pub options: &'static [&'static str],
    /// Arguments of laggard to inject a fault during the recording; none without one.
    pub fault: &'static [&'static str],
    /// Test of `laggard bench` that takes the place of the recording.
    pub bench: Option<Bench>,
    /// Lengths of the spans (an hour, a day and a week of use) in seconds of recording. The
    /// last is the length of the recording.
    pub spans: [u64; 3],
    /// The same for `--quick`.
    pub quick: [u64; 3],
}

/// Test of `laggard bench`, whose JSON is the result of a step.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    /// Name of the command.
    pub name: &'static str,
    pub options: &'static [&'static str],
    /// Number of its tests, which share the length of the step.
    pub tests: u64,
}

/// Part of a study that laggard cannot repeat on any machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Gap {
    /// Kernel threads at two priorities.
    KernelThreads,
    /// Hardware timer with a separate clock.
    ExternalClock,
    /// Receive handlers of several network cards.
    NetworkCards,
    /// Devices that stall the bus.
    BusStalls,
    /// Tick of 976.5625 us, and the timer that is programmed for it.
    HiddenTick,
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

    /// Returns the arguments of laggard for the test `bench`.
    pub fn bench_options(&self, bench: &Bench, is_quick: bool) -> Vec<String> {
        let each = Nanos::from_ns(self.length(is_quick).ns() / bench.tests);
        let command = ["bench", bench.name].into_iter();
        let options = command.chain(bench.options.iter().copied());
        let mut options: Vec<String> = options.map(Into::into).collect();
        options.extend(["--duration".into(), each.to_string(), "--json".into()]);
        options
    }

    /// Returns the planned length.
    pub const fn length(&self, is_quick: bool) -> Nanos {
        Nanos::from_secs(self.spans(is_quick)[2])
    }

    /// Returns the recorded lengths when the recording pauses for the other steps, so that the
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

/// A recording of this length or longer keeps the tail alone.
const MIN_TAIL: Nanos = Nanos::from_secs(3_600);

/// Spans of a study that records each load once.
const fn once(secs: u64) -> [u64; 3] {
    [secs, secs, secs]
}

const QUICK: [u64; 3] = [6, 30, 120];

/// Spans: hours of use over the compression of the paper (OSDI'99 3.1, 4.3). A day of office
/// and workstation use has 7 h and a week 5 days; of games and the web, 3.5 h and 7 days.
const OSDI99: [Step; 6] = [
    step(OFFICE, Some("office"), [OFFICE_HOUR, 2_520, 12_600], QUICK),
    step(
        "workstation",
        Some("workstation"),
        [720, 5_040, 25_200],
        QUICK,
    ),
    step("game", Some("game"), [3_600, 12_600, 88_200], QUICK),
    step("web", Some("web"), [900, 3_150, 22_050], QUICK),
    step(SCANNER, Some("office+scanner"), once(OFFICE_HOUR), once(60)),
    step(SOUND, Some("office+sound"), once(OFFICE_HOUR), once(60)),
];

/// Office use.
pub(super) const OFFICE: &str = "office";
/// Office use next to a virus scanner (Figure 5).
pub(super) const SCANNER: &str = "office-scanner";
/// Office use with sounds.
pub(super) const SOUND: &str = "office-sound";
/// An hour of office use, seconds of recording.
const OFFICE_HOUR: u64 = 360;

/// Builds a step that records with the options of `laggard record` alone.
const fn step(
    name: &'static str,
    load: Option<&'static str>,
    spans: [u64; 3],
    quick: [u64; 3],
) -> Step {
    Step {
        name,
        load,
        options: &[],
        fault: &[],
        bench: None,
        spans,
        quick,
    }
}

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
        options: DEFERRED,
        ..step(load, Some(load), once(60), once(10))
    }
}

/// Builds a step with a plain thread that computes and competes with a load for one CPU.
const fn computing(name: &'static str, load: &'static str) -> Step {
    Step {
        options: &["--contexts", "0"],
        ..step(name, Some(load), once(15), once(3))
    }
}

/// Each scenario is followed by the same scenario with a computing plain thread.
const HEUBAUM: [Step; 8] = [
    scenario("idle"),
    computing("busy-idle", "idle"),
    scenario("draw"),
    computing("busy-draw", "draw"),
    scenario("fp"),
    computing("busy-fp", "fp"),
    scenario("fileio"),
    computing("busy-fileio", "fileio"),
];

/// Option to count all handlers.
pub const HANDLERS: &str = "--handlers";

/// Builds a step that looks for causes.
const fn causes(
    name: &'static str,
    load: Option<&'static str>,
    fault: &'static [&'static str],
) -> Step {
    Step {
        options: &[HANDLERS],
        fault,
        ..step(name, load, once(60), once(15))
    }
}

/// Builds a step that runs a test of `laggard bench`, with `each` seconds per part.
const fn bench(name: &'static str, bench: Bench, each: u64, quick: u64) -> Step {
    let (length, quick) = (each * bench.tests, quick * bench.tests);
    Step {
        bench: Some(bench),
        ..step(name, None, once(length), once(quick))
    }
}

/// The timers, the machine as it is, a receiver at full rate, and the two periodic handlers
/// that the paper found (4.4) as injected faults.
const HOTOS99: [Step; 5] = [
    bench(
        "timers",
        Bench {
            name: "timers",
            options: &[
                "--api",
                "timerfd,setitimer,poll,so_rcvtimeo,ppoll",
                "--period",
                "1ms",
            ],
            tests: 5,
        },
        10,
        2,
    ),
    causes("machine", None, &[]),
    causes("receive", Some("net"), &[]),
    causes(
        "fault-7ms",
        None,
        &["provoke", "softirq", "--length", "7ms", "--every", "5s"],
    ),
    causes(
        "fault-17ms",
        None,
        &["provoke", "softirq", "--length", "17ms", "--every", "10s"],
    ),
];

/// `rtos` tests seven criteria, and `bounded` under five loads. `switch` has the number of
/// threads of Figure 2, and the numbers of Figure 4.
const TIMMERMAN: [Step; 2] = [
    bench(
        "rtos",
        Bench {
            name: "rtos",
            options: &[],
            tests: 12,
        },
        10,
        2,
    ),
    bench(
        "switch",
        Bench {
            name: "switch",
            options: &["--threads", "2,4,8,10,16,32,64,128"],
            tests: 8,
        },
        8,
        1,
    ),
];

impl StudyName {
    /// Returns the recordings of the study.
    pub const fn steps(self) -> &'static [Step] {
        match self {
            Self::Osdi99 => &OSDI99,
            Self::Hotos99 => &HOTOS99,
            Self::Heubaum => &HEUBAUM,
            Self::Timmerman => &TIMMERMAN,
        }
    }

    /// Returns the parts of the paper that laggard cannot repeat.
    pub const fn gaps(self) -> &'static [Gap] {
        match self {
            Self::Osdi99 => &[Gap::KernelThreads],
            Self::Hotos99 => &[Gap::HiddenTick, Gap::NetworkCards, Gap::BusStalls],
            Self::Heubaum => &[Gap::ExternalClock],
            Self::Timmerman => &[Gap::ExternalClock],
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
        for step in &OSDI99[..4] {
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
        assert_eq!(sum(StudyName::Osdi99, true), 600);
        for (study, secs, quick) in [
            (StudyName::Hotos99, 290, 70),
            (StudyName::Heubaum, 300, 52),
            (StudyName::Timmerman, 184, 32),
        ] {
            assert_eq!((sum(study, false), sum(study, true)), (secs, quick));
        }
    }
}
