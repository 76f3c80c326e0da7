//! Plan of a measurement and its recording.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use laggard_measure::Drive;
#[cfg(target_os = "linux")]
use laggard_measure::linux;
#[cfg(target_os = "linux")]
use laggard_model::Competitors;
use laggard_model::{AskedApplication, Contexts, CpuList, Every, Keep, Nanos, Service, Stage};
use laggard_record::{Access, Destination};
#[cfg(target_os = "linux")]
use laggard_workload::load::{Busy, LoadUser};

/// Plan of a measurement and its recording: everything that a [`Session`](crate::Session) needs.
///
/// `Plan::default()` is the default of `laggard record`, except for the directory of the
/// recording: 30 s of this machine without a load.
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
    /// Kind of the probe.
    pub probe: ProbeChoice,
    /// CPUs to measure; `None`: all online CPUs that this process may use.
    pub cpus: Option<CpuList>,
    /// Services to measure, which must all be available unless they are optional. `None` means the
    /// available services of [`Service::DEFAULTS`] or [`Service::WINDOWS_DEFAULTS`].
    pub services: Option<Vec<Service>>,
    /// Services in `services` that are left out with a warning if they are not available.
    pub optional: Vec<Service>,
    /// Mean time between two wakeups of a service on a CPU, 10 us to 10 s.
    pub period: Nanos,
    /// Services with only one in several expiries; `None`: none of `services`, or for the default
    /// services the value of [`Every::about`] for `fifo:90`.
    pub every: Option<Every>,
    /// Whether expiries are spread over all phases of a hidden tick.
    pub dither: bool,
    /// Source of activations.
    pub drive: Drive,
    /// Intermediate stages to stamp; `None`: all available ones.
    pub stages: Option<Vec<Stage>>,
    /// True to keep CPUs out of idle states during the measurement. Undone at the end.
    pub hold_cpu_awake: bool,
    /// Duration of the measurement; `None`: until a watcher ends it, it is interrupted, or the
    /// command has ended.
    pub duration: Option<Nanos>,
    /// Load that runs during the measurement.
    pub load: LoadChoice,
    /// CPUs of the load; `None`: all.
    pub load_cpus: Option<CpuList>,
    /// User of the load; `None`: the user of this process.
    #[cfg(target_os = "linux")]
    pub load_user: Option<LoadUser>,
    /// Program that runs laggard's loads as `HELPER load run NAME`: laggard itself. It is a
    /// separate process, so that its CPU time does not count as overhead of the measurement.
    pub helper: PathBuf,
    /// Directory to record to from the start, which must not exist; `None`: nothing is recorded
    /// unless a watcher requests it.
    pub recording: Option<Destination>,
    /// Users that may read the recording.
    pub access: Access,
    /// Samples that a recording keeps.
    pub keep: Keep,
    /// Latency threshold: a wakeup above it counts as exceeding and is kept as an episode. `None`
    /// means 1 ms for exceeding, and a threshold per series from its first seconds.
    pub threshold: Option<Nanos>,
    /// Whether late wakeups are kept with trace data.
    pub episodes: EpisodesChoice,
    /// Maximum number of late wakeups to keep per minute, in addition to each series' new
    /// maximum.
    pub max_episodes_per_minute: u64,
    /// Stack samples per second and CPU as trace data; 0 for none.
    pub stack_rate: u32,
    /// True to count all kernel activity outside threads, late or not. If this is impossible, the
    /// measurement fails. Requires that late wakeups are kept.
    pub handlers: bool,
    /// Kernel functions that are timed inside handlers; see [`Plan::handlers`].
    pub functions: Vec<String>,
    /// Busy processes that compete for the measured CPU, and that are its load: see
    /// [`Plan::beside`].
    pub contexts: Option<Contexts>,
    /// Application that the recording is made for. The recording stores it. The caller chooses the
    /// services for it.
    pub application: Option<AskedApplication>,
    /// Command line that the recording stores.
    pub command: Vec<String>,
}

impl Plan {
    /// Default duration of a recording.
    pub const DURATION: Nanos = Nanos::from_secs(30);

    /// Returns the plan for a measurement with busy processes that compete for one CPU. They and
    /// the load run there, and each level is measured there, always at the same time of a turn. Without
    /// eBPF only threads are measured.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn beside(self, contexts: Contexts) -> Self {
        let busy = Busy {
            processes: contexts.busy,
            turns: contexts.turn_ns,
        };
        let load = match (self.load, contexts.busy) {
            (LoadChoice::Named(load), Competitors::NONE) => load,
            (LoadChoice::Named(load), _) => format!("{load}+{busy}"),
            (LoadChoice::None | LoadChoice::Command(_), _) => busy.to_string(),
        };
        let cpu = CpuList::from_iter([contexts.cpu]);
        let services = contexts.services();
        let is_optional = |service: &Service| *service != contexts.plain();
        Self {
            cpus: Some(cpu.clone()),
            optional: services.iter().copied().filter(is_optional).collect(),
            services: Some(services),
            period: contexts.period(linux::tick()),
            dither: false,
            load: LoadChoice::Named(load),
            load_cpus: Some(cpu),
            contexts: Some(contexts),
            ..self
        }
    }

    /// Returns how often each service is measured.
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
            functions: Vec::new(),
            contexts: None,
            application: None,
            command: Vec::new(),
        }
    }
}

/// Kind of the probe.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum ProbeChoice {
    /// With eBPF if it is available, otherwise with perf tracepoints, otherwise without.
    #[default]
    Best,
    /// Only with eBPF.
    Bpf,
    /// Only with perf tracepoints: the stages of threads.
    Perf,
    /// Without eBPF and tracepoints, which works without root: only the stages expiry and user.
    User,
    /// Fake probe that plays the script in this file.
    Script(PathBuf),
}

impl FromStr for ProbeChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("fake:")) {
            ("best", _) => Ok(Self::Best),
            ("bpf", _) => Ok(Self::Bpf),
            ("perf", _) => Ok(Self::Perf),
            ("user", _) => Ok(Self::User),
            (_, Some(script)) => Ok(Self::Script(script.into())),
            _ => Err(
                "use best, bpf, perf (tracepoints), user (no BPF, no root) or fake:SCRIPT.toml"
                    .into(),
            ),
        }
    }
}

/// Load during the measurement.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum LoadChoice {
    /// No load.
    #[default]
    None,
    /// Load with this name, or in this TOML file.
    Named(String),
    /// Command: a program and its arguments. The measurement ends with it.
    Command(Vec<OsString>),
}

/// Whether late wakeups are kept with trace data.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EpisodesChoice {
    /// If this kernel supports it.
    #[default]
    Auto,
    /// Always; otherwise the measurement fails.
    On,
    /// Never.
    Off,
}
