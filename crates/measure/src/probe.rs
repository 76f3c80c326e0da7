//! Interface of all probes.

use std::path::PathBuf;
use std::time::Duration;

use laggard_model::{
    Account, Backend, Batch, Caveat, Contexts, CpuList, Every, Line, LineId, Losses, Nanos,
    OwnCost, Service, Stage, Tid, TimerApi,
};

/// Plan of a probe's measurement.
#[derive(Clone, Debug)]
pub struct Request {
    pub cpus: CpuList,
    /// Services to measure on each CPU.
    pub services: Vec<Service>,
    /// Services among them that are left out with a warning if they are not available. A service
    /// that is not optional is then an error.
    pub optional: Vec<Service>,
    /// Mean time between two expiries of a line; whole microseconds.
    pub period: Nanos,
    /// Services with only one in several expiries. A device has all of them.
    pub every: Every,
    /// Whether expiries are spread over all phases of a hidden tick.
    pub dither: bool,
    /// Seed of that spread.
    pub seed: u64,
    /// Source of activations.
    pub drive: Drive,
    /// Intermediate stages to stamp; `None`: all available ones.
    pub stages: Option<Vec<Stage>>,
    /// Busy processes that compete for the only CPU: the thread of the plain service is one of
    /// them.
    pub contexts: Option<Contexts>,
}

impl Request {
    /// Returns whether the user named none of its services.
    pub fn is_default(&self) -> bool {
        let mut services = self.services.iter();
        services.all(|service| self.optional.contains(service))
    }
}

/// Source of activations.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Drive {
    #[default]
    Timer,
    /// Interrupt of this UIO device, such as `/dev/uio0`, which the probe raises. One thread
    /// service on one CPU waits for it.
    Uio(PathBuf),
    /// Expiry of this timer of Windows. Threads wait for it.
    Wait(TimerApi),
}

impl Drive {
    /// Returns the timer of Windows that threads wait for, if it is not the default.
    #[must_use]
    pub fn timer(&self) -> Option<TimerApi> {
        match self {
            Self::Wait(TimerApi::HighResTimer) | Self::Timer | Self::Uio(_) => None,
            Self::Wait(api) => Some(*api),
        }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RefusedService {
    pub service: Service,
    pub reason: String,
    pub remedy: String,
}

/// Lists the services that cannot be measured with their reasons, and each remedy once.
fn listed(refused: &[RefusedService]) -> String {
    let whats = refused
        .iter()
        .map(|service| format!("`{}`: {}", service.service, service.reason));
    let mut remedies: Vec<&str> = refused
        .iter()
        .map(|service| service.remedy.as_str())
        .collect();
    remedies.dedup();
    let whats = whats.collect::<Vec<_>>().join(", nor ");
    format!("{whats}; {}", remedies.join("; "))
}

/// Reason why a measurement is impossible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// A service that the user named is not available.
    #[error("cannot measure `{service}`: {reason}; {remedy}")]
    Service {
        service: Service,
        reason: String,
        remedy: String,
    },
    /// Several services that the user named are not available.
    #[error("cannot measure {}", listed(.0))]
    Services(Vec<RefusedService>),
    #[error("none of the services can be measured; `laggard doctor` shows why")]
    NoService,
    /// A chosen CPU is not online.
    #[error("CPU {0} is not online; choose from {1}")]
    NoCpu(u32, CpuList),
    /// A chosen CPU is outside the cpuset of this process.
    #[error(
        "CPU {0} is outside the cpuset of this process (for example in a container); choose from {1}, or run outside the cpuset"
    )]
    ForbiddenCpu(u32, CpuList),
    /// The limit on open files of this process is too low.
    #[error(
        "measuring {cpus} CPUs takes about {needed} open files, and this process may have {limit}; raise the hard limit (`ulimit -Hn`, LimitNOFILE= of a service), or choose fewer CPUs or services"
    )]
    Descriptors {
        cpus: usize,
        /// Approximate number of open files.
        needed: u64,
        limit: u64,
    },
    /// The services need too many lines on one CPU.
    #[error("{0} lines on one CPU exceed the maximum of {1}; choose fewer services")]
    TooManyLines(usize, usize),
    /// There are too many lines in total.
    #[error(
        "{lines} series (service x CPU x route) exceed the maximum of {most} in a recording; choose fewer CPUs or services",
        most = LineId::MOST
    )]
    TooManyInAll { lines: usize },
    /// The device cannot be used.
    #[error("cannot measure with `{}`: {reason}", path.display())]
    Source {
        path: PathBuf,
        /// Reason and remedy.
        reason: String,
    },
    /// The period is out of range.
    #[error("a period of {0} is out of range; use {1} to {2}")]
    Period(Nanos, Nanos, Nanos),
    /// The measurement would take too much of the machine.
    #[error("{0}")]
    Unaffordable(String),
    /// A call to the operating system failed.
    #[error("cannot {action}{}; {remedy}", .said.as_ref().map(|err| format!(": {err}")).unwrap_or_default())]
    System {
        /// Action that failed.
        action: String,
        remedy: String,
        /// Error of the system.
        said: Option<std::io::Error>,
    },
    #[error("{0}")]
    Script(String),
}

