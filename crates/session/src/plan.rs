//! What is to be measured, and what is to be kept of it.

use std::ffi::OsString;
use std::path::PathBuf;

use laggard_measure::Drive;
#[cfg(target_os = "linux")]
use laggard_measure::linux;
use laggard_model::{AskedApplication, Contexts, CpuList, Every, Keep, Nanos, Service, Stage};
use laggard_record::{Access, Destination};
#[cfg(target_os = "linux")]
use laggard_workload::load::{Busy, LoadUser};

/// What is to be measured, and what is to be kept of it: all that a
/// [`Session`](crate::Session) needs to know.
///
/// `Plan::default()` is what `laggard record` does unasked, but for the folder
/// that it records into: 30 s of this machine as it is.
///
/// ```
/// use laggard_model::{Nanos, Service};
/// use laggard_session::Plan;
///
/// let plan = Plan {
///     services: Some(vec![Service::Fifo(90)]),
///     duration: Some(Nanos::from_secs(2)),
///     ..Plan::default()
/// };
/// assert_eq!(plan.period, Nanos::from_ms(1));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to measure with.
    pub probe: ProbeChoice,
    /// CPUs to measure; `None`: all online that this process may use.
    pub cpus: Option<CpuList>,
    /// Services to measure, which must all be possible but for those that are
    /// optional; `None`: [`Service::DEFAULTS`], or [`Service::WINDOWS_DEFAULTS`], as far as
    /// possible.
    pub services: Option<Vec<Service>>,
    /// Those of `services` that are left out, with a caveat, where they cannot be
    /// measured.
    pub optional: Vec<Service>,
    /// Mean time between two activations of a service on a CPU, 10 us to 10 s.
    pub period: Nanos,
    /// Which services have only one in so many of them; `None`: of `services`
    /// none, of those that are measured unasked what [`Every::about`] says of
    /// `fifo:90`.
    pub every: Option<Every>,
    /// Whether expiries are spread over all phases of a hidden tick.
    pub dither: bool,
    /// What begins an activation.
    pub drive: Drive,
    /// Stages on the way to stamp; `None`: all that can be.
    pub stages: Option<Vec<Stage>>,
    /// Whether CPUs are kept from idle states meanwhile. Undone at the end.
    pub hold_cpu_awake: bool,
    /// How long to measure; `None`: until a watcher ends it, it is interrupted,
    /// or the command that is run meanwhile has ended.
    pub duration: Option<Nanos>,
    /// What else runs meanwhile.
    pub load: LoadChoice,
    /// CPUs that it runs on; `None`: all.
    pub load_cpus: Option<CpuList>,
    /// As whom it runs; `None`: as this process.
    #[cfg(target_os = "linux")]
    pub load_user: Option<LoadUser>,
    /// The program that runs loads of ours, as `HELPER load run NAME`: laggard
    /// itself. It is a process of its own, so that what it takes is not counted
    /// as the cost of measuring.
    pub helper: PathBuf,
    /// Where to record from the start, which must not exist; `None`:
    /// nothing is kept, unless a watcher asks for it.
    pub recording: Option<Destination>,
    /// Who may read the recording.
    pub access: Access,
    /// Which samples a recording keeps.
    pub keep: Keep,
    /// Latency from which on an activation is shown as exceeding, and kept as an
    /// episode; `None`: 1 ms, and what each line's first seconds tell.
    pub threshold: Option<Nanos>,
    /// Whether late activations come with evidence of who caused them.
    pub episodes: EpisodesChoice,
    /// Late activations to keep in each minute at most, besides each line's new
    /// largest.
    pub max_episodes_per_minute: u64,
    /// Stack samples a second on each CPU, as evidence; 0 takes none.
    pub stack_rate: u32,
    /// Whether all that the kernel runs beside threads is counted, late or not:
    /// surely, or nothing is measured. Takes late activations to be kept.
    pub handlers: bool,
    /// Busy processes that compete for the CPU that is measured, and whose load
    /// this is: see [`Plan::beside`].
    pub contexts: Option<Contexts>,
    /// The application that is to be answered for: the recording keeps it. What
    /// to measure for it is up to who plans.
    pub application: Option<AskedApplication>,
    /// The command line, as the recording is to tell it.
    pub command: Vec<String>,
}

impl Plan {
    /// How long is recorded unless asked otherwise.
    pub const DURATION: Nanos = Nanos::from_secs(30);

    /// The same beside busy processes that compete for one CPU: they are the load,
    /// and what runs at each level is measured there, always at the same instant
    /// of a turn. Without eBPF only threads are.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn beside(self, contexts: Contexts) -> Self {
        let busy = Busy {
            processes: contexts.busy,
            turns: contexts.turn_ns,
        };
        let cpu = CpuList::from_iter([contexts.cpu]);
        let services = contexts.services();
        let is_optional = |one: &Service| *one != contexts.plain();
        Self {
            cpus: Some(cpu.clone()),
            optional: services.iter().copied().filter(is_optional).collect(),
            services: Some(services),
            period: contexts.period(linux::tick()),
            dither: false,
            load: LoadChoice::Named(busy.to_string()),
            load_cpus: Some(cpu),
            contexts: Some(contexts),
            ..self
        }
    }

    /// How often each service is measured.
    pub(crate) fn every(&self) -> Every {
        match (&self.every, &self.services) {
            (Some(every), _) => every.clone(),
            (None, Some(_)) => Every::default(),
            (None, None) => Every::about(Service::Fifo(90)),
        }
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            probe: ProbeChoice::Best,
            cpus: None,
            services: None,
            optional: Vec::new(),
            period: Nanos::from_ms(1),
            every: None,
            dither: true,
            drive: Drive::Timer,
            stages: None,
            hold_cpu_awake: false,
            duration: Some(Self::DURATION),
            load: LoadChoice::None,
            load_cpus: None,
            #[cfg(target_os = "linux")]
            load_user: None,
            helper: "laggard".into(),
            recording: None,
            access: Access::Private,
            keep: Keep::All,
            threshold: None,
            episodes: EpisodesChoice::Auto,
            max_episodes_per_minute: 600,
            stack_rate: 1_000,
            handlers: false,
            contexts: None,
            application: None,
            command: Vec::new(),
        }
    }
}

/// What to measure with.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum ProbeChoice {
    /// With eBPF where it can be had, else without.
    #[default]
    Best,
    /// With eBPF, or not at all.
    Bpf,
    /// Without eBPF, which needs no root: expiry and user stage only.
    User,
    /// Nothing real: plays the script in this file.
    Script(PathBuf),
}

/// What else runs while measuring.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum LoadChoice {
    /// Nothing of ours.
    #[default]
    None,
    /// The load of this name, or in this TOML file.
    Named(String),
    /// This command: a program and its arguments. Measuring ends with it.
    Command(Vec<OsString>),
}

/// Whether late activations come with evidence of who caused them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EpisodesChoice {
    /// As far as this kernel allows.
    #[default]
    Auto,
    /// Surely, or nothing is measured.
    On,
    /// Not at all.
    Off,
}
