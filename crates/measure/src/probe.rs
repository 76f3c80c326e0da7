//! What every probe can do, whatever it measures with.

use std::path::PathBuf;
use std::time::Duration;

use laggard_model::{
    Account, Backend, Batch, Caveat, Contexts, CpuList, Every, Line, LineId, Losses, Nanos,
    OwnCost, Service, Stage, Tid, TimerApi,
};

/// What a probe is asked to measure.
#[derive(Clone, Debug)]
pub struct Request {
    /// On which CPUs.
    pub cpus: CpuList,
    /// Which services, on each of them.
    pub services: Vec<Service>,
    /// Those of them that are left out, with a caveat, where they cannot be
    /// had. The others are an error then.
    pub optional: Vec<Service>,
    /// Mean time between two expiries of a line; whole microseconds.
    pub period: Nanos,
    /// Which services have only one in so many of them. A device's has all.
    pub every: Every,
    /// Whether expiries are spread over all phases of a hidden tick.
    pub dither: bool,
    /// Seed of that spread.
    pub seed: u64,
    /// What begins an activation.
    pub drive: Drive,
    /// Which of the stages on the way to stamp; `None`: all that can be.
    pub stages: Option<Vec<Stage>>,
    /// Busy processes that compete for the only CPU: the thread of the plain
    /// service is one of them.
    pub contexts: Option<Contexts>,
}

impl Request {
    /// Whether nobody asked for any of its services by name.
    pub fn is_unasked(&self) -> bool {
        let mut services = self.services.iter();
        services.all(|service| self.optional.contains(service))
    }
}

/// What begins an activation.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Drive {
    /// A timer's expiry.
    #[default]
    Timer,
    /// The interrupt of this UIO device, such as `/dev/uio0`, which the probe
    /// raises. One thread service on one CPU waits for it.
    Uio(PathBuf),
    /// The expiry of this timer of Windows, for which threads wait.
    Wait(TimerApi),
}

impl Drive {
    /// The timer of Windows that threads wait for, where it is not the system's default.
    #[must_use]
    pub fn timer(&self) -> Option<TimerApi> {
        match self {
            Self::Wait(TimerApi::HighResTimer) | Self::Timer | Self::Uio(_) => None,
            Self::Wait(api) => Some(*api),
        }
    }
}

/// A service that cannot be measured.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RefusedService {
    /// The service.
    pub service: Service,
    /// Why it cannot be measured.
    pub reason: String,
    /// What to do.
    pub remedy: String,
}

/// What cannot be measured and why, and each remedy once.
fn listed(refused: &[RefusedService]) -> String {
    let whats = refused
        .iter()
        .map(|one| format!("`{}`: {}", one.service, one.reason));
    let mut remedies: Vec<&str> = refused.iter().map(|one| one.remedy.as_str()).collect();
    remedies.dedup();
    let whats = whats.collect::<Vec<_>>().join(", nor ");
    format!("{whats}; {}", remedies.join("; "))
}

/// Why nothing can be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// A service that was asked for by name cannot be had.
    #[error("cannot measure `{service}`: {reason}; {remedy}")]
    Service {
        /// The service that cannot be measured.
        service: Service,
        /// Why it cannot be measured.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// Several services that were asked for by name cannot be had.
    #[error("cannot measure {}", listed(.0))]
    Services(Vec<RefusedService>),
    /// No service is left.
    #[error("none of the services can be measured here; `laggard doctor` says why")]
    NoService,
    /// A chosen CPU cannot be used.
    #[error("CPU {0} is not online; choose from {1}")]
    NoCpu(u32, CpuList),
    /// A chosen CPU is outside of this process's set of CPUs.
    #[error(
        "CPU {0} is outside of this process's set of CPUs (cpuset, as of a container); choose from {1}, or run outside of it"
    )]
    ForbiddenCpu(u32, CpuList),
    /// This process may not have as many files open as it takes.
    #[error(
        "measuring {cpus} CPUs takes about {needed} open files, and this process may have {limit}; raise the hard limit (`ulimit -Hn`, LimitNOFILE= of a service), or choose fewer CPUs or services"
    )]
    Descriptors {
        /// How many CPUs.
        cpus: usize,
        /// How many files, about.
        needed: u64,
        /// The hard limit.
        limit: u64,
    },
    /// Too many services for one CPU.
    #[error("{0} lines on one CPU are more than {1}; ask for fewer services")]
    TooManyLines(usize, usize),
    /// Too many lines in all.
    #[error(
        "{lines} lines (services on CPUs, by each route) are more than {most}, which is as many as a recording can tell apart; choose fewer CPUs or services",
        most = LineId::MOST
    )]
    TooManyInAll {
        /// How many lines.
        lines: usize,
    },
    /// The device cannot be measured with.
    #[error("cannot measure with `{}`: {reason}", path.display())]
    Source {
        /// The device.
        path: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
    /// The period cannot be kept.
    #[error("a period of {0} is out of range; use {1} to {2}")]
    Period(Nanos, Nanos, Nanos),
    /// Measuring as asked would take too much of the machine.
    #[error("{0}")]
    Unaffordable(String),
    /// A call to the operating system failed.
    #[error("cannot {action}{}; {remedy}", .said.as_ref().map(|err| format!(": {err}")).unwrap_or_default())]
    System {
        /// What was tried.
        action: String,
        /// What to do.
        remedy: String,
        /// What the system said.
        said: Option<std::io::Error>,
    },
    /// A script of the fake probe is wrong.
    #[error("{0}")]
    Script(String),
}

