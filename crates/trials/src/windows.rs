//! The parts of `laggard_measure::linux` that trials need, for Windows, with the same names.
//! Experimental: tested only under Wine.

use std::io;

use laggard_model::Absence;

/// Returns the text of a system error without its number.
pub(crate) fn reason_of(err: &io::Error) -> String {
    let text = err.to_string();
    if err.raw_os_error().is_none() {
        return text;
    }
    let words = text.split(" (os error").next().unwrap_or_default();
    words.trim_end_matches('.').to_lowercase()
}

pub(crate) mod clock {
    use laggard_model::Nanos;

    pub(crate) use laggard_measure_windows::now;
    /// The CPU time of Windows is as coarse as its tick.
    pub(crate) use laggard_measure_windows::now as own_cpu_time;

    /// Sleeps until `time` by the most precise means.
    pub(crate) fn sleep_until(time: Nanos) {
        use crate::timers::TimerSystem as _;
        thread_local! {
            static SLEEP: Option<crate::timers::OnWindows> = crate::timers::OnWindows::open().ok();
        }
        SLEEP.with(|sleep| match sleep {
            Some(sleep) => sleep.sleep_until(time),
            // Without a timer a tick of the system is the unit.
            None => std::thread::sleep(time.saturating_sub(now()).into()),
        });
    }
}

pub(crate) mod policy {
    use std::io;
    use std::thread::Builder;

    use laggard_measure_windows::{
        RealtimeClass, give_way, has_realtime_class, schedule_as as set_priority,
    };
    use laggard_model::{Nanos, Service, SwitchPolicy};

    pub(crate) use laggard_measure_windows::pin;

    /// Size of a thread's stack on Windows, of which little is used.
    pub(crate) const STACK_BYTES: usize = 1 << 20;

    #[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
    pub(crate) fn thread(name: &str) -> io::Result<Builder> {
        Ok(Builder::new().name(name.into()))
    }

    /// Memory is not locked. It was touched before the measurement.
    pub(crate) fn lock_memory() -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) const fn may_lock_more(_: u64) -> bool {
        true
    }

    pub(crate) const fn unlock_memory() {}

    /// Threads of Windows do not have signals.
    #[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
    pub(crate) const fn block_signals() -> io::Result<()> {
        Ok(())
    }

    /// Timers of Windows do not have slack.
    pub(crate) const fn refuse_timer_slack() {}

    pub(crate) const fn touch_stack() {}

    /// Takes the real-time class for real-time threads, and lets the calling thread run behind
    /// them. Without the class, the threads are refused.
    pub(crate) fn hold_class(policy: SwitchPolicy) -> Option<RealtimeClass> {
        matches!(policy, SwitchPolicy::Realtime(_))
            .then(|| RealtimeClass::take().ok().inspect(|_| give_way()))
            .flatten()
    }

    /// Sets the priority of the calling thread. A real-time priority needs the real-time class.
    pub(crate) fn schedule_as(service: Service) -> io::Result<()> {
        if matches!(service, Service::Realtime(_)) && !has_realtime_class() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        set_priority(service)
    }

    pub(crate) fn schedule_by_deadline(_: Nanos, _: Nanos) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

pub(crate) mod door {
    use std::sync::atomic::{AtomicU32, Ordering};

    pub(crate) use laggard_measure_windows::{wait_while, wake_all, wake_one};

    /// Number of times that the thread may pass, on a separate cache line.
    #[derive(Debug, Default)]
    #[repr(align(64))]
    pub(crate) struct Door(AtomicU32);

    impl Door {
        /// Lets the thread pass once.
        pub(crate) fn open(&self) {
            self.0.fetch_add(1, Ordering::Release);
            wake_one(&self.0);
        }

        /// Waits until the thread may pass.
        pub(crate) fn pass(&self) {
            while self.0.load(Ordering::Acquire) == 0 {
                wait_while(&self.0, 0);
            }
            self.0.fetch_sub(1, Ordering::Acquire);
        }
    }
}

pub(crate) mod mapping {
    use std::io;

    use laggard_measure::board::{Memory, Shared};

