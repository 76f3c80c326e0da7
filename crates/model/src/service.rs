//! Services: the levels at which an application can get its code run.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Cpu, Nanos, Stage, TracedService, WatchedTask, nearest};

/// A level at which an application can get its code run (OSDI'99 2.1: ISR,
/// DPC, work item, high and default real-time thread).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Service {
    /// The handler of the timer's interrupt.
    Irq,
    /// A callback in softirq context.
    Softirq,
    /// A kernel workqueue's work item.
    Worker,
    /// A `SCHED_FIFO` thread of this priority, 1 to 99.
    Fifo(u8),
    /// A normal thread (`SCHED_OTHER`, nice 0).
    Other,
    /// A normal thread of another nice value, -20 to 19.
    Nice(i8),
    /// A normal thread that wants to run for so long at a time, and so has its turn the
    /// sooner the shorter that is (Linux 6.12).
    Slice(Nanos),
    /// A normal thread that has a real-time priority, 1 to 99, for its work alone: lent
    /// by a thread that waits at a PI futex which it holds.
    Lent(u8),
    /// A thread of this priority, 16 to 31, of a process of Windows' class
    /// `REALTIME_PRIORITY_CLASS`.
    Realtime(u8),
    /// A thread that Windows' Multimedia Class Scheduler has as one of its task "Pro Audio".
    Mmcss,
    /// The deferred procedure call (DPC) of a timer of Windows' kernel, in the driver
    /// `wdmlat.sys` (OSDI'99 2.2.3).
    Dpc,
    /// A system thread of that driver of this priority, 16 to 31, which the DPC wakes
    /// (OSDI'99 2.2.4: 28 and 24).
    SystemThread(u8),
    /// A `SCHED_DEADLINE` thread.
    Deadline,
    /// A kernel thread: that of the kernel's timerlat tracer, `SCHED_FIFO` 95.
    Kthread,
    /// A thread of somebody else's, which `attach` watched.
    Task(WatchedTask),
    /// What a trace of another system tells the times of, which `import` read.
    Traced(TracedService),
}

/// The place of a service in the order in which services are shown: [`Service::rank`].
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ServiceRank(u64, Service);

impl ServiceRank {
    /// Its place among the services that laggard itself asks for: no two of these have the
    /// same, all are below 2^28. Of threads of other programs, and of what a trace tells
    /// of, it is the same for many, and above that.
    #[must_use]
    pub const fn place(self) -> u64 {
        self.0
    }
}

impl Service {
    /// The stage at which this service's first instruction runs.
    pub const fn last_stage(self) -> Stage {
        match self {
            Self::Irq => Stage::Irq,
            Self::Softirq => Stage::Softirq,
            Self::Worker => Stage::Worker,
            // The kernel begins to run the timer's callback, which the DPC is.
            Self::Dpc => Stage::Expire,
            Self::Kthread | Self::SystemThread(_) => Stage::Kthread,
            // What it is for is its work, not its first instruction.
            Self::Task(_) => Stage::Done,
            Self::Traced(TracedService::Ready(_)) => Stage::Running,
            Self::Traced(_) => Stage::Done,
            Self::Fifo(_)
            | Self::Lent(_)
            | Self::Realtime(_)
            | Self::Mmcss
            | Self::Deadline
            | Self::Nice(_)
            | Self::Slice(_)
            | Self::Other => Stage::User,
        }
    }

    /// The shortest and the longest slice that a kernel lets a normal thread have.
    pub const SLICES: (Nanos, Nanos) = (Nanos::from_us(100), Nanos::from_ms(100));

    /// What is measured unless asked otherwise, as far as it can be had.
    pub const DEFAULTS: [Self; 6] = [
        Self::Irq,
        Self::Softirq,
        Self::Worker,
        Self::Fifo(90),
        Self::Fifo(50),
        Self::Other,
    ];

    /// The same on Windows: the two levels of OSDI'99, and a normal thread.
    pub const WINDOWS_DEFAULTS: [Self; 3] = [Self::Realtime(31), Self::Realtime(24), Self::Other];

