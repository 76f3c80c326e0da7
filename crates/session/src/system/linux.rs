//! Linux interface of a session.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use laggard_measure::host::{self, Files};
use laggard_measure::linux::{
    self, BackendChoice, FlightError, FlightOptions, FlightRecorder, LinuxProbe,
};
use laggard_measure::{Flight, Probe, ProbeError, Request};
use laggard_model::{Backend, Caveat, CpuList, Episode, Host, Service};

use crate::ProbeChoice;

pub(crate) use laggard_measure::SymbolBook;
pub(crate) use laggard_measure::linux::{Awake, LateBoost, now, usual_cpus};

/// Clock of all time stamps.
pub(crate) const CLOCK: &str = "CLOCK_MONOTONIC";

/// Keeps CPUs out of idle states.
pub(crate) fn hold_awake() -> io::Result<Awake> {
    Awake::hold()
}

/// Returns the machine and the warnings about settings that harm the latency of `services` on
/// `cpus`.
pub(crate) fn identity(cpus: &CpuList, services: &[Service]) -> (Host, Vec<Caveat>) {
    let host = host::identify(&Files::default());
    let mut caveats = host::caveats(&host, &linux::own_rights(), cpus, services);
    caveats.extend(linux::inherited());
    (host, caveats)
}

/// Opens the probe of this machine.
pub(crate) fn open(request: Request, wanted: &ProbeChoice) -> Result<Box<dyn Probe>, ProbeError> {
    let wanted = match wanted {
        ProbeChoice::Bpf => BackendChoice::Bpf,
        ProbeChoice::Perf => BackendChoice::Perf,
        ProbeChoice::User => BackendChoice::User,
        // A script is played, not opened here.
        ProbeChoice::Best | ProbeChoice::Script(_) => BackendChoice::Best,
    };
    Ok(Box::new(LinuxProbe::new(request, wanted)?))
}

/// Reason why the flight recorder is missing.
pub(crate) type FlightRefused = FlightError;

/// Returns whether causes of late wakeups are available.
pub(crate) fn can_explain(probe: &dyn Probe) -> bool {
    probe.backend() == Backend::Bpf
}

/// Returns whether the flight recorder covers this service: it covers all.
pub(crate) const fn explains(_: Service) -> bool {
    true
}

/// Starts the flight recorder with this rate of call chains.
pub(crate) fn flight(
    cpus: &CpuList,
    stack_rate: u32,
    probe: &mut dyn Probe,
) -> Result<(Box<dyn Flight>, Vec<Caveat>), FlightRefused> {
    let options = FlightOptions {
        stacks_hz: Some(stack_rate).filter(|&rate| rate > 0),
    };
    let board = probe.board();
    let (flight, caveats) = match probe.join_flight(cpus) {
        Some(rings) => FlightRecorder::joined(rings, options, board.as_ref())?,
        None => FlightRecorder::new(cpus, options, board.as_ref())?,
    };
    Ok((Box::new(flight), caveats))
}

/// Source of names for addresses: this machine.
#[derive(Clone, Debug)]
pub(crate) struct SymbolSource;

impl SymbolSource {
    pub(crate) const fn of(_: &dyn Probe) -> Self {
        Self
    }

    /// Creates the book of addresses. `hurry` is set when the session is to end.
    pub(crate) fn book(&self, hurry: Arc<AtomicBool>) -> SymbolBook {
        SymbolBook::new(hurry)
    }
}

/// Records the groups of an episode's threads while they live.
pub(crate) fn note_competitors(book: &mut SymbolBook, episode: &Episode) {
    if let Some(waiter) = episode.thread {
        book.note_competitors(waiter, &episode.evidence);
    }
}

/// Resets the calling thread, which only writes, to its usual CPU share, and reduces its memory.
pub(crate) fn use_little() {
    linux::take_usual_share();
    linux::let_stack_go();
}