    /// Zeroed memory of this process.
    #[derive(Debug)]
    pub(crate) struct Mapped<T>(Box<[T]>);

    impl<T: Shared> Mapped<T> {
        /// Allocates memory for `count` values. All pages are present.
        #[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
        pub(crate) fn anonymous(count: usize) -> io::Result<Self> {
            let mut values = Box::<[T]>::new_uninit_slice(count);
            // SAFETY: the memory is valid for writes of `count` values, and zeros are valid
            //         (`Shared`).
            unsafe {
                values.as_mut_ptr().write_bytes(0, count);
                Ok(Self(values.assume_init()))
            }
        }
    }

    impl<T: Shared> Memory<T> for Mapped<T> {
        fn all(&self) -> &[T] {
            &self.0
        }
    }
}

pub(crate) mod process {
    use std::io;

    use crate::switch::ring::Ring;

    /// Processes do not share the memory of a ring on Windows.
    #[derive(Debug)]
    pub(crate) enum Process {}

    impl Process {
        pub(crate) fn start(_: &Ring, _: usize, _: &str) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) const fn join(&self) {
            match *self {}
        }

        pub(crate) const fn kill(&self) {
            match *self {}
        }
    }
}

pub(crate) mod lock {
    use std::io;

    use laggard_measure_windows::Lock;

    /// Protocol of a lock against priority inversion.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub enum LockProtocol {
        /// Slim lock.
        Plain,
        /// Mutex object. Windows does not have a lock that lends a priority.
        Inherit,
    }

    #[derive(Debug)]
    pub(crate) struct ChosenMutex(Lock);

    impl ChosenMutex {
        pub(crate) fn new(protocol: LockProtocol) -> io::Result<Self> {
            match protocol {
                LockProtocol::Plain => Ok(Self(Lock::slim())),
                LockProtocol::Inherit => Lock::mutex().map(Self),
            }
        }

        pub(crate) fn lock(&self) -> io::Result<()> {
            self.0.lock()
        }

        pub(crate) fn unlock(&self) -> io::Result<()> {
            self.0.unlock()
        }
    }
}

pub(crate) mod flight {
    use laggard_model::{Cpu, CpuList, Nanos};

    /// Windows does not report steal time.
    #[derive(Debug)]
    pub(crate) enum StealClock {}

    /// Part of the steal time.
    #[derive(Debug)]
    pub(crate) struct Steal {
        pub(crate) since_ns: Nanos,
        pub(crate) at_ns: Nanos,
        pub(crate) time_ns: Nanos,
        pub(crate) step_ns: Nanos,
    }

    impl StealClock {
        pub(crate) const fn new(_: &CpuList) -> Result<Self, ()> {
            Err(())
        }

        pub(crate) const fn steals(&self, _: u32, _: Nanos, _: Nanos) -> Vec<Steal> {
            match *self {}
        }
    }

    /// Counters of time that other systems took, which Windows does not have.
    #[derive(Debug)]
    pub(crate) struct OutsideCounters;

    #[allow(clippy::unused_self, reason = "as on Linux")]
    impl OutsideCounters {
        pub(crate) const fn new(_: &CpuList) -> Self {
            Self
        }

        pub(crate) const fn read(&mut self) {}

        pub(crate) const fn stolen(&self, _: Cpu, _: Nanos, _: Nanos) -> Option<Steal> {
            None
        }

        pub(crate) const fn has_stolen(&self, _: Cpu) -> bool {
            false
        }
    }
}

pub(crate) mod witness {
    use std::io;

    /// Stops of laggard are not detected on Windows.
    #[derive(Debug)]
    pub(crate) struct Witness;

    impl Witness {
        pub(crate) fn settled() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        #[allow(clippy::unused_self, reason = "as on Linux")]
        pub(crate) const fn was_stopped(&mut self) -> bool {
            false
        }
    }
}

/// Returns the absence of a test that only Linux has.
pub(crate) fn only_linux(what: &str) -> Absence {
    Absence::new(
        format!("{what} exists on Linux only"),
        "run laggard on Linux",
        laggard_model::Lacks::Kernel,
    )
}
