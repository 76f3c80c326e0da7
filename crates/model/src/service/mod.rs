//! Services: the levels where an application can run code.

mod parse;

use std::fmt;

pub use parse::ParseServiceError;

use crate::{Nanos, Stage, TracedService, WatchedTask};

/// Level where an application can run code (OSDI'99 2.1: ISR, DPC, work item, high and default
/// real-time thread).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Service {
    /// Handler of the timer interrupt.
    Irq,
    /// Callback in softirq context.
    Softirq,
    /// Work item of a kernel workqueue.
    Worker,
    /// `SCHED_FIFO` thread of this priority, 1 to 99.
    Fifo(u8),
    /// Normal thread (`SCHED_OTHER`, nice 0).
    Other,
    /// Normal thread of another nice value, -20 to 19.
    Nice(i8),
    /// Normal thread with a slice of this length: the shorter the slice, the sooner its
    /// turn (Linux 6.12).
    Slice(Nanos),
    /// Normal thread with a real-time priority, 1 to 99, for its work alone: lent by a
    /// thread that waits at a PI futex which it holds.
    Lent(u8),
    /// Thread of this priority, 16 to 31, of a process of Windows' class
    /// `REALTIME_PRIORITY_CLASS`.
    Realtime(u8),
    /// Thread of the task "Pro Audio" of Windows' Multimedia Class Scheduler.
    Mmcss,
    /// Deferred procedure call (DPC) of a timer of Windows' kernel, in the driver
    /// `wdmlat.sys` (OSDI'99 2.2.3).
    Dpc,
    /// System thread of that driver of this priority, 16 to 31, which the DPC wakes
    /// (OSDI'99 2.2.4: 28 and 24).
    SystemThread(u8),
    /// `SCHED_DEADLINE` thread.
    Deadline,
    /// Kernel thread of the kernel's timerlat tracer, with this `SCHED_FIFO` priority:
    /// [`Self::KTHREAD`], or 32 to 99.
    Kthread(u8),
    /// Thread of another program, observed by `attach`.
    Task(WatchedTask),
    /// Service of a trace of another system, read by `import`.
    Traced(TracedService),
}

/// Position of a service in the display order: [`Service::rank`].
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ServiceRank(u64, Service);

impl ServiceRank {
    /// Returns the position among the services that laggard measures: unique and below
    /// 2^28. Threads of other programs and services of traces share positions above
    /// that.
    #[must_use]
    pub const fn place(self) -> u64 {
        self.0
    }
}

impl Service {
    /// Returns the stage of this service's first instruction.
    pub const fn last_stage(self) -> Stage {
        match self {
            Self::Irq => Stage::Irq,
            Self::Softirq => Stage::Softirq,
            Self::Worker => Stage::Worker,
            // The kernel starts the timer's callback, which the DPC is.
            Self::Dpc => Stage::Expire,
            Self::Kthread(_) | Self::SystemThread(_) => Stage::Kthread,
            // The thread is measured to the end of its work, not to its first
            // instruction.
            Self::Task(_) => Stage::Done,
            Self::Traced(TracedService::Ready(_)) => Stage::Running,
            Self::Traced(_) => Stage::Done,
            _ => Stage::User,
        }
    }

    /// Range of slices that a kernel permits for a normal thread.
    pub const SLICES: (Nanos, Nanos) = (Nanos::from_us(100), Nanos::from_ms(100));

    /// Services that are measured by default, if available.
    pub const DEFAULTS: [Self; 6] = [
        Self::Irq,
        Self::Softirq,
        Self::Worker,
        Self::Fifo(90),
        Self::Fifo(50),
        Self::Other,
    ];

    /// Default services on Windows: the two levels of OSDI'99, and a normal thread.
    pub const WINDOWS_DEFAULTS: [Self; 3] = [Self::Realtime(31), Self::Realtime(24), Self::Other];

    /// Priorities of [`Service::Realtime`] and [`Service::SystemThread`].
    pub const REALTIME: (u8, u8) = (16, 31);

    /// Service of the tracer's threads with the priority that the kernel gives them.
    pub const KTHREAD: Self = Self::Kthread(95);

