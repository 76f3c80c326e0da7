//! The answer of a recording on one screen: whether the machine serves an
//! application, how late it is, who made it late, what to do first, and what
//! the next hour brings.
//!
//! It is made of the other answers and adds no estimate of its own.

mod build;
mod fit;
mod late;
mod read;

use laggard_model::{
    Backend, CauseClass, Caveat, Host, LoadLabel, Nanos, Route, Service, State, UsagePattern,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Trust;
use crate::contexts::ContextsReport;
use crate::forecast::Ahead;
use crate::qos::{Apart, Application, Fitness, MissFigures, Resolution};
use crate::show::Share;
use crate::waiting::Waiting;
use crate::why::{RhythmRow, UntracedRow};

pub use build::{Grounds, overview};
pub use read::{OverviewError, made_for, read};

/// The version of the JSON's layout.
pub const OVERVIEW_SCHEMA: u32 = 1;

/// What a recording answers, in short.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Overview {
    /// The version of this layout.
    pub schema: u32,
    /// The recording's folder, as given.
    pub path: String,
    /// What the figures are of.
    pub conditions: Conditions,
    /// Whether the figures can be trusted.
    pub trust: Trust,
    /// Who was still waiting when measuring ended, in a sentence.
    pub still_waiting: Option<String>,
    /// The lines that were, the longest first.
    pub waiting: Vec<Waiting>,
    /// Caveats and shortfalls that change how all that follows is read, but for
    /// those that the trust and the causes tell.
    pub beware: Vec<Caveat>,
    /// The application that was asked about alone, or else those of the
    /// catalogue that are of today, those with least slack first.
    pub fits: Vec<Fit>,
    /// Why nothing can be said of the application that was asked about, of any, or
    /// of some of those of the catalogue, which are named.
    pub unanswered: Option<String>,
    /// The service that the causes and the next hour are of: that of the
    /// application that was asked about, or else the most urgent thread.
    pub subject: Option<Subject>,
    /// Who does deferred work beside busy processes; absent where it was not
    /// measured beside any of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contexts: Option<ContextsReport>,
    /// How late each service is.
    pub services: Vec<LateService>,
    /// Services by a route that were recorded and are not in `services`.
    pub more_services: usize,
    /// Whether late activations were kept with evidence of who caused them.
    pub is_explained: bool,
    /// Latency thresholds of the lines that `late` is of, the smallest and the largest: a
    /// wakeup is late if its latency is larger. Absent where none was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_ns: Option<(Nanos, Nanos)>,
    /// Who made activations late; absent where none was kept.
    pub late: Option<Late>,
    /// What to do about the first cause that a user can do anything about.
    pub first: Option<First>,
    /// The time to come.
    pub next_hour: Option<NextHour>,
    /// What was recorded, lost and spent.
    pub measurement: Measurement,
}

/// A service by a route.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Subject {
    /// The service.
    pub service: Service,
    /// How it is reached.
    pub route: Route,
}

/// What the figures are of.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Conditions {
    /// How long was measured.
    pub duration_ns: Nanos,
    /// When it began, RFC 3339.
    pub started: String,
    /// How it ended.
    pub state: State,
    /// What gave the stages.
    pub backend: Backend,
    /// What else the machine did.
    pub load: LoadLabel,
    /// How many CPUs were measured.
    pub cpus: usize,
    /// The mean time between two activations of a service on a CPU.
    pub period_ns: Nanos,
    /// Kernel release; empty of a script, which has no machine.
    pub kernel: String,
    /// The preemption model that was in force.
    pub preemption: Option<String>,
    /// The hypervisor, where the machine is virtual.
    pub hypervisor: Option<String>,
    /// The processor's name.
    pub processor: String,
}

impl Conditions {
    /// Whether the machine's system is Windows.
    pub fn is_windows(&self) -> bool {
        Host::is_windows_kernel(&self.kernel)
    }
}