    /// The priorities of [`Service::Realtime`] and [`Service::SystemThread`].
    pub const REALTIME: (u8, u8) = (16, 31);

    /// Its place in the order in which services are shown, from the interrupt
    /// outward: irq, softirq, DPC, threads by falling priority, those of a lent one, those
    /// of Windows, normal threads, work items; those of other programs and systems by name.
    /// Less is more direct; no two services have the same.
    #[must_use]
    pub const fn rank(self) -> ServiceRank {
        /// Behind all slices, the longest of which has so many nanoseconds.
        const OTHER: u64 = 200_000_000;
        /// Behind all others.
        const TASKS: u64 = 1 << 62;
        /// In recordings of their own.
        const TRACED: u64 = 1 << 61;
        let place = match self {
            Self::Irq => 0,
            Self::Softirq => 1,
            // Above all priorities.
            Self::Deadline => 2,
            Self::Dpc => 3,
            // A FIFO thread of priority 95, before the user's of that priority.
            Self::Kthread => 7,
            Self::Fifo(priority) if priority > 95 => 102 - priority as u64,
            Self::Fifo(priority) => 103 - priority as u64,
            Self::Lent(priority) => 202 - priority as u64,
            Self::Nice(nice) if nice < 0 => 202 + nice.saturating_add(20).unsigned_abs() as u64,
            // Below the shortest slice.
            Self::SystemThread(priority) => 900 - priority as u64,
            Self::Realtime(priority) => 1_000 - priority as u64,
            Self::Mmcss => 1_000,
            Self::Slice(length) => 222 + length.ns(),
            Self::Other => OTHER,
            Self::Nice(nice) => OTHER + nice.unsigned_abs() as u64,
            Self::Worker => OTHER + 20,
            Self::Task(_) => TASKS,
            Self::Traced(of) => TRACED | of.rank(),
        };
        ServiceRank(place, self)
    }

    /// How urgent the kernel takes it to be: on one CPU the more urgent runs
    /// first. Normal threads and work items, which are run by such, are alike.
    #[must_use]
    pub const fn urgency(self) -> u8 {
        match self {
            Self::Irq => 102,
            Self::Softirq | Self::Dpc => 101,
            Self::Deadline => 100,
            Self::Fifo(priority)
            | Self::Lent(priority)
            | Self::Realtime(priority)
            | Self::SystemThread(priority) => priority,
            // From 23 to 26, as it lets it have.
            Self::Mmcss => 24,
            Self::Kthread => 95,
            Self::Other | Self::Nice(_) | Self::Slice(_) | Self::Worker => 0,
            // It may change, and is in no recording.
            Self::Task(_) => 0,
            // Another system has other priorities.
            Self::Traced(_) => 0,
        }
    }

    /// The priority that is lent to it, where one is.
    #[must_use]
    pub const fn lent(self) -> Option<u8> {
        match self {
            Self::Lent(priority) => Some(priority),
            Self::Irq
            | Self::Softirq
            | Self::Worker
            | Self::Fifo(_)
            | Self::Other
            | Self::Nice(_)
            | Self::Slice(_)
            | Self::Realtime(_)
            | Self::Mmcss
            | Self::Dpc
            | Self::SystemThread(_)
            | Self::Deadline
            | Self::Kthread
            | Self::Task(_)
            | Self::Traced(_) => None,
        }
    }

    /// Whether it is a normal thread, which shares its CPU with others by turns.
    #[must_use]
    pub const fn is_normal_thread(self) -> bool {
        matches!(self, Self::Other | Self::Nice(_) | Self::Slice(_))
    }

    /// Whether `other` is what this names: itself, or one of what a trace has of every
    /// driver (`dpc:*`, `isr:*`).
    #[must_use]
    pub fn takes_in(self, other: Self) -> bool {
        match (self, other) {
            (Self::Traced(own), Self::Traced(other)) => own.takes_in(&other),
            _ => self == other,
        }
    }