    /// Returns the position in the display order, from the interrupt outward: irq,
    /// softirq, DPC, threads by falling priority, boosted threads, Windows threads, normal threads,
    /// work items; threads of other programs and systems by name. Lower is more direct; positions
    /// are unique.
    #[must_use]
    pub const fn rank(self) -> ServiceRank {
        /// Beyond all slices, whose maximum is this number of nanoseconds.
        const OTHER: u64 = 200_000_000;
        /// Beyond all others.
        const TASKS: u64 = 1 << 62;
        /// In separate recordings.
        const TRACED: u64 = 1 << 61;
        let place = match self {
            Self::Irq => 0,
            Self::Softirq => 1,
            // Above all priorities.
            Self::Deadline => 2,
            Self::Dpc => 3,
            // A FIFO thread of priority 95, before the user's of that priority.
            Self::Kthread(95) => 7,
            // Between the normal threads with a nice value and the threads of Windows.
            Self::Kthread(priority) => 600 - priority as u64,
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
            Self::Traced(traced) => TRACED | traced.rank(),
        };
        ServiceRank(place, self)
    }

    /// Returns the urgency for the kernel: on one CPU the more urgent runs first.
    /// Normal threads and work items, which normal threads run, are equal.
    #[must_use]
    pub const fn urgency(self) -> u8 {
        match self {
            Self::Irq => 102,
            Self::Softirq | Self::Dpc => 101,
            Self::Deadline => 100,
            Self::Fifo(priority)
            | Self::Lent(priority)
            | Self::Realtime(priority)
            | Self::SystemThread(priority)
            | Self::Kthread(priority) => priority,
            // From 23 to 26, as the class scheduler assigns.
            Self::Mmcss => 24,
            Self::Other | Self::Nice(_) | Self::Slice(_) | Self::Worker => 0,
            // It may change, and is not stored in a recording.
            Self::Task(_) => 0,
            // Another system has other priorities.
            Self::Traced(_) => 0,
        }
    }

    /// Returns whether it needs the driver for Windows.
    #[must_use]
    pub const fn is_of_driver(&self) -> bool {
        matches!(self, Self::Dpc | Self::SystemThread(_))
    }

    /// Returns the lent priority, if there is one.
    #[must_use]
    pub const fn lent(self) -> Option<u8> {
        match self {
            Self::Lent(priority) => Some(priority),
            _ => None,
        }
    }

    /// Returns whether it is a normal thread, which shares its CPU in turns.
    #[must_use]
    pub const fn is_normal_thread(self) -> bool {
        matches!(self, Self::Other | Self::Nice(_) | Self::Slice(_))
    }

    /// Returns whether this names `other`: equal, or a pattern for every driver of a
    /// trace (`dpc:*`, `isr:*`).
    #[must_use]
    pub fn takes_in(self, other: Self) -> bool {
        match (self, other) {
            (Self::Traced(own), Self::Traced(other)) => own.takes_in(&other),
            _ => self == other,
        }
    }

    /// Returns whether a thread of laggard provides this service.
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
            &Self::KTHREAD => f.write_str("kthread"),
            Self::Kthread(priority) => write!(f, "kthread:{priority}"),
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
            Self::Traced(traced) => traced.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Services are counted by their rank, so ranks must be unique.
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
        let ranks = names.map(|name| name.parse::<Service>().unwrap().rank());
        for (place, rank) in ranks.iter().enumerate() {
            assert!(!ranks[..place].contains(rank), "{}", names[place]);
        }
        assert!(
            ranks[0] < ranks[1] && ranks[1] < ranks[2],
            "by name, then by number"
        );
    }

    #[test]
    fn services_are_ranked_from_the_interrupt_outward() {
        let mut services: Vec<Service> = (1..=99).map(Service::Fifo).collect();
        services.extend((-20..=19).filter(|nice| *nice != 0).map(Service::Nice));
        services.extend((1..=99).map(Service::Lent));
        services.extend((16..=31).map(Service::Realtime));
        services.extend([Service::Worker, Service::Other, Service::KTHREAD]);
        services.extend([Service::SLICES.1, Service::SLICES.0].map(Service::Slice));
        services.push(Service::Deadline);
        services.extend([Service::Softirq, Service::Irq]);
        services.sort_by_key(|service| service.rank());

        let names: Vec<String> = services.iter().map(ToString::to_string).collect();
        let mut places: Vec<u64> = services.iter().map(|service| service.rank().0).collect();
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
        assert_eq!(places.len(), services.len(), "no two have the same place");
    }
}
