//! Linux, as a session sees it.

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

/// The clock of all time stamps.
pub(crate) const CLOCK: &str = "CLOCK_MONOTONIC";

/// Keeps CPUs from idle states.
pub(crate) fn hold_awake() -> io::Result<Awake> {
    Awake::hold()
}

/// The machine, and what of it spoils the latency of `services` on `cpus`.
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
        ProbeChoice::User => BackendChoice::User,
        // A script is played, not opened here.
        ProbeChoice::Best | ProbeChoice::Script(_) => BackendChoice::Best,
    };
    Ok(Box::new(LinuxProbe::new(request, wanted)?))
}

/// Why there is no flight recorder.
pub(crate) type FlightRefused = FlightError;

/// Whether what is late can be explained.
pub(crate) fn can_explain(probe: &dyn Probe) -> bool {
    probe.backend() == Backend::Bpf
}

/// Whether it tells who made this service late: it does of all.
pub(crate) const fn explains(_: Service) -> bool {
    true
}

/// Starts the flight recorder, with so many call chains a second.
pub(crate) fn flight(
    cpus: &CpuList,
    stack_rate: u32,
    probe: &dyn Probe,
) -> Result<(Box<dyn Flight>, Vec<Caveat>), FlightRefused> {
    let options = FlightOptions {
        stacks_hz: Some(stack_rate).filter(|&rate| rate > 0),
    };
    let (flight, caveats) = FlightRecorder::new(cpus, options, probe.board().as_ref())?;
    Ok((Box::new(flight), caveats))
}

/// Whoever knows the names of addresses: this machine.
#[derive(Clone, Debug)]
pub(crate) struct SymbolSource;

impl SymbolSource {
    pub(crate) const fn of(_: &dyn Probe) -> Self {
        Self
    }

    /// `hurry` is set when the session is to end.
    pub(crate) fn book(&self, hurry: Arc<AtomicBool>) -> SymbolBook {
        SymbolBook::new(hurry)
    }
}

/// Notes the groups of an episode's threads, while they live.
pub(crate) fn note_competitors(book: &mut SymbolBook, episode: &Episode) {
    if let Some(waiter) = episode.thread {
        book.note_competitors(waiter, &episode.evidence);
    }
}

/// Makes the calling thread, which only writes, take its usual share of the CPU, and
/// no more memory than it needs.
pub(crate) fn use_little() {
    linux::take_usual_share();
    linux::let_stack_go();
}