    /// Whether a thread of ours gives this service.
    pub const fn is_thread(self) -> bool {
        matches!(
            self,
            Self::Fifo(_)
                | Self::Lent(_)
                | Self::Realtime(_)
                | Self::Mmcss
                | Self::Deadline
                | Self::Nice(_)
                | Self::Slice(_)
                | Self::Other
        )
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Irq => f.write_str("irq"),
            Self::Softirq => f.write_str("softirq"),
            Self::Worker => f.write_str("worker"),
            Self::Kthread => f.write_str("kthread"),
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
            Self::Lent(priority) => write!(f, "pi:{priority}"),
            Self::Realtime(priority) => write!(f, "realtime:{priority}"),
            Self::Mmcss => f.write_str("mmcss"),
            Self::Dpc => f.write_str("dpc"),
            Self::SystemThread(priority) => write!(f, "kthread:{priority}"),
            Self::Other => f.write_str("other"),
            Self::Nice(nice) => write!(f, "nice:{nice}"),
            Self::Slice(length) => write!(f, "slice:{length}"),
            Self::Deadline => f.write_str("deadline"),
            Self::Task(task) => write!(f, "task:{task}"),
            Self::Traced(of) => of.fmt(f),
        }
    }
}

/// Names, for who misspelt one.
const NAMES: [&str; 14] = [
    "irq",
    "softirq",
    "worker",
    "deadline",
    "fifo:90",
    "pi:50",
    "other",
    "nice:-20",
    "slice:100us",
    "kthread",
    "realtime:31",
    "mmcss",
    "dpc",
    "kthread:28",
];

/// Why a text is not a service.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseServiceError {
    /// No service has this name.
    #[error(
        "`{0}` is not a service; use irq, softirq, worker, deadline, fifo:1 to fifo:99, pi:1 to pi:99, other, nice:-20 to nice:19, slice:100us to slice:100ms, or kthread; on Windows realtime:16 to realtime:31, mmcss, dpc, or kthread:16 to kthread:31{meant}",
        meant = nearest(.0, &NAMES)
    )]
    Unknown(String),
    /// The nice value is none, or that of `other`.
    #[error(
        "`{0}` has no nice value from -20 to 19, without 0, which is `other`; write it as `nice:-20`"
    )]
    Nice(String),
    /// The slice is none that a normal thread can have.
    #[error("`{0}` has no slice from 100us to 100ms; write it as `slice:100us`")]
    Slice(String),
    /// It is nothing that a trace tells.
    #[error(transparent)]
    Traced(#[from] crate::ParseTracedError),
    /// The thread is none.
    #[error("`{0}` is no thread; write it as a recording has it: `task:NAME/WAY`")]
    Task(String),
    /// The priority is not one that a thread can lend.
    #[error("`{0}` has no priority from 1 to 99; write it as `pi:50`")]
    Lent(String),
    /// The priority is not one that a process of the real-time class has.
    #[error("`{0}` has no priority from 16 to 31; write it as `realtime:31`")]
    Realtime(String),
    /// The priority is not one that a system thread of Windows has here.
    #[error("`{0}` has no priority from 16 to 31; write it as `kthread:28`")]
    SystemThread(String),
    /// The priority is not one that `SCHED_FIFO` has.
    #[error("`{0}` has no priority from 1 to 99; write it as `fifo:90`")]
    Priority(String),
}

impl FromStr for Service {
    type Err = ParseServiceError;