/// An application, and whether the machine serves it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Fit {
    /// The application.
    pub application: Application,
    /// The service that would run it: its own, or the nearest to it that was
    /// recorded.
    pub service: Service,
    /// How that is reached.
    pub route: Route,
    /// Whether its buffers run dry once an hour at most.
    pub verdict: Fitness,
    /// How often its buffers run dry, all CPUs together.
    pub figures: MissFigures,
    /// CPUs on which they run dry more often than on the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<Apart>,
    /// See [`crate::qos::ServiceOutlook::waited_ns`].
    pub waited_ns: Option<Nanos>,
    /// How well the recording resolves stalls that use up the slack.
    pub resolution: Resolution,
    /// How long a recording without a dropout decides it, ns; absent where one
    /// was seen, or a longer recording as coarse as this one would not.
    pub decided_by_ns: Option<f64>,
    /// Where the interval is wide for want of dropouts: how long a recording
    /// narrows it, ns. Absent where it is not, or a longer recording as coarse
    /// as this one would not.
    pub narrowed_by_ns: Option<f64>,
    /// The fewest buffers of the same length for one dropout an hour at most.
    pub enough: Option<Enough>,
    /// Where none is shown to be enough: the fewest with which no buffer ran dry.
    pub unfailing: Option<Unfailing>,
}

/// With so many buffers none ran dry in what was recorded.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Unfailing {
    /// The buffers.
    pub buffers: u32,
    /// How long must be recorded without a dropout to show that there is one an hour
    /// at most, ns.
    pub record_ns: f64,
}

/// So many buffers are enough.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Enough {
    /// The buffers.
    pub buffers: u32,
    /// Whether the whole interval says so, or only the estimate.
    pub is_sure: bool,
}

/// How late a service is.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LateService {
    /// The service.
    pub service: Service,
    /// How it was reached.
    pub route: Route,
    /// Activations.
    pub samples: u64,
    /// The median.
    pub median: Share,
    /// What one activation in 100 exceeds.
    pub one_in_100: Share,
    /// What one in 1,000 exceeds.
    pub one_in_1000: Share,
    /// The largest seen.
    pub largest_ns: Option<Nanos>,
    /// Whether the true largest is at least that.
    pub largest_is_at_least: bool,
}

/// Who made activations late.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Late {
    /// Of this service alone: the overview's subject. Absent: of all, because
    /// that one was not late.
    pub service: Option<Service>,
    /// By this route alone: the subject's, or the other where none was late by that.
    /// Absent where the service is.
    pub route: Option<Route>,
    /// How many late activations are explained.
    pub activations: usize,
    /// Late wakeups: these, expiries that passed during them, and those without trace data.
    pub wakeups: u64,
    /// Late wakeups without trace data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untraced: Option<UntracedRow>,
    /// Sum of the latencies of all late wakeups.
    pub total_ns: Nanos,
    /// The largest of them.
    pub largest_ns: Nanos,
    /// Whether that is a lower limit: it had not ended when measuring did.
    pub largest_is_at_least: bool,
    /// The causes with most time, at most three.
    pub causes: Vec<LateCause>,
    /// Causes that are not listed.
    pub more_causes: usize,
    /// Late activations of all services that could not be kept.
    pub surplus: u64,
}

/// A cause of late activations.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LateCause {
    /// What kind of thing.
    pub class: CauseClass,
    /// Who, in words.
    pub who: Option<String>,
    /// What it did, in few words.
    pub how: String,
    /// Both, in the order in which people say them.
    pub words: String,
    /// Whether it is a thread of the laggard that recorded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_ours: bool,
    /// Its share of the time of all of them, 0 to 1.
    pub share: f64,
    /// Number of late wakeups in which it took part.
    pub times: u64,
    /// Most time in one.
    pub largest_ns: Nanos,
    /// Whether that is a lower limit: the activation had not ended.
    pub is_at_least: bool,
    /// How it comes again and again, where it does.
    pub rhythm: Option<RhythmRow>,
}

/// What to do first.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct First {
    /// What kind of thing the cause is.
    pub class: CauseClass,
    /// Against which cause, in few words.
    pub cause: String,
    /// What to do, with its price.
    pub what: String,
    /// The largest of the late activations, had this cause taken no time.
    pub largest_without_ns: Nanos,
    /// Whether that is a lower limit.
    pub largest_without_is_at_least: bool,
}

/// What an hour of use like this recording brings.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct NextHour {
    /// The largest seen.
    pub largest_ns: Nanos,
    /// Whether the true largest is at least that.
    pub largest_is_at_least: bool,
    /// Who uses the machine how.
    pub usage: UsagePattern,
    /// What is told without a model.
    pub ahead: Ahead,
}

/// What was recorded, lost and spent.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Measurement {
    /// Activations, of all lines.
    pub activations: u64,
    /// Activations that were lost, which are not among them.
    pub lost: u64,
    /// The share of the measured CPUs' time that measuring took, 0 to 1; absent
    /// where that is not known.
    pub cost: Option<f64>,
    /// Caveats and shortfalls in all.
    pub caveats: usize,
}