impl ProbeError {
    /// Whether this machine cannot do what was asked, rather than that anything
    /// went wrong.
    #[must_use]
    pub const fn is_unmet(&self) -> bool {
        matches!(
            self,
            Self::Service { .. } | Self::NoService | Self::Unaffordable(_)
        )
    }
}

/// Whether so many lines can be told apart.
///
/// # Errors
/// When there are too many.
pub const fn check_number(lines: usize) -> Result<(), ProbeError> {
    if lines <= LineId::MOST {
        Ok(())
    } else {
        Err(ProbeError::TooManyInAll { lines })
    }
}

/// When a probe's expiries are due.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pace {
    /// The mean time between a line's expiries, but for those of `every`.
    pub period: Nanos,
    /// Which services have only one in so many of them.
    pub every: Every,
    /// Whether they are spread within it.
    pub dither: bool,
    /// The seed of that spread.
    pub seed: u64,
}

/// A source of activations.
///
/// Order of calls: `start`, then `pause` and `drain` as often as wanted,
/// `stop`, one last `drain`.
pub trait Probe {
    /// What the stages come from.
    fn backend(&self) -> Backend;

    /// When its expiries are due. A script has a plan of its own.
    fn pace(&self) -> Pace;

    /// The lines that are measured; an activation's `line` is an index here.
    fn lines(&self) -> &[Line];

    /// The thread that is the service of `line`; `None`: it has none of its own
    /// (`softirq`, `worker`), or it is not known.
    fn thread_of(&self, _line: LineId) -> Option<Tid> {
        None
    }

    /// Reasons to doubt that showed while preparing or measuring.
    fn caveats(&self) -> Vec<Caveat>;

    /// Where BPF programs can see what is due; `None`: nowhere.
    #[cfg(target_os = "linux")]
    fn board(&self) -> Option<crate::board::BoardMaps> {
        None
    }

    /// What the kernel tells meanwhile; `None`: nothing.
    fn record_of_kernel(&self) -> Option<std::sync::Arc<dyn crate::flight::KernelRecord>> {
        None
    }

    /// Begins to measure. Returns when, by `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// When a measuring thread or program cannot be started.
    fn start(&mut self) -> Result<Nanos, ProbeError>;

    /// What measuring as asked takes, as it was tried out by `start`: a share of
    /// the time of the CPUs that it measures, 0 to 1. `None`: not known.
    fn price(&self) -> Option<f64> {
        None
    }

    /// Whether measuring has ended by itself, because it took so much that what
    /// came could not be collected.
    fn has_given_up(&self) -> bool {
        false
    }

    /// Why it has ended by itself, where that is another reason.
    fn failure(&self) -> Option<String> {
        None
    }

    /// The time now, by the clock of the activations.
    fn now(&self) -> Nanos;

    /// Waits, at most for `time`, for more activations to come.
    fn pause(&mut self, time: Duration);

    /// Appends what has come since the last call, line by line in order.
    fn drain(&mut self, into: &mut Batch);

    /// Ends measuring. Returns when: no later expiry is recorded. Waits for a
    /// while for services that were asked for before.
    fn stop(&mut self) -> Nanos;

    /// Begins anew, as for a recording of what is to come: what was due before
    /// the instant that this returns, which is now, is not handed over any more,
    /// does not count in [`Probe::accounts`], and numbers begin at 0.
    fn begin_anew(&mut self) -> Nanos;

    /// What became of each line's plan; complete after the last drain.
    fn accounts(&self) -> Vec<Account>;

    /// What was lost since measuring began.
    fn losses(&self) -> Losses;

    /// What measuring cost so far.
    fn cost(&self) -> OwnCost;
}
