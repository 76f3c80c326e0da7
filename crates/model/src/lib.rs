//! Vocabulary of laggard: times, services, stages, activations, losses, warnings.
//!
//! Everything here is plain data. No I/O, no clock, no operating system: the other
//! crates measure, store, analyze and show these values.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod ability;
mod activation;
mod application;
mod attach;
mod audio;
mod because;
mod by_name;
mod cause;
mod caveat;
mod contexts;
mod cost;
mod cpu;
mod digest;
mod episode;
mod event_format;
mod every;
mod figure;
mod gather;
mod handlers;
mod histogram;
mod host;
mod label;
mod line;
mod loads;
mod losses;
mod manifest;
mod meant;
pub mod name;
mod names;
mod nanos;
mod on_late;
mod printable;
mod reading;
mod remedy;
mod rows;
mod rtos;
mod service;
mod stage;
mod switch;
mod symbols;
mod task;
pub mod text;
mod thread_name;
mod throughput;
mod timer;
mod traced;
mod usage;
mod watched;
mod whole;

pub use ability::{Ability, Absence, Lacks};
pub use activation::{Activation, Batch};
pub use application::AskedApplication;
pub use attach::{
    ActivationEnd, CycleWaits, KernelLock, MarkKind, SystemCall, ThreadActivation, ThreadExit,
    ThreadHappening, ThreadMark, ThreadMove, ThreadMoves, ThreadPolicy, ThreadTold, ThreadUsage,
    UnfinishedActivation, WaitSite, WatchedThread, WokenBy,
};
pub use audio::{AudioFinding, AudioNeed, AudioState};
pub use because::Because;
pub use cause::{Cause, CauseClass, Culprit, NamedCause};
pub use caveat::{Caveat, CaveatKind, Severity};
pub use contexts::{BusyTurns, Competitors, Contexts, ParseBusyTurnsError, ParseCompetitorsError};
pub use cost::{OwnCost, ProgramCost};
pub use cpu::{Cpu, CpuList, ParseCpuListError};
pub use digest::{
    DIGEST_SCHEMA, Digest, DigestCause, DigestContent, DigestHour, DigestLine, DigestMinute,
    DigestRefusal, RecordingDigest, RefusedBecause,
};
pub use episode::{
    Activity, Address, Episode, Evidence, FlightEvent, Happening, RecordedCause, Sampler, Span,
    StackSample, Steal, Stolen, Throttle, Vector, is_normal_priority, windows_level,
    windows_priority,
};
pub use event_format::{EventField, EventFormat, FormatError};
pub use every::Every;
pub use figure::Figure;
pub use gather::Gather;
pub use handlers::{HandlerCount, HandlerCounts, HandlerTimes, MissingRuns};
pub use histogram::Histogram;
pub use host::{
    Clocksource, CpuFreq, FairServer, Hardware, Host, Idle, Isolation, Processor, Settings,
    Throttling,
};
pub use label::LoadLabel;
pub use line::{Line, LineId, Route};
pub use loads::LOADS_OF_OURS;
pub use losses::{LossReason, Losses};
pub use manifest::{
    Account, Backend, Clock, Keep, LineCount, LoadRun, Manifest, ProbePlan, RunDelay,
    SCHEMA_VERSION, SegmentEntry, State,
};
pub use meant::{Meant, nearest};
pub use names::Names;
pub use nanos::{Nanos, ParseNanosError};
pub use on_late::{LateActionCounts, LateActionReport};
pub use printable::{
    Printable, printable, printable_error, printable_json, printable_lines, without_commands,
};
pub use reading::Readings;
pub use remedy::Remedy;
pub use rows::RowsOf;
pub use rtos::{
    CompetingThread, InterruptSource, InversionRound, InversionRounds, LockedPages, MappingPages,
    QueueWake, QueueWakes, RtosCriterion, RtosDeferred, RtosInterrupt, RtosInterrupts, RtosLoadRun,
    RtosPriorities, RtosWakeup, RtosWakeups, StealTotal, UnknownCriterion, UnknownInterruptSource,
    WaitQueue,
};
pub use service::{ParseServiceError, Service, ServiceRank};
pub use stage::{STAGES, STAGES_ON_THE_WAY, Stage};
pub use switch::{
    HandOver, Interruption, SwitchPolicy, SwitchRun, SwitchStretch, SwitchSums, SwitchWatched,
    SwitchWay, UnknownHandOver, UnknownSwitchPolicy,
};
pub use symbols::{EpisodeNotes, GroupQuota, LineWatch, SchedEntity, Symbol, Symbols, Untraced};
pub use task::{ModelledTask, TaskCount};
pub use thread_name::ThreadName;
pub use throughput::Throughput;
pub use timer::{ClockSeen, HeldOff, PeriodicWait, SingleWait, TimerApi, TimerRun, UnknownTimer};
pub use traced::{DriverName, ParseTracedError, TracedService};
pub use usage::{ParseUsageError, UsagePattern};
pub use watched::{ParseTaskError, UnknownWay, WatchedTask, WokenWay};
pub use whole::whole;

/// ID of a thread. The kernel calls it `pid`, user space calls it TID.
#[derive(
    Clone,
    Copy,
    Debug,
    serde::Deserialize,
    Eq,
    Hash,
    schemars::JsonSchema,
    Ord,
    PartialEq,
    PartialOrd,
    serde::Serialize,
)]
#[serde(transparent)]
pub struct Tid(pub u32);