impl ProbeError {
    /// Returns whether this machine cannot do what was requested, as opposed to a failure.
    #[must_use]
    pub const fn is_unmet(&self) -> bool {
        matches!(
            self,
            Self::Service { .. } | Self::NoService | Self::Unaffordable(_)
        )
    }
}

/// Checks the number of lines.
///
/// # Errors
///
/// Returns an error if there are too many.
pub const fn check_number(lines: usize) -> Result<(), ProbeError> {
    if lines <= LineId::MOST {
        Ok(())
    } else {
        Err(ProbeError::TooManyInAll { lines })
    }
}

/// Times of a probe's expiries.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pace {
    /// Mean time between a line's expiries, except for lines of services in `every`.
    pub period: Nanos,
    /// Services with only one in several expiries.
    pub every: Every,
    /// Whether expiries are spread within the period.
    pub dither: bool,
    /// Seed of that spread.
    pub seed: u64,
}

/// Source of activations.
///
/// Order of calls: `start`, then any number of `pause` and `drain`, `stop`, one last `drain`.
pub trait Probe {
    /// Returns the backend that provides the stages.
    fn backend(&self) -> Backend;

    /// Returns the times of its expiries. A script has a separate plan.
    fn pace(&self) -> Pace;

    /// Returns the measured lines; an activation's `line` is an index into them.
    fn lines(&self) -> &[Line];

    /// Returns the thread that is the service of `line`; `None` for `softirq` and `worker`, which
    /// do not have a thread, or if its TID in the trace data is unknown.
    fn thread_of(&self, _line: LineId) -> Option<Tid> {
        None
    }

    /// Returns warnings that arose during preparation or measurement.
    fn caveats(&self) -> Vec<Caveat>;

    /// Returns the maps with the next expiries for BPF programs, if any.
    #[cfg(target_os = "linux")]
    fn board(&self) -> Option<crate::board::BoardMaps> {
        None
    }

    /// Makes its BPF programs record the activity of these CPUs, too, for
    /// [`crate::linux::FlightRecorder::joined`]. `None` if they cannot.
    #[cfg(target_os = "linux")]
    fn join_flight(&mut self, _cpus: &CpuList) -> Option<crate::linux::FlightRings> {
        None
    }

    /// Returns the kernel events during the measurement, if there are any.
    fn record_of_kernel(&self) -> Option<std::sync::Arc<dyn crate::flight::KernelRecord>> {
        None
    }

    /// Starts to measure and returns the start time by `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    ///
    /// Returns an error if a measuring thread or program cannot be started.
    fn start(&mut self) -> Result<Nanos, ProbeError>;

    /// Returns the cost of the measurement as found by `start`: a fraction of the time of the
    /// measured CPUs, 0 to 1. `None` if unknown.
    fn price(&self) -> Option<f64> {
        None
    }

    /// Returns whether the measurement has stopped early, because the collector was starved.
    fn has_given_up(&self) -> bool {
        false
    }

    /// Returns why it has stopped early for another reason.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Returns the current time by the clock of the activations.
    fn now(&self) -> Nanos;

    /// Waits at most `time` for more activations.
    fn pause(&mut self, time: Duration);

    /// Appends all activations since the last call, line by line in order.
    fn drain(&mut self, into: &mut Batch);

    /// Stops the measurement and returns the end time. Later expiries are not recorded. Waits for
    /// a limited time for services that were requested before.
    fn stop(&mut self) -> Nanos;

    /// Restarts the recording at the returned time, which is now. Earlier expiries are not passed
    /// on and do not count in [`Probe::accounts`], and numbers restart at 0.
    fn begin_anew(&mut self) -> Nanos;

    /// Returns the account of each line's plan; complete after the last drain.
    fn accounts(&self) -> Vec<Account>;

    /// Returns all losses since the start of the measurement.
    fn losses(&self) -> Losses;

    /// Returns the overhead so far.
    fn cost(&self) -> OwnCost;
}
