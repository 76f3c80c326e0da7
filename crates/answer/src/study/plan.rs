//! Recordings of each study.

use laggard_model::{Nanos, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::StudyName;

/// Recording of a study, or a test of `laggard bench`.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Name, which starts the names of its recordings. The result of a test is `NAME.json`.
    pub name: &'static str,
    /// Name of the load; `None`: the machine without an additional load.
    pub load: Option<&'static str>,
    pub role: Role,
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

/// Use of a recording in the tables.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// A load with all services.
    Main,
    /// The first load next to a virus scanner (OSDI'99 Fig. 5).
    Scanner,
    /// The first load with sounds.
    Sound,
    /// Kernel threads next to the first load. They have one priority per recording.
    KernelThread,
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

/// Part of a study that laggard did not repeat.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// Loads of the paper: others were chosen.
    Loads,
    /// Kernel threads at two priorities.
    KernelThreads,
    /// Hardware timer with a separate clock.
    ExternalClock,
    /// Receive handlers of network cards: the load uses the loopback device.
    NetworkCards,
    /// Devices that stall the bus.
    BusStalls,
}

impl Step {
    const fn with_role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    /// Returns the spans in the mode.
    pub const fn spans(&self, is_quick: bool) -> [u64; 3] {
        if is_quick { self.quick } else { self.spans }
    }

    /// Returns the options of `laggard record` but for the load. Long recordings keep the tail
    /// alone.
    pub fn record_options(&self, is_quick: bool) -> Vec<&'static str> {
        let mut options = self.options.to_vec();
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
const OSDI99: [Step; 8] = [
    step(
        "office",
        Some("office"),
        [OFFICE_HOUR, 2_520, 12_600],
        QUICK,
    ),
    step(
        "workstation",
        Some("workstation"),
        [720, 5_040, 25_200],
        QUICK,
    ),
    step("game", Some("game"), [3_600, 12_600, 88_200], QUICK),
    step("web", Some("web"), [900, 3_150, 22_050], QUICK),
    step(
        "office-scanner",
        Some("office+scanner"),
        once(OFFICE_HOUR),
        once(60),
    )
    .with_role(Role::Scanner),
    step(
        "office-sound",
        Some("office+sound"),
        once(OFFICE_HOUR),
        once(60),
    )
    .with_role(Role::Sound),
    kernel_thread("office-kthread-90", Some("office"), KTHREAD_HIGH),
    kernel_thread("office-kthread-50", Some("office"), KTHREAD_MEDIUM),
];

/// Options of the two kernel threads.
const KTHREAD_HIGH: &[&str] = &["--services", "kthread:90"];
const KTHREAD_MEDIUM: &[&str] = &["--services", "kthread:50"];
/// An hour, a day and a week of use of a load without a usage pattern, seconds.
const UNCOMPRESSED: [u64; 3] = [3_600, 25_200, 126_000];

/// Returns the steps of OSDI'99 with other loads. The first takes the place of `office`.
fn osdi99_with(loads: &[String]) -> Vec<Step> {
    // The names live as long as the program, as those of the paper's loads.
    let text = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let name = |load: &str| {
        let letters = load.chars();
        let letter = |letter: char| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '-'
            }
        };
        letters.map(letter).collect::<String>()
    };
    let main = |load: &String| {
        let load = text(load.clone());
        step(text(name(load)), Some(load), UNCOMPRESSED, QUICK)
    };
    let mut steps: Vec<Step> = loads.iter().map(main).collect();
    let Some(first) = steps.first().copied() else {
        return steps;
    };
    let named = |end: &str| text([first.name, "-", end].concat());
    let with = |other: &str| first.load.map(|load| text([load, "+", other].concat()));
    let hour = UNCOMPRESSED[0];
    steps.extend([
        step(named("scanner"), with("scanner"), once(hour), once(60)).with_role(Role::Scanner),
        step(named("sound"), with("sound"), once(hour), once(60)).with_role(Role::Sound),
        kernel_thread(named("kthread-90"), first.load, KTHREAD_HIGH),
        kernel_thread(named("kthread-50"), first.load, KTHREAD_MEDIUM),
    ]);
    steps
}

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
        role: Role::Main,
        options: &[],
        fault: &[],
        bench: None,
        spans,
        quick,
    }
}

