//! Services: the levels at which an application can get its code run.

mod parse;

use std::fmt;

pub use parse::ParseServiceError;

use crate::{Nanos, Stage, TracedService, WatchedTask};

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

    /// Whether it takes the driver for Windows.
    #[must_use]
    pub const fn is_of_driver(&self) -> bool {
        matches!(self, Self::Dpc | Self::SystemThread(_))
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