    fn from_str(text: &str) -> Result<Self, ParseServiceError> {
        match text.trim() {
            "irq" => Ok(Self::Irq),
            "softirq" => Ok(Self::Softirq),
            "worker" => Ok(Self::Worker),
            "kthread" => Ok(Self::Kthread),
            "other" => Ok(Self::Other),
            "deadline" => Ok(Self::Deadline),
            "mmcss" => Ok(Self::Mmcss),
            "dpc" => Ok(Self::Dpc),
            other => match other.split_once(':') {
                Some(("fifo", priority)) => match priority.parse() {
                    Ok(priority @ 1..=99) => Ok(Self::Fifo(priority)),
                    _ => Err(ParseServiceError::Priority(other.into())),
                },
                Some(("pi", priority)) => match priority.parse() {
                    Ok(priority @ 1..=99) => Ok(Self::Lent(priority)),
                    _ => Err(ParseServiceError::Lent(other.into())),
                },
                Some(("realtime", priority)) => match priority.parse() {
                    Ok(priority @ 16..=31) => Ok(Self::Realtime(priority)),
                    _ => Err(ParseServiceError::Realtime(other.into())),
                },
                Some(("kthread", priority)) => match priority.parse() {
                    Ok(priority @ 16..=31) => Ok(Self::SystemThread(priority)),
                    _ => Err(ParseServiceError::SystemThread(other.into())),
                },
                Some(("nice", nice)) => match nice.parse() {
                    Ok(nice @ (-20..=-1 | 1..=19)) => Ok(Self::Nice(nice)),
                    _ => Err(ParseServiceError::Nice(other.into())),
                },
                Some(("slice", length)) => match length.parse() {
                    Ok(length) if (Self::SLICES.0..=Self::SLICES.1).contains(&length) => {
                        Ok(Self::Slice(length))
                    }
                    _ => Err(ParseServiceError::Slice(other.into())),
                },
                Some(("isr" | "dpc" | "ready", _)) => Ok(Self::Traced(other.parse()?)),
                Some(("task", task)) => match task.parse() {
                    Ok(task) => Ok(Self::Task(task)),
                    Err(_) => Err(ParseServiceError::Task(other.into())),
                },
                None if other == "hardfault" => Ok(Self::Traced(other.parse()?)),
                None if other == "slice" => Err(ParseServiceError::Slice(other.into())),
                None if other == "nice" => Err(ParseServiceError::Nice(other.into())),
                None if other == "pi" => Err(ParseServiceError::Lent(other.into())),
                None if other == "realtime" => Err(ParseServiceError::Realtime(other.into())),
                None if other == "fifo" => Err(ParseServiceError::Priority(other.into())),
                _ => Err(ParseServiceError::Unknown(other.into())),
            },
        }
    }
}

impl Serialize for Service {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Service {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Service {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Service".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "A level at which an application can get its code run.",
            "pattern": "^(irq|softirq|worker|other|deadline|kthread|(fifo|pi):[1-9][0-9]?|realtime:(1[6-9]|2[0-9]|3[01])|nice:-?[1-9][0-9]?|slice:[1-9][0-9]*(ns|us|ms)|task:.*/[a-z]+(-[0-9]+)?|(isr|dpc):.+|ready:[0-9]+|hardfault)$"
        })
    }
}

/// How a service was reached from the timer's interrupt.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// Straight from the interrupt.
    Direct,
    /// Interrupt, then softirq, then this service.
    Deferred,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Deferred => "deferred",
        })
    }
}

/// One stream of activations: a service on a CPU, reached by a route.
///
/// `irq` has no line of its own: every line's activations pass it.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct Line {
    /// Where the service runs; lines never leave their CPU.
    pub cpu: Cpu,
    /// The level at which it runs.
    pub service: Service,
    /// How it is reached.
    pub route: Route,
}

/// A line's index in the manifest's `lines`.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(transparent)]
pub struct LineId(pub u16);

impl LineId {
    /// Most lines of a recording: their numbers have 16 bits.
    pub const MOST: usize = 1 << 16;