/// Builds a step with kernel threads.
const fn kernel_thread(
    name: &'static str,
    load: Option<&'static str>,
    options: &'static [&'static str],
) -> Step {
    Step {
        options,
        ..step(name, load, once(OFFICE_HOUR), once(30)).with_role(Role::KernelThread)
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

/// Each scenario is followed by the same scenario with a computing plain thread. The recordings
/// use the CPU's clock. The last step uses a timer with a separate clock, as the paper did.
const HEUBAUM: [Step; 9] = [
    scenario("idle"),
    computing("busy-idle", "idle"),
    scenario("draw"),
    computing("busy-draw", "draw"),
    scenario("fp"),
    computing("busy-fp", "fp"),
    scenario("fileio"),
    computing("busy-fileio", "fileio"),
    bench(
        "rtos",
        Bench {
            name: "rtos",
            options: &["--only", "interrupts", "--source", "hpet"],
            tests: 1,
        },
        10,
        2,
    ),
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

/// Step that receives at full rate.
pub const RECEIVE: &str = "receive";
/// Load of that step, through the loopback device. The name of a host may follow, after a colon.
pub const RECEIVER: &str = "net";

/// The timers, the machine as it is, a receiver at full rate, and the two periodic handlers
/// that the paper found (4.4) as injected faults.
const HOTOS99: [Step; 5] = [
    bench(
        "timers",
        Bench {
            name: "timers",
            options: &[
                "--api",
                "timerfd,setitimer,poll,so_rcvtimeo,ppoll,tick-relative,tick-absolute",
                "--period",
                "1ms",
            ],
            tests: 7,
        },
        10,
        2,
    ),
    causes("machine", None, &[]),
    causes(RECEIVE, Some(RECEIVER), &[]),
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
    /// Returns the recordings of the study with other loads than the paper's, unless there are
    /// none. Only OSDI'99 can have others.
    pub fn steps_with(self, loads: &[String]) -> Vec<Step> {
        match self {
            Self::Osdi99 if !loads.is_empty() => osdi99_with(loads),
            Self::Osdi99 | Self::Hotos99 | Self::Heubaum | Self::Timmerman => self.steps().to_vec(),
        }
    }

    /// Returns the recordings of the study with the paper's loads.
    const fn steps(self) -> &'static [Step] {
        match self {
            Self::Osdi99 => &OSDI99,
            Self::Hotos99 => &HOTOS99,
            Self::Heubaum => &HEUBAUM,
            Self::Timmerman => &TIMMERMAN,
        }
    }

    /// Returns the lengths of the spans of `--quick`.
    pub fn quick_spans(self) -> Option<[Nanos; 3]> {
        let step = self.steps().first()?;
        Some(step.quick.map(Nanos::from_secs))
    }

    /// Returns the parts of the paper that laggard may not repeat. Recordings of the machine
    /// decide.
    pub const fn gaps(self) -> &'static [Gap] {
        match self {
            Self::Osdi99 => &[Gap::KernelThreads],
            Self::Hotos99 => &[Gap::NetworkCards, Gap::BusStalls],
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
    fn other_loads_have_the_steps_of_the_papers() {
        let steps = StudyName::Osdi99.steps_with(&["busy:2".into(), "fp".into()]);

        let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
        let expected = [
            "busy-2",
            "fp",
            "busy-2-scanner",
            "busy-2-sound",
            "busy-2-kthread-90",
            "busy-2-kthread-50",
        ];
        assert_eq!(names, expected);
        assert_eq!(steps[2].load, Some("busy:2+scanner"));
        let own = StudyName::Osdi99.steps_with(&[]);
        let roles = |steps: &[Step]| steps.iter().map(|step| step.role).collect::<Vec<Role>>();
        assert_eq!(roles(&steps[2..]), roles(&own[4..]));
    }

    #[test]
    fn durations_are_those_of_the_documentation() {
        let sum = |study: StudyName, is_quick: bool| -> u64 {
            let lengths = study.steps().iter().map(|step| step.length(is_quick).ns());
            lengths.sum::<u64>() / 1_000_000_000
        };

        assert_eq!(sum(StudyName::Osdi99, false) / 3600, 41);
        assert_eq!(sum(StudyName::Osdi99, true), 660);
        for (study, secs, quick) in [
            (StudyName::Hotos99, 310, 74),
            (StudyName::Heubaum, 310, 54),
            (StudyName::Timmerman, 184, 32),
        ] {
            assert_eq!((sum(study, false), sum(study, true)), (secs, quick));
        }
    }
}