    /// The line at `place` among all; `None`: no recording has so many.
    #[must_use]
    pub fn at(place: usize) -> Option<Self> {
        u16::try_from(place).ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_is_read_back_from_its_name() {
        for service in [
            Service::Irq,
            Service::Softirq,
            Service::Worker,
            Service::Fifo(90),
            Service::Lent(50),
            Service::Realtime(31),
            Service::Other,
            Service::Nice(-20),
            Service::Nice(19),
            Service::Slice(Nanos::from_us(100)),
            Service::Slice(Nanos::from_us(1_500)),
            Service::Deadline,
            Service::Kthread,
            Service::Task("kworker/0:1#3/timer".parse().unwrap()),
            Service::Traced("dpc:ndis.sys".parse().unwrap()),
            Service::Traced("ready:24".parse().unwrap()),
            Service::Traced("hardfault".parse().unwrap()),
        ] {
            assert_eq!(service.to_string().parse(), Ok(service));
        }
    }

    /// They are counted by it: two of one rank would be taken for one service.
    #[test]
    fn threads_and_drivers_of_different_names_have_different_ranks() {
        let names = [
            "task:fast/timer",
            "task:fast#2/timer",
            "task:slow/timer",
            "task:slow/thread",
            "isr:a.sys",
            "isr:b.sys",
            "dpc:a.sys",
            "dpc:b.sys",
        ];
        let all = names.map(|one| one.parse::<Service>().unwrap().rank());
        for (place, rank) in all.iter().enumerate() {
            assert!(!all[..place].contains(rank), "{}", names[place]);
        }
        assert!(
            all[0] < all[1] && all[1] < all[2],
            "by name, then by number"
        );
    }

    #[test]
    fn services_are_ranked_from_the_interrupt_outward() {
        let mut all: Vec<Service> = (1..=99).map(Service::Fifo).collect();
        all.extend((-20..=19).filter(|nice| *nice != 0).map(Service::Nice));
        all.extend((1..=99).map(Service::Lent));
        all.extend((16..=31).map(Service::Realtime));
        all.extend([Service::Worker, Service::Other, Service::Kthread]);
        all.extend([Service::SLICES.1, Service::SLICES.0].map(Service::Slice));
        all.push(Service::Deadline);
        all.extend([Service::Softirq, Service::Irq]);
        all.sort_by_key(|one| one.rank());

        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        let mut places: Vec<u64> = all.iter().map(|one| one.rank().0).collect();
        places.dedup();
        assert_eq!(names[..4], ["irq", "softirq", "deadline", "fifo:99"]);
        assert_eq!(names[7..9], ["kthread", "fifo:95"]);
        assert_eq!(names[102..104], ["fifo:1", "pi:99"]);
        assert_eq!(names[201..203], ["pi:1", "nice:-20"]);
        assert_eq!(names[221..223], ["nice:-1", "realtime:31"]);
        assert_eq!(
            names[237..242],
            [
                "realtime:16",
                "slice:100us",
                "slice:100ms",
                "other",
                "nice:1"
            ]
        );
        assert_eq!(names[259..], ["nice:19", "worker"]);
        assert_eq!(places.len(), all.len(), "no two have the same place");
    }

    #[test]
    fn a_nice_value_that_does_not_exist_is_refused() {
        for text in ["nice", "nice:0", "nice:20", "nice:-21", "nice:x"] {
            let said = text.parse::<Service>().unwrap_err().to_string();

            assert!(said.contains("from -20 to 19, without 0"), "{said}");
        }
    }

    #[test]
    fn a_slice_that_does_not_exist_is_refused() {
        for text in ["slice", "slice:99us", "slice:101ms", "slice:100", "slice:x"] {
            assert_eq!(
                text.parse::<Service>().unwrap_err().to_string(),
                format!("`{text}` has no slice from 100us to 100ms; write it as `slice:100us`")
            );
        }
    }

    #[test]
    fn a_priority_that_nobody_can_lend_is_refused() {
        for text in ["pi", "pi:0", "pi:100", "pi:x"] {
            assert_eq!(
                text.parse::<Service>().unwrap_err().to_string(),
                format!("`{text}` has no priority from 1 to 99; write it as `pi:50`")
            );
        }
    }

    #[test]
    fn a_priority_that_windows_does_not_have_is_refused() {
        for text in ["realtime", "realtime:15", "realtime:32", "realtime:x"] {
            assert_eq!(
                text.parse::<Service>().unwrap_err().to_string(),
                format!("`{text}` has no priority from 16 to 31; write it as `realtime:31`")
            );
        }
    }

    #[test]
    fn a_priority_that_does_not_exist_is_refused() {
        for text in ["fifo", "fifo:0", "fifo:100", "fifo:x"] {
            assert_eq!(
                text.parse::<Service>().unwrap_err().to_string(),
                format!("`{text}` has no priority from 1 to 99; write it as `fifo:90`")
            );
        }
    }
}
